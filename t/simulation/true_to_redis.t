# The Redis of simulated fleets replies as a real one does, byte for byte: see docs/contributing.md. RUNS is how many
# fleets there are.

use v5.36;
use lib 't/lib';
use RateLimit::Clock;
use RateLimit::Redis;
use Test::More;

my $built = $ENV{OPTIMIZED} // 'build/simulation';
my $runs  = $ENV{RUNS} // 6;
my $clock = RateLimit::Clock->new(1_700_000_000_000_000);
my $redis = RateLimit::Redis->start_new(clock => $clock);

local %ENV = (%ENV, $clock->environment, RATE_LIMIT_REDIS_PORT => $redis->conf->{port});
delete local $ENV{LD_PRELOAD}; # the test's own clock goes on
my $said = qx{$built/true_to_redis $runs 2>&1};
is($?, 0, 'no reply differs') or diag($said);
my ($commands) = $said =~ /^(\d+) commands of $runs runs$/m;
cmp_ok($commands // 0, '>', 100 * $runs, 'of many commands') or diag($said);

done_testing;
