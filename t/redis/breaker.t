# A Redis that does not answer is asked nothing for a while: the first requests of an outage wait
# for it, later ones do not. Under load: see stopped_redis.t.

use v5.36;
use lib 't/lib';
use RateLimit::Client;
use RateLimit::Metrics qw(pending);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(time);

my $redis  = RateLimit::Redis->start_new;
my $client = $redis->client;

sub start_nginx ($locations, %options) {
    my $server = $options{server} // $redis->address;
    return RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server $server; connect_timeout 10s; @{[ $options{backend} // '' ]} }
redis_rate_limit_zone \$arg_key zone=z:1m;
redis_rate_limit_log_level info;
add_header X-Source \$redis_rate_limit_source always;
server {
    listen %PORT%;
    $locations
}
END
}

sub source ($nginx, $path) { return $nginx->get($path)->{headers}{'x-source'} }

# How long a request takes.
sub time_of ($nginx, $path) {
    my $began = time;
    $nginx->get($path);
    return time - $began;
}

my $one = 'location / { redis_rate_limit zone=z algorithm=sliding_log limit=1000000 window=60; empty_gif; }';

subtest 'after so many failures in a row' => sub {
    my $nginx = start_nginx($one, backend => 'timeout 300ms; breaker failures=3 cooldown=10s;');
    ok(wait_until(sub { source($nginx, '/?key=a') eq 'redis' }), 'Redis answers');
    $redis->freeze;
    cmp_ok(time_of($nginx, '/?key=a'), '>=', 0.29, "request $_ waits") for 1 .. 3;
    cmp_ok(time_of($nginx, '/?key=a'), '<', 0.2, 'the next one does not');
    cmp_ok(time_of($nginx, '/?key=b'), '<', 0.2, 'nor one of another client');
    $redis->thaw;
    ok(wait_until(sub { source($nginx, '/?key=a') eq 'redis' }, 3), 'Redis is asked again as soon as it has answered all');
    $nginx->stop;
};

subtest 'one probe each cooldown' => sub {
    my $relay = RateLimit::Relay->start_new($redis->conf->{port});
    my $nginx = start_nginx($one, server => "127.0.0.1:${\$relay->port}", backend => 'timeout 50ms; breaker failures=2 cooldown=150ms;');
    ok(wait_until(sub { source($nginx, '/?key=a') eq 'redis' }), 'Redis answers');
    $relay->hold; # replies
    source($nginx, '/?key=a') for 1, 2;
    my ($before, $began) = ($redis->script_calls->{evalsha}, time);
    my $slow = 0;
    while (time < $began + 0.7) { # the connection is given up after a second
        $slow += time_of($nginx, '/?key=a') > 0.04 ? 1 : 0;
    }
    my $probes = $redis->script_calls->{evalsha} - $before;
    cmp_ok($probes, '>=', 2, "there are probes: $probes");
    cmp_ok($probes, '<=', 7, 'but few');
    cmp_ok($slow, '<=', $probes + 2, 'nobody else waits');
    $relay->release;
    ok(wait_until(sub { source($nginx, '/?key=a') eq 'redis' }, 3), 'the first one with an answer ends it');
    $nginx->stop;
};

subtest 'off' => sub {
    my $nginx = start_nginx($one, backend => 'timeout 50ms; breaker off;');
    ok(wait_until(sub { source($nginx, '/?key=a') eq 'redis' }), 'Redis answers');
    $redis->freeze;
    my @waited = grep { $_ >= 0.045 } map { time_of($nginx, '/?key=a') } 1 .. 12;
    cmp_ok(scalar @waited, '>=', 8, 'requests wait on: ' . @waited);
    $redis->thaw;
    $nginx->stop;
};

subtest 'one key of another type is no fault of Redis' => sub {
    my $nginx = start_nginx($one, backend => 'breaker failures=2;');
    $client->set('rl:{z:wrong}:sliding_log:60000', 'text');
    is(source($nginx, '/?key=wrong'), 'local', 'its client is counted here') for 1 .. 5;
    is(source($nginx, '/?key=right'), 'redis', 'others by Redis');
    $nginx->stop;
};

subtest 'nor is a script that it has forgotten, when nobody waits for it any more' => sub {
    my $nginx = start_nginx("$one location /json { redis_rate_limit_metrics json; }", backend => 'timeout 5s; breaker failures=2 cooldown=10s;');
    ok(wait_until(sub { source($nginx, '/?key=a') eq 'redis' }), 'Redis answers');
    $client->script_flush;
    $redis->freeze;
    my @leaving = map { RateLimit::Client->new($nginx)->send("GET /?key=left HTTP/1.1\r\nHost: a\r\n\r\n") } 1 .. 3;
    ok(wait_until(sub { pending($nginx, 'default') == 3 }), 'requests wait');
    $_->reset for @leaving;
    ok(wait_until(sub { 3 == (() = $nginx->access_log =~ / 499 /g) }), 'their clients leave');
    $redis->thaw;
    ok(wait_until(sub { pending($nginx, 'default') == 0 }), 'Redis is told the script that it does not know');
    is(source($nginx, '/?key=a'), 'redis', 'it is asked all the same');
    unlike($nginx->error_log, qr/fails/, 'and no fault is told');
    is($client->llen('rl:{z:left}:sliding_log:60000'), 3, 'those that left are charged');
    $nginx->stop;
};

done_testing;
