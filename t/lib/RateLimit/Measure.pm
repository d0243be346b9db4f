package RateLimit::Measure;

# What benchmarks share: CPU time of a process, load by wrk, medians, a Markdown table.

use v5.36;
use Exporter 'import';

our @EXPORT_OK = qw(cpu_ns wrk median print_table);

# CPU time of a process's main thread so far, in nanoseconds: nginx's workers and Redis do their
# work there.
sub cpu_ns ($pid) {
    open my $file, '<', "/proc/$pid/schedstat" or die "/proc/$pid/schedstat: $!";
    return (split ' ', <$file>)[0];
}

# One run of wrk with one thread: requests, and p50 and p99 in microseconds.
sub wrk ($url, %options) {
    my @command = ('wrk', '-t1', "-c$options{connections}", "-d$options{seconds}s", '--latency', $url);
    open my $wrk, '-|', @command or die "wrk: $!";
    my $text = do { local $/; <$wrk> };
    close $wrk or die "wrk failed: $text";
    my %unit = (us => 1, ms => 1_000, s => 1_000_000);
    my %result;
    ($result{requests}, $result{seconds}) = $text =~ /(\d+) requests in ([\d.]+)s/ or die $text;
    $result{refused} = $text =~ /Non-2xx or 3xx responses: (\d+)/ ? $1 : 0;
    for my $percent (50, 99) {
        my ($number, $of) = $text =~ /^\s+$percent%\s+([\d.]+)(us|ms|s)/m or die $text;
        $result{"p$percent"} = $number * $unit{$of};
    }
    return \%result;
}

sub median (@numbers) {
    my @sorted = sort { $a <=> $b } @numbers;
    my $middle = int(@sorted / 2);
    return @sorted % 2 ? $sorted[$middle] : ($sorted[$middle - 1] + $sorted[$middle]) / 2;
}

# Rows of equal length, the first the heads.
sub print_table (@rows) {
    my @width;
    for my $row (@rows) {
        for my $i (0 .. $#$row) {
            $width[$i] = length $row->[$i] if ($width[$i] // 0) < length $row->[$i];
        }
    }
    splice @rows, 1, 0, [map { '-' x $_ } @width];
    for my $row (@rows) {
        say '| ', join(' | ', map { sprintf "%-*s", $width[$_], $row->[$_] } 0 .. $#$row), ' |';
    }
}

1;
