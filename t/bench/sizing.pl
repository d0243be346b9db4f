# What docs/operating.md says of sizes: the memory of a counter, and how many checks one Redis can
# decide in a second of CPU. Prints its tables. It takes build/cmake/print_script and an idle machine:
#
#     cmake --build build/cmake --target print_script && perl t/bench/sizing.pl

use v5.36;
use lib qw(t/lib t/bench);
use Bench::Machine qw(machine);
use Bench::Scripts qw(arguments ask source wire $fill);
use IO::Socket::INET;
use List::Util qw(max min);
use RateLimit::Measure qw(cpu_ns median print_table);
use RateLimit::Redis;
use Socket qw(IPPROTO_TCP TCP_NODELAY);

my $rounds = $ENV{ROUNDS} // 15;
my $redis  = RateLimit::Redis->start_new;
my $client = $redis->client;
my $socket = IO::Socket::INET->new(PeerAddr => $redis->address) // die "connect: $!";
setsockopt $socket, IPPROTO_TCP, TCP_NODELAY, 1 or die "TCP_NODELAY: $!";

my @algorithms = qw(fixed_window sliding_window gcra sliding_log concurrency);
my %label      = (gcra => 'gcra, token_bucket, leaky_bucket');
my %sha        = map { $_ => $client->script_load(source($_)) } @algorithms;

sub number ($number) { return sprintf('%.0f', $number) =~ s/(?<=\d)(?=(?:\d{3})+$)/,/gr }

# As docs/redis.md has it: of an address, in a zone and with a window of common lengths.
sub key ($algorithm, $number) { return sprintf 'rl:{per_ip:203.0.%d.%d}:%s:3600000', $number >> 8, $number & 255, $algorithm }

# --- memory

# The checks that make a counter: one for each permit, or of many units at once.
sub checks_for ($algorithm, $key, $entries) {
    my $at_once = $algorithm eq 'sliding_log' ? 1000 : 1;
    my @checks;
    for (my $left = $entries; $left > 0; $left -= $at_once) {
        my @arguments = arguments($algorithm, $left);
        $arguments[1] = min($left, $at_once) if $algorithm eq 'sliding_log';
        push @checks, wire('EVALSHA', $sha{$algorithm}, 1, $key, @arguments);
    }
    return @checks;
}

sub used_memory () { return $client->info('memory')->{used_memory} }

# Of a key in a Redis of many, with its part of the tables of keys and of expiries; and what MEMORY
# USAGE says of it.
sub memory ($algorithm, $entries) {
    my $keys = max(10, min(100_000, int(1_000_000 / $entries)));
    $client->flushall;
    my $before = used_memory;
    my @checks;
    for my $number (1 .. $keys) {
        push @checks, checks_for($algorithm, key($algorithm, $number), $entries);
        ask($socket, join('', splice @checks, 0, 100), 100) while @checks >= 100;
    }
    ask($socket, join('', @checks), scalar @checks) if @checks;
    die 'keys are missing' if $client->dbsize != $keys;
    my $all = (used_memory() - $before) / $keys;
    return [$label{$algorithm} // $algorithm, $algorithm =~ /log|concurrency/ ? number($entries) : '-',
        number($all), number($client->memory('usage', key($algorithm, 1), 'samples', 0)), $entries > 1 ? sprintf '%.1f', $all / $entries : '-'];
}

memory('gcra', 1); # buffers come to be
my @memory = (
    (map { memory($_, 1) } qw(fixed_window sliding_window gcra)),
    (map { memory('sliding_log', $_) } 1, 10, 100, 1000, 100_000),
    (map { memory('concurrency', $_) } 1, 10, 100, 1000),
);
print_table(['algorithm', 'entries', 'bytes a key', 'MEMORY USAGE', 'bytes an entry'], @memory);

# --- CPU

my $checks = 6_400; # of one round, each of another key
my %batch  = map { $_ => $client->script_load(source('batch', $_)) } grep { $_ ne 'concurrency' } @algorithms;
my $release = $client->script_load(source('refund', 'concurrency'));

sub checks_alone ($algorithm, @numbers) {
    return map { wire('EVALSHA', $sha{$algorithm}, 1, key($algorithm, $_), arguments($algorithm, $_)) } @numbers;
}

sub checks_in_a_batch ($algorithm, @numbers) {
    return wire('EVALSHA', $batch{$algorithm}, scalar @numbers, (map { key($algorithm, $_) } @numbers), arguments($algorithm, 0));
}

sub releases ($algorithm, @numbers) {
    return map { wire('EVALSHA', $release, 1, key($algorithm, $_), (arguments($algorithm, $_))[-1]) } @numbers;
}

# Writes of so many checks each, as pairs of their bytes and how many replies they have.
sub writes ($make, $algorithm, $size) {
    my @writes;
    for (my $first = 1; $first <= $checks; $first += $size) {
        my @commands = $make->($algorithm, $first .. $first + $size - 1);
        push @writes, [join('', @commands), scalar @commands];
    }
    return \@writes;
}

my @modes = ([1, \&checks_alone], [8, \&checks_in_a_batch], [64, \&checks_in_a_batch], [8, \&checks_alone], [64, \&checks_alone]);
my @cases;
for my $algorithm (@algorithms) {
    my $shares_batches = exists $batch{$algorithm};
    push @cases, {
        algorithm => $algorithm,
        entries   => $shares_batches && $algorithm ne 'sliding_log' ? 0 : 100,
        writes    => [map { $_->[1] != \&checks_in_a_batch || $shares_batches ? writes($_->[1], $algorithm, $_->[0]) : undef } @modes],
        releases  => [map { $shares_batches ? [] : writes(\&releases, $algorithm, $_->[0]) } @modes],
        took      => [],
    };
}

# CPU microseconds a check. Slots are given back by a write after that of their checks.
sub measure ($case, $mode) {
    my ($writes, $releases) = ($case->{writes}[$mode], $case->{releases}[$mode]);
    my $before = cpu_ns($redis->pid);
    for my $i (0 .. $#$writes) {
        ask($socket, $writes->[$i]->@*);
        ask($socket, $releases->[$i]->@*) if @$releases;
    }
    return (cpu_ns($redis->pid) - $before) / $checks / 1000;
}

for my $case (@cases) {
    $client->flushall;
    $client->eval($fill, 1, key($case->{algorithm}, $_), $case->{entries}, $case->{algorithm}) for $case->{entries} ? 1 .. $checks : ();
    ask($socket, $_->@*) for writes(\&checks_alone, $case->{algorithm}, 64)->@*;
    for my $round (1 .. $rounds) {
        push $case->{took}[$_]->@*, measure($case, $_) for grep { $case->{writes}[$_] } 0 .. $#modes;
    }
}

sub label ($case) { return $label{ $case->{algorithm} } // $case->{algorithm} }

sub rows ($show) {
    return map {
        my $case = $_;
        [label($case), $case->{entries} || '-', map { $_ ? $show->(median(@$_)) : '-' } map { $case->{took}[$_] } 0 .. $#modes]
    } @cases;
}

# What so many masters of a cluster carry, each half busy: with one check a write, and with eight.
sub carried ($case, $masters) {
    return join ' to ', map { number(int($masters * 500 / median($case->{took}[$_]->@*)) * 1000) } 0, 3;
}

my @heads = ('algorithm', 'live entries', '1 a write', '8, a batch', '64, a batch', '8, each alone', '64, each alone');
say "\nCPU microseconds of a check";
print_table(\@heads, rows(sub ($took) { sprintf '%.2f', $took }));
say "\nThousands of checks in a second of CPU";
print_table(\@heads, rows(sub ($took) { number(1000 / $took) }));
say "\nChecks a second that masters of a cluster carry";
my @masters = (1, 3, 6, 12);
print_table(['algorithm', '1 master', map { "$_ masters" } @masters[1 .. $#masters]], map { my $case = $_; [label($case), map { carried($case, $_) } @masters] } @cases);
say '';
say "- $_->[0]: $_->[1]" for grep { $_->[0] !~ /nginx|wrk|commit/ } machine()->@*;
