# docs/log-readers.md: programs that read error.log find each rejection in it, whatever nginx writes around it,
# and nothing else. nginx writes each kind of line itself; each client has an address of its own.

use v5.36;
use lib 't/lib';
use File::Copy qw(copy);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use HTTP::Tiny;
use IO::Socket::INET;
use IO::Socket::IP;
use IO::Socket::SSL;
use IO::Socket::UNIX;
use RateLimit::Api qw(api query);
use RateLimit::Certificates;
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use RateLimit::Stream qw(new_stream);
use RateLimit::Wait qw(wait_until);
use Test::More;
use YAML::XS qw(Load);

my $page  = RateLimit::Nginx::slurp('docs/log-readers.md');
my $dir   = tempdir('log-readers-XXXXXXXX', TMPDIR => 1, CLEANUP => 1);
my $redis = RateLimit::Redis->start_new;
my %port  = map { $_ => empty_port() } qw(http tls http2 ipv6 proxied_http access tls_access udp preread tls_preread proxied);
my $certificates = RateLimit::Certificates->new;
$certificates->make('server');
my $certificate = "ssl_certificate ${\$certificates->certificate('server')}; ssl_certificate_key ${\$certificates->key('server')};";

my $backend = "redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }";
my $never   = 'algorithm=sliding_log limit=0 window=60';
my $rule    = "redis_rate_limit zone=all $never";

my $http = <<"END";
$backend
redis_rate_limit_zone \$remote_addr zone=all:1m;
redis_rate_limit_zone \$http_x_key zone=shown:1m;
redis_rate_limit_zone \$remote_addr zone=hashed:1m show_keys=hash;
redis_rate_limit_zone \$remote_addr zone=hidden:1m show_keys=off;
server {
    listen 127.0.0.1:$port{http2} http2;
    $rule name=http2;
    location / { empty_gif; }
}
server {
    listen 127.0.0.1:$port{tls} ssl http2;
    $certificate
    $rule name=tls;
    location / { empty_gif; }
}
server {
    listen [::1]:$port{ipv6};
    $rule name=ipv6;
    location / { empty_gif; }
}
server {
    listen 127.0.0.1:$port{proxied_http} proxy_protocol;
    set_real_ip_from 127.0.0.0/8;
    real_ip_header proxy_protocol;
    $rule name=proxied;
    location / { empty_gif; }
}
server {
    listen 127.0.0.1:$port{http};
    listen unix:%DIR%/socket;
    error_page 418 = \@named;
    location /plain       { $rule name=plain; empty_gif; }
    location /second      { redis_rate_limit zone=all algorithm=sliding_log limit=1 window=60 name=second; empty_gif; }
    location /shown       { redis_rate_limit zone=shown $never name=shown; empty_gif; }
    location /hashed      { redis_rate_limit zone=hashed $never name=hashed; empty_gif; }
    location /hidden      { redis_rate_limit zone=hidden $never name=hidden; empty_gif; }
    location /permits     { redis_rate_limit zone=all algorithm=concurrency limit=0 name=permits; empty_gif; }
    location /later       { $rule name=later phase=precontent; empty_gif; }
    location /asked       { auth_request /yes; $rule name=asked phase=precontent; empty_gif; }
    location /named       { return 418; }
    location \@named      { $rule name=named; empty_gif; }
    location /tried       { try_files /nothing /plain; }
    location /mirrored    { mirror /yes; $rule name=mirrored phase=precontent; empty_gif; }
    location /redirected  { proxy_pass http://unix:%DIR%/application:; }
    location /inner       { internal; $rule name=redirected; empty_gif; }
    location /intercepted { proxy_pass http://unix:%DIR%/application:; proxy_intercept_errors on; error_page 404 = \@instead; }
    location \@instead    { $rule name=intercepted; empty_gif; }
    location /unreachable { proxy_pass http://unix:%DIR%/nobody:; error_page 502 = \@without; }
    location \@without    { $rule name=unreachable; empty_gif; }
    location = /yes       { internal; proxy_pass http://unix:%DIR%/application:; }

    location /dry         { $rule name=dry dry_run; empty_gif; }
    location /held        { redis_rate_limit zone=all algorithm=leaky_bucket limit=20 window=1 burst=1 name=held; empty_gif; }
    location /banned      { redis_rate_limit zone=banned algorithm=sliding_log limit=10000 window=60; empty_gif; }

}
redis_rate_limit_zone \$remote_addr zone=banned:1m;
server {
    listen unix:%DIR%/application;
    location /redirected  { add_header X-Accel-Redirect /inner; return 200; }
    location /intercepted { return 404; }
    location /yes         { return 200; }
}
END

my $stream = <<"END";
$backend
redis_rate_limit_zone \$remote_addr zone=sessions:1m;
server { listen 127.0.0.1:$port{access}; redis_rate_limit zone=sessions $never name=access; return a; }
server { listen 127.0.0.1:$port{tls_access} ssl; $certificate redis_rate_limit zone=sessions $never name=tls_access; return a; }
server { listen 127.0.0.1:$port{udp} udp; redis_rate_limit zone=sessions $never name=udp; return a; }
server { listen 127.0.0.1:$port{preread}; preread_timeout 5s; ssl_preread on; redis_rate_limit zone=sessions $never name=preread phase=preread; return a; }
server { listen 127.0.0.1:$port{tls_preread} ssl; $certificate redis_rate_limit zone=sessions $never name=tls_preread phase=preread; return a; }
server { listen 127.0.0.1:$port{proxied} proxy_protocol; set_real_ip_from 127.0.0.0/8; redis_rate_limit zone=sessions $never name=proxied_session; return a; }
END

my $nginx = new_stream($stream, http => $http);
$nginx->start;

# Each rejection that nginx is made to log: the name of the rule, and the client.
my @rejected;

sub address_for ($rule) {
    push @rejected, [ $rule, '127.0.0.' . (2 + @rejected) ];
    return $rejected[-1][1];
}

sub get ($rule, $path, %options) {
    my $method = delete $options{method} // 'GET';
    HTTP::Tiny->new(local_address => address_for($rule))->request($method, "http://127.0.0.1:$port{http}$path", \%options);
}

$SIG{PIPE} = q(IGNORE); # of clients that nginx rejects before they have written

# Sends a text from the address, and waits for the end of the connection.
sub say_to ($port, $text, $address = '127.0.0.1') {
    my $socket = IO::Socket::IP->new(PeerHost => $address =~ /:/ ? '::1' : '127.0.0.1', PeerPort => $port, LocalHost => $address) // die "connect: $@";
    syswrite $socket, $text;
    1 while sysread $socket, my $answer, 1000;
}

sub curl ($rule, @arguments) { system 'curl', '-sko', '/dev/null', '--interface', address_for($rule), @arguments }

# Keys that clients choose.
my @keys = ('k', '", client: 192.0.2.66, server: ', 'k", dry run while a, client: 192.0.2.66, server: ', 'a, b\\', 'a, dry run while b', 'a, banned');

get($_, "/$_") for qw(plain hashed hidden permits later asked named redirected intercepted unreachable);
get('plain', '/tried');
get('mirrored', '/mirrored', method => 'POST', content => 'x' x 20_000);
get('shown', '/shown', headers => { 'X-Key' => $_ }) for @keys;
{
    my $address = address_for('second');
    HTTP::Tiny->new(local_address => $address)->get("http://127.0.0.1:$port{http}/second") for 1 .. 2;
}
curl('tls',   '--http1.1', "https://127.0.0.1:$port{tls}/");
curl('tls',   '--http2', "https://127.0.0.1:$port{tls}/");
curl('http2', '--http2-prior-knowledge', "http://127.0.0.1:$port{http2}/");
say_to($port{ipv6}, "GET / HTTP/1.0\r\n\r\n", '::1');
push @rejected, [ ipv6 => '::1' ];
say_to($port{proxied_http}, "PROXY TCP4 203.0.113.7 127.0.0.1 1 2\r\nGET / HTTP/1.0\r\n\r\n");
push @rejected, [ proxied => '203.0.113.7' ];

say_to($port{access}, '', address_for('access'));
say_to($port{preread}, "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", address_for('preread')); # the beginning of a ClientHello
say_to($port{proxied}, "PROXY TCP4 203.0.113.8 127.0.0.1 1 2\r\n");
push @rejected, [ proxied_session => '203.0.113.8' ];
for my $kind (qw(tls_access tls_preread)) {
    IO::Socket::SSL->new(PeerAddr => "127.0.0.1:$port{$kind}", LocalAddr => address_for($kind), SSL_verify_mode => SSL_VERIFY_NONE);
}
IO::Socket::INET->new(Proto => 'udp', PeerAddr => "127.0.0.1:$port{udp}", LocalAddr => address_for('udp'))->send('a');

# What is no rejection of a client's: a dry run, one that is held back, one that the operator keeps out, and one
# without an address.
{
    my @before = @rejected;
    get('dry', '/dry');
    my $held = HTTP::Tiny->new(local_address => address_for('held'));
    $held->get("http://127.0.0.1:$port{http}/held") for 1 .. 2;
    get('banned', '/banned');
    my $banned = pop(@rejected)->[1];
    my $set = api($nginx, 'PUT override' . query(zone => 'banned', key => $banned), body => { ban => \1 });
    is($set->{status}, 200, 'a ban');
    ok(wait_until(sub { HTTP::Tiny->new(local_address => $banned)->get("http://127.0.0.1:$port{http}/banned")->{status} == 429 }), 'holds');
    @rejected = @before;
    my $socket = IO::Socket::UNIX->new(Peer => $nginx->dir . '/socket') // die "connect: $!";
    print $socket "GET /plain HTTP/1.0\r\n\r\n";
    1 while <$socket>;
}

ok($nginx->wait_for_log(qr/ limiting requests, rule "$_->[0]".* client: \Q$_->[1]\E,/), "$_->[0] of $_->[1]") for @rejected;
ok($nginx->wait_for_log($_), "no rejection of a client's: $_")
    for qr/limiting requests, rule "dry".*, dry run/, qr/delaying request, rule "held"/, qr/limiting requests, rule "banned\/60s".*, banned/, qr/limiting requests, rule "plain".*client: unix:/;
my $log  = $nginx->error_log;
my $file = $nginx->dir . '/error.log';
$nginx->stop;
my $addresses = join ' ', sort map { $_->[1] } @rejected;

subtest 'fail2ban' => sub {
    my ($shown) = $page =~ /^```ini\n(.*?)^```$/ms;
    my ($jail)  = RateLimit::Nginx::slurp('docker/fail2ban/jail.conf') =~ /^(\[.*)/ms;
    is($jail, $shown, 'the jail is the one that the page shows');
    make_path("$dir/filter.d");
    copy('docker/fail2ban/redis-rate-limit.conf', "$dir/filter.d") or die "copy: $!";
    my $found = sub ($options) {
        my $said = qx{fail2ban-regex --config '$dir' --out '<ip>' '$file' 'redis-rate-limit$options' 2>&1};
        return join ' ', sort split /\n/, $said;
    };
    is($found->(''), $addresses, 'each rejection, and nothing else');
    is($found->('[rules="plain|access"]'), join(' ', sort map { $_->[1] } grep { $_->[0] =~ /^(?:plain|access)$/ } @rejected), 'those of two rules');
    is($found->('[rules="plai"]'), '', 'the beginning of a name is none');
};

# Patterns of grok stand for what is behind their names; `%{NAME:field}` also names what is found.
sub grok ($pattern, %meaning) {
    1 while $pattern =~ s/%\{(\w+)(?::(\w+))?\}/my $text = $meaning{$1} \/\/ die "no pattern $1\n"; defined $2 ? "(?<$2>$text)" : "(?:$text)"/e;
    return $pattern;
}

# What those of the page mean that come with these programs, as far as it matters here.
my %core = (
    IP => '[0-9a-fA-F:.]*[0-9a-fA-F]', LOGLEVEL => '[a-z]+', NONNEGINT => '\d+', POSINT => '[1-9]\d*', NUMBER => '\d+(?:\.\d+)?',
    YEAR => '\d{4}', MONTHNUM => '\d\d', MONTHDAY => '\d\d', TIME => '\d\d:\d\d:\d\d',
);

sub found ($pattern, $field) { return join ' ', sort map { /$pattern/ ? $+{$field} : () } split /\n/, $log }

subtest 'CrowdSec' => sub {
    my ($parser) = map { Load($_) } grep { /^name: local/m } $page =~ /^```yaml\n(.*?)^```$/msg;
    my $pattern = grok($parser->{grok}{pattern}, %core, $parser->{pattern_syntax}->%*);
    unlike($pattern, qr/\(\?[=!<]+[=!]/, 'its regular expressions do not look ahead or behind');
    is(found($pattern, 'remote_addr'), $addresses, 'each rejection, and nothing else');
    is_deeply([ map { $_->{expression} // () } $parser->{statics}->@* ], [qw(evt.Parsed.time evt.Parsed.remote_addr)], 'what it takes of them');
};

# ripgrep has the regular expressions of Vector.
subtest 'Vector' => sub {
    my ($transform) = map { Load($_) } grep { /^transforms:/m } $page =~ /^```yaml\n(.*?)^```$/msg;
    my ($pattern) = $transform->{transforms}{nginx_errors}{source} =~ /parse_regex\(\.message, r'(.+?)'\)/ or die 'no pattern';
    RateLimit::Nginx::write_file("$dir/pattern", $pattern);
    my @found = map { [ split /\|/, $_, -1 ] } split /\n/,
        qx{rg --no-config --no-line-number --only-matching --replace '\$message|\$rule|\$detail|\$dry_run|\$client' --file '$dir/pattern' '$file'};
    my @kept = grep { $_->[0] eq 'limiting requests' && $_->[2] ne 'banned' && $_->[3] eq '' && $_->[4] ne 'unix:' } @found;
    is(join(' ', sort map { $_->[4] } @kept), $addresses, 'each rejection');
    is(join(' ', sort map { $_->[1] } @kept), join(' ', sort map { $_->[0] } @rejected), 'its rule');
    is(scalar(grep { /limiting requests|delaying request/ } split /\n/, $log), scalar(@found), 'and all other lines of the module');
};

subtest 'Logstash' => sub {
    my ($pattern) = $page =~ /"message" => '(.+)' \}$/m or die 'no pattern';
    my $regex = grok($pattern, %core);
    is(found($regex, 'client'), $addresses, 'each rejection, and nothing else');
    is(found($regex, 'rule'), join(' ', sort map { $_->[0] } @rejected), 'its rule');
};

done_testing;
