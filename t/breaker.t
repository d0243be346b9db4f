# A Redis that does not answer is asked nothing for a while: the first requests of an outage wait
# for it, later ones do not, limits go on holding on this host, and recovery needs no hand.

use v5.36;
use lib 't/lib';
use RateLimit::AccessLog qw($log_times count_statuses percentile requests_of);
use RateLimit::Load qw(start_load);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep time);

my $redis  = RateLimit::Redis->start_new;
my $client = $redis->client;

sub start_nginx ($locations, %options) {
    my $server = $options{server} // $redis->address;
    return RateLimit::Nginx->start_new(<<"END", workers => $options{workers} // 1);
$log_times
redis_rate_limit_backend default { server $server; connect_timeout 10s; @{[ $options{backend} // '' ]} }
redis_rate_limit_zone \$arg_key zone=z:1m;
redis_rate_limit_zone \$arg_key zone=open:1m on_error=open;
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
    my $calls = sub { $client->info('commandstats')->{cmdstat_evalsha} =~ /calls=(\d+)/ ? $1 : die };
    source($nginx, '/?key=a') for 1, 2;
    my ($before, $began) = ($calls->(), time);
    my $slow = 0;
    while (time < $began + 0.7) { # the connection is given up after a second
        $slow += time_of($nginx, '/?key=a') > 0.04 ? 1 : 0;
    }
    my $probes = $calls->() - $before;
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

# Issue 5: no 5xx, few wait, limits hold, recovery within two cooldowns.
subtest 'stopped under load' => sub {
    my $limit = 2000;
    my $nginx = start_nginx(<<"END", workers => 2);
location /load  { redis_rate_limit zone=z algorithm=fixed_window limit=100000000 window=600 name=load; empty_gif; }
location /limit { redis_rate_limit zone=z algorithm=fixed_window limit=$limit window=600 name=limit; empty_gif; }
END
    my $load = start_load($nginx->url('/load?key=load'), connections => 56);
    wait_until(sub { requests_of($nginx) > 5000 });
    my @before  = requests_of($nginx);
    my $stopped = time;
    $redis->freeze;
    my $limit_load = start_load($nginx->url('/limit?key=one'), connections => 8);
    sleep 4; # the fault itself
    my $thawed = time;
    $redis->thaw;
    ok(wait_until(sub { source($nginx, '/load?key=other') eq 'redis' }, 2.4), sprintf 'Redis decides again after %.1f s', time - $thawed);
    my @results = map { $_->finish } $load, $limit_load;
    is(scalar(grep { $_->{broken} } @results), 0, 'each request has an answer');
    my @during = grep { $_->{time} < $thawed } requests_of($nginx, $stopped + 0.3);
    is(scalar(grep { $_->{status} >= 500 } requests_of($nginx)), 0, 'no 5xx');
    my @waited = grep { $_->{seconds} > 0.05 } @during;
    cmp_ok(scalar @waited, '<=', 64 + 2 * 5 * 4, 'few wait: ' . @waited . ' of ' . @during);
    cmp_ok(percentile(99, @during), '<=', percentile(99, @before) + 0.005, 'p99 is as before');
    my $granted = grep { $_->{path} eq '/limit' && $_->{status} == 200 && $_->{time} < $thawed } requests_of($nginx);
    is($granted, $limit, 'the limit holds meanwhile');
    like($nginx->error_log, qr/backend "default" at \S+ fails: /, 'one line when it begins');
    ok(wait_until(sub { $nginx->get('/load?key=other'); 2 <= (() = $nginx->error_log =~ /works again, it failed for \d+ ms, \d+ checks got no verdict/g) }), 'and one of each worker when it ends');
    $nginx->stop;
};

done_testing;
