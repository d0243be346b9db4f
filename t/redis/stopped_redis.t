# Redis stands still under 64 connections, with the defaults: few requests wait, then none, limits
# hold, and recovery needs no hand. RATE_LIMIT_STOP says for how many seconds.

use v5.36;
use lib 't/lib';
use List::Util qw(max uniq);
use RateLimit::AccessLog qw($log_times percentile requests_of);
use RateLimit::Load qw(start_requests);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep time);

my $stop     = $ENV{RATE_LIMIT_STOP} // 3;
my $timeout  = 0.1;  # seconds, the default
my $cooldown = 1;    # the default, a fifth more or less
my $workers  = 2;
my $rate     = 4000; # requests a second

# Each connection is a client. Those of /wide have each a limit of its own, so far from others that
# what is left tells whose verdict it is. Those of /tight ask for more than they may have.
my $apart = 100_000;
my $tight = 20;
my $redis = RateLimit::Redis->start_new;
my $nginx = RateLimit::Nginx->start_new(<<"END", workers => $workers);
$log_times
redis_rate_limit_backend default { server ${\$redis->address}; }
redis_rate_limit_zone \$connection zone=z:10m;
redis_rate_limit_log_level info;
keepalive_requests 1000000;
server {
    listen %PORT% reuseport;
    location /wide  { redis_rate_limit zone=z algorithm=fixed_window limit=\${connection}00000 window=600; empty_gif; }
    location /tight { redis_rate_limit zone=z algorithm=fixed_window limit=$tight window=1 aligned; empty_gif; }
}
END

ok(wait_until(sub { $redis->nginx_clients == $workers }), 'each worker has its connection');
my $before = 1.5;
my $after  = 3 * $cooldown + 1;
my $began  = time;
my @load   = map { start_requests($nginx->url($_), $rate / 2 * ($before + $stop + $after), connections => 32, rate => $rate / 2) } qw(/wide /tight);
wait_until(sub { time > $began + $before && requests_of($nginx) > $rate / 2 }) or die 'no load';
my $stopped = time;
$redis->freeze;
sleep $stop; # the fault itself
my $thawed = time;
$redis->thaw;
my @results = map { $_->finish } @load;
ok(wait_until(sub { $workers <= (() = $nginx->error_log =~ /works again/g) }), 'each worker tells of the end');

my @all    = requests_of($nginx);
my @early  = grep { $_->{time} < $stopped } @all;
my @during = grep { $_->{time} >= $stopped && $_->{time} < $thawed } @all;
my %by_source;
push $by_source{ $_->{source} }->@*, $_ for @all;
note sprintf '%d requests: %s', scalar @all, join ', ', map { scalar($by_source{$_}->@*) . " by $_" } sort keys %by_source;

subtest 'no client notices' => sub {
    is(scalar(grep { $_->{broken} } @results), 0, 'each request has an answer');
    is(join(' ', sort(uniq(map { $_->{status} } @all))), '200 429', 'none of 5xx');
    cmp_ok(scalar @during, '>', $rate * $stop / 2, 'of the ' . @during . ' while Redis stood still, either');
};

# Requests that a worker asked for when five of its checks had failed.
sub asked_late (@waited) {
    my (%failed, @late);
    for (@waited) {
        my $failed = $failed{ $_->{worker} } //= [];
        push @late, $_ if @$failed >= 5 && $_->{time} - $_->{asking} > $failed->[4] + 0.005; # times are of milliseconds
        push @$failed, $_->{time};
    }
    return @late;
}

# A worker probes once in a cooldown, and that may be a fifth shorter.
subtest 'few wait' => sub {
    my $most_probes = $workers * (1 + int($stop / (0.8 * $cooldown)));
    my @waited      = grep { $_->{asking} > $timeout / 2 } @during;
    my @late        = asked_late(@waited);
    cmp_ok(scalar @waited, '<=', 64 + $most_probes, 'those in flight, and probes: ' . @waited);
    cmp_ok(scalar @late, '<=', $most_probes, 'after the first deadlines only probes: ' . @late);
    my $longest = max(map { $_->{asking} } @all);
    cmp_ok($longest, '<', $timeout + 0.1, sprintf 'the longest for %.0f ms', 1000 * $longest);
    my @settled = grep { $_->{time} - $_->{seconds} > $stopped + 2 * $timeout } @during;
    my @p99     = map { percentile(99, @$_) } \@early, \@settled;
    cmp_ok($p99[1], '<=', $p99[0] + 0.005, sprintf 'p99 was %.0f ms, then %.0f ms', map { 1000 * $_ } @p99);
};

subtest 'limits hold' => sub {
    my $windows = int($thawed) - int($stopped - 0.05) + 1;
    my %granted;
    for (@during) {
        ++$granted{ $_->{connection} } if $_->{path} eq '/tight' && $_->{status} == 200;
    }
    my ($most, $least) = (sort { $b <=> $a } values %granted)[ 0, -1 ];
    is(scalar keys %granted, 32, 'of 32 clients');
    cmp_ok($most, '<=', $tight * $windows, "each was granted $most at most in $windows windows of $tight");
    cmp_ok($least, '>=', $tight * ($windows - 2), "and $least at least");
};

subtest 'nobody has another\'s verdict' => sub {
    my @wide = grep { $_->{path} eq '/wide' } @all;
    is(scalar(grep { int($_->{remaining} / $apart) != $_->{connection} - 1 } @wide), 0, 'of ' . @wide . ' what is left is of each one\'s own limit');
    # A client has its answer before it asks again.
    for my $source (qw(redis local)) {
        my (%left, $wrong);
        for (grep { $_->{source} eq $source } @wide) {
            ++$wrong if $_->{remaining} >= ($left{ $_->{connection} } // 'inf');
            $left{ $_->{connection} } = $_->{remaining};
        }
        is($wrong, undef, "and falls with each request that is decided by $source");
    }
};

subtest 'recovery' => sub {
    my %recovered;
    for (grep { $_->{time} > $thawed && $_->{source} eq 'redis' } @all) {
        $recovered{ $_->{worker} } //= $_->{time};
    }
    is(scalar keys %recovered, $workers, 'both workers ask again');
    my $last = max(values %recovered);
    cmp_ok($last - $thawed, '<', 2 * $cooldown, sprintf 'after %.2f s', $last - $thawed);
    my @later = grep { $_->{time} > $last + $timeout } @all;
    cmp_ok(scalar @later, '>', $rate / 2, 'of ' . @later . ' later requests');
    is(scalar(grep { $_->{source} eq 'local' } @later), 0, 'none is decided without Redis');
};

subtest 'what is told' => sub {
    my $log     = $nginx->error_log;
    my @checks  = $log =~ /works again, it failed for \d+ ms, (\d+) checks got no verdict/g;
    my $checks  = 0;
    $checks += $_ for @checks;
    is(scalar(() = $log =~ /backend "default" at \S+ fails: no answer in time,/g), $workers, 'each worker tells when it begins');
    is(scalar @checks, $workers, 'and when it ends');
    is($checks, scalar $by_source{local}->@*, 'how many checks this host decided');
};

$nginx->stop;
done_testing;
