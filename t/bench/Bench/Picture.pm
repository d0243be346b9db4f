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
    [bare             => 'nginx alone',               '#8c8c8c'],
    [limit_req        => 'limit_req, allowed',        '#56b4e9'],
    [gcra             => 'redis_rate_limit, allowed', '#0072b2'],
    [limit_req_denied => 'limit_req, denied',         '#f0b429'],
    [denied           => 'redis_rate_limit, denied',  '#d55e00'],
);
my @connections = (1, 64, 256);

# One mark each: where it stands, how high, and what is written on it.
sub marks ($figures, $variant, $place, $value) {
    my @lines;
    for my $group (0 .. $#connections) {
        my ($cell, $bare) = map { cell_name($_, 1, $connections[$group], 50_000) } $variant, 'bare';
        my ($height, $label) = $value->($cell, $bare);
        push @lines, sprintf '%.2f %.4g %s', $group + ($place - 2) * 0.17, $height, $label;
    }
    return join "\n", @lines, 'e', '';
}

sub panel ($title, $style, $settings, $blocks) {
    my @plots = map { ("'-' using 1:2 with $style rgb '$_->[2]'", "'-' using 1:2:3 with labels offset 0,0.7 font ',9'") } @series;
    return "set title '$title'\n$settings\nplot " . join(", \\\n    ", @plots) . "\n" . join('', map { ($_, $_) } @$blocks);
}

# Without the zero before the point: there is no room for it.
sub short ($text) { return $text =~ s/^0\././r }

sub throughput ($figures) {
    my @blocks = map { my $i = $_; marks($figures, $series[$i][0], $i, sub ($cell, $bare) {
        my $ratio = $figures->ratio($cell, $bare, 'rate');
        return ($ratio, short(sprintf '%.2f', $ratio));
    }) } 0 .. $#series;
    return panel('Requests per second, nginx alone = 1', 'boxes fillcolor', 'set yrange [0:*]; set ytics 0.25 format "%.2f"', \@blocks);
}

# Points: a logarithmic scale has no foot on which bars could stand.
sub latency ($figures) {
    my @blocks = map { my $i = $_; marks($figures, $series[$i][0], $i, sub ($cell, $) {
        my $milliseconds = $figures->median_of($cell, 'p99') / 1000;
        return ($milliseconds, short($milliseconds < 10 ? sprintf('%.*f', $milliseconds < 1 ? 2 : 1, $milliseconds) : sprintf '%.0f', $milliseconds));
    }) } 0 .. $#series;
    return panel('99th percentile of latency, milliseconds', 'points pointtype 7 pointsize 0.9 linecolor',
        'set logscale y; set yrange [0.03:30]; set ytics ("0.1" 0.1, "1" 1, "10" 10)', \@blocks);
}

# gnuplot's own would stand in columns.
sub legend () {
    my @at = (0.06, 0.185, 0.36, 0.605, 0.775);
    return join '', map {
        sprintf "set object %d rectangle from screen %.3f,0.035 to screen %.3f,0.065 fillcolor rgb '%s' fillstyle solid noborder\n"
            . "set label %d '%s' at screen %.3f,0.05 left\n", $_ + 1, $at[$_], $at[$_] + 0.014, $series[$_][2], $_ + 1, $series[$_][1], $at[$_] + 0.02
    } 0 .. $#series;
}

# False where cells are missing.
sub draw ($figures, $file, $terminal = 'svg size 960,440 background "white" noenhanced font "Helvetica,Arial,sans-serif,12"') {
    return 0 if !$figures->has(map { my $of = $_->[0]; map { cell_name($of, 1, $_, 50_000) } @connections } @series);
    my $places = join ', ', map { "\"$connections[$_] connection" . ($_ ? 's' : '') . "\" $_" } 0 .. $#connections;
    open my $gnuplot, '|-', 'gnuplot' or die "gnuplot: $!";
    print $gnuplot <<"END", legend(), throughput($figures), latency($figures), "unset multiplot\n";
set terminal $terminal
set output "$file"
set multiplot layout 1,2 margins 0.06,0.985,0.16,0.9 spacing 0.075,0
set style fill solid noborder
set boxwidth 0.16
unset key
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
