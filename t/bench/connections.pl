# What a limit costs a connection of stream: nginx's CPU and connections a second without a limit, with limit_conn, and
# with rules, for connections that nginx answers itself and for those that it proxies. Prints the table.
#
# Environment: ROUNDS (9), CONNECTIONS of one cell in one round (6000), CLIENTS at once (32).

use v5.36;
use lib 't/lib';
use IO::Socket::INET;
use POSIX qw(_exit);
use RateLimit::Measure qw(cpu_ns median print_table);
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use RateLimit::Stream qw(new_stream);
use Test::More;
use Time::HiRes qw(time);

Test::More->builder->output(\*STDERR); # the table alone goes to where the report finds it

my ($rounds, $connections, $clients) = ($ENV{ROUNDS} // 9, $ENV{CONNECTIONS} // 6000, $ENV{CLIENTS} // 32);

my @limits = (
    { label => 'none',               conf => '' },
    { label => '`limit_conn`',       conf => 'limit_conn connections 1000;' },
    { label => 'gcra',               conf => 'redis_rate_limit zone=z algorithm=gcra limit=1000000 window=60 burst=999999;' },
    { label => 'concurrency',        conf => 'redis_rate_limit zone=z algorithm=concurrency limit=1000;' },
    { label => 'gcra, `lease=auto`', conf => 'redis_rate_limit zone=z algorithm=gcra limit=100000000 window=60 burst=99999999 lease=auto name=leased;' },
);
my $redis    = RateLimit::Redis->start_new;
my $upstream = empty_port();
my @contents = (
    { label => 'answered by nginx', conf => 'return "hello\n";' },
    { label => 'proxied',           conf => "proxy_pass 127.0.0.1:$upstream;" },
);
my @cells = map { my $content = $_; map { { content => $content, limit => $_, port => empty_port() } } @limits } @contents;

my $servers = join "\n", map { "server { listen 127.0.0.1:$_->{port} backlog=4096; $_->{limit}{conf} $_->{content}{conf} }" } @cells;
my $nginx   = new_stream(<<"END", log_level => 'error', connections => 4096);
limit_conn_zone \$binary_remote_addr zone=connections:1m;
redis_rate_limit_backend default { server ${\$redis->address}; timeout 5s; connect_timeout 5s; }
redis_rate_limit_zone \$remote_addr zone=z:1m;
$servers
server { listen 127.0.0.1:$upstream backlog=4096; return "hello\\n"; }
END
$nginx->start;
my ($worker) = $nginx->workers;

# One connection after the other, each read until it ends.
sub connect_often ($port, $count) {
    for (1 .. $count) {
        my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) or _exit(1);
        (<$socket> // '') eq "hello\n" or _exit(1);
        close $socket;
    }
    _exit(0);
}

# Microseconds of the worker for a connection, and connections a second.
sub measure ($cell) {
    my ($cpu, $began) = (cpu_ns($worker), time);
    my @clients = map { my $pid = fork // die "fork: $!"; $pid or connect_often($cell->{port}, $connections / $clients) } 1 .. $clients;
    for my $pid (@clients) {
        waitpid $pid, 0;
        die "$cell->{content}{label}, $cell->{limit}{label}: a connection without its answer\n" if $?;
    }
    push $cell->{cpu}->@*,  (cpu_ns($worker) - $cpu) / $connections / 1000;
    push $cell->{rate}->@*, $connections / (time - $began);
}

for my $round (0 .. $rounds) { # the first one warms up
    measure($_) for $round % 2 ? @cells : reverse @cells;
    delete $_->@{qw(cpu rate)} for $round ? () : @cells;
}

# The median of each round's ratio to what the same connections do without a limit.
sub ratio ($cell, $what) {
    my ($without) = grep { $_->{content} == $cell->{content} && $_->{limit} == $limits[0] } @cells;
    return sprintf '%.2f', median(map { $cell->{$what}[$_] / $without->{$what}[$_] } 0 .. $rounds - 1);
}

my @rows = ([ 'connections of stream', 'limit', 'CPU of nginx, us', 'to that without', 'connections/s', 'to those without' ]);
for my $cell (@cells) {
    push @rows, [ $cell->{content}{label}, $cell->{limit}{label}, sprintf('%.1f', median($cell->{cpu}->@*)), ratio($cell, 'cpu'), sprintf('%.0f', median($cell->{rate}->@*)), ratio($cell, 'rate') ];
}
print_table(@rows);
$nginx->stop;
done_testing;
