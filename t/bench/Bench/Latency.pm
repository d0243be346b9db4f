package Bench::Latency;

# How long requests of one key take where Redis is 20 ms away, beside limit_req, which asks nobody.

use v5.36;
use Bench::PacedClient qw(start_paced);
use Exporter 'import';
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Relay;
use Time::HiRes qw(time);

our @EXPORT_OK = qw(latency_variants measure_latency $latency_rate $latency_window);

our $latency_rate   = 5000; # requests a second
our $latency_window = 10;   # seconds, also of what is measured, so that a window begins meanwhile
my $warm_up         = 2;
my $one_way         = 0.01; # seconds
my $connections     = 256;  # enough for all requests that wait for Redis

my %algorithms = (
    gcra         => "zone=z algorithm=gcra limit=10000000 burst=10000000 window=$latency_window",
    fixed_window => "zone=z algorithm=fixed_window limit=10000000 window=$latency_window",
);

# Name, label and configuration of each.
sub latency_variants () {
    return (
        ['limit_req', 'limit_req', 'limit_req zone=local burst=1000000 nodelay;'],
        map { (
            ["${_}_far",    "$_ of $latency_window s",             "redis_rate_limit $algorithms{$_} name=$_;"],
            ["${_}_leased", "$_ of $latency_window s, lease=auto", "redis_rate_limit $algorithms{$_} name=${_}_leased lease=auto;"],
        ) } qw(gcra fixed_window),
    );
}

sub percentile ($share, $sorted) { return $sorted->[$share * $#$sorted] }

sub measure ($nginx, $name) {
    my $begin  = time + $warm_up;
    my $client = start_paced($nginx, $latency_rate, $warm_up + $latency_window, $connections, "/$name?client=one");
    my @took;
    $client->each_answer(sub ($path, $status, $due, $sent, $answered) {
        die "$path: status $status\n" if $status != 200;
        push @took, 1000 * ($answered - $due) if $due >= $begin;
    });
    @took = sort { $a <=> $b } @took;
    return { p50 => percentile(0.5, \@took), p99 => percentile(0.99, \@took), p999 => percentile(0.999, \@took) };
}

# Of each variant milliseconds of all rounds: { limit_req => { p50 => [...], p99 => [...], p999 => [...] } }.
sub measure_latency ($rounds) {
    my $redis = RateLimit::Redis->start_new;
    my $relay = RateLimit::Relay->start_new($redis->conf->{port});
    $relay->delay($one_way);
    my $locations = join "\n", map { "location /$_->[0] { $_->[2] empty_gif; }" } latency_variants();
    my $nginx     = RateLimit::Nginx->start_new(<<"END", log_level => 'error');
access_log off;
keepalive_requests 1000000000;
limit_req_zone \$arg_client zone=local:1m rate=1000000r/s;
redis_rate_limit_backend default { server ${\$relay->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$arg_client zone=z:1m on_error=closed;
redis_rate_limit_headers off;
server {
    listen %PORT% backlog=1024;
    $locations
}
END
    my %figures;
    for my $round (1 .. $rounds) {
        for my $name (map { $_->[0] } latency_variants()) {
            my $of = measure($nginx, $name);
            push $figures{$name}{$_}->@*, $of->{$_} for keys %$of;
        }
    }
    $nginx->stop;
    return \%figures;
}

1;
