# A counter that is spread over several keys of Redis: never more than the limit over all of them,
# hardly less, and evenly spread.

use v5.36;
use lib 't/lib';
use JSON::PP qw(decode_json);
use List::Util qw(max min sum0);
use RateLimit::Client;
use RateLimit::Clock;
use RateLimit::Load qw(start_requests);
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use RateLimit::Upstream;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(time);

my $redis    = RateLimit::Redis->start_new;
my $other    = RateLimit::Redis->start_new;
my $upstream = RateLimit::Upstream->start_new;
my $client   = $redis->client;
my $nobody   = empty_port();

# Of two units, with two shards.
my %two = (
    fixed_window   => 'limit=2',
    sliding_log    => 'limit=2',
    sliding_window => 'limit=2',
    token_bucket   => 'limit=2',
    gcra           => 'limit=2 burst=1',
    leaky_bucket   => 'limit=2 burst=1 delay=1',
);
my $log = 'zone=z algorithm=sliding_log window=1h';

my $nginx = RateLimit::Nginx->start_new(<<"END", workers => 2);
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_backend other   { server ${\$other->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_backend nobody  { server 127.0.0.1:$nobody; }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed;
redis_rate_limit_zone \$arg_key zone=asks:1m on_error=closed deny_cache=off;
redis_rate_limit_zone \$arg_key zone=other:1m on_error=closed backend=other;
redis_rate_limit_zone \$arg_key zone=nobody:1m backend=nobody;
add_header X-Source \$redis_rate_limit_source always;
add_header X-Status \$redis_rate_limit_status always;
keepalive_requests 1000000;
server {
    listen %PORT%;
    ${\join '', map { "location /two-$_ { redis_rate_limit zone=z algorithm=$_ $two{$_} window=1h shards=2 name=$_; empty_gif; }\n" } sort keys %two}
    location /flight   { redis_rate_limit zone=z algorithm=concurrency limit=4 shards=2; proxy_pass ${\$upstream->url}; }
    location /uneven   { redis_rate_limit $log limit=10 shards=4 name=uneven; empty_gif; }
    location /busy     { redis_rate_limit $log limit=1024 shards=64 name=busy; empty_gif; }
    location /wide     { redis_rate_limit $log limit=80000 shards=8 name=wide; empty_gif; }
    location /variable { redis_rate_limit $log limit=\$arg_limit cost=\$arg_cost shards=8 name=variable; empty_gif; }
    location /cached   { redis_rate_limit $log limit=20 shards=2 name=cached; empty_gif; }
    location /both     { redis_rate_limit $log limit=4 shards=2 name=both; redis_rate_limit $log limit=\$arg_limit name=beside; empty_gif; }
    location /apart    { redis_rate_limit $log limit=4 shards=2 name=apart; redis_rate_limit zone=other algorithm=sliding_log window=1h limit=100; empty_gif; }
    location /dry    { redis_rate_limit $log limit=2 shards=2 name=dry dry_run; empty_gif; }
    location /wrong    { redis_rate_limit zone=asks algorithm=sliding_log window=1h limit=4 shards=2; empty_gif; }
    location /nobody   { redis_rate_limit zone=nobody algorithm=sliding_log window=1h limit=10 shards=4; empty_gif; }
}
END

sub key ($key, $shard, $shards, $name, $zone = 'z') { return "rl:{$zone:$key%#$shard/$shards}:sliding_log:3600000" . ($name && ":$name") }

sub shards ($key, $shards, $name, $zone = 'z') { return map { $client->llen(key($key, $_, $shards, $name, $zone)) } 0 .. $shards - 1 }

sub passed ($path, $count) { return scalar grep { $_ == 200 } split ' ', $nginx->statuses($path, $count) }

# Before the test asks, a shard has taken so many units.
sub take ($key, $count) { $client->rpush($key, (sprintf '%d', time * 1_000_000) x $count) }

# A shard that is known to be full is not asked again: after one denial too early at most, the other
# one grants.
subtest 'two shards, any algorithm' => sub {
    for my $algorithm (sort keys %two) {
        is(passed("/two-$algorithm?key=$_", 4), 2, "$algorithm, key $_") for 1 .. 6;
    }
    my @keys = grep { /%#/ } $redis->keys;
    is(scalar(grep { /\{z:\d%#[01]\/2\}/ } @keys), 6 * 2 * 6, 'all in keys of their own');
    is(scalar @keys, 6 * 2 * 6, 'and nothing else');
    is(scalar(grep { $client->pttl($_) < 3_600_000 } @keys), 0, 'each expires after its window');
};

subtest 'requests in flight' => sub {
    $upstream->hold;
    my @flights = map { $nginx->get_later('/flight?key=f') } 1 .. 40;
    ok($upstream->wait_for(4), 'four at a time');
    is($nginx->get('/flight?key=f')->{status}, 429, 'and no more');
    $upstream->answer;
    is(scalar(grep { $_->()->{status} == 200 } @flights), 4, 'they end');
    ok(wait_until(sub { !grep { /concurrency/ } $redis->keys }), 'each gives its place back where it had it');
};

subtest 'shares' => sub {
    is(passed('/uneven?key=u', 100), 10, 'ten over four shards');
    is(join(' ', shards('u', 4, 'uneven')), '3 3 2 2', 'each has its share');
};

# By docs/directives.md, "Shards": of a client that asks at once for as much as its limit, at most 1 in
# 3 * sqrt(limit / shards) requests is refused on average: here 1 in 12.
subtest 'a busy key gets hardly less than its limit, and never more' => sub {
    my $passed = 0;
    for my $key (1 .. 16) {
        my $result = start_requests($nginx->url("/busy?key=$key"), 1024, connections => 8)->finish;
        is($result->{passed} + $result->{refused} - $result->{faults}, 1024, "key $key: all have verdicts");
        $passed += $result->{passed};
    }
    my $limit = 16 * 1024;
    cmp_ok($passed, '>=', $limit * 11 / 12, sprintf '%.1f %% of requests are refused too early', 100 - 100 * $passed / $limit);
    cmp_ok($passed, '<', $limit, 'and some are: the bound is one');
    my $more = start_requests($nginx->url('/busy?key=1'), 10_000, connections => 32)->finish;
    is($more->{faults} + $more->{broken}, 0, 'a key that goes on asking');
    is(sum0(shards(1, 64, 'busy')), 1024, 'gets all of it, and no more');
    is(join(' ', shards(1, 64, 'busy')), join(' ', (16) x 64), 'each shard its share');
};

# The spread of a shard's count is about sqrt(1000): 0.8 and 1.2 times are six of that.
subtest 'evenly' => sub {
    is(start_requests($nginx->url('/wide?key=w'), 8000, connections => 32)->finish->{passed}, 8000, '8000 requests');
    my @shards = shards('w', 8, 'wide');
    is(sum0(@shards), 8000, 'are all counted');
    cmp_ok(min(@shards), '>', 800,  "no shard has few: @shards");
    cmp_ok(max(@shards), '<', 1200, 'and none has many');
};

subtest 'limits of variables' => sub {
    is(passed('/variable?key=v&cost=1&limit=3', 100), 3, 'less than there are shards');
    is(join(' ', shards('v', 8, 'variable')), '1 1 1 0 0 0 0 0', 'some of them are not used');
    is(passed('/variable?key=v&cost=1&limit=8', 100), 5, 'the counter is the same');
    is($nginx->get('/variable?key=v&cost=1&limit=0')->{status}, 429, 'none');
    my $costly = $nginx->get('/variable?key=c&cost=3&limit=16');
    is($costly->{status}, 429, 'more than a share');
    ok(!exists $costly->{headers}{'retry-after'}, 'is never granted');
};

subtest 'costs of variables' => sub {
    my $answer = sub ($key, $cost) {
        my $response = $nginx->get("/variable?key=$key&limit=20&cost=$cost"); # shares of 3 and of 2
        return join ' ', $response->{status}, exists $response->{headers}{'retry-after'} ? 'for now' : ();
    };
    is(join(', ', map { $answer->("cost-$_", 3) } 1 .. 20), join(', ', ('429') x 20), 'more than some shards have is never granted');
    is(join(', ', map { $answer->("cost-$_", 2) } 1 .. 20), join(', ', ('200') x 20), 'what each has is, and nothing was charged before');
};

subtest 'headers tell of the rule' => sub {
    my $first = $nginx->get('/uneven?key=h')->{headers};
    is($first->{'x-ratelimit-limit'}, 10, 'its limit');
    like($first->{'x-ratelimit-remaining'}, qr/^[56]$/, 'and as much left as if all shards were like the one that was asked');
    is($first->{'ratelimit-policy'}, '"uneven";q=10;w=3600', 'policy');
    my $denied;
    do { $denied = $nginx->get('/uneven?key=h') } while $denied->{status} == 200;
    is($denied->{headers}{'x-ratelimit-remaining'}, 0, 'none is left');
    cmp_ok($denied->{headers}{'retry-after'}, '>', 3500, 'it is told how long a shard is full');
    my $known;
    do { $known = $nginx->get('/uneven?key=h') } until $known->{headers}{'x-source'} eq 'deny_cache';
    is($known->{headers}{'x-ratelimit-limit'}, 10, 'also where it is known');
};

subtest 'a full shard denies for itself alone' => sub {
    my $full = key('k', 0, 2, 'cached');
    take($full, 10);
    is(passed('/cached?key=k', 11), 10, 'the other one grants');
    my @keys = (key('d', 0, 2, 'cached'), key('d', 1, 2, 'cached'));
    take($_, 10) for @keys;
    my $told = sub { my $response = $nginx->get('/cached?key=d'); "$response->{status} $response->{headers}{'x-source'}" };
    is($told->(), '429 redis', 'both are full');
    ok(wait_until(sub { $told->() eq '429 deny_cache' }), 'which is known then');
    my $before = $redis->script_calls;
    is($nginx->statuses('/cached?key=d', 20) =~ tr/4//, 20, 'all are denied');
    is_deeply($redis->script_calls, $before, 'and Redis is not asked');
};

subtest 'several rules' => sub {
    my $beside = 'rl:{z:%s}:sliding_log:3600000:beside';
    for my $key (1 .. 4) {
        is(passed("/both?key=b$key&limit=100", 40), 4, "key $key: one is spread");
        is($client->llen(sprintf $beside, "b$key"), 4, 'the other one is charged with what passed');
    }
    is($nginx->statuses('/both?key=n&limit=1', 3), '200 429 429', 'another rule denies');
    is(sum0(shards('n', 2, 'both')), 1, 'and the spread one is not charged');
    for my $key (1 .. 4) {
        is(passed("/apart?key=$key", 40), 4, "key $key: the other one has a Redis of its own");
        ok(wait_until(sub { $other->taken("rl:{other:$key}:sliding_log:3600000") == 4 }), 'and is charged with what passed');
    }
};

subtest 'dry run' => sub {
    my %seen;
    ++$seen{ $nginx->get('/dry?key=t')->{headers}{'x-status'} } for 1 .. 20;
    is($seen{PASSED},           2,  'it counts up to its limit');
    is($seen{REJECTED_DRY_RUN}, 18, 'and tells the rest');
};

subtest 'one shard cannot be read' => sub {
    take(key('e', 0, 2, '', 'asks'), 2);
    $client->set(key('e', 1, 2, '', 'asks'), 'a string');
    my %statuses;
    ++$statuses{ $nginx->get('/wrong?key=e')->{status} } for 1 .. 40;
    is(join(' ', sort keys %statuses), '429 503', 'each speaks for itself');
};

subtest 'without Redis' => sub {
    is($nginx->statuses('/nobody?key=l', 11), '200 ' x 10 . '429', 'this host counts the whole limit, exactly');
};

$nginx->stop;

# What docs/directives.md says of a client that sends evenly, exactly as fast as the limit allows:
# how many of 100 requests are denied too early, with so many requests that a shard has room for. The
# deny cache is off, so that Redis's clock, which the test moves, decides alone.
subtest 'a client that keeps to the limit' => sub {
    my %denied = (
        bucket         => { 1 => 50, 4 => 13, 16 => 3 },
        fixed_window   => { 4 => 27, 16 => 12 },
        sliding_log    => { 4 => 31, 16 => 17 },
        sliding_window => { 4 => 37, 16 => 17 },
    );
    my ($shards, $second) = (16, 1_000_000);
    my $rule_of = sub ($algorithm, $room) {
        my $units = $shards * $room;
        return 'algorithm=gcra limit=64 burst=' . ($units - 1) if $algorithm eq 'bucket';
        return "algorithm=$algorithm limit=$units";
    };
    my $clock     = RateLimit::Clock->new(1_700_000_000 * $second);
    my $redis     = RateLimit::Redis->start_new(clock => $clock);
    my $locations = '';
    for my $algorithm (keys %denied) {
        for my $room (keys $denied{$algorithm}->%*) {
            my $rule = $rule_of->($algorithm, $room);
            $locations .= "location = /$algorithm-$room { redis_rate_limit zone=z $rule window=1s shards=$shards name=$algorithm-$room; empty_gif; }\n";
        }
    }
    my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$uri zone=z:1m on_error=closed deny_cache=off;
keepalive_requests 1000000;
server { listen %PORT%; $locations }
END
    my $client = RateLimit::Client->new($nginx);
    for my $algorithm (sort keys %denied) {
        for my $room (sort { $a <=> $b } keys $denied{$algorithm}->%*) {
            my $each = $second / ($algorithm eq 'bucket' ? 64 : $shards * $room);
            # Full buckets of many units take long to be as they stay: what is in one of them walks at random.
            my ($first, $requests) = $algorithm eq 'bucket' ? (50 * $room**2, 50 * $room**2 + 10_000) : (200, 2000);
            my %statuses;
            for my $number (1 .. $requests) {
                $clock->move($each);
                my $status = $client->send("GET /$algorithm-$room HTTP/1.1\r\nHost: a\r\n\r\n")->response->{status};
                ++$statuses{$status} if $number > $first; # by then it is as it stays
            }
            my $counted = sum0(values %statuses);
            my $early   = 100 * $statuses{429} / $counted;
            my $told    = $denied{$algorithm}{$room};
            is($statuses{200} + $statuses{429}, $counted, "$algorithm, room for $room: all have verdicts");
            cmp_ok(abs($early - $told), '<', 1.5 + $told / 4, sprintf '%.1f of 100 are denied, told are %d', $early, $told);
        }
    }
    $nginx->stop;
};

# What it would have come to counts on this host, when its request's memory is gone.
subtest 'a client that leaves before Redis turns out not to answer' => sub {
    my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 2s; }
redis_rate_limit_zone \$arg_key zone=local:1m;
server {
    listen %PORT%;
    location /         { redis_rate_limit zone=local algorithm=sliding_log window=1h limit=10 shards=2; empty_gif; }
    location = /metrics { redis_rate_limit_metrics json; }
}
END
    my $metrics = sub { decode_json($nginx->get('/metrics')->{content}) };
    ok(wait_until(sub { $metrics->()->{backends}{default}{state} eq 'up' }), 'Redis is there');
    $redis->freeze;
    my $leaving = RateLimit::Client->new($nginx)->send('GET /?key=' . 'k' x 100 . " HTTP/1.1\r\nHost: a\r\n\r\n");
    ok(wait_until(sub { $metrics->()->{backends}{default}{pending} == 1 }), 'a check is on its way');
    $leaving->reset;
    ok(wait_until(sub { $nginx->access_log =~ m{GET /\?key=k+ \S+ 499} }), 'its client leaves');
    ok(wait_until(sub { $metrics->()->{zones}{local}{rules}{'local/3600s'}{local_passed} == 1 }), 'this host decides');
    $redis->thaw;
    $nginx->stop;
};

done_testing;
