# Whether what operators set reaches a host: Redis may lose a part of it, somebody may write over it, or
# the user may not read it. The host then goes on with what it knows, and says so: in its log at both
# ends, in its metrics, and to whoever sets something by it.

use v5.36;
use lib 't/lib';
use RateLimit::Api qw(api query);
use RateLimit::LiveStore;
use RateLimit::Metrics qw(metrics_of);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

# So long may it take a host to learn all, or to be asked again after a refusal; with room for a slow
# machine.
my $seconds = 10 + 10;

my $lost      = qr/\[warn\] .*backend "default" has lost a part of what operators had set, what this host knows of it holds on/;
my $again     = qr/\[warn\] .*what operators set in backend "default" reaches this host again/;
my $followed  = sub ($host) { metrics_of($host)->{backends}{default}{live_limits_followed} };
my $is_banned = sub ($host, $key) { $host->get("/?key=$key")->{status} == 429 };

sub start_host ($address, $user = '') {
    return RateLimit::Nginx->start_new(<<"END", workers => 2);
redis_rate_limit_backend default { server $address; $user }
redis_rate_limit_zone \$arg_key zone=z:2m deny_cache=off;
server {
    listen %PORT%;
    location / { redis_rate_limit zone=z algorithm=fixed_window limit=100000 window=1h name=r; empty_gif; }
    location = /json { redis_rate_limit_metrics json; }
    location = /metrics { redis_rate_limit_metrics; }
    location /api/ { redis_rate_limit_api write; }
}
END
}

# A host that obeys bans of clients `old1` to `old3`.
sub start_with_bans ($redis, $store) {
    $store->put(zone => 'z', key => "old$_", ban => 1) for 1 .. 3;
    my $host = start_host($redis->address);
    wait_until(sub { $is_banned->($host, 'old3') }) or die 'no ban';
    return $host;
}

sub put ($host, $key) { return api($host, 'PUT override' . query(zone => 'z', key => $key), body => { ban => \1 }) }

sub remove ($host, $key) { return api($host, 'DELETE override' . query(zone => 'z', key => $key)) }

sub times_logged ($host, $pattern) { return scalar(() = $host->error_log =~ /$pattern/g) }

# Followers begin anew on a new connection.
sub cut_connections ($redis) { $redis->client->client_kill('TYPE', 'normal', 'SKIPME', 'yes') }

# The host says that it does not follow, and obeys what it knew.
sub is_not_followed ($host, $pattern) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    ok(wait_until(sub { !$followed->($host) }, $seconds), 'the host says that it does not follow');
    like($host->get('/metrics')->{content}, qr/^nginx_redis_rate_limit_live_limits_followed\{backend="default"\} 0$/m, 'for Prometheus, too');
    is(times_logged($host, $pattern), 1, 'it has logged so, once');
    is_deeply([ grep { !$is_banned->($host, "old$_") } 1 .. 3 ], [], 'and obeys what it knew');
}

sub is_followed_again ($host) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    ok(wait_until(sub { $followed->($host) }, $seconds), 'the host says that it follows again');
    is(times_logged($host, $again), 1, 'it has logged so, once');
    is(put($host, 'at the end')->{status}, 200, 'and so has who sets something');
}

for my $part (qw(log data head)) {
    subtest "Redis evicts the $part" => sub {
        my $redis = RateLimit::Redis->start_new;
        my $store = RateLimit::LiveStore->new($redis->client);
        my $host  = start_with_bans($redis, $store);
        ok($followed->($host), 'the host says that it follows');
        $redis->client->del("rl:{live}:$part");
        cut_connections($redis) if $part ne 'data'; # else it sees that by itself
        is_not_followed($host, $lost);
        my $told = put($host, 'new');
        if ($part ne 'head') { # which is whole again with any write
            is("$told->{status} $told->{json}{error}", '502 not_followed', 'who sets something is told');
            like($told->{json}{description}, qr/^written, but this host does not follow what operators set/, 'that it is written');
            ok(wait_until(sub { $is_banned->($host, 'new') }), 'which is obeyed nevertheless');
            is(api($host, 'DELETE key' . query(zone => 'z', key => 'new'))->{json}{error}, 'not_followed', 'so is who resets a client');
            is(remove($host, 'old1')->{status}, 502, 'or deletes an override');
            put($host, "old$_") for 2, 3;
        }
        is_followed_again($host);
        ok($is_banned->($host, $_), "$_ is banned") for qw(new old2 old3);
        is($is_banned->($host, 'old1'), $part eq 'head', 'and what was deleted meanwhile is not');
        $host->stop;
    };
}

# A text of 2 MB is more than a host reads.
subtest 'a record that nobody of ours wrote' => sub {
    my $redis = RateLimit::Redis->start_new;
    my $store = RateLimit::LiveStore->new($redis->client);
    my $host  = start_with_bans($redis, $store);
    $redis->client->hset('rl:{live}:data', 'K z old2', 'x' x 2_000_000);
    $store->put(zone => 'z', key => 'new', ban => 1);
    ok(wait_until(sub { $is_banned->($host, 'new') }), 'keeps the host from no other one');
    cut_connections($redis);
    is_not_followed($host, $lost);
    is(put($host, 'next')->{status}, 502, 'who sets something is told');
    ok(wait_until(sub { $is_banned->($host, 'next') }), 'which is obeyed nevertheless');
    is(api($host, 'GET key' . query(zone => 'z', key => 'old2'))->{status}, 200, 'the client can be looked up');
    remove($host, 'old2');
    is_followed_again($host);
    ok(!$is_banned->($host, 'old2'), 'and it can be deleted');
    $host->stop;
};

subtest 'a head that nobody of ours wrote' => sub {
    my $redis = RateLimit::Redis->start_new;
    my $store = RateLimit::LiveStore->new($redis->client);
    my $host  = start_with_bans($redis, $store);
    my $head  = $redis->client->get('rl:{live}:head');
    $redis->client->set('rl:{live}:head', 'x' x 2_000_000);
    is_not_followed($host, qr/\[warn\] .*backend "default" does not tell what operators set: an unexpected reply, what this host knows of it holds on/);
    $redis->client->set('rl:{live}:head', $head);
    is_followed_again($host);
    $host->stop;
};

subtest 'a user of Redis that may not, again and again' => sub {
    my $redis  = RateLimit::Redis->start_new;
    my $admin  = $redis->client;
    my $store  = RateLimit::LiveStore->new($admin);
    my $may    = sub (@words) { $admin->acl(qw(SETUSER limiter), @words) };
    my $refuses = qr/\[warn\] .*backend "default" refuses what live limits need: [^\n]+, what operators set does not reach this host/;
    $may->(qw(on >secret ~rl:* +@all));
    $store->put(zone => 'z', key => 'old', ban => 1);
    my $host = start_host($redis->address, 'username limiter; password secret;');
    ok(wait_until(sub { $is_banned->($host, 'old') }), 'a host that follows');
    for my $time (1, 2) {
        $may->('-get');
        ok(wait_until(sub { times_logged($host, $refuses) == $time }, $seconds), "is refused, time $time");
        ok(!$followed->($host), 'and says so');
        ok($is_banned->($host, 'old'), 'it obeys what it knew');
        $may->('+get');
        ok(wait_until(sub { times_logged($host, $again) == $time }, $seconds), 'it follows again');
        ok($followed->($host), 'and says so');
    }
    $may->('-hset'); # with which rules are registered, each minute, or after a new connection
    cut_connections($redis);
    ok(wait_until(sub { times_logged($host, $refuses) == 3 }, $seconds), 'one that may not register its rules');
    ok(!$followed->($host), 'does not follow, either');
    $host->stop;
};

# All that was set is gone, which is no reason to wait for any of it.
subtest 'Redis is emptied' => sub {
    my $redis = RateLimit::Redis->start_new;
    my $store = RateLimit::LiveStore->new($redis->client);
    my $host  = start_with_bans($redis, $store);
    $redis->client->flushall;
    ok(wait_until(sub { !$is_banned->($host, 'old1') }), 'no ban holds');
    ok($followed->($host), 'and the next one would');
    is(put($host, 'new')->{status}, 200, 'which is set');
    ok(wait_until(sub { $is_banned->($host, 'new') }), 'and holds');
    is(times_logged($host, $lost), 0, 'nothing is lost in part');
    $host->stop;
};

done_testing;
