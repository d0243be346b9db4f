package Bench::Variants;

# Variants of one location, each limited otherwise, and the nginx that serve them.

use v5.36;
use Exporter 'import';
use RateLimit::Nginx;

our @EXPORT_OK = qw(@based configuration is_taken_by start_servers variant_named);

# What is measured of another commit, too.
our @based = qw(gcra gcra_headers three fixed_window sliding_window sliding_log token_bucket gcra_leased denied denied_headers);

my $no_headers   = 'redis_rate_limit_headers off;';
my $logged       = 'error_log %DIR%/refusals.log info;';
my $gcra         = 'algorithm=gcra limit=1000000 window=1 burst=1000000 name=even';
my $denying_gcra = 'algorithm=gcra limit=1 window=1h name=denying';
my @two_more     = ('zone=per_client algorithm=sliding_log limit=1000000 window=1 name=log', 'zone=per_address algorithm=fixed_window limit=1000000000 window=60');
my %leasable     = (
    gcra         => 'zone=leasing algorithm=gcra limit=60000000 burst=60000000 window=60',
    fixed_window => 'zone=leasing algorithm=fixed_window limit=1000000000 window=60',
);

sub rules (@rules) { return join ' ', map { "redis_rate_limit $_;" } @rules }

# Limits that allow are never reached, those that deny allow a client one request at first.
sub variant ($name, $label, $conf, %options) {
    return { name => $name, label => $label, conf => $conf, denies => 0, %options };
}

# One algorithm with leases, and the same without.
sub leasing ($algorithm) {
    return (
        variant("${algorithm}_of_60", "$algorithm of 60 s", $no_headers . rules("$leasable{$algorithm} name=$algorithm")),
        variant("${algorithm}_leased", "$algorithm of 60 s, lease=auto", $no_headers . rules("$leasable{$algorithm} name=${algorithm}_leased lease=auto")),
    );
}

my @variants = (
    variant('bare', 'nginx bare', ''),
    variant('limit_req', 'limit_req', 'limit_req zone=allowing burst=1000000 nodelay;'),
    variant('gcra', 'gcra, headers off', $no_headers . rules("zone=per_client $gcra")),
    variant('gcra_headers', 'gcra, default headers', rules("zone=per_client $gcra")),
    variant('tls', 'gcra, headers off, TLS to Redis', $no_headers . rules("zone=per_client $gcra"), server => 'tls'),
    variant('unix', 'gcra, headers off, unix socket to Redis', $no_headers . rules("zone=per_client $gcra"), server => 'unix'),
    variant('three', 'three rules, headers off', $no_headers . rules("zone=per_client $gcra", @two_more)),
    (map { variant($_->[0], "$_->[0], headers off", $no_headers . rules("zone=per_client algorithm=$_->[0] $_->[1] name=$_->[0]")) }
        ['fixed_window',   'limit=1000000000 window=60'],
        ['sliding_window', 'limit=1000000000 window=60'],
        ['sliding_log',    'limit=1000000 window=60'],
        ['token_bucket',   'limit=1000000 window=1'],
        ['leaky_bucket',   'limit=1000000 window=1 burst=1000000 delay=1000000'],
        ['concurrency',    'limit=1000000']),
    leasing('gcra'),
    leasing('fixed_window'),
    variant('limit_req_denied', 'limit_req, denied', 'limit_req zone=denying;', denies => 1),
    variant('denied', 'gcra, denied, headers off', $no_headers . rules("zone=per_client $denying_gcra"), denies => 1),
    variant('denied_headers', 'gcra, denied, default headers', rules("zone=per_client $denying_gcra"), denies => 1),
    variant('three_denied', 'three rules, denied, headers off', $no_headers . rules("zone=per_client $denying_gcra", @two_more), denies => 1),
    variant('limit_req_logged', 'limit_req, denied and logged', "limit_req zone=denying; $logged", denies => 1),
    variant('denied_logged', 'gcra, denied and logged, headers off', "$no_headers $logged" . rules("zone=per_client $denying_gcra"), denies => 1),
    variant('limit_req_flood', 'limit_req, denied', 'limit_req zone=flood;', denies => 1),
    variant('flood', 'gcra, denied, headers off', $no_headers . rules("zone=flood $denying_gcra"), denies => 1),
    variant('flood_headers', 'gcra, denied, default headers', rules("zone=flood $denying_gcra"), denies => 1),
    # Rules with variables never share a run of a script.
    variant('empty_script', 'a script that does nothing, once for each request',
        $no_headers . rules('zone=per_client algorithm=gcra limit=$million window=1 burst=1000000'), server => 'empty_script', calls => 1),
);

push @variants, map {
    my $of = $_;
    my ($variant) = grep { $_->{name} eq $of } @variants;
    +{ %$variant, name => "base_$of", server => 'base' };
} @based;
push @variants, map { +{ %$_, name => "proxied_$_->{name}", conf => "$_->{conf} proxy_pass http://upstream;", server => 'proxied' } }
    grep { $_->{name} =~ /^(?:bare|limit_req|gcra|gcra_leased)$/ } @variants;

my %variant_named = map { $_->{name} => $_ } @variants;
sub variant_named ($name) { return $variant_named{$name} // die "no variant $name" }

# Neither limiter writes to the log, but where a location has one for both. A limit_req zone of 8 MB has room for 64,000 clients, and is kept
# small so that its tree is not one of clients long gone.
sub configuration ($server, $upstream, @of) {
    my $locations = join "\n", map { "location /$_->{name} { $_->{conf}" . ($_->{conf} =~ /proxy_pass/ ? '' : ' empty_gif;') . ' }' } @of;
    return <<"END";
access_log off;
$upstream
keepalive_requests 1000000000;
limit_req_zone \$arg_client zone=allowing:8m rate=1000000r/s;
limit_req_zone \$arg_client zone=denying:8m rate=1r/m;
limit_req_zone \$arg_client zone=flood:40m rate=1r/m;
limit_req_status 429;
limit_req_log_level info;
map \$host \$million { default 1000000; }
redis_rate_limit_backend default { $server timeout 10s; }
redis_rate_limit_zone \$arg_client  zone=per_client:10m on_error=closed;
redis_rate_limit_zone \$arg_client  zone=leasing:10m    on_error=closed;
redis_rate_limit_zone \$arg_client  zone=flood:64m      on_error=closed;
redis_rate_limit_zone \$remote_addr zone=per_address:1m on_error=closed;
redis_rate_limit_log_level info;
server {
    listen %PORT% backlog=1024 reuseport;
    location = /count { stub_status; }
    $locations
}
END
}

# Whether a module knows all that the variant says: that of an older commit may not.
sub is_taken_by ($module, $variant) {
    state %is_taken;
    return $is_taken{$module}{$variant->{name}} //= do {
        my $nginx = RateLimit::Nginx->new(configuration('server 127.0.0.1;', '', $variant), module => $module);
        my ($said, $is_content) = $nginx->test_configuration;
        $is_content ? 1 : 0;
    };
}

# What the proxied variants ask. Its CPU is not counted.
my $asked = <<"END";
access_log off;
keepalive_requests 1000000000;
server { listen %PORT% backlog=1024; default_type text/plain; return 200 ${\('a' x 100)}; }
END

# An nginx with one worker, one with two, those that ask Redis by a unix socket and by TLS, one that asks an upstream,
# one whose gcra does nothing, and one with the module of another commit if there is one.
sub start_servers ($redis, $authority, $empty_module, $base_module) {
    my $plain   = "server ${\$redis->address};";
    my @usual   = grep { !$_->{server} } @variants;
    my %servers = map { $_ => RateLimit::Nginx->start_new(configuration($plain, '', @usual), workers => $_, log_level => 'error') } 1, 2;
    my %other   = (
        unix => "server unix:${\$redis->tmpdir}/redis.sock;",
        tls  => "server 127.0.0.1:${\$redis->conf->{'tls-port'}}; ssl on; ssl_trusted_certificate $authority;",
    );
    for my $name (sort keys %other) {
        $servers{$name} = RateLimit::Nginx->start_new(configuration($other{$name}, '', variant_named($name)), log_level => 'error');
    }
    $servers{asked} = RateLimit::Nginx->start_new($asked, log_level => 'error');
    my $upstream = "upstream upstream { server 127.0.0.1:${\$servers{asked}->port}; keepalive 64; keepalive_requests 1000000000; }\n"
        . 'proxy_http_version 1.1; proxy_set_header Connection "";';
    my $served_by = sub ($name) { return grep { ($_->{server} // '') eq $name } @variants };
    $servers{proxied}      = RateLimit::Nginx->start_new(configuration($plain, $upstream, $served_by->('proxied')), log_level => 'error');
    $servers{empty_script} = RateLimit::Nginx->start_new(configuration($plain, '', $served_by->('empty_script')), log_level => 'error', module => $empty_module);
    if ($base_module) {
        my @taken = grep { is_taken_by($base_module, $_) } $served_by->('base');
        $servers{base} = RateLimit::Nginx->start_new(configuration($plain, '', @taken), log_level => 'error', module => $base_module);
    }
    return %servers;
}

1;
