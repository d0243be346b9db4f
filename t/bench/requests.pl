# What a limiter costs a request: one nginx worker, 64 keep-alive connections on empty_gif, all
# allowed. Rounds are interleaved, so that a machine that gets slower does so for all; figures are
# medians, ratios are against nginx without a limiter.

use v5.36;
use lib 't/lib';
use RateLimit::Measure qw(cpu_ns wrk median print_table);
use RateLimit::Nginx;
use RateLimit::Redis;
use Test::More;

my ($rounds, $seconds) = ($ENV{ROUNDS} // 5, $ENV{SECONDS} // 2);

my $redis = RateLimit::Redis->start_new;
my $nginx = RateLimit::Nginx->start_new(<<"END", log_level => 'error');
access_log off;
keepalive_requests 1000000000;
limit_req_zone \$connection zone=per_connection:10m rate=1000000r/s;
redis_rate_limit_backend default { server ${\$redis->address}; }
redis_rate_limit_zone \$connection zone=per_connection:10m;
redis_rate_limit_zone \$remote_addr zone=per_ip:10m;
server {
    listen %PORT% backlog=1024;
    location /bare { empty_gif; }
    location /limit_req { limit_req zone=per_connection burst=1000000 nodelay; empty_gif; }
    location /ours {
        redis_rate_limit_headers off;
        redis_rate_limit zone=per_connection algorithm=sliding_log limit=1000000 window=1;
        empty_gif;
    }
    location /gcra {
        redis_rate_limit_headers off;
        redis_rate_limit zone=per_connection algorithm=gcra limit=1000000 window=1 burst=1000000 name=even;
        empty_gif;
    }
    location /three {
        redis_rate_limit_headers off;
        redis_rate_limit zone=per_connection algorithm=gcra limit=1000000 window=1 burst=1000000 name=even;
        redis_rate_limit zone=per_connection algorithm=sliding_log limit=1000000 window=1;
        redis_rate_limit zone=per_ip algorithm=fixed_window limit=1000000000 window=60;
        empty_gif;
    }
    location /headers {
        redis_rate_limit zone=per_connection algorithm=sliding_log limit=1000000 window=1;
        empty_gif;
    }
}
END
my ($worker) = $nginx->workers;

my @variants = (
    ['nginx alone'                   => '/bare'],
    ['limit_req'                     => '/limit_req'],
    ['sliding_log, headers off'      => '/ours'],
    ['sliding_log, default headers'  => '/headers'],
    ['gcra, headers off'             => '/gcra'],
    ['three rules, two keys'         => '/three'],
);

my %figures;
for my $round (0 .. $rounds) {
    for my $variant (@variants) {
        my ($name, $path) = @$variant;
        my ($nginx_before, $redis_before) = (cpu_ns($worker), cpu_ns($redis->pid));
        my $run = wrk($nginx->url($path), connections => 64, seconds => $round ? $seconds : 1);
        die "$name: $run->{refused} of $run->{requests} refused" if $run->{refused};
        next if !$round; # warms up
        push $figures{$name}{rate}->@*,  $run->{requests} / $run->{seconds};
        push $figures{$name}{nginx}->@*, (cpu_ns($worker) - $nginx_before) / $run->{requests} / 1000;
        push $figures{$name}{redis}->@*, (cpu_ns($redis->pid) - $redis_before) / $run->{requests} / 1000;
        push $figures{$name}{$_}->@*,    $run->{$_} for qw(p50 p99);
    }
}

my @rows = (['64 connections, 1 worker', 'requests/s', 'ratio', 'nginx CPU us', 'ratio', 'Redis CPU us', 'p50 us', 'p99 us']);
my %bare = map { $_ => median($figures{'nginx alone'}{$_}->@*) } qw(rate nginx);
for my $name (map { $_->[0] } @variants) {
    my %of = map { $_ => median($figures{$name}{$_}->@*) } qw(rate nginx redis p50 p99);
    push @rows, [
        $name,
        sprintf('%.0f', $of{rate}),
        sprintf('%.2f', $of{rate} / $bare{rate}),
        sprintf('%.2f', $of{nginx}),
        sprintf('%.2f', $of{nginx} / $bare{nginx}),
        sprintf('%.2f', $of{redis}),
        sprintf('%.0f', $of{p50}),
        sprintf('%.0f', $of{p99}),
    ];
}
print_table(@rows);
$nginx->stop;
done_testing;
