package Bench::Hosts;

# One key by four workers of one host, and by four hosts of one worker: what a request costs, beside
# limit_req in the same places, and how often Redis is asked.

use v5.36;
use Bench::Variants qw(configuration variant_named);
use Exporter 'import';
use List::Util qw(sum0);
use RateLimit::Load qw(start_load);
use RateLimit::Measure qw(cpu_ns);
use RateLimit::Nginx;
use RateLimit::Redis;
use Time::HiRes qw(clock_gettime sleep CLOCK_MONOTONIC);

our @EXPORT_OK = qw(measure_hosts @host_places @host_variants %lease_seconds);

our @host_places   = ('four workers', 'four hosts');
our @host_variants = qw(limit_req gcra_leased fixed_window_leased);
our %lease_seconds = (gcra_leased => 60 / 16, fixed_window_leased => 60 / 32); # of lease=auto
my $warm_up        = 2 * $lease_seconds{gcra_leased}; # the longer one

# nginx's own count.
sub requests_of ($nginx) {
    return $nginx->get('/count')->{content} =~ /^ \d+ \d+ (\d+)/m ? $1 : die "no count of requests\n";
}

sub counters ($redis, @nginx) {
    return {
        requests => sum0(map { requests_of($_) } @nginx),
        nginx    => sum0(map { cpu_ns($_) } map { $_->workers } @nginx) / 1000,
        calls    => sum0(values $redis->script_calls->%*), # a GET may be of what follows operators
        time     => clock_gettime(CLOCK_MONOTONIC),
    };
}

# In the middle of a load. Each round has a client of its own, so that no window ends meanwhile.
sub measure ($redis, $round, $name, $seconds, @nginx) {
    my $script = ['t/bench/keys.lua', 1, "r$round"];
    my @loads  = map { start_load($nginx[$_ % @nginx]->url("/$name?client="), connections => 16, script => $script) } 0 .. 3;
    sleep $warm_up;
    my $before = counters($redis, @nginx);
    sleep $seconds;
    my $now    = counters($redis, @nginx);
    for my $result (map { $_->finish } @loads) {
        die "$name: $result->{refused} of $result->{requests} requests refused\n" if $result->{refused};
    }
    my %spent = map { $_ => $now->{$_} - $before->{$_} } keys %$now;
    return {
        rate  => $spent{requests} / $spent{time},
        nginx => $spent{nginx} / $spent{requests},
        calls => $spent{calls} / @nginx / $spent{time} * ($lease_seconds{$name} // 0),
    };
}

# { 'four hosts' => { limit_req => { rate => [...], nginx => [...], calls => [...] } } }, of all
# rounds: requests a second, CPU microseconds of nginx for each, and calls per host and lease.
sub measure_hosts ($rounds, $seconds) {
    my $redis = RateLimit::Redis->start_new;
    my $conf  = configuration("server ${\$redis->address};", '', map { variant_named($_) } @host_variants);
    my %nginx = (
        'four workers' => [RateLimit::Nginx->start_new($conf, workers => 4, log_level => 'error')],
        'four hosts'   => [map { RateLimit::Nginx->start_new($conf, log_level => 'error') } 1 .. 4],
    );
    my %figures;
    for my $round (1 .. $rounds) {
        for my $place (@host_places) {
            for my $name (@host_variants) {
                my $of = measure($redis, $round, $name, $seconds, $nginx{$place}->@*);
                push $figures{$place}{$name}{$_}->@*, $of->{$_} for keys %$of;
            }
        }
    }
    $_->stop for map { @$_ } values %nginx;
    return \%figures;
}

1;
