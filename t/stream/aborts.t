# Clients that leave while their session is suspended, or end their sending side: before and after the TLS
# handshake, behind a balancer that speaks the PROXY protocol, and in a delay. No permit is left of one that
# left; what the others have sent arrives. And workers that leave meanwhile.

use v5.36;
use lib 't/lib';
use IO::Socket::SSL;
use RateLimit::Certificates;
use RateLimit::Metrics qw(pending);
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Stream qw(echo_server new_statuses new_stream no_permit_is_left open_session reset_session take_line);
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(time);

my $redis        = RateLimit::Redis->start_new;
my $client       = $redis->client;
my $relay        = RateLimit::Relay->start_new($redis->conf->{port});
my $echo         = echo_server();
my $certificates = RateLimit::Certificates->new;
my $certificate  = $certificates->issue('server', 'DNS:*.example');

# Servers by what they listen for.
my %listens = (plain => '', tls => 'ssl', proxied => 'proxy_protocol', 'proxied tls' => 'ssl proxy_protocol');
my @servers = map { my $kind = $_; map { { kind => $kind, phase => $_ } } qw(access preread) } sort keys %listens;
my @delays  = map { { kind => $_->[0], phase => $_->[1], is_delay => 1 } } [ plain => 'access' ], [ 'proxied tls' => 'preread' ];

# With servers of its own ports, of which $servers have the numbers.
sub start_nginx (%options) {
    my @texts = map {
        my $algorithm = $_->{is_delay} ? 'leaky_bucket limit=1 window=1 burst=2' : 'sliding_log limit=1000 window=1h';
        $_->{port} = empty_port();
        "server {
            listen 127.0.0.1:$_->{port} $listens{$_->{kind}};
            redis_rate_limit zone=permits algorithm=concurrency limit=10 phase=$_->{phase};
            redis_rate_limit zone=z algorithm=$algorithm phase=$_->{phase} name=at_$_->{port};
            proxy_pass ${\$echo->address};
        }"
    } @servers, @delays;
    my $nginx = new_stream(<<"END", workers => 2, %options);
%STREAM_LOG%
redis_rate_limit_backend default { server 127.0.0.1:${\$relay->port}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$remote_addr zone=permits:1m;
redis_rate_limit_zone \$remote_addr zone=z:1m;
ssl_certificate ${\$certificates->certificate($certificate)};
ssl_certificate_key ${\$certificates->key($certificate)};
set_real_ip_from 127.0.0.1;
proxy_half_close on;
@texts
END
    $nginx->start;
    wait_until(sub { $redis->nginx_clients == 2 }) or die 'not connected';
    return $nginx;
}

my $nginx = start_nginx();

# Of the addresses that the clients have behind their balancer, and without.
sub permits ($server) {
    my $address = $server->{kind} =~ /proxied/ ? '192.0.2.1' : '127.0.0.1';
    return scalar grep { length } $client->zrange("rl:{permits:$address}:concurrency:60000", 0, -1);
}

# In TLS 1.3 clients get session tickets after the handshake, and the end of one that has not read them is a reset.
my @tls = (SSL_verify_mode => SSL_VERIFY_NONE, SSL_hostname => 'a.example', SSL_version => 'TLSv1_2');

# Sends a line, over TLS in an access phase no more than a ClientHello, as the server answers nothing.
sub begin ($server) {
    my $session = open_session($server->{port});
    syswrite $session, "PROXY TCP4 192.0.2.1 192.0.2.99 1024 1883\r\n" if $server->{kind} =~ /proxied/;
    if ($server->{kind} =~ /tls/) {
        IO::Socket::SSL->start_SSL($session, @tls, SSL_startHandshake => 0);
        $session->blocking($server->{phase} eq 'preread' || $server->{is_delay});
        $session->connect_SSL || $session->blocking == 0 or die "TLS: $SSL_ERROR";
    }
    syswrite $session, "early\n" if $session->blocking;
    return $session;
}

# A session that waits for its verdict, and its permit is taken.
sub begin_suspended ($server) {
    $relay->hold if !$server->{is_delay};
    my $before  = permits($server);
    my $session = begin($server);
    wait_until(sub { permits($server) > $before }) or die 'nothing is asked';
    return $session;
}

# A session that is delayed.
sub begin_delayed ($server) {
    my $first = begin($server);
    is(take_line($first), "early\n", 'a first one passes');
    CORE::close $first;
    no_permit_is_left($redis, 'the first one');
    my $delays  = () = $nginx->error_log =~ /delaying request/g;
    my $session = begin_suspended($server);
    wait_until(sub { $delays < (() = $nginx->error_log =~ /delaying request/g) }) or die 'nothing is delayed';
    return $session;
}

sub goes_on ($server, $session) {
    $relay->release;
    return if $server->{kind} !~ /tls/ || $session->blocking;
    $session->blocking(1);
    $session->connect_SSL or die "TLS: $SSL_ERROR";
    syswrite $session, "early\n";
}

for my $server (@servers) {
    my $has_shaken_hands = $server->{kind} !~ /tls/ || $server->{phase} eq 'preread';
    subtest "$server->{kind}, $server->{phase}" => sub {
        my $session = begin_suspended($server);
        reset_session($session);
        is(new_statuses($nginx, 1), '200 -', 'a reset ends the session, though no verdict has come');
        no_permit_is_left($redis, 'a reset');
        $relay->release;
        ok(wait_until(sub { pending($nginx, 'stream:default') == 0 }), 'its verdict finds nobody');

        $session = begin_suspended($server);
        if ($has_shaken_hands) {
            shutdown $session, 1;
            is(take_line($session, 0.1), undef, 'the end of sending ends nothing');
        }
        goes_on($server, $session);
        shutdown $session, 1;
        is(take_line($session) . take_line($session), "early\nbye\n", 'it reaches the upstream, and what came before it');
        CORE::close $session;
        is(new_statuses($nginx, 1), '200 PASSED', 'the session passed');
        no_permit_is_left($redis, 'an end of sending');

        $session = begin_suspended($server);
        CORE::close $session;
        $relay->release;
        like(new_statuses($nginx, 1), qr/^\d+ PASSED$/, 'one that only closes its end is found out later');
        no_permit_is_left($redis, 'an end');
    };
}

for my $server (@delays) {
    subtest "$server->{kind}, $server->{phase}, in a delay" => sub {
        my $session = begin_delayed($server);
        my $began   = time;
        reset_session($session);
        no_permit_is_left($redis, 'a reset');
        cmp_ok(time - $began, '<', 0.7, 'before the delay of 1 s ends');
        is(new_statuses($nginx, 2), '200 DELAYED, 200 PASSED', 'statuses');

        $session = begin_delayed($server);
        shutdown $session, 1;
        is(take_line($session) . take_line($session), "early\nbye\n", 'the end of sending reaches the upstream, and what came before it');
        CORE::close $session;
        no_permit_is_left($redis, 'an end of sending');
        is(new_statuses($nginx, 2), '200 DELAYED, 200 DELAYED', 'statuses');
    };
}

subtest 'the key is the address that the balancer tells' => sub {
    my ($proxied) = grep { $_->{kind} eq 'proxied' && $_->{phase} eq 'access' } @servers;
    ok($client->exists("rl:{z:192.0.2.1}:sliding_log:3600000:at_$proxied->{port}"), 'that of the client');
    ok(!$client->exists("rl:{z:127.0.0.1}:sliding_log:3600000:at_$proxied->{port}"), 'and not its own');
};

$nginx->stop;

my @of_both_phases = grep { $_->{kind} eq 'plain' || $_->{kind} eq 'tls' && $_->{phase} eq 'preread' } @servers;

# Sessions that wait for their verdicts.
sub begin_both_phases () {
    my @sessions = map { begin($_) } @of_both_phases;
    wait_until(sub { permits($servers[0]) == @sessions }) or die 'nothing is asked';
    return @sessions;
}

subtest 'a graceful stop' => sub {
    $nginx = start_nginx();
    $relay->hold;
    my @sessions = begin_both_phases();
    kill QUIT => $nginx->pid;
    ok(wait_until(sub { $nginx->leaving_workers >= 1 }), 'the workers are to leave');
    $relay->release;
    is(take_line($_), "early\n", 'a session is served') for @sessions;
    CORE::close $_ for @sessions;
    $nginx->stop;
    no_permit_is_left($redis, 'a graceful stop');
};

# The workers wait until Redis, which is far away here, has heard of the permits.
subtest 'worker_shutdown_timeout' => sub {
    $nginx = start_nginx(main => 'worker_shutdown_timeout 100ms;');
    $relay->delay(0.5);
    $relay->hold;
    my @sessions = begin_both_phases();
    kill QUIT => $nginx->pid;
    is(take_line($_), '', 'a session ends') for @sessions;
    $relay->release;
    $nginx->stop;
    no_permit_is_left($redis, 'sessions that were cut off');
};

done_testing;
