# What sessions are granted over two nginx of two workers each, by the instants of Redis that their logs show: never more
# than the rules allow within any time, and not fewer, over TCP and UDP.

use v5.36;
use lib 't/lib';
use RateLimit::Grants qw(most_above_bucket most_within per_window);
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Process;
use RateLimit::Redis;
use RateLimit::Stream qw(new_stream open_session take_line udp_answer);
use Test::More;
use Time::HiRes qw(time);

my $window_us = 500_000;
my $seconds   = 6;
my %rules     = (
    log    => 'algorithm=sliding_log limit=20 window=500ms',
    fixed  => 'algorithm=fixed_window aligned limit=20 window=500ms',
    bucket => 'algorithm=token_bucket limit=20 window=500ms burst=10',
    udp    => 'algorithm=gcra limit=20 window=500ms burst=9',
);
my %within = (
    log    => sub (@grants) { return most_within($window_us, @grants) <= 20 },
    fixed  => sub (@grants) { return per_window($window_us, @grants) <= 20 },
    bucket => sub (@grants) { return most_above_bucket(10, $window_us / 20, @grants) <= 0 },
    udp    => sub (@grants) { return most_above_bucket(10, $window_us / 20, @grants) <= 0 },
);
my $redis = RateLimit::Redis->start_new;

sub start_host () {
    my %port    = map { $_ => empty_port() } keys %rules;
    my $servers = join "\n", map {
        my $udp = $_ eq 'udp' ? 'udp' : '';
        "server { listen 127.0.0.1:$port{$_} $udp; redis_rate_limit zone=z $rules{$_} name=$_; return passed\\n; }";
    } sort keys %rules;
    my $nginx = new_stream(<<"END", workers => 2);
log_format decided '\$server_port \$redis_rate_limit_status \$redis_rate_limit_decided';
access_log %DIR%/stream.log decided;
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$remote_addr zone=z:1m on_error=closed;
$servers
END
    $nginx->start;
    return { nginx => $nginx, port => \%port };
}

my @hosts = (start_host(), start_host());

# Two clients of each server of each host, one session after the other.
sub ask ($name, $port, $until) {
    while (time < $until) {
        $name eq 'udp' ? udp_answer($port, "hello\n", 0.05) : take_line(open_session($port));
    }
}

my $until   = time + $seconds;
my @clients = map {
    my ($host, $name) = @$_;
    map { RateLimit::Process->run(sub { ask($name, $host->{port}{$name}, $until) }) } 1 .. 2;
} map { my $host = $_; map { [ $host, $_ ] } sort keys %rules } @hosts;
$_->wait_for_end(60) for @clients;
$_->{nginx}->stop for @hosts;

# The instants at which sessions of a server were granted, the earliest first.
sub grants_of ($name) {
    my @instants;
    for my $host (@hosts) {
        my $log = RateLimit::Nginx::slurp($host->{nginx}->dir . '/stream.log');
        push @instants, $log =~ /^$host->{port}{$name} PASSED (\S+)$/mg;
    }
    return map { [$_] } sort { $a <=> $b } map { s/\.//r } @instants;
}

for my $name (sort keys %rules) {
    my @grants = grants_of($name);
    my $lasted = @grants ? ($grants[-1][0] - $grants[0][0]) / $window_us : 0;
    ok($within{$name}->(@grants), "$name: never more than the rule allows, of ${\scalar @grants} sessions");
    cmp_ok(scalar @grants, '>=', 20 * int($lasted), "$name: and not fewer, in $lasted windows");
    cmp_ok($lasted, '>', 6, "$name: for a while");
}

done_testing;
