# The long run: a site under load, to which one thing after another happens, with healthy stretches
# between; see Soak/Episodes.pm. After each all is as it was before, and limits held.
#
# Environment: MINUTES, how long about (30), and SEED, of all that happens by chance (1).

use v5.36;
use lib qw(t/lib t/soak);
use List::Util qw(max shuffle);
use RateLimit::Processes qw(private_memory);
use Soak::Episodes qw(between @warm_up @of_redis @of_nginx);
use Soak::Judge;
use Soak::Site;
use Test::More;
use Time::HiRes qw(sleep time);

my ($minutes, $seed) = ($ENV{MINUTES} // 30, $ENV{SEED} // 1);
$minutes =~ /^[1-9]\d*$/ or die "MINUTES is a number from 1\n";
$seed =~ /^\d+$/         or die "SEED is a number\n";

my $site  = Soak::Site->start_new;
my $judge = Soak::Judge->new($site);
my $began = time;
diag "soak of $minutes minutes, SEED=$seed";

# What happens by chance is the same in each run, whatever took how long before.
sub run ($number, $episode) {
    srand $number;
    subtest $episode->{name} => sub {
        my $load = $site->start_load($number);
        sleep between(0.3, 0.8);
        my $is_done = eval { $episode->{code}->($site); 1 };
        is($is_done ? '' : $@, '', 'happens');
        ok($site->decides_by_redis, 'then Redis decides');
        sleep between(0.3, 0.8);
        my $said = $judge->judge($episode, $load->finish);
        diag sprintf '%5.1f min  %-44s %s', (time - $began) / 60, $episode->{name}, $said;
    };
}

# Rounds of all of them, each in another order, for a part of the time.
sub run_rounds ($name, $part, @episodes) {
    state $first_number = 1_000_000 * $seed;
    diag $name;
    my $end = time + 60 * $minutes * $part;
    for (my $number = $first_number += 100_000; time < $end; $number += 1 + @episodes) {
        srand $number;
        my @round = shuffle(@episodes);
        while (time < $end && @round) {
            run($number + @round, shift @round);
        }
    }
}

run($_, $warm_up[$_]) for 0 .. $#warm_up;
run_rounds('faults of Redis and of clients', 1 / 4, @of_redis);
my %memory = map { $_ => private_memory($_) } $site->nginx->workers;
run_rounds('faults of Redis and of clients, by now no more memory is taken', 1 / 4, @of_redis);
is(join(' ', sort $site->nginx->workers), join(' ', sort keys %memory), 'the workers are those of the beginning');
my $grown = max(map { private_memory($_) - $memory{$_} } keys %memory);
diag sprintf 'they have grown by %d kB', $grown / 1024;
cmp_ok($grown, '<', 1024 * 1024, 'and hold no more memory');
run_rounds('faults of nginx', 1 / 2, @of_nginx);
$judge->stop;
done_testing;
