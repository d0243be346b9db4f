# Clients that read the server's part of the TLS handshake late, so that nginx has to wait until it can write.
# The kernel tells nginx from then on that it can write whenever anything comes, also while the session is
# suspended: that must not lead it to the upstream.

use v5.36;
use lib 't/lib';
use IO::Select;
use IO::Socket::SSL;
use RateLimit::Certificates;
use RateLimit::Port qw(empty_port);
use RateLimit::Processes qw(freeze);
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Stream qw(echo_server new_statuses new_stream no_permit_is_left open_session reset_session take_line);
use RateLimit::Wait qw(wait_until);
use Socket qw(SOL_SOCKET SO_RCVBUF);
use Test::More;
use Time::HiRes qw(time);

my $redis        = RateLimit::Redis->start_new;
my $relay        = RateLimit::Relay->start_new($redis->conf->{port});
my $echo         = echo_server();
my $upstream     = RateLimit::Relay->start_new($echo->port); # it counts the connections that a line has come by
my $certificates = RateLimit::Certificates->new;

# So many names do not fit into the buffers of both sockets.
my $certificate = $certificates->issue('server', join ',', map { 'DNS:' . 'x' x 50 . "$_.example" } 100 .. 399);

my %rules = (
    'passes'     => 'algorithm=concurrency limit=10',
    'is denied'  => 'algorithm=sliding_log limit=1 window=1h',
    'is delayed' => 'algorithm=leaky_bucket limit=1 window=2 burst=2',
);
my %port    = map { $_ => empty_port() } keys %rules, 'unlimited';
my $servers = join "\n", map {
    "server {
        listen 127.0.0.1:$port{$_} ssl sndbuf=2k;
        redis_rate_limit zone=z $rules{$_} phase=preread name=at_$port{$_};
        proxy_pass ${\$upstream->address};
    }"
} sort keys %rules;

my $nginx = new_stream(<<"END");
%STREAM_LOG%
redis_rate_limit_backend default { server 127.0.0.1:${\$relay->port}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$remote_addr zone=z:1m deny_cache=off on_error=closed;
ssl_certificate ${\$certificates->certificate($certificate)};
ssl_certificate_key ${\$certificates->key($certificate)};
$servers
server { listen 127.0.0.1:$port{unlimited}; access_log off; proxy_pass ${\$echo->address}; }
END
$nginx->start;
wait_until(sub { $redis->nginx_clients == 1 }) or die 'not connected';
my ($worker) = $nginx->workers;

# Returns when the only worker has done what it had to do before, because it has served another session.
sub let_worker_act () {
    my $session = open_session($port{unlimited});
    syswrite $session, "act\n";
    is(take_line($session), "act\n", 'the worker acts');
}

# A session whose handshake is done; nginx had to wait for the client in it, which read nothing before nginx could
# write no more.
sub begin ($server) {
    my $session = IO::Socket::INET->new(Proto => 'tcp', Type => Socket::SOCK_STREAM) or die "socket: $!";
    setsockopt $session, SOL_SOCKET, SO_RCVBUF, pack 'i', 1 or die "setsockopt: $!";
    connect $session, Socket::pack_sockaddr_in($port{$server}, Socket::inet_aton('127.0.0.1')) or die "connect: $!";
    IO::Socket::SSL->start_SSL($session, SSL_verify_mode => SSL_VERIFY_NONE, SSL_version => 'TLSv1_2', SSL_startHandshake => 0);
    $session->blocking(0);
    freeze($worker);
    !$session->connect_SSL && $SSL_ERROR == SSL_WANT_READ or die 'nginx has answered';
    kill CONT => $worker;
    IO::Select->new($session)->can_read(10) or die 'nginx does not answer';
    let_worker_act();
    $session->blocking(1);
    $session->connect_SSL or die "TLS: $SSL_ERROR";
    return $session;
}

# One that waits for its verdict, and has sent a line.
sub begin_suspended ($server) {
    $relay->hold;
    my $session = begin($server);
    wait_until(sub { $relay->counts->{held} > 0 }) or die 'nothing is asked';
    syswrite $session, "early\n";
    let_worker_act();
    return $session;
}

sub sessions_at_upstream () { return $upstream->counts->{accepted} }

subtest 'a session that passes' => sub {
    my $session = begin_suspended('passes');
    is(take_line($session, 0.1), undef, 'nothing comes back before the verdict');
    is(sessions_at_upstream, 0, 'and nothing has reached the upstream');
    $relay->release;
    is(take_line($session), "early\n", 'then the line does');
    syswrite $session, "late\n";
    is(take_line($session), "late\n", 'and what follows it');
    is(sessions_at_upstream, 1, 'by one connection');
    shutdown $session, 1;
    CORE::close $session;
    is(new_statuses($nginx, 1), '200 PASSED', 'status');
    no_permit_is_left($redis, 'its end');
};

subtest 'a session that ends before its verdict' => sub {
    my $session = begin_suspended('passes');
    reset_session($session);
    is(new_statuses($nginx, 1), '200 -', 'status');
    $relay->release;
    no_permit_is_left($redis, 'a reset');
    is(sessions_at_upstream, 1, 'it has not reached the upstream');
};

subtest 'a session that is denied' => sub {
    my $first = begin('is denied');
    syswrite $first, "first\n";
    is(take_line($first), "first\n", 'a first one passes');
    my $session = begin_suspended('is denied');
    is(take_line($session, 0.1), undef, 'nothing comes back before the verdict');
    $relay->release;
    is(take_line($session), '', 'then the session ends');
    is(new_statuses($nginx, 1), '503 REJECTED', 'status');
    is(sessions_at_upstream, 2, 'it has not reached the upstream');
    CORE::close $first;
    is(new_statuses($nginx, 1), '200 PASSED', 'status of the first one');
};

subtest 'a session that is delayed' => sub {
    my $began = time;
    my $first = begin('is delayed');
    syswrite $first, "first\n";
    is(take_line($first), "first\n", 'a first one passes');
    my $session = begin('is delayed');
    wait_until(sub { $nginx->error_log =~ /delaying request/ }) or die 'nothing is delayed';
    syswrite $session, "early\n";
    is(take_line($session), "early\n", 'what the client sends reaches the upstream');
    cmp_ok(time - $began, '>', 1.9, 'after the delay');
    is(sessions_at_upstream, 4, 'each by one connection');
    CORE::close $_ for $first, $session;
    is(new_statuses($nginx, 2), '200 DELAYED, 200 PASSED', 'statuses');
};

$nginx->stop;

done_testing;
