package Bench::Picture;

# The picture of docs/benchmark.md, by gnuplot: one worker, 50,000 clients, at 1, 64 and 256
# connections.

use v5.36;
use Bench::Cells qw(cell_name);
use Exporter 'import';

our @EXPORT_OK = qw(draw);

# Colours of Okabe and Ito, which those tell apart, too, who do not see all colours: pale is
# limit_req, strong is this module; blue allows, orange refuses.
my @series = (
    [bare             => 'nginx alone',                  '#8c8c8c'],
    [limit_req        => 'limit_req, allowed',           '#56b4e9'],
    [gcra             => 'redis_rate_limit, allowed',  '#0072b2'],
    [limit_req_denied => 'limit_req, denied',            '#f0b429'],
    [denied           => 'redis_rate_limit, denied',   '#d55e00'],
);
$_->[1] =~ s/(?<!\\)_/\\_/g for @series;
my @connections = (1, 64, 256);

# One bar each: where it stands, how high, and what is written on it.
sub bars ($figures, $variant, $place, $value) {
    my @lines;
    for my $group (0 .. $#connections) {
        my ($cell, $bare) = map { cell_name($_, 1, $connections[$group], 50_000) } $variant, 'bare';
        my ($height, $label) = $value->($cell, $bare);
        push @lines, sprintf '%.2f %.4g %s', $group + ($place - 2) * 0.17, $height, $label;
    }
    return join "\n", @lines, 'e', '';
}

sub panel ($title, $settings, $blocks) {
    my @plots = map { ("'-' using 1:2 with boxes fillcolor rgb '$_->[2]' title '$_->[1]'", "'-' using 1:2:3 with labels offset 0,0.5 font ',9' notitle") } @series;
    return "set title \"$title\"\n$settings\nplot " . join(", \\\n    ", @plots) . "\n" . join('', map { ($_, $_) } @$blocks);
}

sub throughput ($figures) {
    my @blocks = map { my $i = $_; bars($figures, $series[$i][0], $i, sub ($cell, $bare) {
        my $ratio = $figures->ratio($cell, $bare, 'rate');
        return ($ratio, sprintf '%.2f', $ratio);
    }) } 0 .. $#series;
    return panel('Requests per second, nginx alone = 1', 'unset key; set yrange [0:*]; set ytics 0.25 format "%.2f"', \@blocks);
}

# Bars on a logarithmic scale have no foot that means anything: they begin at 10 us.
sub latency ($figures) {
    my @blocks = map { my $i = $_; bars($figures, $series[$i][0], $i, sub ($cell, $) {
        my $p99 = $figures->median_of($cell, 'p99');
        return ($p99, $p99 < 1000 ? sprintf '%.0f', $p99 : sprintf '%.*fk', $p99 < 10_000, $p99 / 1000);
    }) } 0 .. $#series;
    return panel('99th percentile of latency, microseconds', 'set key at screen 0.5,0.06 center center horizontal maxrows 1 width -1 samplen 1.2; set logscale y; set yrange [10:100000]; set ytics ("10" 10, "100" 100, "1000" 1000, "10 000" 10000, "100 000" 100000)', \@blocks);
}

# False where cells are missing.
sub draw ($figures, $file, $terminal = 'svg size 960,440 background "white" font "Helvetica,Arial,sans-serif,12"') {
    return 0 if !$figures->has(map { my $of = $_->[0]; map { cell_name($of, 1, $_, 50_000) } @connections } @series);
    my $places = join ', ', map { "\"$connections[$_] connection" . ($_ ? 's' : '') . "\" $_" } 0 .. $#connections;
    open my $gnuplot, '|-', 'gnuplot' or die "gnuplot: $!";
    print $gnuplot <<"END", throughput($figures), latency($figures), "unset multiplot\n";
set terminal $terminal
set output "$file"
set multiplot layout 1,2 margins 0.06,0.985,0.2,0.9 spacing 0.075,0
set style fill solid noborder
set boxwidth 0.16
set border 3 linecolor rgb "#444444"
set tics nomirror textcolor rgb "#222222"
set grid ytics linecolor rgb "#dddddd"
set xrange [-0.5:2.5]
set xtics ($places) scale 0
END
    close $gnuplot or die 'gnuplot failed';
    return 1;
}

1;
