# The sliding log where it is different: an entry for each unit. Memory, time and expiry with many
# of them. What it decides is in t/rules/algorithm_responses.t and t/rules/algorithms.t.

use v5.36;
use lib 't/lib';
use List::Util qw(min);
use RateLimit::Clock;
use RateLimit::Nginx;
use RateLimit::Redis;
use Test::More;

my $second = 1_000_000;

sub start_nginx ($redis) {
    return RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$uri zone=z:1m on_error=closed deny_cache=off;
redis_rate_limit_log_level info;
server {
    listen %PORT%;
    location / {
        redis_rate_limit zone=z algorithm=sliding_log limit=\$arg_limit window=10;
        empty_gif;
    }
    location /hour/ {
        redis_rate_limit zone=z algorithm=sliding_log limit=\$arg_limit window=1h;
        empty_gif;
    }
}
END
}

my $clock = RateLimit::Clock->new(1_700_000_000 * $second);
my $redis = RateLimit::Redis->start_new(clock => $clock);
my $nginx = start_nginx($redis);

sub redis_key ($name, $window = 10_000) { return "rl:{z:/$name}:sliding_log:$window" }

sub entries ($name) { return $redis->client->lrange(redis_key($name), 0, -1)->@* }

# The moment at which the key ends, microseconds.
sub end_of_life ($name) { return $clock->now + $redis->client->pttl(redis_key($name)) * 1000 }

# "<status> <remaining>"
sub asks ($name, $limit) {
    my $response = $nginx->get("/$name?limit=$limit");
    return "$response->{status} $response->{headers}{'x-ratelimit-remaining'}";
}

subtest 'what is denied costs nothing' => sub {
    asks('denied', 1);
    my $ends   = end_of_life('denied');
    my $denied = 0;
    for (1 .. 100) {
        $clock->move(90_000);
        ++$denied if asks('denied', 1) eq '429 0';
    }
    is($denied, 100, 'denied a hundred times');
    is(scalar entries('denied'), 1, 'one entry');
    is(end_of_life('denied'), $ends, 'no later end of life');
    $clock->move($second);
    is(asks('denied', 1), '200 0', 'a client that asks steadily gets in');
};

subtest 'a key outlives its entries by 5 s' => sub {
    my $short_lived = 0;
    for (1 .. 60) { # six windows
        asks('lives', 100);
        my ($newest) = (entries('lives'))[-1];
        # Redis counts lives in whole milliseconds
        ++$short_lived if end_of_life('lives') + 1000 <= $newest + 15 * $second;
        $clock->move($second);
    }
    is($short_lived, 0, 'at each of many grants');
    is(scalar entries('lives'), 10, 'only those of the last window are kept');
    my $now = $clock->now;
    $clock->move(-3600 * $second);
    is(asks('lives', 100), '200 89', 'where the clock has stepped back too');
    cmp_ok(end_of_life('lives'), '>=', $now + 14 * $second, 'though it is far from the entries');
    $clock->set($now + 20 * $second);
    is(scalar entries('lives'), 0, 'then it is gone');
};

my $client = $redis->client;
is(join(' ', grep { $client->pttl($_) < 0 } $redis->keys), '', 'no key without an end');
$nginx->stop;

# What follows measures time, so on a Redis with a clock that runs.
$redis  = RateLimit::Redis->start_new;
$client = $redis->client;
$nginx  = start_nginx($redis);

# A list as so many grants would have left it, the last of them so many microseconds ago.
sub fill ($key, $count, $ago) {
    my ($seconds, $microseconds) = $client->time->@*;
    my $newest = $seconds * $second + $microseconds - $ago;
    for (my $left = $count; $left > 0; $left -= 1000) {
        $client->rpush($key, map { $newest - $left + $_ } 1 .. min(1000, $left));
    }
    $client->pexpire($key, 3600_000);
}

# Microseconds of Redis's time that checks took since the statistics were reset.
sub time_spent () {
    my ($microseconds) = $client->info('commandstats')->{cmdstat_evalsha} =~ /usec=(\d+)/;
    return $microseconds;
}

my $many = redis_key('hour/many', 3600_000);

# Of one check where a list has 100,000 entries and where it has 100: the least of some runs, by
# turns, for whatever else the machine does only adds to it. Work that grows with the entries would be
# a thousand times as much; `make bench` tells how much it is. `limit` gives that of a list.
sub costs ($limit) {
    my %runs;
    for my $entries ((100_000, 100) x 25) {
        $client->del($many);
        fill($many, $entries, $second);
        $client->config_resetstat;
        $nginx->statuses('/hour/many?limit=' . $limit->($entries), 100);
        push $runs{$entries}->@*, time_spent() / 100;
    }
    return map { min(@$_) } @runs{ 100_000, 100 };
}

subtest 'memory and time with many entries' => sub {
    fill($many, 100_000, $second);
    my $bytes = $client->memory_usage($many, 'SAMPLES', 0) / 100_000;
    cmp_ok($bytes, '<=', 12, sprintf '%.2f bytes an entry', $bytes);

    my ($long, $short) = costs(sub ($entries) { 1_000_000 });
    cmp_ok($long / $short, '<=', 3, sprintf 'a grant takes %.1f us with 100,000 entries, %.1f us with 100', $long, $short);
    is($redis->taken($many), 200, 'all were granted');

    ($long, $short) = costs(sub ($entries) { $entries });
    cmp_ok($long / $short, '<=', 3, sprintf 'a denial takes %.1f us with 100,000 entries, %.1f us with 100', $long, $short);
    is($redis->taken($many), 100, 'all were denied');
};

subtest 'most entries expire at once' => sub {
    my $key = redis_key('expired');
    fill($key, 90_000, 11 * $second);
    fill($key, 10_000, 0);
    $client->config_resetstat;
    is(asks('expired', 100_000), '200 89999', 'room for as many as have expired');
    my $microseconds = time_spent();
    is($redis->taken($key), 10_001, 'the expired entries are gone');
    cmp_ok($microseconds, '<', 5000, "in $microseconds us");
};

$nginx->stop;
done_testing;
