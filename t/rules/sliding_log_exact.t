# The promise of the sliding log, over two nginx of two workers each on one Redis: never more
# grants than the limit in any window, and not fewer than it allows. Judged by the grants' times
# as Redis itself wrote them.

use v5.36;
use lib 't/lib';
use RateLimit::Load qw(start_requests);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $second = 1_000_000;

# A busy machine may delay a reply, but here no check may end without one.
my $redis = RateLimit::Redis->start_new(appendonly => 'yes', appendfsync => 'no');
my @nginx = map {
    RateLimit::Nginx->start_new(<<"END", workers => 2)
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$uri zone=z:1m on_error=closed;
redis_rate_limit_log_level info;
server {
    listen %PORT%;
    location /long {
        redis_rate_limit zone=z algorithm=sliding_log limit=1000 window=10;
        empty_gif;
    }
    location /short {
        redis_rate_limit zone=z algorithm=sliding_log limit=5 window=200ms;
        empty_gif;
    }
}
END
} 1 .. 2;

# So many requests in all, at 64 connections, by halves; the sums of the results.
sub load ($path, $count, %options) {
    my @loads = map { start_requests($_->url($path), $count / 2, connections => 32, %options) } @nginx;
    my %sum;
    for my $result (map { $_->finish } @loads) {
        $sum{$_} += $result->{$_} for keys %$result;
    }
    is($sum{broken}, 0, "$path: all $count have answers");
    is($sum{faults}, 0, "$path: and all of these are verdicts");
    return $sum{passed};
}

# The most grants in any window that is open at its end: those at t and before t + window.
sub most_in_any_window ($window, @grants) {
    my ($first, $most) = (0, 0);
    for my $last (0 .. $#grants) {
        ++$first while $grants[$first] <= $grants[$last] - $window;
        $most = $last - $first + 1 if $last - $first + 1 > $most;
    }
    return $most;
}

subtest '20,000 requests, 1000 in 10 s' => sub {
    my $key    = 'rl:{z:/long}:sliding_log:10000';
    my $passed = load('/long', 10_000);
    my ($began) = $redis->grants($key);
    my $client  = $redis->client;
    my $age     = sub {
        my ($seconds, $microseconds) = $client->time->@*;
        return $seconds * $second + $microseconds - $began;
    };
    cmp_ok($age->(), '<', 10 * $second, 'the first load fits into the first window');
    is($passed, 1000, 'of which it fills exactly');

    # The rest comes while the first grants cease to count, and after it.
    wait_until(sub { $age->() > 9.7 * $second }, 20);
    $passed += load('/long', 10_000, rate => 5000);
    cmp_ok($age->(), '>', 10 * $second, 'the second load lasts beyond it');

    my @grants = $redis->grants($key);
    is(scalar @grants, $passed, 'as many grants in Redis as 200s at the clients');
    is(scalar(grep { $_ < $began + 10 * $second } @grants), 1000, '1000 in the first window');
    is(most_in_any_window(10 * $second, @grants), 1000, 'and never more in any');
    is($passed, 2000, 'a second thousand when the first is over');
};

subtest 'many short windows' => sub {
    my $key    = 'rl:{z:/short}:sliding_log:200';
    my $passed = load('/short', 12_000, rate => 2000);
    my @grants = $redis->grants($key);
    is(scalar @grants, $passed, 'as many grants in Redis as 200s at the clients');
    is(most_in_any_window($second / 5, @grants), 5, 'never more than 5 in 200 ms');
    my $windows = ($grants[-1] - $grants[0]) / ($second / 5);
    cmp_ok($windows, '>', 5, sprintf '%.1f windows long', $windows);
    # Each grant comes free 200 ms later, and here somebody always asks soon.
    cmp_ok(@grants / 5, '>', 0.8 * $windows, 'and hardly fewer');
};

$_->stop for @nginx;
done_testing;
