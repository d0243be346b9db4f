# block=T: whom a rule denies is denied by it for a time from then on, by all hosts. What a block is to
# the microsecond is in t/model/block_model_test.cpp.

use v5.36;
use lib 't/lib';
use List::Util qw(sum0);
use RateLimit::Api qw(api query);
use RateLimit::Cluster;
use RateLimit::Metrics qw(metrics_of);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Upstream;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis    = RateLimit::Redis->start_new;
my $upstream = RateLimit::Upstream->start_new;

# The window of /short is over before its block is.
sub configuration ($backend, %options) {
    my $block = $options{block} // 'block=15m';
    return <<"END";
redis_rate_limit_backend default { $backend connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed deny_cache=off;
redis_rate_limit_zone \$arg_key zone=cached:1m on_error=closed;
redis_rate_limit_zone \$arg_other zone=other:1m on_error=closed deny_cache=off;
redis_rate_limit_zone \$arg_key zone=local:1m deny_cache=off;
redis_rate_limit_headers x ietf;
add_header X-Source "\$redis_rate_limit_source" always;
keepalive_requests 1000000;
server {
    listen %PORT%;
    location = /short  { redis_rate_limit zone=z algorithm=sliding_log limit=2 window=300ms $block; empty_gif; }
    location = /brief  { redis_rate_limit zone=z algorithm=fixed_window limit=2 window=100ms block=1s; empty_gif; }
    location = /long   { redis_rate_limit zone=z algorithm=fixed_window limit=1 window=1h block=1s name=long; empty_gif; }
    location = /cost   { redis_rate_limit zone=z algorithm=gcra limit=100 window=1 burst=4 cost=\$arg_cost $block; empty_gif; }
    location = /plain  { redis_rate_limit zone=z algorithm=sliding_log limit=2 window=300ms; empty_gif; }
    location = /dry    { redis_rate_limit zone=z algorithm=sliding_log limit=2 window=300ms $block dry_run; empty_gif; }
    location = /cached { redis_rate_limit zone=cached algorithm=sliding_log limit=2 window=300ms $block; empty_gif; }
    location = /cached_long { redis_rate_limit zone=cached algorithm=fixed_window limit=1 window=1h block=1s name=cached_long; empty_gif; }
    location = /cached_plain { redis_rate_limit zone=cached algorithm=sliding_log limit=2 window=300ms; empty_gif; }
    location = /cached_in_flight { redis_rate_limit zone=cached algorithm=concurrency limit=1 $block; proxy_pass ${\$upstream->url}; }
    location = /local  { redis_rate_limit zone=local algorithm=token_bucket limit=20 window=1s burst=2 $block; empty_gif; }
    location = /named  { redis_rate_limit zone=z algorithm=gcra limit=1000 window=1 name=block; empty_gif; }
    location = /redirected { redis_rate_limit zone=z algorithm=sliding_log limit=2 window=300ms; try_files /none /short?key=\$arg_key; }
    location = /several {
        redis_rate_limit zone=z     algorithm=fixed_window limit=1 window=300ms name=a $block;
        redis_rate_limit zone=z     algorithm=token_bucket limit=1000 window=1h name=b $block;
        redis_rate_limit zone=other algorithm=sliding_log limit=1000 window=1h name=c;
        empty_gif;
    }
    location = /other_denies {
        redis_rate_limit zone=z     algorithm=token_bucket limit=1000 window=1h name=b $block;
        redis_rate_limit zone=other algorithm=sliding_log limit=2 window=1h name=two;
        empty_gif;
    }
    location = /many {
        redis_rate_limit zone=z     algorithm=fixed_window limit=1 window=300ms name=a $block;
        redis_rate_limit zone=z     algorithm=token_bucket limit=1000 window=1h name=b $block;
        redis_rate_limit zone=other algorithm=sliding_log limit=1000 window=1h name=c;
        redis_rate_limit zone=other algorithm=sliding_window limit=2000 window=1h name=d $block dry_run;
        redis_rate_limit zone=other algorithm=gcra limit=2000 window=1h burst=1000 name=e;
        redis_rate_limit zone=other algorithm=concurrency limit=1000 name=f $block;
        empty_gif;
    }
    location = /twelve {
        @{[ map { "redis_rate_limit zone=z algorithm=sliding_window limit=\$arg_limit window=1h name=twelve$_ block=1h;\n" } 1 .. 12 ]}
        empty_gif;
    }
    location = /json { redis_rate_limit_metrics json; }
    location /api/ { redis_rate_limit_api write; }
}
END
}

my $backend = "server ${\$redis->address};";
my ($here, $there) = map { RateLimit::Nginx->start_new(configuration($backend), workers => 2) } 1 .. 2;

my $log = 'sliding_log:300';
sub block_key ($key, $counter = $log, $zone = 'z') { return "rl:{$zone:$key}:$counter#block" }

# Asks until it is denied, and waits until the counters of the short rules are empty again. Returns the
# denial.
sub deny ($nginx, $path) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $denied;
    ok(wait_until(sub { ($denied = $nginx->get($path))->{status} == 429 }), "$path is denied");
    select undef, undef, undef, 0.31;
    return $denied;
}

# The status, and some headers.
sub told ($response, @headers) { return join ' ', $response->{status}, map { $response->{headers}{$_} // '-' } @headers }

# So often scripts were called.
sub calls () { return sum0(values $redis->script_calls->%*) }

subtest 'all hosts deny whom a rule has denied' => sub {
    is($here->get('/short?key=all')->{status}, 200, 'who is within the limit passes');
    ok(!$redis->client->exists(block_key('all')), 'and is not blocked');
    is(told(deny($here, '/short?key=all'), qw(retry-after x-ratelimit-remaining x-ratelimit-reset ratelimit)), '429 900 0 900 "z/300ms";r=0;t=900', 'which begins a block');
    for my $nginx ($here, $there) {
        my $response = $nginx->get('/short?key=all');
        is(told($response, qw(x-ratelimit-remaining x-source)), '429 0 redis', 'denied after the window');
        cmp_ok($response->{headers}{'retry-after'}, '>=', 890, 'for nearly as long');
        is($response->{headers}{'x-ratelimit-reset'}, $response->{headers}{'retry-after'}, 'and all is there then');
    }
    is($here->get('/short?key=other')->{status}, 200, 'another client passes');
    is($here->get('/plain?key=all')->{status}, 200, 'a rule of the same counter without block does not ask for it');
    is($redis->client->llen("rl:{z:all}:$log"), 1, 'which alone was charged');
    like($here->error_log, qr/limiting requests, rule "z\/300ms", key "all", retry after 899\.\d+s/, 'the log says for how long');
};

subtest 'denials do not prolong it' => sub {
    deny($here, '/short?key=longer');
    my $client = $redis->client;
    my ($value, $expires) = ($client->get(block_key('longer')), $client->pexpiretime(block_key('longer')));
    deny($_, '/short?key=longer') for $here, $there;
    is($client->get(block_key('longer')), $value, 'it stays as it was');
    is($client->pexpiretime(block_key('longer')), $expires, 'and expires when it did');
} if RateLimit::Redis::major_version() >= 7;

subtest 'no second round trip' => sub {
    deny($here, '/short?key=trips');
    my $before = calls();
    $here->get("/short?key=$_") for qw(trips new trips);
    is(calls() - $before, 3, 'three checks are three calls, blocked or not');
};

subtest 'it ends by time' => sub {
    ok(wait_until(sub { $here->get('/brief?key=ends')->{status} == 429 }), 'denied');
    ok(wait_until(sub { $there->get('/brief?key=ends')->{status} == 200 }, 5), 'and passes a second later');
    my $ends = $redis->client->pttl(block_key('ends', 'fixed_window:100'));
    cmp_ok($ends, '<=', 5001, 'the key goes a little later');
    cmp_ok($ends, '>', 0, 'by itself');
};

subtest 'a rule that denies for longer' => sub {
    is($here->get('/long?key=k')->{status}, 200, 'passes once an hour');
    my $denied = $here->get('/long?key=k');
    cmp_ok($denied->{headers}{'retry-after'}, '>', 3590, 'Retry-After is the longer time');
};

subtest 'costs' => sub {
    is($here->get('/cost?key=c&cost=6')->{status}, 429, 'more than there ever is');
    is($here->get('/cost?key=c&cost=5')->{status}, 200, 'begins no block');
    deny($here, '/cost?key=c&cost=5');
    is($here->get("/cost?key=c&cost=$_")->{status}, 429, "and denies a cost of $_") for 5, 1, 0;
    is($here->get('/cost?key=c&cost=6')->{headers}{'retry-after'}, undef, 'what never passes has no Retry-After');
    is($here->get('/named?key=c')->{status}, 200, 'a rule with the name `block` has another key');
};

subtest 'dry runs' => sub {
    $here->get('/dry?key=dry') for 1 .. 5;
    is(metrics_of($here)->{zones}{z}{rules}{'z/300ms'}{dry_run_rejected} > 0, 1, 'deny in metrics');
    ok(!$redis->client->exists(block_key('dry')), 'and block nobody');
    deny($here, '/short?key=dry');
    is($here->get('/dry?key=dry')->{status}, 200, 'nor do they know of a block');
};

subtest 'the deny cache' => sub {
    deny($here, '/cached?key=k');
    is(told($there->get('/cached?key=k'), 'x-source'), '429 redis', 'another host asks once');
    my $before = calls();
    for my $nginx ($here, $there) {
        my $response = $nginx->get('/cached?key=k');
        is(told($response, qw(x-ratelimit-remaining x-source)), '429 0 deny_cache', 'knows the block');
        cmp_ok($response->{headers}{'retry-after'}, '>', 890, 'and for how long');
    }
    is(calls(), $before, 'without a call');
    is($here->get('/cached_plain?key=k')->{status}, 200, 'but not for a rule without block');
    is(calls(), $before + 1, 'which asks');
};

# As without the cache: a denial by the rule itself begins the next block.
subtest 'the deny cache asks when a block has ended' => sub {
    is($here->get('/cached_long?key=k')->{status}, 200, 'passes once an hour');
    my $key = block_key('k', 'fixed_window:3600000:cached_long', 'cached');
    is(told($here->get('/cached_long?key=k'), 'x-source'), '429 redis', 'is denied, and blocked');
    my $known = $here->get('/cached_long?key=k');
    is(told($known, 'x-source'), '429 deny_cache', 'which is known');
    cmp_ok($known->{headers}{'retry-after'}, '>', 3590, 'with the longer time of block and rule');
    my $block = $redis->client->get($key);
    ok($block, 'Redis knows the block');
    my $begins_another = sub { # asked just before the first one ends, Redis does not
        my $now = told($here->get('/cached_long?key=k'), 'x-source') eq '429 redis' ? $redis->client->get($key) : undef;
        return defined $now && $now ne $block;
    };
    ok(wait_until($begins_another, 5), 'a second later Redis is asked, and begins another one');
};

subtest 'requests in flight' => sub {
    $upstream->hold;
    my $held = $here->get_later('/cached_in_flight?key=held');
    ok($upstream->wait_for(1), 'one is in flight');
    is(told($there->get('/cached_in_flight?key=held'), qw(retry-after x-ratelimit-remaining ratelimit)), '429 900 0 "cached/concurrency";r=0', 'another one is denied, and blocked');
    $upstream->answer;
    $held->();
    is(told($there->get('/cached_in_flight?key=held'), 'x-source'), '429 deny_cache', 'out of the cache');
};

subtest 'the API' => sub {
    my $key = query(zone => 'cached', key => 'api');
    deny($_, '/cached?key=api') for $here, $there;
    my $rule = api($here, "GET key$key")->{json}{rules}{'cached/300ms'};
    is($rule->{remaining}, 0, 'nothing remains');
    cmp_ok($rule->{retry_after}, '>', 890, 'for the time of the block');
    ok($rule->{denied_here}, 'this host knows it');
    my $before = $redis->client->get(block_key('api', $log, 'cached'));
    ok(defined $before, 'it is there');
    api($there, "GET key$key");
    is($redis->client->get(block_key('api', $log, 'cached')), $before, 'and looking at it changes nothing');
    cmp_ok(api($there, "DELETE key$key")->{json}{deleted}, '>=', 1, 'a reset deletes it');
    ok(!$redis->client->exists(block_key('api', $log, 'cached')), 'from Redis');
    ok(wait_until(sub { $_->get('/cached?key=api')->{status} == 200 }, 2), 'and within 2 s a host lets the client pass') for $here, $there;
    is(api($here, 'GET key' . query(zone => 'z', key => 'nobody'))->{json}{rules}{'z/300ms'}{retry_after}, undef, 'nobody else is blocked');
};

subtest 'several rules' => sub {
    deny($here, '/several?key=k&other=o');
    is(join(' ', map { $redis->client->exists(block_key('k', $_)) } qw(fixed_window:300:a token_bucket:3600000:b)), '1 0', 'one of them, which blocks alone');
    my $taken = $redis->client->llen('rl:{other:o}:sliding_log:3600000:c');
    is($there->get('/several?key=k&other=o')->{status}, 429, 'its block holds');
    is($redis->client->llen('rl:{other:o}:sliding_log:3600000:c'), $taken, 'and keeps the others from being charged');
    is($here->statuses('/other_denies?key=x&other=p', 3), '200 200 429', 'where another rule denies');
    ok(!$redis->client->exists(block_key('x', 'token_bucket:3600000:b')), 'a rule with block begins none');
};

# Too many for a script of each combination: a request without one of the keys runs the one for any rules.
subtest 'any rules' => sub {
    is($here->get('/many?key=some')->{status}, 200, 'some of them grant');
    deny($here, '/many?key=some');
    like(told($there->get('/many?key=some'), 'retry-after'), qr/^429 (?:89\d|900)$/, 'and block');
    is($here->get('/many?key=&other=some')->{status}, 200, 'those of another key grant');
    is($here->get('/many?key=all&other=all')->{status}, 200, 'all of them grant');
    deny($here, '/many?key=all&other=all');
    is($there->get('/many?key=all&other=all')->{status}, 429, 'and block');
};

subtest 'as many rules as there may be' => sub {
    is($here->get('/twelve?key=twelve&limit=2')->{status}, 200, 'all grant');
    my $denied = $here->get('/twelve?key=twelve&limit=1');
    is(scalar(() = ($denied->{headers}{ratelimit} // '') =~ /;r=0;t=/g), 12, 'all deny');
    is(scalar(grep { $redis->client->exists(block_key('twelve', "sliding_window:3600000:twelve$_")) } 1 .. 12), 12, 'all block');
    is($there->get('/twelve?key=twelve&limit=2')->{status}, 429, 'elsewhere, too');
};

subtest 'a redirect to a rule with block' => sub {
    deny($here, '/short?key=redirected');
    is($here->get('/redirected?key=redirected')->{status}, 429, 'asks for it, though its counter was charged');
    is($here->get('/redirected?key=not')->{status}, 200, 'and passes otherwise');
    is($redis->client->llen("rl:{z:not}:$log"), 1, 'charged once');
};

subtest 'a reload' => sub {
    deny($here, '/short?key=reload');
    $here->reload;
    is($here->get('/short?key=reload')->{status}, 429, 'keeps blocks');
    $here->configure(configuration($backend, block => ''));
    $here->reload;
    is($here->get('/short?key=reload')->{status}, 200, 'rules that lose their block do not ask');
    is($here->get('/cached?key=k')->{status}, 200, 'neither Redis nor the cache');
    is($there->get('/short?key=reload')->{status}, 429, 'other hosts do');
    $here->configure(configuration($backend));
    $here->reload;
    is($here->get('/short?key=reload')->{status}, 429, 'and so does this one again');
};

# The bucket is full soon after it denied. Hosts that decide alone know that, and nothing of blocks but
# what their deny caches have.
subtest 'without Redis' => sub {
    deny($here, '/cached?key=outage');
    deny($_, '/local?key=k') for $here, $there;
    $redis->stop;
    for my $nginx ($here, $there) {
        is(told($nginx->get('/local?key=k'), 'x-source'), '200 local', 'on_error=local counts what there was');
        is($nginx->get('/short?key=reload')->{status}, 503, 'on_error=closed rejects');
    }
    is(told($here->get('/cached?key=outage'), 'x-source'), '429 deny_cache', 'the deny cache denies');
};

$_->stop for $here, $there;

subtest 'a cluster' => sub {
    my $cluster = RateLimit::Cluster->start_new;
    my @hosts   = map { RateLimit::Nginx->start_new(configuration("mode cluster; ${\$cluster->servers}")) } 1 .. 2;
    for my $key ('a' .. 'f') {
        ok(wait_until(sub { $hosts[0]->get("/short?key=$key")->{status} == 429 }), "$key is denied");
    }
    select undef, undef, undef, 0.31;
    for my $key ('a' .. 'f') {
        is($_->get("/short?key=$key")->{status}, 429, "$key is blocked") for @hosts;
        ok($cluster->master_of(block_key($key))->client->exists(block_key($key)), 'where its counter is');
    }
    cmp_ok(api($hosts[1], 'DELETE key' . query(zone => 'z', key => 'a'))->{json}{deleted}, '>=', 1, 'a reset');
    is($_->get('/short?key=a')->{status}, 200, 'lets a client pass') for @hosts;
    $_->stop for @hosts;
};

done_testing;
