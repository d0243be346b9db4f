# Redis dies, hangs or forgets while sessions come to two nginx with two workers each: each session is decided
# as its zone's on_error says, within its time, and no permit is left when all have ended.

use v5.36;
use lib 't/lib';
use IO::Select;
use List::Util qw(max sum);
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use RateLimit::Server;
use RateLimit::Stream qw(echo_server new_stream no_permit_is_left open_session take_line);
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep);

my $timeout = 0.1; # seconds, the default
my $redis   = RateLimit::Redis->start_new;
my $client  = $redis->client(reconnect => 5);
my $echo    = echo_server();

# By reuseport the sessions of one client go to both workers.
sub start_host () {
    my %port    = map { $_ => empty_port() } qw(open closed local exact held);
    my @servers = map {
        "server { listen 127.0.0.1:$port{$_} reuseport;
            redis_rate_limit zone=$_ algorithm=sliding_log limit=100000 window=1h;
            redis_rate_limit zone=$_ algorithm=concurrency limit=1000 phase=preread;
            proxy_pass ${\$echo->address}; }"
    } qw(open closed local);
    my $nginx = new_stream(<<"END", workers => 2);
log_format verdict '\$server_port \$status \$redis_rate_limit_status \$redis_rate_limit_source \$session_time';
access_log %DIR%/stream.log verdict;
redis_rate_limit_backend default { server ${\$redis->address}; }
redis_rate_limit_zone \$remote_addr zone=open:1m   on_error=open;
redis_rate_limit_zone \$remote_addr zone=closed:1m on_error=closed;
redis_rate_limit_zone \$remote_addr zone=local:1m  on_error=local;
@servers
server { listen 127.0.0.1:$port{exact} reuseport; redis_rate_limit zone=closed algorithm=sliding_log limit=5 window=1h name=exact; return passed\\n; }
server { listen 127.0.0.1:$port{held}; redis_rate_limit zone=closed algorithm=concurrency limit=100 name=held; proxy_pass ${\$echo->address}; }
END
    $nginx->start;
    return { nginx => $nginx, port => \%port };
}

my @hosts = map { start_host() } 1 .. 2;

sub session ($port, @from) {
    local $SIG{PIPE} = 'IGNORE'; # it may be rejected by then
    my $session = open_session($port, @from);
    print $session "line\n";
    return $session;
}

# Four clients, each of which opens sessions with the servers of a host, one after another.
sub start_load () {
    return map {
        my $port = $_->{port};
        RateLimit::Server->start(sub ($listener, $control) {
            my $select = IO::Select->new($control);
            my $hung   = 0;
            while (!$select->can_read(0)) {
                $hung += !defined take_line(session($port->{$_})) for qw(open closed local);
            }
            syswrite $control, "hung=$hung\n";
        });
    } @hosts, @hosts;
}

# Returns how many sessions never ended.
sub end_load (@clients) { return sum(map { $_->command('end')->{hung} } @clients) }

# The sessions that a host has logged since its last mark().
sub logged ($host) {
    my $log = substr RateLimit::Nginx::slurp($host->{nginx}->dir . '/stream.log'), $host->{mark}{stream} // 0;
    my %server_of = reverse $host->{port}->%*;
    return map {
        my ($port, $status, $verdict, $source, $seconds) = split ' ';
        { server => $server_of{$port}, said => "$status $verdict", source => $source, seconds => $seconds };
    } $log =~ /(.*)\n/g;
}

sub told ($host) { return substr $host->{nginx}->error_log, $host->{mark}{error} // 0 }

sub mark () {
    for (@hosts) {
        $_->{mark} = { stream => -s $_->{nginx}->dir . '/stream.log', error => -s $_->{nginx}->dir . '/error.log' };
    }
}

# Until each server of each host has seen so many sessions of that kind.
sub wait_for_sessions ($count, $is_one = sub { 1 }) {
    return wait_until(sub {
        for my $host (@hosts) {
            my %seen;
            ++$seen{ $_->{server} } for grep { $is_one->($_) } logged($host);
            return 0 if grep { ($seen{$_} // 0) < $count } qw(open closed local);
        }
        return 1;
    }) || die 'no sessions';
}

sub is_without_redis ($session) { return $session->{source} ne 'redis' }

# What sessions with that server came to, each once.
sub verdicts_of ($server) {
    my %seen = map { $_->{said} => 1 } grep { $_->{server} eq $server } map { logged($_) } @hosts;
    return join ', ', sort keys %seen;
}

sub are_decided_by_policy () {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is(verdicts_of('open'),   '200 ERROR_OPEN, 200 PASSED',    'on_error=open lets all pass');
    is(verdicts_of('closed'), '200 PASSED, 503 ERROR_CLOSED', 'on_error=closed none');
    is(verdicts_of('local'),  '200 PASSED',                    'on_error=local counts at the host');
    # Two phases may wait, each for its own deadline; the rest is what the machine is busy with.
    my $longest = max(map { $_->{seconds} } grep { $_->{server} ne 'held' } map { logged($_) } @hosts);
    cmp_ok($longest, '<', 2 * $timeout + 0.3, "the longest took $longest s");
}

# Each worker tells when an outage begins and ends, and not each session.
sub is_told_once () {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    ok(wait_until(sub { !grep { 2 != (() = told($_) =~ /works again/g) } @hosts }), 'each worker tells of the end');
    is(join(' ', map { scalar(() = told($_) =~ /\[error\] .*redis_rate_limit: backend "stream:default" at \S+ fails: /g) } @hosts), '2 2',
        'and once of the beginning');
}

# Each of so many addresses has the limit of its own, over both hosts.
my $address = 1;

sub counts_exactly () {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    ok(wait_until(sub { $redis->nginx_clients == 4 }), 'each worker has its connection');
    my @from = (LocalAddr => '127.0.1.' . $address++);
    is(scalar(grep { (take_line(open_session($hosts[ $_ % 2 ]{port}{exact}, @from)) // '') eq "passed\n" } 1 .. 20), 5, 'counting is exact');
}

# Sessions at both hosts that hold permits, and last.
sub hold_permits () {
    my @held = map { session($_->{port}{held}) } @hosts, @hosts;
    is(join('', map { take_line($_) } @held), "line\n" x 4, 'four sessions last') or die;
    return @held;
}

# Or undef where the sum of their units, which the member without a name has, is wrong: see lua/concurrency.lua.
sub held_permits () {
    my %permits = $client->zrange('rl:{closed:127.0.0.1}:concurrency:60000:held', 0, -1, 'withscores');
    my $sum     = delete $permits{''} // 0; # below 0
    return keys %permits == -$sum ? -$sum : undef;
}

my @workers = map { $_->{nginx}->workers } @hosts;
counts_exactly();

subtest 'killed and restarted' => sub {
    my @held = hold_permits();
    my @load = start_load();
    wait_for_sessions(20);
    mark();
    $redis->kill_now;
    wait_for_sessions(20, \&is_without_redis);
    $redis->restart;
    wait_for_sessions(20, sub ($session) { $session->{source} eq 'redis' });
    is_told_once();
    is(end_load(@load), 0, 'each session ended');
    are_decided_by_policy();
    is(join('', map { print { $_ } "still\n"; take_line($_) } @held), "still\n" x 4, 'those that last go on');
    @held = ();
    no_permit_is_left($redis);
    counts_exactly();
};

# Permits that are given back while it hangs, or whose checks it reads when nobody waits any more, are free
# long before their window ends.
subtest 'hung' => sub {
    my @held = hold_permits();
    is(held_permits(), 4, 'they hold permits');
    my @load = start_load();
    mark();
    wait_for_sessions(20);
    $redis->freeze;
    @held = ();
    wait_for_sessions(20, \&is_without_redis);
    sleep 1.5; # until connections are given up
    $redis->thaw;
    is_told_once();
    is(end_load(@load), 0, 'each session ended');
    are_decided_by_policy();
    no_permit_is_left($redis);
    counts_exactly();
};

subtest 'flushed, and without its scripts' => sub {
    my @held = hold_permits();
    my @load = start_load();
    mark();
    for my $round (1 .. 10) {
        $client->flushall;
        $client->script_flush;
        wait_for_sessions(10 * $round);
    }
    is(end_load(@load), 0, 'each session ended');
    is(verdicts_of($_), '200 PASSED', "all pass: $_") for qw(open closed local);
    my @new = hold_permits();
    @held = ();
    ok(wait_until(sub { 4 == grep { $_->{server} eq 'held' } map { logged($_) } @hosts }), 'those end that had permits before');
    is(held_permits(), 4, 'and give back none of others');
    @new = ();
    no_permit_is_left($redis);
    counts_exactly();
    unlike(told($_), qr/fails/, 'nobody calls it an outage') for @hosts;
};

is(join(' ', map { $_->{nginx}->workers } @hosts), "@workers", 'the workers are the same');
$_->{nginx}->stop for @hosts;

done_testing;
