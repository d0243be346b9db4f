# What operators set in Redis reaches every host, whatever happens to Redis, to nginx and to the worker
# that asks for it. Overrides are written as the API writes them, by lua/live_write.lua.

use v5.36;
use lib 't/lib';
use IO::Socket::INET;
use List::Util qw(first);
use POSIX qw(SIGCONT SIGKILL);
use RateLimit::LiveStore;
use RateLimit::Nginx;
use RateLimit::Processes qw(freeze);
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep time);

# By the promise.
my $soon = 2;

# One host, of several workers. Each response tells the limit that held, and who decided.
sub start_host ($address, %options) {
    my $backend = $options{backend} // "server $address;";
    return RateLimit::Nginx->start_new(<<"END", workers => $options{workers} // 2);
redis_rate_limit_backend default { $backend }
redis_rate_limit_zone \$arg_key zone=z:2m deny_cache=off;
redis_rate_limit_zone \$arg_key zone=denials:1m;
server {
    listen %PORT%;
    add_header X-Said "\$redis_rate_limit_limit \$redis_rate_limit_source" always;
    location /    { redis_rate_limit zone=z algorithm=fixed_window limit=100000 window=1h name=r; empty_gif; }
    location /one { redis_rate_limit zone=denials algorithm=fixed_window limit=1 window=1h; empty_gif; }
}
END
}

# '200 100000 redis'
sub told ($host, $key, $path = '/') {
    my $response = $host->get("$path?key=$key");
    return "$response->{status} " . ($response->{headers}{'x-said'} // '');
}

# All hosts say so within two seconds, and go on saying so.
sub obeyed ($hosts, $key, $expected, $what) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my @missing = grep { my $host = $_; !wait_until(sub { told($host, $key) =~ $expected }, $soon) } $hosts->@*;
    my @wrong   = grep { $_ !~ $expected } map { my $host = $_; map { told($host, $key) } 1 .. 6 } $hosts->@*;
    return ok(!@missing && !@wrong, $what) || diag "not at ${\scalar @missing} hosts; then: @wrong";
}

my $ordinary = qr/^200 100000 redis$/;
my $banned   = qr/^429 /;

# The worker at the other end of a connection. Other connections may have the same port at one end.
sub worker_of ($nginx, $redis, $client) {
    my ($port) = $client->{addr} =~ /:(\d+)$/;
    my $ends   = sprintf '\w+:%04X \w+:%04X 01', $port, $redis->conf->{port};
    my ($line) = grep { / $ends / } split /\n/, RateLimit::Nginx::slurp('/proc/net/tcp');
    my $inode  = $line ? (split ' ', $line)[9] : return;
    return first { grep { (readlink // '') eq "socket:[$inode]" } glob "/proc/$_/fd/*" } $nginx->workers;
}

sub follower_of ($nginx, $redis) {
    return wait_until(sub { first { defined } map { worker_of($nginx, $redis, $_) } $redis->followers });
}

# Commands that Redis runs, from now on: returns code that gives those so far.
sub watch ($redis) {
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $redis->conf->{port}) or die "connect: $!";
    syswrite $socket, "MONITOR\r\n";
    readline $socket;
    $socket->blocking(0);
    my $seen = '';
    return sub { 1 while sysread $socket, $seen, 65_536, length $seen; return split /\r\n/, $seen };
}

subtest 'overrides of clients and rules' => sub {
    my $redis = RateLimit::Redis->start_new;
    my $store = RateLimit::LiveStore->new($redis->client);
    my @hosts = map { start_host($redis->address) } 1, 2;
    obeyed(\@hosts, 'k', $ordinary, 'the configured limit');
    $store->put(zone => 'z', key => 'k', limit => 7000);
    obeyed(\@hosts, 'k', qr/^200 7000 redis/, 'a limit');
    $store->put(zone => 'z', key => 'k', rule => 'r', limit => 500000);
    obeyed(\@hosts, 'k', qr/^200 500000 redis/, 'a limit at a rule');
    $store->put(zone => 'z', rule => 'r', limit => 900000);
    obeyed(\@hosts, 'other', qr/^200 900000 redis/, 'a limit for all clients');
    obeyed(\@hosts, 'k', qr/^200 500000 redis/, 'but this one');
    $store->put(zone => 'z', key => 'banned', ban => 1);
    obeyed(\@hosts, 'banned', $banned, 'a ban');
    $store->put(zone => 'z', key => 'free', exempt => 1);
    obeyed(\@hosts, 'free', qr/^200 *$/, 'an exemption');
    $store->put(zone => 'denials', key => 'w', ban => 1);
    $store->put(zone => 'unknown', key => 'w', ban => 1);
    $store->put(zone => 'z', key => 'w', limit => 3000);
    obeyed(\@hosts, 'w', qr/^200 3000 redis/, 'other zones have their own');

    $store->remove(zone => 'z', key => 'k', rule => 'r');
    obeyed(\@hosts, 'k', qr/^200 7000 redis/, 'one is deleted');
    $store->remove(zone => 'z', key => 'k');
    $store->remove(zone => 'z', rule => 'r');
    $store->remove(zone => 'z', key => 'banned');
    obeyed(\@hosts, $_, $ordinary, "all are: $_") for qw(k banned);

    $store->put(zone => 'z', key => 'short', ban => 1, expires_in => 2);
    obeyed(\@hosts, 'short', $banned, 'one that expires');
    ok(wait_until(sub { told($_, 'short') =~ $ordinary }, 4), 'has expired') for @hosts;
    $_->stop for @hosts;
};

subtest 'a host that comes late' => sub {
    my $redis = RateLimit::Redis->start_new;
    my $store = RateLimit::LiveStore->new($redis->client);
    $store->put(zone => 'z', key => 'k', ban => 1);
    $store->put(zone => 'z', key => 'gone', ban => 1);
    $store->remove(zone => 'z', key => 'gone');
    my $host = start_host($redis->address);
    obeyed([$host], 'k', $banned, 'knows all that was set');
    obeyed([$host], 'gone', $ordinary, 'but what was deleted');
    $host->stop;
};

subtest 'a reset' => sub {
    my $redis = RateLimit::Redis->start_new;
    my $store = RateLimit::LiveStore->new($redis->client);
    my $host  = start_host($redis->address);
    is(join(' ', map { told($host, $_, '/one') =~ /^(\d+)/ } qw(k k l l)), '200 429 200 429', 'two clients are denied');
    $redis->client->del(map { "rl:{denials:$_}:fixed_window:3600000" } qw(k l));
    like(told($host, 'k', '/one'), qr/^429 1 deny_cache/, 'this host remembers it');
    $store->reset_key('denials', 'k');
    ok(wait_until(sub { told($host, 'k', '/one') =~ /^200/ }, $soon), 'and forgets it');
    like(told($host, 'l', '/one'), qr/^429 1 deny_cache/, 'of this client only');
    $host->stop;
};

# Redis is asked only for what has changed, by one worker of each host.
subtest 'what it costs' => sub {
    my $redis = RateLimit::Redis->start_new;
    my $store = RateLimit::LiveStore->new($redis->client);
    $store->put_all(map { { zone => 'z', key => "many$_", limit => $_ } } 1 .. 1200);
    my @hosts = map { start_host($redis->address, workers => 3) } 1, 2;
    obeyed(\@hosts, 'many1200', qr/^200 1200 redis/, 'all are known');
    ok(wait_until(sub { $redis->followers == 2 }), 'one worker of each host asks');
    my $commands = watch($redis);
    my $records  = sub { sum_of(map { scalar(() = / "KR? z /g) } grep { / lua\] "HMGET" /i } $commands->()) };
    my $polls    = sub { scalar grep { /"GET" "rl:\{live}:head"/i && !/ lua\]/ } $commands->() };
    my $began    = time;
    ok(wait_until(sub { $polls->() >= 6 }), 'they ask for the head');
    cmp_ok(time - $began, '>', 1.5, 'about once a second');
    is($records->(), 0, 'and for no record');
    $store->put(zone => 'z', key => 'many600', limit => 6000);
    obeyed(\@hosts, 'many600', qr/^200 6000 redis/, 'a change');
    is($records->(), 2, 'is one record for each host');
    $_->stop for @hosts;
    ok(wait_until(sub { $redis->followers == 0 }), 'no connection is left');
};

sub sum_of (@numbers) {
    my $sum = 0;
    $sum += $_ for @numbers;
    return $sum;
}

subtest 'Redis is emptied, away, and back' => sub {
    my $redis = RateLimit::Redis->start_new;
    my $store = RateLimit::LiveStore->new($redis->client);
    my @hosts = map { start_host($redis->address) } 1, 2;
    $store->put(zone => 'z', key => 'k', ban => 1);
    obeyed(\@hosts, 'k', $banned, 'a ban');
    $redis->client->flushall;
    obeyed(\@hosts, 'k', $ordinary, 'is forgotten when Redis is emptied');
    my $warning = qr/\[warn\] .*backend "default" has lost what operators had set/;
    is(scalar(() = $_->error_log =~ /$warning/g), 1, 'each host warns once') for @hosts;
    $store->put(zone => 'z', key => 'k', ban => 1);
    obeyed(\@hosts, 'k', $banned, 'the next one holds');

    $redis->kill_now;
    sleep 0.5;
    obeyed(\@hosts, 'k', $banned, 'it holds while Redis is away');
    $redis->restart;
    RateLimit::LiveStore->new($redis->client)->put(zone => 'z', key => 'l', ban => 1);
    ok(wait_until(sub { told($_, 'l') =~ $banned && told($_, 'k') =~ $ordinary }), 'an empty one is back, with another ban') for @hosts;
    for my $host (@hosts) {
        my @lines = grep { /redis_rate_limit/ && !/limiting requests|default" at .* (?:fails|works again)/ } split /\n/, $host->error_log;
        cmp_ok(scalar @lines, '<=', 2, 'the log has no more than what was lost') or diag join "\n", @lines;
    }

    $store = RateLimit::LiveStore->new($redis->client);
    $redis->freeze;
    sleep 2.5;
    obeyed(\@hosts, 'l', $banned, 'a Redis that stands still');
    $redis->thaw;
    $store->remove(zone => 'z', key => 'l');
    ok(wait_until(sub { told($_, 'l') =~ $ordinary }), 'and goes on') for @hosts;
    $_->stop for @hosts;
};

subtest 'the worker that asks' => sub {
    my $redis = RateLimit::Redis->start_new;
    my $store = RateLimit::LiveStore->new($redis->client);
    my $host  = start_host($redis->address);
    my $first = follower_of($host, $redis);
    ok($first, 'is one of them');
    $store->put(zone => 'z', key => 'before', ban => 1);
    obeyed([$host], 'before', $banned, 'a ban');

    freeze($first);
    $store->put(zone => 'z', key => 'k', ban => 1);
    ok(wait_until(sub { told($host, 'k') =~ $banned }, $soon), 'is frozen: another one asks');
    my $second = wait_until(sub { first { $_ != $first } grep { defined } map { worker_of($host, $redis, $_) } $redis->followers });
    ok($second, 'which is the other one');
    $store->remove(zone => 'z', key => 'before');
    ok(wait_until(sub { told($host, 'before') =~ $ordinary }, $soon), 'and knows what the first one knew');
    kill CONT => $first;
    obeyed([$host], $_->@*, 'the first one goes on, and changes nothing') for ['k', $banned], ['before', $ordinary];
    ok(wait_until(sub { $redis->followers == 1 }, 15), 'its connection is closed');

    kill KILL => $second;
    $store->put(zone => 'z', key => 'l', ban => 1);
    ok(wait_until(sub { told($host, 'l') =~ $banned }, $soon), 'is killed: another one asks');
    $host->stop(expect => RateLimit::Nginx::ends_of_killed($second));
};

subtest 'a reload' => sub {
    my $redis = RateLimit::Redis->start_new;
    my $store = RateLimit::LiveStore->new($redis->client);
    my $host  = start_host($redis->address);
    $store->put(zone => 'z', key => 'k', ban => 1);
    obeyed([$host], 'k', $banned, 'a ban');
    my $clients = sub { $redis->client->info('clients')->{connected_clients} };
    my $before  = $clients->();
    for (1 .. 3) {
        $host->reload;
        like(told($host, 'k'), $banned, 'holds at once') for 1 .. 4;
        $store->put(zone => 'z', key => "new$_", ban => 1);
        obeyed([$host], "new$_", $banned, 'and the next one soon');
    }
    ok(wait_until(sub { !$host->leaving_workers }), 'old workers leave');
    ok(wait_until(sub { $clients->() == $before }), 'with their connections');
    $host->stop;
};

# A worker that still sends a long response follows no longer.
subtest 'a worker that leaves slowly' => sub {
    my $redis = RateLimit::Redis->start_new;
    my $store = RateLimit::LiveStore->new($redis->client);
    my $host  = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; }
redis_rate_limit_zone \$arg_key zone=z:1m;
server {
    listen %PORT%;
    root %DIR%/html;
    location /     { redis_rate_limit zone=z algorithm=fixed_window limit=1000 window=1h; empty_gif; }
    location /long { limit_rate 1k; }
}
END
    $host->add_page('long', 'x' x 6000);
    my $old  = follower_of($host, $redis);
    my $long = $host->get_later('/long');
    ok(wait_until(sub { $host->access_log !~ /long/ && $host->accepts }), 'a long response');
    kill HUP => $host->pid;
    ok(wait_until(sub { $host->leaving_workers }), 'the old worker is leaving');
    my $new = wait_until(sub { my @now = grep { defined } map { worker_of($host, $redis, $_) } $redis->followers; @now == 1 && $now[0] != $old && $now[0] });
    ok($new, 'the new one asks');
    $store->put(zone => 'z', key => 'k', ban => 1);
    ok(wait_until(sub { $host->get('/?key=k')->{status} == 429 }, $soon), 'and obeys');
    is($long->()->{status}, 200, 'the response ends');
    $host->stop;
};

subtest 'a user of Redis that may not' => sub {
    my $redis = RateLimit::Redis->start_new;
    my $admin = $redis->client;
    my $store = RateLimit::LiveStore->new($admin);
    $store->put(zone => 'z', key => 'k', ban => 1);
    $admin->acl(split ' ', 'SETUSER limiter on >secret ~rl:* -@all +eval +evalsha +script|load +role +time +del +get +lindex +llen +lrem +ltrim +pexpire '
        . '+rpush +set +setrange +unlink +zadd +zcard +zincrby +zrange +zrangebyscore +zrem +zremrangebyscore');
    my $host = start_host(undef, backend => "server ${\$redis->address}; username limiter; password secret;");
    my $warning = qr/\[warn\] .*backend "default" refuses what live limits need: [^\n]+, what operators set does not reach this host/;
    ok($host->wait_for_log($warning), 'a warning');
    obeyed([$host], 'k', $ordinary, 'checks go on');
    sleep 1.5;
    is(scalar(() = $host->error_log =~ /$warning/g), 1, 'one warning');
    unlike($host->error_log, qr/fails/, 'no outage');
    $admin->acl(qw(SETUSER limiter +@all));
    ok(wait_until(sub { told($host, 'k') =~ $banned }, 12), 'it is tried again');
    $host->stop;
};

done_testing;
