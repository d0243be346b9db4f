package Bench::Cells;

# What is measured by wrk: the cells, a variant of Bench::Variants under one load each.

use v5.36;
use Bench::Variants qw(@based variant_named);
use Exporter 'import';

our @EXPORT_OK = qw(base_loads based_cell_name cells cell_name lease_cell_name lease_loads loads proxied_cell_name);

# Clients send evenly, one after another, or by Zipf's law: the second one half as often as the
# first, the third a third as often. `warm_up` is seconds of the same load before.
sub load_of ($workers, $connections, $clients, $variants, %options) {
    return {
        workers     => $workers,
        connections => $connections,
        clients     => $clients,
        variants    => $variants,
        choice      => 'evenly',
        part        => '',
        warm_up     => 0,
        %options,
    };
}

# What leases are compared with is measured beside them.
sub lease_load ($clients, $choice = 'evenly') {
    my @variants = qw(limit_req gcra_of_60 gcra_leased fixed_window_of_60 fixed_window_leased);
    return load_of(1, 64, $clients, \@variants, choice => $choice, part => 'leases', warm_up => 4);
}

# nginx asks an upstream beside it.
sub proxied_load () {
    return load_of(1, 64, 50_000, [map { "proxied_$_" } qw(bare limit_req gcra gcra_leased)], choice => 'zipf', part => 'proxied', warm_up => 4);
}

# Each variant stands beside the same of the other commit.
sub base_load () { return load_of(1, 64, 50_000, [map { ($_, "base_$_") } @based], part => 'base') }

# The core at every load, the others where they tell something of their own.
my @core    = qw(bare limit_req gcra limit_req_denied denied);
my @headers = qw(gcra_headers denied_headers);
my @flood   = qw(bare limit_req_flood flood flood_headers);
my @others  = qw(three fixed_window sliding_window sliding_log token_bucket leaky_bucket concurrency three_denied);
my @loads   = (
    load_of(1,      1,   50_000,  [@core, @headers]),
    load_of('held', 1,   50_000,  [@core, @headers]),
    load_of(1,      64,  50_000,  [@core, @headers, qw(unix tls), @others, qw(empty_script limit_req_logged denied_logged)]),
    load_of('held', 64,  50_000,  [qw(bare limit_req gcra gcra_headers)]),
    load_of(1,      256, 50_000,  \@core),
    load_of(1,      1,   1,       \@core),
    load_of(1,      64,  1,       [@core, @headers]),
    load_of(1,      64,  200_000, \@flood),
    load_of(2,      64,  50_000,  [@core, @headers, qw(three three_denied)]),
    lease_load(1),
    lease_load(100),
    lease_load(50_000, 'zipf'),
    lease_load(50_000),
    proxied_load,
    $ENV{BASE_MODULE} ? base_load : (),
);

# Like `gcra/1 worker/64 connections/50000 clients`. In the place of a number of workers `held` is one
# worker, with which all other processes share a core.
sub cell_name ($variant, $workers, $connections, $clients) {
    return name_of($variant, load_of($workers, $connections, $clients, []));
}

sub proxied_cell_name ($variant) { return name_of("proxied_$variant", proxied_load()) }

# Like `gcra_leased/leases/1 worker/64 connections/50000 clients zipf`.
sub lease_cell_name ($variant, $clients, $choice = 'evenly') {
    return name_of($variant, lease_load($clients, $choice));
}

# Of the load that is compared with another commit.
sub based_cell_name ($variant) { return name_of($variant, base_load) }

sub name_of ($variant, $load) {
    my $clients = "$load->{clients} clients" . ($load->{choice} eq 'evenly' ? '' : " $load->{choice}");
    return join '/', $variant, $load->{part} || (), "$load->{workers} worker", "$load->{connections} connections", $clients;
}

# The cells of each load. Those that deny come last, for they have the same clients denied.
sub cells_of ($number) {
    my $load  = $loads[$number];
    my @cells = map { {
        $load->%{qw(connections clients choice part warm_up)},
        name    => name_of($_, $load),
        variant => variant_named($_),
        load    => $number,
        is_held => $load->{workers} eq 'held',
        workers => $load->{workers} eq 'held' ? 1 : $load->{workers},
    } } $load->{variants}->@*;
    return sort { $a->{variant}{denies} <=> $b->{variant}{denies} } @cells;
}

sub cells () { return map { cells_of($_) } 0 .. $#loads }

# Lists of the cells that have the same load: those with leases, of another commit, and of nginx alone or before an upstream.
sub lease_loads () { return loads_of('leases') }
sub base_loads ()  { return loads_of('base') }
sub loads ()       { return map { loads_of($_) } '', 'proxied' }

sub loads_of ($part) { return map { [cells_of($_)] } grep { $loads[$_]{part} eq $part } 0 .. $#loads }

1;
