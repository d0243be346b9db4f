package Bench::Goals;

# What the module sets itself, and whether a run of the benchmark met it.

use v5.36;
use Bench::Cells qw(based_cell_name cell_name lease_cell_name proxied_cell_name);
use Exporter 'import';
use List::Util qw(max min);
use RateLimit::Measure qw(median);

our @EXPORT_OK = qw(goals);

my @leasable = qw(gcra fixed_window);

sub goal ($what, $value, $relation, $bound, $digits = 2) {
    my $is_met = $relation eq '<' ? $value < $bound : $relation eq '<=' ? $value <= $bound : $value >= $bound;
    return [$what, sprintf("%.${digits}f", $value), "$relation $bound", $is_met ? 'yes' : '**no**'];
}

# Refusing one client, or many, beside limit_req doing so.
sub flood ($figures, $what, $clients, $limit_req, $off, $default) {
    ($limit_req, $off, $default) = map { cell_name($_, 1, 64, $clients) } $limit_req, $off, $default;
    return if !$figures->has($limit_req, $off, $default);
    my $calls = 1000 * max(map { $figures->median_of($_, 'calls') } $off, $default);
    return (
        goal("$what: requests/s of limit_req's, headers off",     $figures->ratio($off,     $limit_req, 'rate'), '>=', 1.0),
        goal("$what: requests/s of limit_req's, default headers", $figures->ratio($default, $limit_req, 'rate'), '>=', 0.9),
        goal("$what: Redis commands per 1000 requests", $calls, '<', 1),
    );
}

# Where both write each refusal to a log.
sub logged ($figures) {
    my ($limit_req, $denied) = map { cell_name($_, 1, 64, 50_000) } qw(limit_req_logged denied_logged);
    return if !$figures->has($limit_req, $denied);
    return (
        goal("denied and logged: requests/s of limit_req's", $figures->ratio($denied, $limit_req, 'rate'),  '>=', 0.98),
        goal("denied and logged: nginx CPU of limit_req's",  $figures->ratio($denied, $limit_req, 'nginx'), '<=', 1.04),
    );
}

# Of the commit that is compared with.
sub based ($figures) {
    my ($now, $then) = map { based_cell_name($_) } qw(gcra base_gcra);
    return if !$figures->has($now, $then);
    return map { goal("allowed: $_->[0] of that of $figures->{base}", $figures->ratio($now, $then, $_->[1]), '<=', 0.90) }
        ['nginx CPU', 'nginx'], ['Redis CPU', 'redis'];
}

# By one worker, by one on each core, and where all processes share a core.
sub allowed ($figures, $what, $workers) {
    my ($bare, $limit_req, $off, $default) =
        map { cell_name($_, $workers, 64, 50_000) } qw(bare limit_req gcra gcra_headers);
    return if !$figures->has($bare, $limit_req, $off, $default);
    return (
        goal("$what: requests/s of limit_req's, headers off",    $figures->ratio($off, $limit_req, 'rate'), '>=', 0.60),
        goal("$what: nginx CPU added, of bare's, headers off",   $figures->ratio($off,     $bare, 'nginx') - 1, '<=', 0.20),
        goal("$what: nginx CPU added, of bare's, default headers", $figures->ratio($default, $bare, 'nginx') - 1, '<=', 0.35),
    );
}

# Before an upstream on the same machine, where most clients are few.
sub proxied ($figures) {
    my ($limit_req, $checked, $leased) = map { proxied_cell_name($_) } qw(limit_req gcra gcra_leased);
    return if !$figures->has($limit_req, $checked, $leased);
    return (
        goal("proxied: requests/s of limit_req's, headers off", $figures->ratio($checked, $limit_req, 'rate'), '>=', 0.74),
        goal("proxied, lease=auto: requests/s of limit_req's",  $figures->ratio($leased,  $limit_req, 'rate'), '>=', 1.0),
    );
}

sub script ($figures) {
    my ($batched, $empty) = map { cell_name($_, 1, 64, 50_000) } qw(gcra empty_script);
    return if !$figures->has($batched, $empty);
    return goal('allowed: Redis CPU of a check, of an empty EVALSHA\'s', $figures->ratio($batched, $empty, 'redis'), '<=', 1.5);
}

sub tls ($figures) {
    my ($plain, $tls) = map { cell_name($_, 1, 64, 50_000) } qw(gcra tls);
    return if !$figures->has($plain, $tls);
    return goal('TLS to Redis: nginx CPU, of that without', $figures->ratio($tls, $plain, 'nginx'), '<=', 1.3);
}

sub alone ($figures) {
    my ($bare, @ours) = map { cell_name($_, 1, 1, 50_000) } qw(bare gcra gcra_headers);
    return if !$figures->has($bare, @ours);
    my $what = 'one connection: p50 added, of a PING to Redis';
    return (
        goal("$what, headers off",     $figures->pings_added('free', $ours[0], $bare), '<=', 1.5),
        goal("$what, default headers", $figures->pings_added('free', $ours[1], $bare), '<=', 1.5),
    );
}

# Requests of some clients that are busy enough for leases.
sub leased ($figures, $what, $rate, $calls, @clients) {
    my $limit_req = lease_cell_name('limit_req', @clients);
    my @goals;
    for my $algorithm (@leasable) {
        my $cell = lease_cell_name("${algorithm}_leased", @clients);
        next if !$figures->has($limit_req, $cell);
        push @goals,
            goal("lease, $what, $algorithm: requests/s of limit_req's", $figures->ratio($cell, $limit_req, 'rate'), '>=', $rate),
            goal("lease, $what, $algorithm: calls a request",           $figures->median_of($cell, 'reads'),        '<=', $calls, 5);
    }
    return @goals;
}

sub not_leased ($figures) {
    my @goals;
    for my $algorithm (@leasable) {
        my ($cell, $without) = map { lease_cell_name("${algorithm}_$_", 50_000) } qw(leased of_60);
        next if !$figures->has($cell, $without);
        push @goals, goal("lease, no client busy, $algorithm: requests/s of those without lease", $figures->ratio($cell, $without, 'rate'), '>=', 0.98);
    }
    return @goals;
}

sub far_redis ($latency) {
    my @goals;
    for my $algorithm (@leasable) {
        for my $figure (qw(p50 p99)) {
            my ($of, $to) = map { $latency->{$_}{$figure} } "${algorithm}_leased", 'limit_req';
            my $added = median(map { $of->[$_] - $to->[$_] } 0 .. $#$of);
            push @goals, goal("lease, Redis 20 ms away, $algorithm: $figure over limit_req's, ms", $added, '<=', 1);
        }
    }
    return @goals;
}

sub several_hosts ($hosts) {
    my @goals;
    for my $place (sort keys %$hosts) {
        for my $algorithm (@leasable) {
            my ($of, $to) = map { $hosts->{$place}{$_} } "${algorithm}_leased", 'limit_req';
            my $ratio = median(map { $of->{rate}[$_] / $to->{rate}[$_] } 0 .. $of->{rate}->$#*);
            push @goals,
                goal("lease, $place, $algorithm: requests/s of limit_req's", $ratio,                    '>=', 0.96),
                goal("lease, $place, $algorithm: calls per host and lease",  median($of->{calls}->@*), '<=', 2);
        }
    }
    return @goals;
}

# The least of all algorithms and loads, beside the same without leases; and the most in any window
# of those that promise it.
sub accuracy ($rows) {
    my %granted = map { join('/', $_->@{qw(algorithm load lease)}) => $_->{granted} } @$rows;
    my @leased  = grep { $_->{lease} eq 'auto' } @$rows;
    return (
        goal('lease, overload: granted of what is granted without lease, least', min(map { $_->{granted} / $granted{"$_->{algorithm}/$_->{load}/off"} } @leased), '>=', 0.98, 3),
        goal('lease, overload: granted of the limit by fixed_window and sliding_log, most', max(map { map { $_->[1] } values $_->{windows}->%* } grep { $_->{algorithm} =~ /fixed|log/ } @leased), '<=', 1, 3),
    );
}

sub leases ($figures, $leases) {
    return (
        leased($figures, 'one client', 0.95, 0.001, 1),
        leased($figures, '100 clients', 0.95, 0.01, 100),
        leased($figures, '50,000 clients by Zipf\'s law', 0.75, 0.22, 50_000, 'zipf'),
        not_leased($figures),
        $leases->{latency}  ? far_redis($leases->{latency})   : (),
        $leases->{hosts}    ? several_hosts($leases->{hosts}) : (),
        $leases->{accuracy} ? accuracy($leases->{accuracy})   : (),
    );
}

# Rows of a table, from the figures of requests.pl and leases.pl.
sub goals ($figures, $leases) {
    return (
        ['goal', 'measured', 'bound', 'met'],
        flood($figures, 'denied, one client',      1,       qw(limit_req_denied denied denied_headers)),
        flood($figures, 'denied, 200,000 clients', 200_000, qw(limit_req_flood flood flood_headers)),
        logged($figures),
        allowed($figures, 'allowed', 1),
        based($figures),
        allowed($figures, 'allowed, 2 workers', 2),
        allowed($figures, 'allowed, all on one core', 'held'),
        proxied($figures),
        script($figures),
        alone($figures),
        tls($figures),
        leases($figures, $leases),
    );
}

1;
