# What each algorithm promises, over two nginx of two workers each on one Redis that are asked for
# more than it allows all the time. Judged by what Redis itself wrote.

use v5.36;
use lib 't/lib';
use List::Util qw(max);
use RateLimit::Load qw(start_requests);
use RateLimit::Nginx;
use RateLimit::Redis;
use Test::More;
use Time::HiRes qw(sleep time);

# 20 in 300 ms; buckets hold 10 units, one each 15 ms.
my ($limit, $window, $capacity) = (20, 300_000, 10);
my $interval = $window / $limit;
my %extra    = (
    aligned      => 'algorithm=fixed_window aligned',
    first        => 'algorithm=fixed_window',
    log          => 'algorithm=sliding_log',
    sliding      => 'algorithm=sliding_window',
    token_bucket => "algorithm=token_bucket burst=$capacity",
    gcra         => 'algorithm=gcra burst=' . ($capacity - 1),
    leaky_bucket => 'algorithm=leaky_bucket delay=9 burst=' . ($capacity - 1),
);

my $redis = RateLimit::Redis->start_new(appendonly => 'yes', appendfsync => 'no');
my @nginx = map {
    RateLimit::Nginx->start_new(<<"END", workers => 2)
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$uri zone=z:1m on_error=closed;
redis_rate_limit_log_level info;
server {
    listen %PORT%;
    ${\join '', map { "location /$_ { redis_rate_limit zone=z $extra{$_} limit=$limit window=300ms name=$_; empty_gif; }\n" } keys %extra}
    ${\join '', map { "location /wait-$_ { redis_rate_limit zone=z $extra{$_} limit=$limit window=1500ms name=wait-$_; empty_gif; }\n" } keys %extra}
}
END
} 1 .. 2;

sub key ($name) { return "rl:{z:/$name}:" . ($extra{$name} =~ s/algorithm=(\w+).*/$1/r) . ":300:$name" }

my $client = $redis->client;
sub redis_time { my ($seconds, $microseconds) = $client->time->@*; return $seconds * 1_000_000 + $microseconds }

# Three seconds at three times of what passes.
my $began   = redis_time();
my %load    = map { my $name = $_; $name => [ map { start_requests($_->url("/$name"), 300, connections => 8, rate => 100) } @nginx ] } keys %extra;
my %passed;
for my $name (keys %load) {
    for my $result (map { $_->finish } $load{$name}->@*) {
        is($result->{broken} + $result->{faults}, 0, "$name: all have verdicts");
        $passed{$name} += $result->{passed};
    }
}
my $elapsed = redis_time() - $began;
note sprintf '%.1f s', $elapsed / 1_000_000;

for my $name (qw(first aligned)) {
    my @states = $redis->states(key($name));
    is(scalar @states, $passed{$name}, "$name: as many grants in Redis as 200s at the clients");
    my %most; # by the window's end
    for my $state (@states) {
        my ($end, $units) = @$state;
        $end = sprintf '%d', $end - $end % $window if $end != int $end; # with the mark of when its count began
        $most{$end} = max($most{$end} // 0, $units);
    }
    my @ends = sort { $a <=> $b } keys %most;
    is(max(values %most), $limit, "$name: up to the limit in a window, never more");
    is(scalar(grep { $ends[$_] - $ends[ $_ - 1 ] < $window } 1 .. $#ends), 0, "$name: none of " . @ends . ' windows overlap');
    is(scalar(grep { $_ % $window } @ends), 0, 'and all end at a multiple of their length') if $name eq 'aligned';
    my $grants = 0;
    $grants += $_ for values %most;
    is($grants, $passed{$name}, "$name: each grant is in a window");
}

{
    my @grants = $redis->grants(key('log'));
    is(scalar @grants, $passed{log}, 'log: as many grants in Redis as 200s at the clients');
    is(scalar(grep { $grants[$_] - $grants[ $_ - $limit ] < $window } $limit .. $#grants), 0, 'log: never more in any window');
}

{
    # The fractions of units are marks of when their count began.
    my @states = map { my ($start, @units) = @$_; [ $start, map { int } @units ] } $redis->states(key('sliding'));
    is(scalar @states, $passed{sliding}, 'sliding: as many grants in Redis as 200s at the clients');
    cmp_ok(max(map { $_->[1] + $_->[2] } @states), '<=', 2 * $limit - 1, 'sliding: never twice the limit in two windows');
    my %most;
    $most{ $_->[0] } = $_->[1] for @states;
    is(scalar(grep { $_->[2] != ($most{ $_->[0] - $window } // 0) } @states), 0, 'sliding: each window knows the one before');
    my $grants = 0;
    $grants += $_ for values %most;
    is($grants, $passed{sliding}, 'sliding: each grant is in a window');
}

# A grant of time t led to a state that is at most $capacity intervals after it and at least one: so
# where states are an interval apart, n grants take at least n - $capacity intervals.
for my $name (qw(token_bucket gcra leaky_bucket)) {
    my @states = map { $_->[0] } $redis->states(key($name));
    is(scalar @states, $passed{$name}, "$name: as many grants in Redis as 200s at the clients");
    is(scalar(grep { $states[$_] - $states[ $_ - 1 ] < $interval } 1 .. $#states), 0, "$name: each took its interval");
    my $most = $capacity + $elapsed / $interval;
    cmp_ok($passed{$name}, '<=', $most, sprintf '%s: never more than its capacity and what came back, %.0f', $name, $most);
}

# And hardly fewer than that, for there was always somebody to ask.
cmp_ok($passed{$_}, '>', 0.7 * 3 * 1_000_000 / $interval, "$_: $passed{$_} passed in 3 s") for grep { $_ ne 'sliding' } keys %extra;

subtest 'whoever waits for Retry-After gets through' => sub {
    my %due;
    for my $name (keys %extra) {
        my $response;
        do { $response = $nginx[0]->get("/wait-$name") } while $response->{status} == 200;
        $due{$name} = time + $response->{headers}{'retry-after'};
    }
    for my $name (sort { $due{$a} <=> $due{$b} } keys %due) {
        my $wait = $due{$name} - time;
        sleep $wait if $wait > 0; # what it said
        is($nginx[1]->get("/wait-$name")->{status}, 200, $name);
    }
};

$_->stop for @nginx;
done_testing;
