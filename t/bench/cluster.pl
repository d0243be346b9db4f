# What docs/operating.md says of clusters: checks a second over one master and over three, on this
# one machine, with the load that makes them; and the CPU of Redis for each of them.
#
#     make && perl t/bench/cluster.pl

use v5.36;
use lib qw(t/lib t/bench);
use Bench::Machine qw(machine);
use List::Util qw(sum0);
use RateLimit::Cluster;
use RateLimit::Load qw(start_load);
use RateLimit::Measure qw(cpu_ns median print_table);
use RateLimit::Nginx;
use RateLimit::Wait qw(wait_until);
use Time::HiRes qw(time);

my $rounds  = $ENV{ROUNDS} // 3;
my $seconds = 5;

sub cpu_of ($cluster) { return sum0(map { cpu_ns($_->pid) } $cluster->nodes) }

# Script runs so far: in a cluster each is of one check, for keys are of different hash slots.
sub checks_of ($cluster) { return sum0(map { values $_->script_calls->%* } $cluster->nodes) }

# [checks a second, CPU microseconds of all nodes for each]
sub measure ($cluster, $nginx) {
    my $load = start_load($nginx->url('/?key='), connections => 64, script => ['t/bench/keys.lua', 10_000, 'run']);
    wait_until(sub { checks_of($cluster) > 1000 }) or die 'no checks';
    my ($checks, $cpu, $time) = (checks_of($cluster), cpu_of($cluster), time);
    wait_until(sub { time >= $time + $seconds }, $seconds + 1);
    $checks = checks_of($cluster) - $checks;
    my @figures = ($checks / (time - $time), (cpu_of($cluster) - $cpu) / 1000 / $checks);
    $load->finish;
    return \@figures;
}

my @rows;
for my $masters (1, 3) {
    my $cluster = RateLimit::Cluster->start_new(masters => $masters, replicas => 0);
    my $nginx   = RateLimit::Nginx->start_new(<<"END", workers => 1);
access_log off;
redis_rate_limit_backend default { mode cluster; ${\$cluster->servers} connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$arg_key zone=z:8m deny_cache=off;
server { listen %PORT%; location / { redis_rate_limit zone=z algorithm=gcra limit=1000 burst=1000 window=1s; empty_gif; } }
END
    my @figures = map { measure($cluster, $nginx) } 1 .. $rounds;
    push @rows, [$masters, sprintf('%.0f', median(map { $_->[0] } @figures)), sprintf '%.2f', median(map { $_->[1] } @figures)];
    $nginx->stop;
}
print_table(['masters', 'checks a second', 'CPU of Redis a check, microseconds'], @rows);
say '';
say "- $_->[0]: $_->[1]" for machine()->@*;
