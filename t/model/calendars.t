# The windows of calendars against Python's zoneinfo, an independent reader of the system's tz database.
# CALENDARS=long asks for all zones, which takes minutes.

use v5.36;
use Test::More;

my $program = 'build/cmake/print_windows';
my $seed    = $ENV{RATE_LIMIT_SEED} // int rand 1e9;
my ($zones, $instants) = ($ENV{CALENDARS} // '') eq 'long' ? (0, 1000) : (20, 30);

plan skip_all => 'built without cctz' if qx{echo 'Europe/Berlin day 1' | $program} =~ /no zone/;

my $said = qx{python3 t/model/calendar/windows.py $program $zones $instants $seed 2>&1};
is($?, 0, "all windows are those of zoneinfo, with RATE_LIMIT_SEED=$seed") or diag($said);
my ($compared) = $said =~ /(\d+) instants/;
cmp_ok($compared // 0, '>', 10_000, 'many were compared') or diag($said);
note $said;

done_testing;
