# One seed is one run, whatever the compiler, the processor and the addresses of memory: PROGRAMS are commands that run
# simulated fleets, separated by semicolons. `make test-same-runs` builds them. By default the one of `make test` runs
# twice, once without random addresses.

use v5.36;
use Test::More;

# A killed worker leaves its memory as it is.
$ENV{ASAN_OPTIONS} = join ':', $ENV{ASAN_OPTIONS} // (), 'detect_leaks=0';

my $built    = ($ENV{OPTIMIZED} // 'build/simulation') . '/simulate';
my @programs = split /;\s*/, $ENV{PROGRAMS} // "$built; setarch -R $built";
my $worlds   = $ENV{WORLDS} // 3;

# All that happens in the worlds of some seeds.
sub hash_of ($program, $seed) {
    my $said = qx{$program --seed $seed --worlds $worlds 2>&1};
    return $said =~ /^(SHA-256 .*)$/m ? $1 : $said;
}

my $first = hash_of($programs[0], 7);
is(hash_of($_, 7), $first, "$_: the run of the first one") for @programs[1 .. $#programs];
isnt(hash_of($programs[0], 7 + $worlds), $first, 'another seed is another run');

done_testing;
