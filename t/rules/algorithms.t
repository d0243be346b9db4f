# Every algorithm against its model, on a clock that the test moves: see t/model.

use v5.36;
use lib 't/lib';
use RateLimit::Clock;
use RateLimit::Redis;
use Test::More;

my $built = $ENV{OPTIMIZED} // 'build/simulation';
my $seed  = $ENV{RATE_LIMIT_SEED} // int rand 1e9;
note "RATE_LIMIT_SEED=$seed";
my $clock = RateLimit::Clock->new(1_700_000_000_000_000);
my $redis = RateLimit::Redis->start_new(clock => $clock);

local %ENV = (%ENV, $clock->environment, RATE_LIMIT_REDIS_PORT => $redis->conf->{port}, RATE_LIMIT_SEED => $seed);
delete local $ENV{LD_PRELOAD}; # the test's own clock goes on
my $said = qx{$built/algorithm_tests --gtest_brief=1 2>&1};
is($?, 0, "each algorithm decides as its model does, with RATE_LIMIT_SEED=$seed") or diag($said);

done_testing;
