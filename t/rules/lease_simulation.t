# Hosts that lease, simulated with the real lease book and the real scripts: see t/simulation.

use v5.36;
use Test::More;

my $built = $ENV{OPTIMIZED} // 'build/simulation';
my $said  = qx{perl t/simulation/run.pl $built/lease_simulation_tests --gtest_brief=1 2>&1};
is($?, 0, 'hosts grant nearly all that the rule grants, and never more') or diag($said);

done_testing;
