# Writes docs/benchmark.md, docs/benchmark.svg and the README's section from what requests.pl, leases.pl,
# scripts.pl, streams.pl and connections.pl have left in build/bench, and prints the tables. After a run of
# some cells only, or with DRAFT set, all of it goes to build/bench.

use v5.36;
use lib qw(t/lib t/bench);
use Bench::Cells qw(base_loads based_cell_name cell_name loads);
use Bench::Figures;
use Bench::Goals qw(goals);
use Bench::LeaseTables qw(lease_tables);
use Bench::Picture qw(draw);
use Bench::Text qw(number percent plural short_number);
use Bench::Variants qw(@based);
use JSON::PP;
use List::Util qw(max min);
use RateLimit::Measure qw(median table);
use RateLimit::Nginx;

my $figures = Bench::Figures->load('build/bench/requests.json');
my $leases  = JSON::PP->new->decode(RateLimit::Nginx::slurp('build/bench/leases.json'));
my $scripts = RateLimit::Nginx::slurp('build/bench/scripts.md');
my ($streams, $connections) = map { RateLimit::Nginx::slurp("build/bench/$_.md") } qw(streams connections);
my $is_real = $figures->{is_full} && !$ENV{DRAFT};
my $docs    = $is_real ? 'docs' : 'build/bench';

# What limit_req does of the same kind: the cell of the load that it is compared with.
sub limit_req_of ($cell, $measured) {
    my ($found) = grep { $_->{variant}{name} =~ /^(?:proxied_)?limit_req/ && $_->{variant}{denies} == $cell->{variant}{denies} } @$measured;
    return $found && $found->{name};
}

sub ratio ($cell, $to, $figure) {
    return $to && $figures->has($to) ? sprintf '%.2f', $figures->ratio($cell->{name}, $to, $figure) : '-';
}

sub row ($cell, $measured) {
    my ($bare) = map { $_->{name} } grep { $_->{variant}{name} =~ /^(?:proxied_)?bare$/ } @$measured;
    my %of = map { $_ => $figures->median_of($cell->{name}, $_) } qw(rate nginx redis calls p50 p99 p999);
    return [
        $cell->{variant}{label},
        number($of{rate}),
        ratio($cell, $bare, 'rate'),
        ratio($cell, limit_req_of($cell, $measured), 'rate'),
        (map { sprintf '%.0f', $of{$_} } qw(p50 p99 p999)),
        sprintf('%.2f', $of{nginx}),
        ratio($cell, $bare, 'nginx'),
        sprintf('%.2f', $of{redis}),
        short_number($of{calls}, 4),
    ];
}

sub load_tables () {
    my $text = '';
    for my $load (loads()) {
        my @measured = grep { $figures->has($_->{name}) } @$load or next;
        my %of = $measured[0]->%*;
        $text .= '### ' . join(', ', plural($of{connections}, 'connection'), plural($of{workers}, 'worker'), plural($of{clients}, 'client'),
            $of{is_held} ? 'all on one core' : (), $of{part} eq 'proxied' ? 'by Zipf\'s law, proxied to an upstream on the same machine' : ()) . "\n\n";
        $text .= table(['variant', 'requests/s', 'of bare', 'of limit_req', 'p50 us', 'p99 us', 'p99.9 us', 'nginx CPU us', 'of bare', 'Redis CPU us', 'Redis calls'],
            map { row($_, \@measured) } @measured) . "\n";
    }
    return $text;
}

# The medians of the rounds' ratios.
sub base_table () {
    my @pairs = grep { $figures->has(@$_) } map { [map { based_cell_name($_) } $_, "base_$_"] } @based;
    return '' if !@pairs;
    my %label = map { $_->{name} => $_->{variant}{label} } map { @$_ } base_loads();
    return "## Beside $figures->{base}\n\nOne worker, 64 connections, 50,000 clients; each figure of this version to that of commit $figures->{base}.\n\n"
        . table(['variant', 'requests/s', 'nginx CPU', 'Redis CPU', 'p99'],
            map { my ($of, $to) = @$_; [$label{$of}, map { sprintf '%.3f', $figures->ratio($of, $to, $_) } qw(rate nginx redis p99)] } @pairs) . "\n";
}

sub noise () {
    my @others = map { $figures->median_of($_, 'others') } keys $figures->{cells}->%*;
    return sprintf 'Other processes used %s of the CPU (the median of all cells, at most %s).', percent(max(0, median(@others))), percent(max(0, @others));
}

# The load generator's own cost is the bound of what can be measured.
sub generator () {
    my $bare = cell_name('bare', 1, 64, 50_000);
    return '' if !$figures->has($bare);
    my %us = map { $_ => $figures->median_of($bare, $_) } qw(wrk nginx);
    return sprintf "wrk takes %.1f us of CPU\nfor a request, nginx alone %.1f: what costs nginx little shows in its CPU, and hardly in requests/s.", @us{qw(wrk nginx)};
}

# What shows of the work itself.
sub pings_added_on_one_core () {
    my ($bare, $gcra) = map { cell_name($_, 'held', 1, 50_000) } qw(bare gcra);
    return '' if !$figures->has($bare, $gcra);
    return sprintf ', and `gcra` added %.2f times that to p50', $figures->pings_added('held', $gcra, $bare);
}

sub document () {
    my ($rounds, $seconds) = $figures->@{qw(rounds seconds)};
    my %ping = map { $_ => sprintf '%.1f', $figures->ping($_) } qw(free held);
    my $machine = join '', map { "- $_->[0]: $_->[1]\n" } $figures->{machine}->@*;
    return <<"END";
# What it costs

Written by `make bench`; no number here was entered by hand, but what others publish of themselves.

![Requests per second beside nginx alone, and 99th percentiles](benchmark.svg)

One worker, 50,000 clients, headers off.

## Requests

${\load_tables()}## Leases

${\lease_tables($figures, $leases)}
${\base_table()}## Scripts

Redis alone: CPU of one pipelined check, beside a script that takes the same keys and arguments and
returns one integer, beside the sorted-set log of the textbooks, and of three rules beside one. `live
entries` are those that a key holds already.

$scripts
## Streams

nginx's CPU for a part of a stream that it passes on with `proxy_buffering off`, with
[redis_rate_limit_response_value](directives.md#redis_rate_limit_response_value) and without. The upstream sends each
part once the client has the one before.

$streams
## Connections of stream

[stream](stream.md): each connection is accepted, limited, answered with a line and closed, by 32 clients at once. What
is proxied goes to another server of the same worker, whose CPU counts, too. The bound is 15 % more CPU.

$connections
## How it was measured

$machine
**The load generator, nginx and Redis share these cores.** Where Redis has a host of its own, nginx has
the CPU that Redis takes here, and a check takes a round trip over the network. ${\generator()}
${\noise()}

Each variant is a location with `empty_gif`, in one nginx; access_log is off, and neither limiter logs its
refusals unless the table says so. wrk sends requests of so many clients by keep-alive connections, one client after another,
by the same script in all cells. Each client is known to the limiter before, and denied where it is
to be: one that is allowed never reaches its limit, one that is denied may send one request an hour
(`limit_req`: a minute), so denials come out of the deny cache. A cell with a single wrong status ends
the run. `limit_req` counts on this host alone, in shared memory; this module counts for all hosts.

The kernel places the processes. With one connection most of what a PING takes, and a request, is
waking another core up; so there is a table with all processes held on one core, too, where a PING
took $ping{held} us@{[ pings_added_on_one_core() ]}.

`requests/s`, p50 and CPU are medians over @{[ plural($rounds, 'round') ]}; a round has
processes of its own, and measures each cell once, for @{[ plural($seconds, 'second') ]}.
**Ratios are not quotients of these columns.** They are the medians of the rounds' own ratios, because what
disturbs the machine in a round disturbs both cells, so they may differ from the quotients by a tenth:
`of bare` to the same nginx without a limiter, `of limit_req` to
`limit_req` allowing or denying the same load. CPU is that of all workers, and of Redis, for one
request. `Redis calls` are calls of scripts for one request; checks of one turn of nginx's event loop
share a call.

## Goals

${\table(goals($figures, $leases))}
One worker, and 64 connections unless it says otherwise. A round trip of a PING took $ping{free} us at
p50. The empty EVALSHA is sent by this module, one for each request, with the same keys and
arguments.
END
}

# What the README tells: rows of one load.
sub key_ratios () {
    my ($load) = grep { my %of = $_->[0]->%*; $of{part} eq '' && $of{workers} == 1 && $of{connections} == 64 && $of{clients} == 50_000 } loads();
    my @rows = map { row($_, $load) } grep { $_->{variant}{name} =~ /^(?:gcra|three|denied)$/ } @$load;
    return table(map { [@$_[0, 1, 2, 3, 8, 4, 5]] } ['64 connections, 1 worker', 'requests/s', 'of bare', 'of limit_req', 'p50 us', 'p99 us', '', '', 'nginx CPU of bare'], @rows);
}

# What the check of an allowed request makes of nginx's CPU, where that is least and where it is most.
sub range_of_allowed () {
    my @ratios;
    for my $load (loads()) {
        my @measured = grep { $figures->has($_->{name}) } @$load;
        push @ratios, map { row($_, \@measured)->[8] } grep { $_->{variant}{name} =~ /^(?:proxied_)?gcra$/ } @measured;
    }
    return (min(@ratios), max(@ratios));
}

sub readme_section () {
    my ($least, $most) = range_of_allowed();
    my ($cpu) = $figures->{machine}[0][1];
    my %version = map { @$_ } $figures->{machine}->@*;
    return <<"END";
## What it costs

![Requests per second beside nginx alone, and 99th percentiles](docs/benchmark.svg)

`make bench` on an $cpu, with nginx $version{nginx} and Redis $version{Redis}: keep-alive
connections on `empty_gif`, 50,000 clients. nginx, Redis and the load generator share the cores.

${\key_ratios()}
Over all loads, an allowed request (gcra, headers off) takes $least to $most times the CPU of nginx alone: least where many
are checked together, most where one waits alone. [docs/benchmark.md](docs/benchmark.md) has all loads and the method.

END
}

print 'Goals', "\n\n", table(goals($figures, $leases)), "\n", load_tables(), lease_tables($figures, $leases), base_table(), "$scripts\n", "$streams\n", $connections;
mkdir $docs;
draw($figures, "$docs/benchmark.svg") or say 'No picture: its cells were not measured.';
RateLimit::Nginx::write_file("$docs/benchmark.md", document() =~ s/\n+\z/\n/r);
if ($is_real) {
    my $section = readme_section();
    my $readme  = RateLimit::Nginx::slurp('README.md');
    $readme =~ s/^## What it costs\n.*?(?=^## )/$section/ms or die "README.md has no section \"What it costs\"\n";
    RateLimit::Nginx::write_file('README.md', $readme);
}
say "$docs/benchmark.md and $docs/benchmark.svg are written.";
