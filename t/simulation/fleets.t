# Fleets of hosts in one process, with faults of all kinds, held against what the module promises: see
# docs/contributing.md.

use v5.36;
use Test::More;

# A killed worker leaves its memory as it is.
$ENV{ASAN_OPTIONS} = join ':', $ENV{ASAN_OPTIONS} // (), 'detect_leaks=0';

sub simulate ($options) {
    my $said = qx{build/cmake/simulate $options 2>&1};
    return ($? >> 8, $said);
}

my ($status, $said) = simulate('--seed 1 --worlds 50 --seconds 5');
is($status, 0, 'what it promises holds') or diag($said);
my %happened = map { /^ *(\d+)  (.*)$/ ? ($2 => $1) : () } split /\n/, $said;
my @rare     = grep { !$happened{$_} } 'granted by Redis', 'granted by a lease', 'rejected', 'without a verdict',
    'clients that left before', 'settled for less', 'settled for as much or more', 'connections broken while sending', 'connections broken while answering',
    'connections refused', 'commands that a stall held up', 'commands in pieces', 'replies in pieces', 'outages',
    'outages with loss of data', 'SCRIPT FLUSH', 'workers killed', 'workers stopped', 'workers that left',
    'answered MOVED', 'answered ASK', 'answered READONLY', 'hash slots that moved', 'masters that live on as replicas',
    'masters that died and came back', 'clocks stepped back', 'clocks stepped forward', 'keys of the wrong type',
    'rejected by the deny cache', 'blocked', 'overrides written', 'clients reset', 'FLUSHALL by an operator', 'reloads with other rules';
is("@rare", '', 'each fault hits something') or diag($said);

open my $seeds, '<', 't/simulation/seeds.txt' or die "seeds.txt: $!";
for my $seed (grep { /^--/ } <$seeds>) {
    chomp $seed;
    my ($status, $said) = simulate($seed);
    is($status, 0, "nothing is wrong any more: $seed") or diag($said);
}

my @hashes = map { (simulate('--seed 7 --worlds 3'))[1] =~ /^(SHA-256 .*)$/m } 1 .. 2;
is($hashes[0], $hashes[1], 'a seed is always the same run');
my ($other) = (simulate('--seed 8 --worlds 3'))[1] =~ /^(SHA-256 .*)$/m;
isnt($other, $hashes[0], 'and another one is not');

done_testing;
