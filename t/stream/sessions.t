# Sessions of TCP: each algorithm counts them, in the phases that the rules name, whatever nginx's own
# access rules say; and what clients do while Redis is asked reaches the upstream, or ends the session.

use v5.36;
use lib 't/lib';
use RateLimit::Api qw(api);
use RateLimit::Certificates;
use RateLimit::Metrics qw(metrics_of outcomes pending);
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Stream qw(echo_server knows new_statuses new_stream open_session reset_session take_line);
use RateLimit::Wait qw(wait_until);
use IO::Socket::SSL;
use IO::Socket::UNIX;
use Test::More;
use Time::HiRes qw(time);

my $redis        = RateLimit::Redis->start_new;
my $relay        = RateLimit::Relay->start_new($redis->conf->{port});
my $echo         = echo_server();
my $certificates = RateLimit::Certificates->new;
my $certificate  = $certificates->issue('server', 'DNS:*.example');
my %port         = map { $_ => empty_port() }
    qw(sliding_log fixed_window sliding_window token_bucket gcra leaky_bucket concurrency access preread allow deny
    tls sni held limited_data off dry closed open);

my @algorithms = qw(sliding_log fixed_window sliding_window token_bucket gcra);
my $servers    = join "\n", map {
    my $burst = $_ eq 'gcra' ? 'burst=2' : '';
    "server { listen 127.0.0.1:$port{$_}; redis_rate_limit zone=$_ algorithm=$_ limit=3 window=1h $burst; return passed\\n; }"
} @algorithms;
my $zones = join "\n", map { "redis_rate_limit_zone \$remote_addr zone=$_:1m;" }
    @algorithms, qw(leaky_bucket concurrency access preread allow deny tls held data off dry closed open);

# Since nginx 1.21.4.
my $half_close = 'proxy_half_close on;';
$half_close = '' if !knows($half_close);
my $nginx = new_stream(<<"END", workers => 2, log_level => 'debug');
%STREAM_LOG%
log_format sent '\$upstream_bytes_sent';
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_backend held { server 127.0.0.1:${\$relay->port}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_backend nobody { server 127.0.0.1:${\empty_port()}; }
$zones
redis_rate_limit_zone \$remote_addr zone=slow:1m backend=held;
redis_rate_limit_zone \$remote_addr zone=shut:1m backend=nobody on_error=closed;
redis_rate_limit_zone \$remote_addr zone=wide:1m backend=nobody on_error=open;
redis_rate_limit_zone \$ssl_preread_server_name zone=by_name:1m;
$servers
server { listen 127.0.0.1:$port{leaky_bucket}; redis_rate_limit zone=leaky_bucket algorithm=leaky_bucket limit=5 window=1 burst=2; return passed\\n; }
server { listen 127.0.0.1:$port{concurrency}; redis_rate_limit zone=concurrency algorithm=concurrency limit=2; proxy_pass ${\$echo->address}; }
server { listen 127.0.0.1:$port{allow}; allow all; redis_rate_limit zone=allow algorithm=gcra limit=1 window=1h; return passed\\n; }
server { listen 127.0.0.1:$port{deny}; deny all; redis_rate_limit zone=deny algorithm=gcra limit=1 window=1h; return passed\\n; }
server {
    listen 127.0.0.1:$port{preread};
    ssl_preread on;
    redis_rate_limit zone=by_name algorithm=fixed_window limit=1 window=1h phase=preread;
    return passed\\n;
}
server {
    listen 127.0.0.1:$port{tls} ssl;
    ssl_certificate ${\$certificates->certificate($certificate)};
    ssl_certificate_key ${\$certificates->key($certificate)};
    redis_rate_limit zone=tls algorithm=sliding_log limit=1 window=1h;
    redis_rate_limit zone=tls algorithm=sliding_log limit=3 window=1h phase=preread name=late;
    return passed\\n;
}
server { listen 127.0.0.1:$port{held}; $half_close redis_rate_limit zone=slow algorithm=sliding_log limit=100 window=1h; proxy_pass ${\$echo->address}; }
server {
    listen unix:%DIR%/held;
    redis_rate_limit zone=slow algorithm=sliding_log limit=100 window=1h;
    proxy_pass ${\$echo->address};
    access_log %DIR%/received.log sent;
    access_log %DIR%/stream.log verdict;
}
server { listen 127.0.0.1:$port{limited_data}; redis_rate_limit zone=data algorithm=sliding_log limit=20 window=1h final_cost=\$bytes_sent; return 0123456789abcdef\\n; }
server { listen 127.0.0.1:$port{off}; redis_rate_limit off; return passed\\n; }
server { listen 127.0.0.1:$port{dry}; redis_rate_limit_dry_run on; redis_rate_limit zone=dry algorithm=sliding_log limit=1 window=1h; return passed\\n; }
server { listen 127.0.0.1:$port{closed}; redis_rate_limit zone=shut algorithm=sliding_log limit=1 window=1h; return passed\\n; }
server { listen 127.0.0.1:$port{open}; redis_rate_limit zone=wide algorithm=sliding_log limit=1 window=1h; return passed\\n; }
END
$nginx->start;

sub lines ($server, $count) {
    return join ' ', map { my $line = take_line(open_session($port{$server})); chomp $line; $line || '-' } 1 .. $count;
}

subtest 'each algorithm counts sessions' => sub {
    is(lines($_, 4), 'passed passed passed -', $_) for @algorithms;
    is(new_statuses($nginx, 20), join(', ', ('200 PASSED') x 15, ('503 REJECTED') x 5), 'their statuses');
    my $before = time;
    is(lines('leaky_bucket', 3), 'passed passed passed', 'leaky_bucket');
    cmp_ok(time - $before, '>=', 0.35, 'holds two of three back');
    is(new_statuses($nginx, 3), '200 DELAYED, 200 DELAYED, 200 PASSED', 'and says so');
    is(lines('off', 2), 'passed passed', 'off');
    is(lines('dry', 3), 'passed passed passed', 'a dry run rejects nobody');
    is(new_statuses($nginx, 5), '200 -, 200 -, 200 PASSED, 200 REJECTED_DRY_RUN, 200 REJECTED_DRY_RUN', 'but says so');
};

subtest 'a log line of each rejection' => sub {
    my ($line) = grep { /limiting requests/ } split /\n/, $nginx->error_log;
    # Angie writes the client in quotes.
    like($line, qr/\[error\] .* limiting requests, rule "\w+\/3600s", key "127.0.0.1", retry after [\d.]+s .*, client: "?127/);
};

subtest 'access rules' => sub {
    is(lines('allow', 2), 'passed -', 'allow skips no limit');
    is(lines('deny', 1), '-', 'who is denied');
    is(join(',', $redis->client->keys('*deny*')), '', 'is not counted');
    is(new_statuses($nginx, 3), '200 PASSED, 403 -, 503 REJECTED', 'statuses');
};

subtest 'concurrency' => sub {
    my @sessions = map { open_session($port{concurrency}) } 1 .. 2;
    for my $session (@sessions) {
        print $session "hello\n";
        is(take_line($session), "hello\n", 'a session');
    }
    is(take_line(open_session($port{concurrency})), '', 'a third one is rejected');
    close $sessions[0];
    ok(wait_until(sub { my $next = open_session($port{concurrency}); print $next "again\n"; take_line($next) eq "again\n" }),
        'until one of the others ends');
    close $sessions[1];
    ok(wait_until(sub { !$redis->client->zcard('rl:{concurrency:127.0.0.1}:concurrency') }), 'no permit is left');
    new_statuses($nginx, 4);
};

# A session over TLS that names its server.
sub tls_line ($server, $name) {
    my $socket = IO::Socket::SSL->new(
        PeerAddr => '127.0.0.1', PeerPort => $port{$server}, SSL_verify_mode => SSL_VERIFY_NONE, SSL_hostname => $name, Timeout => 10,
    ) or return '-';
    chomp(my $line = readline($socket) // '-');
    return $line;
}

subtest 'a name that is read from the first bytes' => sub {
    tls_line('preread', $_) for qw(a.example a.example b.example); # the server does not speak TLS itself
    is(new_statuses($nginx, 3), '200 PASSED, 200 PASSED, 503 REJECTED', 'each name has its own count');
};

subtest 'TLS' => sub {
    is(join(' ', map { tls_line('tls', 'a.example') } 1 .. 2), 'passed -', 'counted before the handshake');
    is(new_statuses($nginx, 2), '200 PASSED, 503 REJECTED', 'statuses');
    is($redis->client->llen('rl:{tls:127.0.0.1}:sliding_log:3600000:late'), 1, 'and after it, in preread, only what came so far');
};

sub remaining ($zone) {
    my $rules = api($nginx, "GET key?zone=$zone&key=127.0.0.1")->{json}{rules};
    return (values %$rules)[0]{remaining};
}

subtest 'final cost' => sub {
    is(take_line(open_session($port{limited_data})), "0123456789abcdef\n", 'a session of 17 bytes, of 20');
    ok(wait_until(sub { remaining('data') == 3 }), 'is charged with them when it ends');
    is(take_line(open_session($port{limited_data})), "0123456789abcdef\n", 'three are left');
    ok(wait_until(sub { remaining('data') == 0 }), 'and now none');
    is(take_line(open_session($port{limited_data})), '', 'so that the next one is rejected');
    new_statuses($nginx, 3);
};

subtest 'without Redis' => sub {
    is(lines('closed', 1), '-',      'on_error=closed');
    is(lines('open', 1),   'passed', 'on_error=open');
    is(new_statuses($nginx, 2), '200 ERROR_OPEN, 503 ERROR_CLOSED', 'statuses');
};

# A session that waits for its verdict.
sub held_session () {
    $relay->hold;
    my $before  = pending($nginx, 'stream:held');
    my $session = open_session($port{held});
    print $session "early\n";
    wait_until(sub { pending($nginx, 'stream:held') > $before }) or die 'nothing is asked';
    return $session;
}

subtest 'while Redis is asked' => sub {
    my $session = held_session();
    print $session "more\n";
    is(take_line($session, 0.2), undef, 'nothing is answered');
    $relay->release;
    is(take_line($session) . take_line($session), "early\nmore\n", 'what a client sends then reaches the upstream');
    close $session;
    new_statuses($nginx, 1);

    SKIP: {
        skip 'this nginx ends sessions of clients that have sent all', 2 if !$half_close;
        my $session = held_session();
        shutdown $session, 1;
        is(take_line($session, 0.2), undef, 'the end of sending ends nothing');
        $relay->release;
        is(take_line($session) . take_line($session), "early\nbye\n", 'and reaches the upstream with the data');
        close $session;
        new_statuses($nginx, 1);
    }

    # What was sent into a UNIX-domain socket outlives its client.
    $relay->hold;
    my $local = IO::Socket::UNIX->new(Peer => $nginx->dir . '/held') or die "connect: $!";
    syswrite $local, "farewell\n";
    close $local;
    wait_until(sub { pending($nginx, 'stream:held') > 0 }) or die 'nothing is asked';
    $relay->release;
    is(new_statuses($nginx, 1), '200 PASSED', 'a client that has closed its socket is served');
    ok(wait_until(sub { RateLimit::Nginx::slurp($nginx->dir . '/received.log') eq "9\n" }), 'and the upstream gets what it has sent');

    $session = held_session();
    reset_session($session);
    is(new_statuses($nginx, 1), '200 -', 'a reset ends the session at once');
    $relay->release;
    ok(wait_until(sub { pending($nginx, 'stream:held') == 0 }), 'its answer finds nobody');
};

subtest 'each session has one outcome' => sub {
    my $counts = outcomes(metrics_of($nginx), 'sliding_log', 'sliding_log/3600s');
    is($counts->{passed} + $counts->{rejected}, 4, 'passed and rejected') or diag explain $counts;
};

$nginx->stop(expect => qr/access forbidden by rule|SSL_do_handshake/);

done_testing;
