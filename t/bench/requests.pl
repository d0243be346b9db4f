# What a limiter costs a request, beside nginx without one and beside limit_req: see Bench/Cells.pm
# for what is measured. Rounds are outermost, each measures every cell once, so that a machine that
# gets slower does so for all; the first round warms up. Leaves the figures of all rounds in
# build/bench/requests.json for report.pl.
#
# Environment: ROUNDS (9), SECONDS of one cell in one round (1), and CELLS, a pattern of cells' names
# where not all are wanted; BASE_MODULE, the module of another commit to compare with.

use v5.36;
use lib qw(t/lib t/bench);
use Bench::Cells qw(cells);
use Bench::Machine qw(cores machine);
use Bench::Variants qw(is_taken_by start_servers);
use Cwd qw(abs_path);
use JSON::PP;
use List::Util qw(sum0);
use RateLimit::Certificates;
use RateLimit::Measure qw(cpu_ns machine_seconds hold_on median wrk visit ping_us);
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use Test::More;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my ($rounds, $seconds) = ($ENV{ROUNDS} // 9, $ENV{SECONDS} // 1);
my $wanted = $ENV{CELLS} // '';

# Denials hold for a minute, by limit_req as by the deny cache: cells of one load that follow each
# other may use the same ones.
$seconds =~ /^[1-9]\d*$/ && $seconds <= 15 or die "SECONDS is a number from 1 to 15\n";
$rounds =~ /^[1-9]\d*$/ or die "ROUNDS is a number from 1\n";

STDOUT->autoflush;
my $machine = machine();
my $cores   = cores();
my $trust   = RateLimit::Certificates->new;
my $redis   = RateLimit::Redis->start_new(
    $trust->redis_settings($trust->issue('redis', 'IP:127.0.0.1'), empty_port()),
    unixsocket     => 'redis.sock',
    unixsocketperm => 777,
);
my $client = $redis->client;
my $base   = $ENV{BASE_MODULE} && abs_path($ENV{BASE_MODULE});
my (%servers, %workers);

# Where a process lies in memory makes its requests a tenth dearer or cheaper for as long as it lives, so each
# round has new ones.
sub restart_servers () {
    hold_together(0);
    $_->stop for values %servers;
    %servers = start_servers(
        $redis, $trust->certificate('authority'),
        abs_path('build/empty_script/build/ngx_http_redis_rate_limit_module.so'),
        $base,
    );
    %workers = map { $_ => [$servers{$_}->workers] } keys %servers;
}

sub script_calls () { return sum0(values $redis->script_calls->%*) }

# Each client is known before, as in a site that has been up for a while, and denied where it is to
# be. Nothing is left in Redis of cells with other clients, where it would expire meanwhile.
sub prepare ($cell, $server, $path, $run) {
    state $kept = '';
    my $keeps = $cell->{variant}{denies} ? $run : '';
    $client->flushall if !$keeps || $keeps ne $kept;
    $kept = $keeps;
    my $expected = $cell->{variant}{denies} ? 429 : 200;
    my $statuses = {};
    for my $visit (1 .. 3) { # the first one of a client that is to be denied may pass
        $statuses = visit($server->port, $path, clients => $cell->{clients}, run => $run);
        return if !grep { $_ != $expected } keys %$statuses;
    }
    die "$cell->{name}: ", join(', ', map { "$statuses->{$_} of $_" } sort keys %$statuses), " in the place of $expected\n";
}

# Elsewhere the kernel places the processes. wrk inherits it.
sub hold_together ($together) {
    state $are_together = 0;
    return if $together == $are_together;
    hold_on($together ? 0 : '0-' . ($cores - 1), $$, $redis->pid, map { @$_ } values %workers);
    $are_together = $together;
}

# Figures of one cell in one round. `others` is what neither wrk nor nginx nor Redis used: the share of
# the machine that was not ours.
sub measure ($cell, $run, $time) {
    my ($name, $denies) = $cell->{variant}->@{qw(name denies)};
    my $served_by = $cell->{variant}{server} // $cell->{workers};
    my ($server, $path) = ($servers{$served_by}, "/$name?client=");
    prepare($cell, $server, $path, $run);
    hold_together($cell->{is_held});
    my $load = sub ($seconds) {
        return wrk($server->url($path), $cell->%{qw(connections clients choice)}, run => $run, seconds => $seconds);
    };
    $load->($cell->{warm_up}) if $cell->{warm_up};
    my $spent    = counters($served_by);
    my $result   = $load->($time);
    my $now      = counters($served_by);
    my $requests = $result->{requests};
    $result->{refused} == ($denies ? $requests : 0) or die "$cell->{name}: $result->{refused} of $requests refused\n";
    $spent->{$_} = $now->{$_} - $spent->{$_} for keys %$now;
    check_calls($cell, $spent->{calls} / $requests);
    return {
        rate   => $requests / $result->{seconds},
        nginx  => $spent->{nginx} / $requests * 1_000_000,
        redis  => $spent->{redis} / $requests * 1_000_000,
        wrk    => $result->{cpu} / $requests * 1_000_000,
        calls  => $spent->{calls} / $requests,
        reads  => $spent->{reads} / $requests,
        others => ($spent->{machine} - $spent->{nginx} - $spent->{redis} - $result->{cpu}) / $spent->{time} / $cores,
        map { $_ => 0 + $result->{$_} } qw(p50 p99 p999),
    };
}

# wrk does not count what is under way when it ends.
sub check_calls ($cell, $calls) {
    my $expected = $cell->{variant}{calls} // return;
    die "$cell->{name}: $calls calls for each request, expected $expected\n" if abs($calls - $expected) > 0.02;
}

# Seconds, calls of scripts, and how often those have read a counter.
sub counters ($served_by) {
    my ($calls, $reads) = (script_calls, $redis->counter_reads);
    return {
        calls   => $calls,
        reads   => $reads,
        nginx   => sum0(map { cpu_ns($_) } $workers{$served_by}->@*) / 1e9,
        redis   => cpu_ns($redis->pid) / 1e9,
        machine => machine_seconds,
        time    => clock_gettime(CLOCK_MONOTONIC),
    };
}

my @cells = grep { $_->{name} =~ /(?:$wanted)/ } cells();
@cells or die "CELLS names no cell\n";
@cells = grep { ($_->{variant}{server} // '') ne 'base' || is_taken_by($base, $_->{variant}) } @cells;
my (%figures, %ping);
for my $round (0 .. $rounds) {
    my $began = time;
    my %round_trip;
    restart_servers;
    for my $held (0, 1) {
        hold_together($held);
        $round_trip{$held ? 'held' : 'free'} = ping_us($redis->conf->{port});
    }
    my %of    = map { $_->{name} => measure($_, "r$round-$_->{load}", $round ? $seconds : 1) } @cells;
    printf "round %d of %d: %d cells in %d s, others used %.0f%% of the CPU\n", $round, $rounds, scalar @cells, time - $began,
        100 * median(map { $_->{others} } values %of);
    next if !$round;
    push $ping{$_}->@*, $round_trip{$_} for keys %round_trip;
    for my $name (keys %of) {
        push $figures{$name}{$_}->@*, $of{$name}{$_} for keys $of{$name}->%*;
    }
}

mkdir 'build/bench';
RateLimit::Nginx::write_file('build/bench/requests.json', JSON::PP->new->canonical->indent->encode({
    machine => $machine,
    rounds  => $rounds,
    seconds => $seconds,
    base    => $ENV{BASE_MODULE} ? $ENV{BASE_MODULE} =~ m{base/(\w{7})} : undef,
    is_full => $wanted eq '' ? JSON::PP::true : JSON::PP::false,
    ping    => \%ping,
    cells   => \%figures,
}));
$_->stop for values %servers;
done_testing;
