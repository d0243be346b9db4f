# The sliding log's decisions, on a clock that the test moves: vectors, edges, a model, memory and
# time.

use v5.36;
use lib 't/lib';
use List::Util qw(max min);
use RateLimit::Clock;
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::SlidingLog;
use Test::More;

my $second = 1_000_000;
my $start  = 1_700_000_000 * $second;

my $clock  = RateLimit::Clock->new($start);
my $server = RateLimit::Redis->start_new(clock => $clock);
my $redis  = $server->client;
my $log    = RateLimit::SlidingLog->new($redis);

# The time to live in microseconds from the clock's now.
sub time_to_live ($key) { return $redis->pttl($key) * 1000 }

sub entries ($key) { return $redis->lrange($key, 0, -1)->@* }

sub is_sorted (@entries) {
    return !grep { $entries[ $_ - 1 ] > $entries[$_] } 1 .. $#entries;
}

# Steps are [ seconds after the start, expected wait in seconds ], 0 for a grant; a third word is
# what then remains.
sub decides ($name, $limit, $window, @steps) {
    my $key = "vectors:$name";
    for (@steps) {
        my ($at, $expected, $left) = @$_;
        $clock->set($start + int($at * $second + 0.5));
        my ($wait, $remaining) = $log->ask($key, $limit, $window * $second);
        is($wait / $second, $expected, "$name: at $at s " . ($expected ? "to wait $expected s" : 'granted'));
        is($remaining, $left, "$name: $left remain") if defined $left;
    }
}

subtest 'vectors' => sub {
    decides('three in ten', 3, 10,
        [0, 0, 2], [1, 0, 1], [2, 0, 0], [5, 5, 0], [9.999999, 0.000001], [10, 0, 0], [10.5, 0.5], [11, 0], [12, 0],
        [12, 8], [100, 0, 2], [100, 0, 1], [100, 0, 0], [100, 10], [110, 0, 2], [110, 0], [110, 0], [110, 10]);
    decides('one in a millisecond', 1, 0.001, [0, 0], [0, 0.001], [0.000999, 0.000001], [0.001, 0], [0.001, 0.001]);
    decides('one in 366 days', 1, 366 * 86400, [0, 0], [366 * 86400 - 1, 1], [366 * 86400, 0]);
    $clock->set($start);
};

subtest 'grants of one microsecond are counted apart' => sub {
    for my $left (reverse 0 .. 4) {
        is_deeply([ $log->ask('same', 5, $second) ], [ 0, $left, $second, $second ], "$left remain");
    }
    is_deeply([ $log->ask('same', 5, $second) ], [ $second, 0, $second, $second ], 'the sixth waits');
    is(scalar entries('same'), 5, 'five entries');
};

subtest 'what is denied costs nothing' => sub {
    $log->ask('denied', 1, $second);
    my ($ends, $denied) = (time_to_live('denied') + $clock->now, 0);
    for (1 .. 100) {
        $clock->move(9_000);
        ++$denied if ($log->ask('denied', 1, $second))[0] > 0;
    }
    is($denied, 100, 'denied a hundred times');
    is(scalar entries('denied'), 1, 'one entry');
    is(time_to_live('denied') + $clock->now, $ends, 'no later end of life');
    $clock->move(100_000);
    is(($log->ask('denied', 1, $second))[0], 0, 'a client that asks steadily gets in');
};

subtest 'the clock steps back' => sub {
    my $window = 10 * $second;
    my $began  = $clock->now;
    $log->ask('back', 3, $window) for 1 .. 2;
    $clock->move(-3600 * $second);
    is_deeply([ $log->ask('back', 3, $window) ], [ 0, 0, 3610 * $second, 3610 * $second ], 'the third is granted');
    is_deeply([ $log->ask('back', 3, $window) ], [ 3610 * $second, 0, 3610 * $second, 3610 * $second ],
        'no fourth, and the wait includes the way back');
    ok(is_sorted(entries('back')), 'the entries are in order');
    cmp_ok(time_to_live('back'), '>=', 3615 * $second, 'the key outlives them');

    $clock->set($began + $window - 1);
    is(($log->ask('back', 3, $window))[0], 1, 'to the last microsecond');
    $clock->move(1);
    is_deeply([ $log->ask('back', 3, $window) ], [ 0, 2, $window, $window ], 'then all is free');
};

subtest 'the clock steps forward' => sub {
    my $window = 10 * $second;
    $log->ask('forward', 3, $window) for 1 .. 3;
    $clock->move(365 * 86400 * $second);
    my @granted = grep { ($log->ask('forward', 3, $window))[0] == 0 } 1 .. 10;
    is(scalar @granted, 3, 'one refill');
    $clock->move(-365 * 86400 * $second);
};

subtest 'a machine that starts without knowing the time' => sub {
    my $now = $clock->now;
    $clock->set(3 * $second); # a window reaches beyond 1970
    is_deeply([ $log->ask('1970', 2, 10 * $second) ], [ 0, 1, 10 * $second, 10 * $second ], 'granted');
    is_deeply([ $log->ask('1970', 2, 10 * $second) ], [ 0, 0, 10 * $second, 10 * $second ], 'again');
    is_deeply([ $log->ask('1970', 2, 10 * $second) ], [ 10 * $second, 0, 10 * $second, 10 * $second ], 'denied');
    $clock->set($now);
};

subtest 'the limit is lowered, and raised again' => sub {
    my $window = 10 * $second;
    for (1 .. 10) {
        $log->ask('lowered', 10, $window);
        $clock->move($second / 10);
    }
    is_deeply([ $log->ask('lowered', 4, $window) ], [ $window - 4 * $second / 10, 0, $window - 4 * $second / 10, $window - $second / 10 ],
        'the wait is until three of ten count');
    is(scalar entries('lowered'), 10, 'nothing is forgotten');
    is(($log->ask('lowered', 12, $window))[1], 1, 'one of the two more remains');
    $clock->move($window - 5 * $second / 10 - 1);
    is(($log->ask('lowered', 4, $window))[0], 200_001, 'the eleventh counts under the low limit too');
};

# The rule in its plainest form, with no thought for cost.
sub model_ask ($entries, $now, $limit, $window) {
    @$entries = grep { $_ > $now - $window } @$entries;
    my $until = sub ($entry) { return $entry + $window - $now };
    if (@$entries >= $limit) {
        my $wait = $until->($entries->[-$limit]);
        return ($wait, 0, $wait, $until->($entries->[-1]));
    }
    push @$entries, max($now, @$entries ? $entries->[-1] : 0);
    return (0, $limit - @$entries, $until->($entries->[0]), $until->($entries->[-1]));
}

# A time step: mostly small, often exactly to where a decision changes, at times far or backwards.
sub random_step ($entries, $now, $window) {
    my $kind = rand;
    return 0 if $kind < 0.25;
    return int rand $window / 20 if $kind < 0.55;
    if ($kind < 0.85 && @$entries) {
        my $boundary = $entries->[ rand @$entries ] + $window;
        return max($boundary - $now + int(rand 3) - 1, 0);
    }
    return -int(rand $window / 4) if $kind < 0.93;
    return -1 if $kind < 0.95;
    return int rand 3 * $window;
}

subtest 'a model says the same' => sub {
    my $seed = $ENV{RATE_LIMIT_SEED} // time;
    srand $seed;
    note "RATE_LIMIT_SEED=$seed";
    my ($steps, $different, $unsorted, $short_lived) = (0, 0, 0, 0);
    for my $round (1 .. 40) {
        my $key    = "model:$round";
        my $window = (1, 7, 1000, 60_000)[ rand 4 ] * 1000;
        my $usual  = (1, 2, 3, 10, 40)[ rand 5 ];
        my @entries;
        for (1 .. 200) {
            ++$steps;
            my $limit = rand() < 0.9 ? $usual : 1 + int rand 2 * $usual; # as after a reload
            $clock->move(random_step(\@entries, $clock->now, $window));
            my @before   = @entries;
            my $expected = join ' ', model_ask(\@entries, $clock->now, $limit, $window);
            my $got      = join ' ', $log->ask($key, $limit, $window);
            if ($got ne $expected) {
                ++$different;
                diag "limit $limit window $window now ", $clock->now, ": got $got, expected $expected, entries @before"
                    if $different <= 3;
            }
            if ($_ % 20 == 0) {
                my @kept = entries($key);
                ++$unsorted if !is_sorted(@kept) || "@kept" ne "@entries";
                # Redis counts lives in whole milliseconds
                ++$short_lived if $clock->now + time_to_live($key) + 1000 <= $kept[-1] + $window + 5 * $second;
            }
        }
    }
    cmp_ok($steps, '>=', 5000, "$steps steps");
    is($different,   0, 'each reply is the model\'s, number by number');
    is($unsorted,    0, 'the list is the model\'s, in order');
    is($short_lived, 0, 'the key outlives its state by 5 s');
};

subtest 'at the edges of encodings' => sub {
    my $window = 10 * $second;
    for my $limit (127 .. 129, 511 .. 513, 8192) {
        my $key    = "edge:$limit";
        my $grants = 0;
        for (1 .. $limit + 2) {
            my ($wait, $remaining) = $log->ask($key, $limit, $window);
            ++$grants if $wait == 0 && $remaining == $limit - $grants - 1;
            $clock->move(10);
        }
        my $began = (entries($key))[0];
        is($grants, $limit, "$limit of $limit");
        # As many more as have expired, wherever the cut goes through a node.
        my $expired = int($limit / 3) + 1;
        $clock->set($began + $window + 10 * ($expired - 1));
        is(scalar(grep { ($log->ask($key, $limit, $window))[0] == 0 } 1 .. $expired + 2), $expired, "$limit: $expired again");
        $clock->move(3 * $window);
    }
};

subtest 'through nginx' => sub {
    my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$server->address}; }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed;
server {
    listen %PORT%;
    location / {
        redis_rate_limit zone=z algorithm=sliding_log limit=3 window=10;
        empty_gif;
    }
}
END
    my $began = $clock->now;
    # seconds, status, Retry-After, remaining, reset
    for (
        [ 0,         200, undef, 2, 10 ],
        [ 1,         200, undef, 1, 10 ],
        [ 2,         200, undef, 0, 10 ],
        [ 5,         429, 5,     0, 7 ],
        [ 9.999999,  429, 1,     0, 3 ],
        [ 10,        200, undef, 0, 10 ],
        [ 10.5,      429, 1,     0, 10 ],
        [ 9,         429, 2,     0, 11 ],
        [ 11.000001, 200, undef, 0, 10 ],
        [ 1000,      200, undef, 2, 10 ],
        )
    {
        my ($at, $status, $retry_after, $remaining, $reset) = @$_;
        $clock->set($began + int($at * $second + 0.5));
        my $response = $nginx->get('/?key=vector');
        my $headers  = $response->{headers};
        is_deeply(
            [ $response->{status}, $headers->@{qw(retry-after x-ratelimit-remaining x-ratelimit-reset)} ],
            [ $status,             $retry_after, $remaining, $reset ],
            "at $at s: $status"
        );
    }
    $nginx->stop;
};

subtest 'no key without an end' => sub {
    my @keys = $redis->keys('*');
    ok(@keys > 0, scalar(@keys) . ' keys');
    is(join(' ', grep { $redis->pttl($_) == -1 } @keys), '', 'all have a time to live');
};

# What follows measures time, so on a Redis with a clock that runs.
$server = RateLimit::Redis->start_new;
$redis  = $server->client;
$log    = RateLimit::SlidingLog->new($redis);

# A list as so many grants would have left it, the last of them so many microseconds ago.
sub fill ($key, $count, $ago) {
    my ($seconds, $microseconds) = $redis->time->@*;
    my $newest = $seconds * $second + $microseconds - $ago;
    for (my $left = $count; $left > 0; $left -= 1000) {
        $redis->rpush($key, map { $newest - $left + $_ } 1 .. min(1000, $left));
    }
    $redis->pexpire($key, 3600_000);
}

# Microseconds of Redis's time that EVALSHA took since the statistics were reset.
sub time_spent () {
    my ($microseconds) = $redis->info('commandstats')->{cmdstat_evalsha} =~ /usec=(\d+)/;
    return $microseconds;
}

# Of one check where a list has 100,000 entries and where it has 100: the medians of some runs, by
# turns, so that a machine that is busy for a while slows down both. `limit` gives that of a list.
sub costs ($limit) {
    my %runs;
    for my $entries ((100_000, 100) x 25) {
        $redis->del('cost');
        fill('cost', $entries, $second);
        $redis->config_resetstat;
        $log->ask_often(100, 'cost', $limit->($entries), 3600 * $second);
        push $runs{$entries}->@*, time_spent() / 100;
    }
    return map { (sort { $a <=> $b } @$_)[12] } @runs{ 100_000, 100 };
}

subtest 'memory and time with many entries' => sub {
    fill('many', 100_000, $second);
    my $bytes = $redis->memory_usage('many', 'SAMPLES', 0) / 100_000;
    cmp_ok($bytes, '<=', 12, sprintf '%.2f bytes an entry', $bytes);

    my ($many, $few) = costs(sub ($entries) { 1_000_000 });
    cmp_ok($many / $few, '<=', 1.3, sprintf 'a grant takes %.1f us with 100,000 entries, %.1f us with 100', $many, $few);
    is($redis->llen('cost'), 200, 'all were granted');

    ($many, $few) = costs(sub ($entries) { $entries });
    cmp_ok($many / $few, '<=', 1.3, sprintf 'a denial takes %.1f us with 100,000 entries, %.1f us with 100', $many, $few);
    is($redis->llen('cost'), 100, 'all were denied');
};

subtest 'most entries expire at once' => sub {
    my $window = 60 * $second;
    fill('expired', 90_000, $window + $second);
    fill('expired', 10_000, $second);
    $redis->config_resetstat;
    is(($log->ask('expired', 100_000, $window))[1], 89_999, 'room for as many as have expired');
    my $microseconds = time_spent();
    is(scalar $redis->llen('expired'), 10_001, 'the expired entries are gone');
    cmp_ok($microseconds, '<', 5000, "in $microseconds us");
};

done_testing;
