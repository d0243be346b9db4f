package RateLimit::Measure;

# What benchmarks share: CPU time of a process, load by wrk, round trips to Redis, medians, a
# Markdown table.

use v5.36;
use Exporter 'import';
use IO::Socket::INET;
use List::Util qw(sum);
use POSIX qw(sysconf _SC_CLK_TCK);
use Socket qw(IPPROTO_TCP TCP_NODELAY);
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

our @EXPORT_OK = qw(cpu_ns machine_seconds hold_on wrk visit ping_us median table print_table);

# CPU time of a process's main thread so far, in nanoseconds: nginx's workers and Redis do their
# work there.
sub cpu_ns ($pid) {
    open my $file, '<', "/proc/$pid/schedstat" or die "/proc/$pid/schedstat: $!";
    return (split ' ', <$file>)[0];
}

# CPU time that the whole machine has spent so far: all of /proc/stat but idle and waiting.
sub machine_seconds () {
    open my $file, '<', '/proc/stat' or die "/proc/stat: $!";
    my (undef, @ticks) = split ' ', <$file>;
    return (sum @ticks[0 .. 2, 5 .. 7]) / sysconf(_SC_CLK_TCK);
}

# From now on these processes run on one of the CPUs, like `0` or `0-1`, alone.
sub hold_on ($cpus, @processes) {
    for (@processes) {
        my $said = qx{taskset -a -p -c $cpus $_ 2>&1};
        die "taskset: $said" if $?;
    }
}

# One run of wrk with one thread, and with t/bench/keys.lua: requests, how many of them were refused,
# seconds, latencies in microseconds, and wrk's own CPU seconds. Options: connections, seconds, clients,
# run, a part of the clients' names, and choice, `evenly` or `zipf`.
sub wrk ($url, %options) {
    my @command = ('wrk', '-t1', "-c$options{connections}", "-d$options{seconds}s", '-s', 't/bench/keys.lua', $url,
        '--', @options{qw(clients run)}, $options{choice} // 'evenly');
    my $cpu_before = cpu_of_children();
    open my $wrk, '-|', @command or die "wrk: $!";
    my $text = do { local $/; <$wrk> };
    close $wrk or die "wrk failed: $text";
    my %result;
    @result{qw(requests seconds refused broken p50 p99 p999)} =
        $text =~ /^figures: (\d+) requests (\d+) us (\d+) refused (\d+) broken p50 (\d+) p99 (\d+) p999 (\d+)$/m or die $text;
    $result{seconds} /= 1_000_000;
    $result{cpu} = cpu_of_children() - $cpu_before;
    die "$url: $result{broken} requests without an answer\n" if $result{broken};
    return \%result;
}

# Seconds, of those that have ended.
sub cpu_of_children () {
    my (undef, undef, $user, $system) = times;
    return $user + $system;
}

# Asks once for each client that wrk will ask for, and returns how often each status was the answer.
# Pipelined on some connections: it takes less time than wrk, and knows when it has got round.
sub visit ($port, $path, %options) {
    my @sockets = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) // die "connect: $!" } 1 .. 32;
    my @clients = 1 .. $options{clients};
    my %statuses;
    while (@clients) {
        my @asked = map { [$_, splice @clients, 0, 25] } @sockets;
        for (@asked) {
            my ($socket, @of) = @$_;
            $socket->syswrite(join '', map { sprintf "GET $path$options{run}-%06d HTTP/1.1\r\nHost: localhost\r\n\r\n", $_ } @of);
        }
        for (@asked) {
            my ($socket, @of) = @$_;
            ++$statuses{$_} for statuses_of($socket, scalar @of);
        }
    }
    return \%statuses;
}

# What is left of the last response is read before the next ones.
sub statuses_of ($socket, $count) {
    my ($text, @statuses) = '';
    while (@statuses < $count) {
        $socket->sysread($text, 65536, length $text) or die 'nginx has closed the connection';
        @statuses = $text =~ m{HTTP/1\.1 (\d+) }g;
    }
    return @statuses;
}

# The median of a Redis PING's round trip, in microseconds. redis-benchmark tells it in steps of 8.
sub ping_us ($port) {
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) // die "connect: $!";
    setsockopt $socket, IPPROTO_TCP, TCP_NODELAY, 1 or die "TCP_NODELAY: $!";
    my @took;
    for (1 .. 20_000) {
        my $began = clock_gettime(CLOCK_MONOTONIC);
        syswrite $socket, "*1\r\n\$4\r\nPING\r\n";
        sysread $socket, my $pong, 64;
        push @took, clock_gettime(CLOCK_MONOTONIC) - $began;
    }
    return 1_000_000 * median(@took);
}

sub median (@numbers) {
    my @sorted = sort { $a <=> $b } @numbers;
    my $middle = int(@sorted / 2);
    return @sorted % 2 ? $sorted[$middle] : ($sorted[$middle - 1] + $sorted[$middle]) / 2;
}

# Rows of equal length, the first the heads.
sub table (@rows) {
    my @width;
    for my $row (@rows) {
        for my $i (0 .. $#$row) {
            $width[$i] = length $row->[$i] if ($width[$i] // 0) < length $row->[$i];
        }
    }
    splice @rows, 1, 0, [map { '-' x $_ } @width];
    return join '', map {
        my $row = $_;
        '| ' . join(' | ', map { sprintf "%-*s", $width[$_], $row->[$_] } 0 .. $#$row) . " |\n"
    } @rows;
}

sub print_table (@rows) { print table(@rows) }

1;
