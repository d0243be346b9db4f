# What leases give beside requests a second, which requests.pl measures: latency where Redis is far
# away, several workers and hosts, and accuracy. Leaves its figures in build/bench/leases.json for
# report.pl.
#
# Environment: as for requests.pl. CELLS is a pattern of `lease latency`, `lease hosts` and `lease
# accuracy`. Latency and accuracy have times of their own, and SECONDS are those of several hosts.

use v5.36;
use lib qw(t/lib t/bench);
use Bench::Accuracy qw(measure_accuracy);
use Bench::Hosts qw(measure_hosts);
use Bench::Latency qw(measure_latency);
use JSON::PP;
use RateLimit::Nginx;
use Test::More;

my ($rounds, $seconds) = ($ENV{ROUNDS} // 9, $ENV{SECONDS} // 1);
my $wanted = $ENV{CELLS} // '';

STDOUT->autoflush;
my %measure = (
    latency  => sub { measure_latency($rounds) },
    hosts    => sub { measure_hosts($rounds, 4 * $seconds) },
    accuracy => sub { measure_accuracy() },
);
my %figures;
for my $name (grep { "lease $_" =~ /(?:$wanted)/ } sort keys %measure) {
    my $began = time;
    $figures{$name} = $measure{$name}->();
    printf "%s of leases in %d s\n", $name, time - $began;
}
mkdir 'build/bench';
RateLimit::Nginx::write_file('build/bench/leases.json', JSON::PP->new->canonical->indent->encode(\%figures));
done_testing;
