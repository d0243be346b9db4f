package Bench::LeaseTables;

# What docs/benchmark.md says of leases, from the figures of requests.pl and leases.pl. What was not
# measured is left out.

use v5.36;
use Bench::Accuracy qw(@accuracy_windows $accuracy_limit);
use Bench::Cells qw(lease_cell_name lease_loads);
use Bench::Hosts qw(@host_places @host_variants %lease_seconds);
use Bench::Latency qw(latency_variants $latency_rate);
use Bench::Text qw(number percent plural short_number);
use Bench::Variants qw(variant_named);
use Exporter 'import';
use RateLimit::Measure qw(median table);
use RateLimit::Nginx;

our @EXPORT_OK = qw(lease_tables);

# The cell without leases that one with leases is compared with.
sub without_leases ($cell) {
    my $name = $cell->{variant}{name};
    return $name =~ s/_leased$/_of_60/ && lease_cell_name($name, $cell->@{qw(clients choice)});
}

sub request_row ($figures, $cell) {
    my %of        = map { $_ => $figures->median_of($cell->{name}, $_) } qw(rate nginx redis reads p50 p99);
    my $limit_req = lease_cell_name('limit_req', $cell->@{qw(clients choice)});
    my @ratios    = map { $_ && $figures->has($_) ? sprintf '%.2f', $figures->ratio($cell->{name}, $_, 'rate') : '-' } $limit_req, without_leases($cell);
    return [
        $cell->{variant}{label}, number($of{rate}), @ratios, (map { number($of{$_}) } qw(p50 p99)),
        (map { sprintf '%.2f', $of{$_} } qw(nginx redis)), short_number($of{reads}, 5),
    ];
}

sub request_tables ($figures) {
    my $text = '';
    for my $load (lease_loads()) {
        my @measured = grep { $figures->has($_->{name}) } @$load or next;
        my %of       = $measured[0]->%*;
        my $choice   = $of{clients} == 1 ? '' : $of{choice} eq 'zipf' ? ', by Zipf\'s law' : ', evenly';
        $text .= '### ' . plural($of{clients}, 'client') . "$choice\n\n";
        $text .= table(['variant', 'requests/s', 'of limit_req', 'of no lease', 'p50 us', 'p99 us', 'nginx CPU us', 'Redis CPU us', 'calls'],
            map { request_row($figures, $_) } @measured) . "\n";
    }
    return $text && <<"END" . $text;
64 connections, 1 worker, headers off; each load runs for four seconds before it is measured. `calls` are
checks, leases and returns for one request, however many of them share a call of a script. The rules
are of 60 s and never deny, so a lease of `auto` holds for 3.75 s with `gcra`, and for 1.875 s with
`fixed_window`.

By Zipf's law the second client sends half as often as the first one, the third a third as often, and
so on: most clients are seen less than four times in the time of a lease, which is too seldom for one.

END
}

sub latency_table ($latency) {
    my @variants = grep { $latency->{ $_->[0] } } latency_variants();
    return <<"END" . table(['variant', map { "$_ ms" } qw(p50 p99 p99.9)], map { my ($name, $label) = @$_; [$label, map { sprintf '%.2f', median($latency->{$name}{$_}->@*) } qw(p50 p99 p999)] } @variants) . "\n";
### Redis 20 ms away

One client at ${\number($latency_rate)} requests a second, which come at random, and a relay that delays by 10 ms each way. What
a request waits for a connection is a part of its time. A `fixed_window` begins at least once in the
time that is measured, and its first requests do wait for Redis.

END
}

sub host_row ($hosts, $place, $name) {
    my $of        = $hosts->{$place}{$name};
    my @limit_req = $hosts->{$place}{limit_req}{rate}->@*;
    my $ratio     = median(map { $of->{rate}[$_] / $limit_req[$_] } 0 .. $#limit_req);
    return [
        $place, variant_named($name)->{label}, number(median($of->{rate}->@*)), sprintf('%.2f', $ratio),
        sprintf('%.2f', median($of->{nginx}->@*)), short_number(median($of->{calls}->@*), 2),
    ];
}

sub host_table ($hosts) {
    my @rows = map { my $place = $_; map { host_row($hosts, $place, $_) } @host_variants } @host_places;
    return <<"END" . table(['by', 'variant', 'requests/s', 'of limit_req', 'nginx CPU us', 'calls per host and lease'], @rows) . "\n";
### Several workers and hosts

One client, 64 connections by four processes of wrk, on the same two cores. Calls are those in the
time of a lease, ${\short_number($lease_seconds{gcra_leased}, 3)} seconds of `gcra` and ${\short_number($lease_seconds{fixed_window_leased}, 3)} of `fixed_window`.

END
}

sub accuracy_row ($row) {
    my @windows = map { join ' to ', map { percent($_, 1) } $row->{windows}{$_}->@* } @accuracy_windows;
    return [$row->{algorithm}, percent($row->{asked}), $row->{lease}, percent($row->{leased}), percent($row->{granted}, 1), @windows];
}

sub accuracy_table ($rows) {
    my @heads = ('algorithm', 'asked', 'lease', 'by leases', 'granted', map { "in $_ s" } @accuracy_windows);
    return <<"END" . table(\@heads, map { accuracy_row($_) } @$rows) . "\n" . RateLimit::Nginx::slurp('t/bench/published.md');
### Accuracy

Two hosts of two workers, and a client that asks both for more than its limit of ${\number($accuracy_limit)} requests a
second, at random. `by leases` is of the requests that were granted, all else of the limit: what is
granted on average, and the least and the most in windows that follow each other. A grant counts in a
window if it was asked for and answered there. `fixed_window` is aligned. A `token_bucket` may grant
more in a second than the limit, by what it did not grant before.

END
}

sub lease_tables ($figures, $leases) {
    return join '', request_tables($figures), map { $leases->{ $_->[0] } ? $_->[1]->($leases->{ $_->[0] }) : '' }
        ['latency', \&latency_table], ['hosts', \&host_table], ['accuracy', \&accuracy_table];
}

1;
