# Servers of one address that nginx tells apart by SNI, and sessions that `pass` hands on: each limit is applied
# once, whichever server it is found at, and permits are held until the connection ends.

use v5.36;
use lib 't/lib';
use IO::Socket::SSL;
use RateLimit::Certificates;
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Stream qw(echo_server knows new_statuses new_stream no_permit_is_left open_session reset_session take_line);
use RateLimit::Wait qw(wait_until);
use Test::More;

plan skip_all => 'this nginx knows no server_name of stream, which came with 1.25.5' if !knows('server_name a;');

$SIG{PIPE} = 'IGNORE'; # of sessions that are rejected

my $redis        = RateLimit::Redis->start_new;
my $client       = $redis->client;
my $relay        = RateLimit::Relay->start_new($redis->conf->{port});
my $echo         = echo_server();
my $certificates = RateLimit::Certificates->new;
my $certificate  = $certificates->issue('server', 'DNS:*.example');
my %port         = map { $_ => empty_port() } qw(tls preread http to_http tls_to_http stream to_stream);

# The same servers where nginx ends TLS, and where it only reads the name. The first one is the default.
my $inherited = 'redis_rate_limit zone=z algorithm=sliding_log limit=100 window=1h name=inherited;';
my $limit     = 'redis_rate_limit zone=z algorithm=sliding_log window=1h';

sub servers ($kind, $listen, $more) {
    my $server = sub ($name, $rules) {
        "server { listen 127.0.0.1:$port{$kind} $listen; $more server_name $name; $rules return passed\\n; }"
    };
    return join "\n",
        $server->('default.example', "$inherited $limit limit=8 name=default_$kind;"),
        $server->('same.example',    ''),
        $server->('own.example',     "$limit limit=2 name=own_$kind;"),
        $server->('strict.example',  "$limit limit=1 name=inherited;"),
        $server->('late.example',    "$limit limit=1 name=late_$kind phase=preread;"),
        $server->('permit.example',  "redis_rate_limit zone=z algorithm=concurrency limit=1 name=permit_$kind;")
            =~ s/return passed\\n/proxy_pass ${\$echo->address}/r,
        $server->('off.example', 'redis_rate_limit off;');
}

my $nginx = new_stream(<<"END", workers => 2, http => <<"END_OF_HTTP");
%STREAM_LOG%
redis_rate_limit_backend default { server 127.0.0.1:${\$relay->port}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$remote_addr zone=z:1m deny_cache=off;
ssl_certificate ${\$certificates->certificate($certificate)};
ssl_certificate_key ${\$certificates->key($certificate)};
$inherited
${\servers('tls', 'ssl', '')}
${\servers('preread', '', 'ssl_preread on;')}
server {
    listen 127.0.0.1:$port{to_http};
    redis_rate_limit zone=z algorithm=concurrency limit=2 name=passed;
    redis_rate_limit zone=z algorithm=sliding_log limit=1000 window=1h name=settled final_cost=\$bytes_received;
    pass 127.0.0.1:$port{http};
}
server {
    listen 127.0.0.1:$port{tls_to_http} ssl;
    redis_rate_limit zone=z algorithm=concurrency limit=2 name=passed phase=preread;
    pass 127.0.0.1:$port{http};
}
server { listen 127.0.0.1:$port{stream}; redis_rate_limit zone=z algorithm=concurrency limit=1 name=inner; proxy_pass ${\$echo->address}; }
server { listen 127.0.0.1:$port{to_stream}; redis_rate_limit zone=z algorithm=concurrency limit=2 name=passed; pass 127.0.0.1:$port{stream}; }
END
redis_rate_limit_zone \$arg_key zone=h:1m;
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
server {
    listen 127.0.0.1:$port{http};
    redis_rate_limit zone=h algorithm=sliding_log limit=2 window=1h;
    location = / { empty_gif; }
}
END_OF_HTTP
$nginx->start;
ok(wait_until(sub { $redis->nginx_clients == 4 }), 'both modules are connected in both workers');

# The units that were taken of a counter of that name.
sub taken ($name) { return $redis->taken("rl:{z:127.0.0.1}:sliding_log:3600000:$name") }

sub permits ($name) { return scalar grep { length } $client->zrange("rl:{z:127.0.0.1}:concurrency:60000:$name", 0, -1) }

my @tls = (SSL_verify_mode => SSL_VERIFY_NONE);

# The statuses of so many sessions that ask for that name. Where nginx only reads it, what it answers is no TLS
# and ends the handshake.
sub statuses ($kind, $name, $count) {
    for (1 .. $count) {
        my $session = open_session($port{$kind});
        take_line($session) if IO::Socket::SSL->start_SSL($session, @tls, SSL_hostname => "$name.example");
        CORE::close $session;
    }
    return new_statuses($nginx, $count);
}

# One that waits for its verdict.
sub suspended_session ($kind, $name) {
    my $session = open_session($port{$kind});
    IO::Socket::SSL->start_SSL($session, @tls, SSL_hostname => "$name.example", SSL_startHandshake => 0);
    $session->blocking($kind eq 'tls');
    $session->connect_SSL;
    return $session;
}

for my $kind (qw(tls preread)) {
    subtest "servers by SNI, $kind" => sub {
        $client->flushall;
        is(statuses($kind, 'default', 1), '200 PASSED', 'the default server');
        is(statuses($kind, 'same', 1), '200 PASSED', 'one with the inherited rule');
        is(taken('inherited'), 2, 'a counter that was charged before the name was known is not charged again');
        is(statuses($kind, 'own', 3), '200 PASSED, 200 PASSED, 503 REJECTED', 'rules of the access phase of the server that is chosen');
        is(taken("own_$kind"), 2, 'count its sessions');
        is(statuses($kind, 'late', 2), '200 PASSED, 503 REJECTED', 'those of preread, too');
        is(statuses($kind, 'off', 1), '200 PASSED', 'one without rules');
        is(taken("default_$kind"), 8, 'those of the default server count all sessions') or diag join ' ', $redis->keys;
        is(statuses($kind, $_, 1), '503 REJECTED', "so that they reject at: $_") for qw(default own off);

        $client->flushall;
        is(statuses($kind, 'strict', 2), '200 PASSED, 503 REJECTED', 'a stricter rule of a counter that was charged before');
        is(taken('inherited'), 2, 'charges no session again');
    };

    subtest "a reset before the verdict of the server that is chosen, $kind" => sub {
        $client->flushall;
        $relay->delay(0.2);
        my $session = suspended_session($kind, 'permit');
        ok(wait_until(sub { permits("permit_$kind") == 1 }), 'a permit is taken');
        reset_session($session);
        $relay->delay(0);
        no_permit_is_left($redis);
        like(new_statuses($nginx, 1), qr/^200 /, 'the session ends');
    };
}

sub request ($session, $target = '/') {
    syswrite $session, "GET $target HTTP/1.1\r\nHost: a\r\n\r\n";
    my $status = take_line($session) =~ m{^HTTP/1.1 (\d+)} ? $1 : 'none';
    return $status;
}

subtest 'pass to http' => sub {
    $client->flushall;
    my @sessions = map { open_session($port{to_http}) } 1 .. 2;
    is(request($_), 200, 'a request of a session that was passed') for @sessions;
    is(permits('passed'), 2, 'the connections hold permits');
    is(take_line(open_session($port{to_http})), '', 'and no other one gets any');
    CORE::close shift @sessions;
    ok(wait_until(sub { permits('passed') == 1 }), 'until one ends');
    @sessions = ();
    no_permit_is_left($redis);
    is(taken('settled'), 2, 'nothing is settled: the session was charged when it began');
    is(new_statuses($nginx, 1), '503 REJECTED', 'the log has no session that was passed');
};

subtest 'pass to http, with its limits' => sub {
    is(join(' ', map { request(open_session($port{to_http}), '/?key=limited') } 1 .. 3), '200 200 429', 'count its requests');
    no_permit_is_left($redis);
};

subtest 'pass after TLS, in preread' => sub {
    my $session = open_session($port{tls_to_http});
    IO::Socket::SSL->start_SSL($session, @tls) or die "TLS: $SSL_ERROR";
    is(request($session), 200, 'a request');
    is(permits('passed'), 1, 'holds a permit');
    $session->close;
    no_permit_is_left($redis);
};

subtest 'pass to http, of what came before the verdict' => sub {
    $relay->hold;
    my $session = open_session($port{to_http});
    syswrite $session, "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    ok(wait_until(sub { permits('passed') == 1 }), 'the check is in flight');
    is(take_line($session, 0.1), undef, 'nothing is answered');
    $relay->release;
    like(take_line($session), qr{^HTTP/1.1 200}, 'then http gets it');
    reset_session($session);
    no_permit_is_left($redis);
};

subtest 'pass to another server of stream' => sub {
    my $session = open_session($port{to_stream});
    print $session "hello\n";
    is(take_line($session), "hello\n", 'a session');
    is(permits('passed') . permits('inner'), '11', 'holds the permits of both servers');
    is(take_line(open_session($port{to_stream})), '', 'the second server has one alone');
    CORE::close $session;
    no_permit_is_left($redis);
    is(new_statuses($nginx, 2), '200 PASSED, 503 REJECTED', 'which has its sessions in the log');
};

$nginx->stop(expect => qr/SSL_do_handshake/);

done_testing;
