# One connection a worker, there before the first request, and one send for all that a turn of the
# event loop asks.

use v5.36;
use lib 't/lib';
use POSIX qw(SIGCONT);
use RateLimit::Client;
use RateLimit::Load qw(start_requests);
use RateLimit::Nginx;
use RateLimit::Process;
use RateLimit::Processes qw(freeze);
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis = RateLimit::Redis->start_new;

sub start_nginx ($workers) {
    return RateLimit::Nginx->start_new(<<"END", workers => $workers);
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_backend unused  { server 127.0.0.1:1; }
redis_rate_limit_zone \$uri zone=z:1m       on_error=closed;
redis_rate_limit_zone \$uri zone=unused:1m backend=unused;
server {
    listen %PORT%;
    location / {
        redis_rate_limit zone=z algorithm=sliding_log limit=1000000 window=60;
        empty_gif;
    }
}
END
}

subtest 'one connection a worker' => sub {
    my $nginx = start_nginx(3);
    ok(wait_until(sub { $redis->nginx_clients == 3 }), 'before any request');
    my $ids = join ' ', sort map { $_->{id} } $redis->nginx_clients;
    my $result = start_requests($nginx->url, 6000)->finish;
    is($result->{passed}, 6000, 'under load');
    is(join(' ', sort map { $_->{id} } $redis->nginx_clients), $ids, 'the same ones serve');
    unlike($nginx->error_log, qr/unused/, 'a backend that no rule uses is left alone');
    $nginx->stop;
    ok(wait_until(sub { $redis->nginx_clients == 0 }), 'they end with nginx');
};

subtest 'one send for many checks' => sub {
    my $nginx   = start_nginx(1);
    my ($worker) = $nginx->workers;
    my $trace   = $nginx->dir . '/trace';
    my $strace  = RateLimit::Process->execute($nginx->dir . '/strace', 'strace', '-f', '-yy', '-e', 'trace=sendto,write,writev', '-o', $trace, '-p', $worker);
    wait_until(sub { RateLimit::Nginx::slurp($nginx->dir . '/strace') =~ /attached/ })
        or plan skip_all => 'strace cannot attach here';
    my $checks = 6400;
    is(start_requests($nginx->url, $checks, connections => 64)->finish->{passed}, $checks, "$checks checks");
    $strace->signal('INT');
    ok($strace->wait_for_end, 'all is traced');

    my $port  = $redis->conf->{port};
    my @sends = grep { /->127\.0\.0\.1:$port\]/ } split /\n/, RateLimit::Nginx::slurp($trace);
    my $bytes = 0;
    $bytes += /= (\d+)$/ ? $1 : 0 for @sends;
    cmp_ok($bytes, '>', $checks * length 'rl:{z:/}:sliding_log:60000', 'the trace shows what goes to Redis');
    cmp_ok(@sends, '<', $checks / 4, sprintf '%d sends, %.1f checks each', scalar @sends, $checks / (@sends || 1));
    is($redis->client->llen('rl:{z:/}:sliding_log:60000'), 6000 + $checks, 'each check was counted');
    $nginx->stop;
};

# All that came while the worker was not running is of one turn.
subtest 'nothing is asked on a connection that Redis has closed' => sub {
    my $nginx      = start_nginx(1);
    my $client     = RateLimit::Client->new($nginx);
    my ($worker)   = $nginx->workers;
    my $status_for = sub ($path, $meanwhile) {
        freeze($worker);
        $meanwhile->();
        $client->send("GET /$path HTTP/1.1\r\nHost: localhost\r\n\r\n");
        kill SIGCONT, $worker;
        return $client->response->{status};
    };
    is($status_for->('first', sub { }), 200, 'a verdict');
    for my $round (1 .. 10) {
        my ($connection) = $redis->nginx_clients;
        my $kill = sub { $redis->client->client('kill', 'id', $connection->{id}) };
        is($status_for->("closed-$round", $kill), 200, "round $round: but on the next one");
        ok(wait_until(sub { $redis->nginx_clients == 1 }), 'of which Redis knows');
    }
    $nginx->stop;
};

done_testing;
