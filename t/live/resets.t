# A client that operators have reset: this host forgets what was asked before, and nothing else. The
# counters in Redis are the operator's part, and deleted here by hand.

use v5.36;
use lib 't/lib';
use RateLimit::Client;
use RateLimit::DenyCache qw(calls);
use RateLimit::Live;
use RateLimit::LiveStore;
use RateLimit::Metrics qw(metrics_of);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Upstream;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis = RateLimit::Redis->start_new;
my $store = RateLimit::LiveStore->new($redis->client);
my $fixed = 'algorithm=fixed_window limit=4 window=1h';
my $upstream = RateLimit::Upstream->start_new;

# What a request reserves, and what another one takes of the same counter.
my %windows   = (aligned => 'fixed_window aligned', first => 'fixed_window', sliding => 'sliding_window');
my $locations = join '', map { <<"RULES" } sort keys %windows;
    location = /reserve_$_ { redis_rate_limit zone=z algorithm=$windows{$_} limit=100 window=1h name=$_ cost=50 final_cost=0; proxy_pass ${\$upstream->url}; }
    location = /take_$_    { redis_rate_limit zone=z algorithm=$windows{$_} limit=100 window=1h name=$_ cost=\$arg_cost; empty_gif; }
RULES

my $nginx = RateLimit::Nginx->start_new(<<"END", workers => 2);
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; breaker failures=1 cooldown=10s; }
redis_rate_limit_zone \$arg_key    zone=z:1m local_limit=50%;
redis_rate_limit_zone \$http_x_key zone=header:1m;
redis_rate_limit_zone \$arg_b      zone=b:1m on_error=closed;
large_client_header_buffers 4 2m;
keepalive_requests 1000000;
add_header X-Said "\$redis_rate_limit_limit \$redis_rate_limit_source" always;
server {
    listen %PORT%;
    location = /json   { redis_rate_limit_metrics json; }
    location = /metrics { redis_rate_limit_metrics; }
    location = /marker { redis_rate_limit zone=z algorithm=fixed_window limit=1000000 window=1h name=marker; empty_gif; }
    location = /one    { redis_rate_limit zone=z $fixed name=one; empty_gif; }
    location = /shards { redis_rate_limit zone=z $fixed name=shards shards=4; empty_gif; }
    location = /header { redis_rate_limit zone=header $fixed name=header; empty_gif; }
    location = /leased { redis_rate_limit zone=z algorithm=token_bucket limit=100000 window=1h name=leased lease=2s; empty_gif; }
$locations
}
END
my $live = RateLimit::Live->new($store, $nginx);

# Status, limit and source: `200 4 redis`.
sub told ($path, %options) {
    my $response = $nginx->get($path, %options);
    return "$response->{status} $response->{headers}{'x-said'}";
}

# Asks until the deny cache answers.
sub exhaust ($path, %options) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    like(wait_until(sub { my $told = told($path, %options); $told =~ /deny_cache/ && $told }), qr/^429 \d+ deny_cache$/, "$path is known to deny");
}

sub delete_counters ($pattern) { my $client = $redis->client; $client->del($_) for $client->keys($pattern) }

subtest 'denials' => sub {
    exhaust("/$_") for 'one?key=a', 'one?key=b', 'shards?key=a';
    delete_counters('rl:{z:a*');
    is(told('/one?key=a'), '429 4 deny_cache', 'without a reset it still is');
    $live->reset_key('z', 'a');
    is(told('/one?key=a'), '200 4 redis', 'a reset client is asked for');
    like(told('/shards?key=a'), qr/^200 4 redis$/, 'at each rule');
    is(told('/one?key=b'), '429 4 deny_cache', 'another one is not');
    exhaust('/one?key=a');
    is(told('/one?key=a'), '429 4 deny_cache', 'it is denied anew') for 1 .. 4;
    $live->put({ zone => 'z', key => 'c', limit => 5 });
    is(told('/one?key=a'), '429 4 deny_cache', 'a reset counts once');
    $live->reset_key('z', 'a');
    is(told('/one?key=a'), '429 4 redis', 'the next one again');
};

subtest 'keys' => sub {
    for my $key ('%25', 'x' x 1_000_000) {
        my %options = (headers => { 'X-Key' => $key });
        exhaust('/header', %options);
        my ($redis_key) = $redis->client->keys('rl:{header:*');
        my ($encoded) = $redis_key =~ /header:([^}]+)/;
        $redis->client->del($redis_key);
        $live->reset_key('header', $encoded);
        is(told('/header', %options), '200 4 redis', substr $key, 0, 12);
        $redis->client->del($redis_key);
    }
};

# The units of a bucket that its counter has from before would be given back to the new one.
subtest 'leases' => sub {
    my $flood = sub ($key) {
        my $connection = RateLimit::Client->new($nginx);
        $connection->send(map { "GET /leased?key=$key HTTP/1.1\r\nHost: a\r\n\r\n" } 1 .. 500);
        my $leased = 0;
        for (1 .. 500) {
            ++$leased if $connection->response->{headers}{'x-said'} =~ /lease/;
        }
        return $leased;
    };
    my $leases   = sub () { metrics_of($nginx)->{zones}{z}{rules}{leased}{leases} };
    my $finished = sub ($count) { my $now = $leases->(); $now->{units} - $now->{used} - $now->{returned} == $count };
    cmp_ok($flood->('kept'), '>', 300, 'a busy key');
    ok(wait_until(sub { $finished->(0) }), 'gives back what is left when its leases end');
    my $returned = $leases->()->{returned};
    cmp_ok($returned, '>', 0, 'which is something');

    cmp_ok($flood->('reset'), '>', 300, 'another one');
    my $before = $leases->();
    delete_counters('rl:{z:reset*');
    $live->reset_key('z', 'reset');
    my $left = $before->{units} - $before->{used} - $before->{returned};
    cmp_ok($left, '>', 0, 'has units left when it is reset');
    ok(wait_until(sub { expired() == $left }), 'they expire');
    is($leases->()->{returned}, $returned, 'and are not given back');
    is($redis->client->keys('rl:{z:reset*'), 0, 'so that its counter stays as it is');
};

sub expired () {
    return $nginx->get('/metrics')->{content} =~ /lease_units_total\{zone="z",rule="leased",fate="expired"\} (\d+)/ ? $1 : -1;
}

# A counter that began after the reset has nothing of what requests reserved before.
subtest 'reservations' => sub {
    for my $rule (sort keys %windows) {
        $upstream->hold;
        my $before = $nginx->get_later("/reserve_$rule?key=r");
        ok($upstream->wait_for(1), "$rule: a request has reserved 50");
        delete_counters('rl:{z:r}*');
        is($nginx->get("/take_$rule?key=r&cost=60")->{status}, 200, 'after a reset, 60 are taken');
        my $after = $nginx->get_later("/reserve_$rule?key=s");
        ok($upstream->wait_for(2), 'another client reserves');
        $upstream->answer;
        $_->() for $before, $after;
        my $returned = sub () { metrics_of($nginx)->{zones}{z}{rules}{$rule}{settlements}{returned} };
        ok(wait_until(sub { $returned->() == 2 }), 'both requests end');
        is($nginx->get("/take_$rule?key=r&cost=41")->{status}, 429, 'the 60 stay');
        is($nginx->get("/take_$rule?key=s&cost=100")->{status}, 200, 'the other one has its units back');
    }
};

subtest 'what this host has counted alone' => sub {
    is($nginx->statuses("/one?key=$_", 4), '200 200 200 200', 'Redis grants all') for 'local', 'other';
    is($nginx->statuses('/one?key=local-more', 4), '200 200 200 200', 'this one, too');
    $live->reset_key('z', 'local');
    $live->put({ zone => 'z', key => 'local-more', limit => 20 });
    $redis->kill_now;
    is(told('/one?key=other'), '429 2 local', 'this host knows what a client has taken');
    is(told('/one?key=local'), '200 2 local', 'but not from before its reset') for 1, 2;
    is(told('/one?key=local'), '429 2 local', 'from then on it counts');
    my $more = join ' ', map { told('/one?key=local-more') } 1 .. 9;
    is($more, join(' ', ('200 10 local') x 8, '429 10 local'), 'local_limit scales an override; half of what was taken counts');
};

$nginx->stop;
done_testing;
