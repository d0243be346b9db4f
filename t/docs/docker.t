# What stands in docker/, as far as it can be tried without an image: the compose files, the
# entrypoint and nginx.conf, the certificates, and the settings of Redis and Sentinels.

use v5.36;
use lib 't/lib';
use File::Basename qw(dirname);
use File::Temp qw(tempdir);
use IO::Socket::INET;
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Process;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use YAML::XS qw(LoadFile);

my $nginx     = RateLimit::Nginx->new('');
my $dir       = $nginx->dir;
my $operators = empty_port(); # stands for 9145
my ($built)   = RateLimit::Nginx::slurp("$dir/nginx.conf") =~ /^(load_module .*)$/m;

# A copy of a file, but for what is elsewhere here: the code changes $_.
sub adapt ($file, $copy, $change) {
    local $_ = RateLimit::Nginx::slurp($file);
    $change->();
    RateLimit::Nginx::write_file($copy, $_);
}

adapt('docker/entrypoint', "$dir/entrypoint", sub { s{/tmp/}{$dir/}g });
adapt('docker/nginx.conf', "$dir/nginx.conf", sub {
    s/include mime/include \/etc\/nginx\/mime/;
    s/listen 8080;/listen ${\$nginx->port};/;
    s/listen 9145(?=[ ;])/listen $operators/g;
    s/worker_processes auto/worker_processes 1/;
    s{/tmp/}{$dir/}g;
    s/^load_module .*$/$built/m; # which may be in /tmp, too
});

# What the last stage of a Dockerfile copies: where to => where from.
sub copied ($file) { return map { (split)[-1] => (split)[-2] } RateLimit::Nginx::slurp($file) =~ s/.*^FROM //msr =~ /^COPY (.*)/mg }

subtest 'the images have the licenses of what is in the module' => sub {
    my $place  = '/usr/share/doc/redis_rate_limit';
    my %copied = copied('docker/Dockerfile');
    ok(-s ($copied{"$place/$_.copyright"} // ''), "docker/Dockerfile: $_") for qw(hiredis rapidjson);

    # Where the modules are built in an image, this is the end of the script that does it.
    my ($lines) = RateLimit::Nginx::slurp('docker/build-modules') =~ m{^(mkdir /licenses\n.*)}ms;
    for my $system ('Debian', 'Alpine') {
        my $licenses = "$dir/licenses-$system";
        RateLimit::Nginx::write_file("$dir/collect", "set -eu\n" . $lines =~ s{(?<!\w)/licenses}{$licenses}gr);
        adapt("$dir/collect", "$dir/collect", sub { s{/usr/share/doc/}{$dir/none/}g }) if $system eq 'Alpine';
        is(qx{sh $dir/collect 2>&1}, '', "$system: all are found");
        like(RateLimit::Nginx::slurp("$licenses/$_.copyright"), qr/Copyright.*(?:Redistribution and use|MIT License)/s, "$system: $_") for qw(hiredis rapidjson);
    }
    for my $file ('docker/official/Dockerfile', 'docker/ingress/Dockerfile') {
        my %copied = copied($file);
        is($copied{"$place/"}, '/licenses/', "$file: they are copied");
    }
    for my $file ('docker/Dockerfile', 'docker/official/Dockerfile', 'docker/ingress/Dockerfile') {
        my %copied = copied($file);
        ok(-s ($copied{"$place/copyright"} // ''), "$file: its own");
    }
};

# What nginx -t says where the entrypoint has run with these variables.
sub test_configuration (%variables) {
    local @ENV{keys %variables} = values %variables;
    local $ENV{LD_PRELOAD} = RateLimit::Nginx::preload;
    my @command = ('bash', "$dir/entrypoint", $nginx->command('-t'));
    my $said    = qx{cd $dir && @command 2>&1};
    return ($said, $? == 0);
}

my ($said, $accepted) = test_configuration(REDIS_HOST => '127.0.0.1', REDIS_PORT => 16379);
ok($accepted, 'the configuration is accepted') or diag($said);
is(
    RateLimit::Nginx::slurp("$dir/redis_backend.conf"),
    "redis_rate_limit_backend default { server 127.0.0.1:16379; }\n",
    'Redis is where the environment says'
);

# The server for operators answers who asks for the name that Prometheus knows it by, or for this host,
# but not for a name that a page of another site has made to lead here.
{
    $nginx->start;
    my ($scraped) = RateLimit::Nginx::slurp('docker/monitoring/prometheus.yaml') =~ /targets: \["([^"]+):9145"\]/;
    ok(LoadFile('docker/monitoring/compose.yaml')->{services}{$scraped}, "Prometheus asks a service, $scraped");
    my $status = sub ($host, $path) {
        my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $operators) // die "connect: $@";
        syswrite $socket, "GET $path HTTP/1.1\r\nHost: $host\r\nConnection: close\r\n\r\n";
        return join('', <$socket>) =~ m{^HTTP/1.1 (\d+)} ? $1 : 'nothing';
    };
    is($status->($_, '/metrics'), 200, "$_ gets metrics") for "$scraped:9145", '127.0.0.1:9145', 'localhost:9145';
    is($status->('127.0.0.1:9145', '/limits/'), 200, 'and the dashboard');
    is($status->($_, '/metrics'), 'nothing', "$_ gets nothing") for 'rebound.example:9145', 'rebound.example';
    $nginx->stop;
}

# A compose file: its services with what they share, and names of volumes.
sub compose_file ($file) {
    my $all      = LoadFile($file);
    my $services = $all->{services};
    my %merged   = map { $_ => { ($services->{$_}{'<<'} // {})->%*, $services->{$_}->%* } } keys %$services;
    return { name => $file, dir => dirname($file), services => \%merged, volumes => $all->{volumes} // {} };
}

# What a service finds at a path: pairs of that and of what it is here, a file or a volume's name.
sub mounted ($service) { return map { (split /:/)[1, 0] } ($service->{volumes} // [])->@* }

# Whatever the services name is there.
sub names_what_there_is ($compose) {
    my @missing;
    for my $service (values $compose->{services}->%*) {
        my %mounted = mounted($service);
        push @missing, grep { m{^\.} ? !-f "$compose->{dir}/$_" : !exists $compose->{volumes}{$_} } values %mounted;
        push @missing, grep { !$compose->{services}{$_} } keys +($service->{depends_on} // {})->%*;
        my $build      = $service->{build} // next;
        my $dockerfile = "$compose->{dir}/$build->{context}/$build->{dockerfile}";
        my $stage      = $build->{target} ? " AS $build->{target}\n" : '';
        push @missing, $dockerfile if !-f $dockerfile || RateLimit::Nginx::slurp($dockerfile) !~ /^FROM .*$stage/m;
    }
    is("@missing", '', "$compose->{name}: all that it names is there");
}

names_what_there_is(compose_file($_)) for glob 'docker/compose.yaml docker/*/compose.yaml';

# --- those with TLS

my $places = tempdir('docker-XXXXXXXX', TMPDIR => 1, CLEANUP => 1);

# What a container has there is here.
sub move_places () { s{(?<![\w.])/(?=(?:authority|tls|etc/redis)/)}{$places/}g }

sub makes_certificates ($compose) {
    my ($command, $authority, $keys, @hosts) = $compose->{services}{certificates}{command}->@*;
    is(join(' ', sort @hosts), join(' ', sort grep { /-\d$/ } keys $compose->{services}->%*), "$compose->{name}: a certificate for all hosts");
    mkdir $_ for "$places$authority", "$places$keys";
    unlink glob "$places$keys/*";
    my $make = "bash docker/$command $places$authority $places$keys @hosts 2>&1";
    my $said = qx{$make};
    is($?, 0, 'is made') or diag($said);
    my $certificate = "$places$keys/redis.pem";
    $said = qx{openssl verify -CAfile $places$authority/authority.pem -verify_hostname $hosts[-1] $certificate 2>&1};
    is($?, 0, 'is good') or diag($said);
    my $first = RateLimit::Nginx::slurp($certificate);
    qx{$make};
    is(RateLimit::Nginx::slurp($certificate), $first, 'is made once');
}

sub configures_nginx ($compose) {
    my $service = $compose->{services}{nginx};
    my %mounted = mounted($service);
    my $conf    = "$places/backend.conf";
    adapt("$compose->{dir}/$mounted{ $service->{environment}{REDIS_CONF} }", $conf, \&move_places);
    my @unknown = grep { !$compose->{services}{$_} } RateLimit::Nginx::slurp($conf) =~ /^\s+server\s+([^;]+);/mg;
    is("@unknown", '', 'nginx is told of hosts that there are');
    my ($said, $accepted) = test_configuration(REDIS_CONF => $conf);
    ok($accepted, 'and accepts that') or diag($said);
}

# A redis-server, alone, with these of a service's settings, that answers its healthcheck: returns its
# process and the redis-cli that asks it.
sub starts_redis ($compose, $name, $settings, @options) {
    my $service = $compose->{services}{$name};
    my %mounted = mounted($service);
    my $port    = empty_port();
    mkdir $_ for "$places/etc", "$places/etc/redis";
    for my $file ('tls.conf', $settings) {
        adapt("$compose->{dir}/$mounted{\"/etc/redis/$file\"}", "$places/etc/redis/$file", sub {
            move_places;
            s/^tls-port .*/tls-port $port/m;
            s/redis-1/127.0.0.1/;
        });
    }
    my $process = RateLimit::Process->execute("$places/output", 'redis-server', "$places/etc/redis/$settings", '--bind', '127.0.0.1', '--dir', $places, @options);
    my (undef, $client, @words) = $service->{healthcheck}{test}->@*;
    my $ask = join(' ', $client, map { move_places; $_ } @words) =~ s/ -p \d+/ -p $port/r;
    ok(wait_until(sub { qx{$ask 2>&1} eq "PONG\n" }), "$settings starts") or diag($ask, RateLimit::Nginx::slurp("$places/output"));
    return ($process, $ask =~ s/ ping$//r);
}

for my $kind (qw(sentinel cluster)) {
    my $compose = compose_file("docker/$kind/compose.yaml");
    makes_certificates($compose);
    configures_nginx($compose);
    next if RateLimit::Redis::major_version() < 7; # the images' is
    my (undef, undef, @options) = $compose->{services}{'redis-1'}{command}->@*;
    my ($redis, $client) = starts_redis($compose, 'redis-1', 'redis.conf', @options);
    is(qx{$client config get cluster-require-full-coverage}, "cluster-require-full-coverage\nno\n", 'a lost master leaves the others') if $kind eq 'cluster';
    starts_redis($compose, 'sentinel-1', 'sentinel.conf', '--sentinel') if $kind eq 'sentinel';
}

done_testing;
