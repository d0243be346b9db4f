package Bench::Goals;

# What the module sets itself, and whether a run of the benchmark met it.

use v5.36;
use Bench::Cells qw(cell_name);
use Exporter 'import';
use List::Util qw(max);

our @EXPORT_OK = qw(goals);

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

# By one worker, by one on each core, and where all processes share a core.
sub allowed ($figures, $what, $workers) {
    my ($bare, $limit_req, $off, $default) =
        map { cell_name($_, $workers, 64, 50_000) } qw(bare limit_req gcra gcra_headers);
    return if !$figures->has($bare, $limit_req, $off, $default);
    return (
        goal("$what: requests/s of limit_req's, headers off",         $figures->ratio($off,     $limit_req, 'rate'), '>=', 0.70),
        goal("$what: requests/s of limit_req's, default headers",     $figures->ratio($default, $limit_req, 'rate'), '>=', 0.62),
        goal("$what: nginx CPU added, of bare's, headers off",     $figures->ratio($off,     $bare, 'nginx') - 1, '<=', 0.20),
        goal("$what: nginx CPU added, of bare's, default headers", $figures->ratio($default, $bare, 'nginx') - 1, '<=', 0.35),
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

# Rows of a table.
sub goals ($figures) {
    return (
        ['goal', 'measured', 'bound', 'met'],
        flood($figures, 'denied, one client',      1,       qw(limit_req_denied denied denied_headers)),
        flood($figures, 'denied, 200,000 clients', 200_000, qw(limit_req_flood flood flood_headers)),
        allowed($figures, 'allowed', 1),
        allowed($figures, 'allowed, 2 workers', 2),
        allowed($figures, 'allowed, all on one core', 'held'),
        script($figures),
        alone($figures),
        tls($figures),
    );
}

1;
