# Fleets of hosts in one process, with faults of all kinds, held against what the module promises: see
# docs/contributing.md. With WORLDS of at least 1600 each fault has to hit something a hundred times.

use v5.36;
use Test::More;

# A killed worker leaves its memory as it is.
$ENV{ASAN_OPTIONS} = join ':', $ENV{ASAN_OPTIONS} // (), 'detect_leaks=0';

my $simulate = ($ENV{OPTIMIZED} // 'build/simulation') . '/simulate';

sub simulate ($options) {
    my $said = qx{$simulate $options 2>&1};
    return ($? >> 8, $said);
}

my $worlds = $ENV{WORLDS} // 50;
my ($status, $said) = simulate("--seed 1 --worlds $worlds --seconds 5");
is($status, 0, 'what it promises holds') or diag($said);
my %happened = map { /^ *(\d+)  (.*)$/ ? ($2 => $1) : () } split /\n/, $said;
my @rare = grep { $happened{$_} < ($worlds < 1600 ? 1 : 100) } sort keys %happened;
@rare = grep { !/^(?:names not found|answered (?:BUSY|LOADING|OOM|MISCONF|NOREPLICAS|TRYAGAIN|an unknown error)|connections without an answer)$/ } @rare if $worlds < 1600;
is("@rare", '', 'each fault hits something') or diag($said);

open my $seeds, '<', 't/simulation/seeds.txt' or die "seeds.txt: $!";
for my $seed (grep { /^--/ } <$seeds>) {
    chomp $seed;
    my ($status, $said) = simulate($seed);
    is($status, 0, "nothing is wrong any more: $seed") or diag($said);
}

done_testing;
