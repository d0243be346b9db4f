# Keys that hold what this module did not write, or not this version of it: each is at most the fault
# of one client. All others are decided by Redis, as before.

use v5.36;
use lib 't/lib';
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

my %rule = (
    fixed_window   => 'limit=3 window=60',
    sliding_log    => 'limit=3 window=60',
    sliding_window => 'limit=3 window=60',
    token_bucket   => 'limit=3 window=60',
    gcra           => 'limit=3 window=60 burst=2',
    leaky_bucket   => 'limit=3 window=60 burst=2 delay=2',
    concurrency    => 'limit=3 window=60',
);
my $log_format = q{'$arg_key $redis_rate_limit_source'};

my $redis  = RateLimit::Redis->start_new;
my $client = $redis->client;
my $nginx  = RateLimit::Nginx->start_new(<<"END");
log_format source $log_format;
access_log %DIR%/source.log source;
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; breaker failures=3 cooldown=60s; }
redis_rate_limit_zone \$arg_key zone=z:1m;
redis_rate_limit_zone \$arg_key zone=hashed:1m show_keys=hash;
server {
    listen %PORT%;
    @{[ map { "location /$_ { redis_rate_limit zone=z algorithm=$_ $rule{$_} name=$_; empty_gif; }\n" } sort keys %rule ]}
    location /hashed { redis_rate_limit zone=hashed algorithm=fixed_window $rule{fixed_window}; empty_gif; }
    location /metrics { redis_rate_limit_metrics json; }
}
END

my %asked; # of which keys, by their request

sub statuses ($algorithm, $key, $count) {
    $asked{"/$algorithm?key=$key"} = 1;
    return join ' ', map { $nginx->get("/$algorithm?key=$key")->{status} } 1 .. $count;
}

# Who decided of each request with a key, in order.
sub sources ($key, $requests = 1) {
    my $read = sub { RateLimit::Nginx::slurp($nginx->dir . '/source.log') =~ /^\Q$key\E (\w+)$/mg };
    wait_until(sub { my @sources = $read->(); @sources >= $requests });
    return join ' ', $read->();
}

sub redis_key ($algorithm, $key) { return "rl:{z:$key}:$algorithm:60000:$algorithm" }

# What else may stand under the key of a client, by the algorithm.
my $text = sub ($value) { return sub ($key) { $client->set($key, $value) } };
my $set  = sub (@members) { return sub ($key) { $client->zadd($key, @members) } };
my $list = sub (@entries) { return sub ($key) { $client->rpush($key, @entries) } };
my %foreign = (
    (map { my $size = $_->[1]; $_->[0] => {
        number => $text->('5'), empty => $text->(''), longer => $text->("\x01" x ($size + 8)), shorter => $text->("\x01" x ($size - 8)),
        alike => $text->('a' x $size), high => $text->("\xff" x $size),
    } } ['fixed_window', 16], ['sliding_window', 24], ['token_bucket', 40], ['gcra', 40], ['leaky_bucket', 40]),
    sliding_log => { words => $list->('a', 'b'), word => $list->('x'), mixed => $list->('word', 1), empty => $list->('') },
    concurrency => { member => $set->(5, 'x'), slots => $set->(4e15, 'x 1', 4e15, 'y 1'), high => $set->(5e15, '') },
);

for my $algorithm (sort keys %foreign) {
    subtest $algorithm => sub {
        for my $name (sort keys $foreign{$algorithm}->%*) {
            my $key = "$algorithm-$name";
            $foreign{$algorithm}{$name}->(redis_key($algorithm, $key));
            my $expected = $algorithm eq 'concurrency' ? '200 200 200 200' : '200 200 200 429';
            my $statuses = statuses($algorithm, $key, 4);
            my $sources  = sources($key, 4);
            # numbers that no script of ours writes, but of the right form: the client is decided on this host
            my $is_local = $name =~ /^(?:alike|high)$/ && $sources =~ /local/;
            is($statuses, $expected, "$name: the limit holds");
            is($sources, 'redis redis redis redis', 'by Redis, for such a state counts as none') unless $is_local;
            isnt($client->pttl(redis_key($algorithm, $key)), -1, 'and is replaced by one that expires') if $algorithm ne 'concurrency' && !$is_local;
            is(statuses($algorithm, "$key-other", 1), '200', 'another client');
            is(sources("$key-other"), 'redis', 'is decided by Redis');
        }
    };
}

subtest 'a key of another type' => sub {
    for my $algorithm (sort keys %rule) {
        my $key = "type-$algorithm";
        $client->hset(redis_key($algorithm, $key), field => 'value');
        is(statuses($algorithm, $key, 10), join(' ', ('200') x 3, ($algorithm eq 'concurrency' ? 200 : 429) x 7), "$algorithm: is decided on this host");
        is(sources($key, 10), join(' ', ('local') x 10), 'each time');
        is(statuses($algorithm, "$key-other", 1) . ' ' . sources("$key-other"), '200 redis', 'another client is decided by Redis');
    }
};

subtest 'an error of the script itself' => sub {
    my $key = redis_key('sliding_log', 'script');
    $client->rpush($key, 1, 2, 'word', 4e15, 4e15 + 1);
    is(statuses('sliding_log', 'script', 10), '200 200 200 429 429 429 429 429 429 429', 'is its client\'s');
    like(sources('script', 10), qr/local/, 'who is decided on this host');
    is(statuses('sliding_log', 'script-other', 1) . ' ' . sources('script-other'), '200 redis', 'another client is decided by Redis');
};

# Whether each fault that the log tells of is over, when no key holds anything else and each was asked for.
sub is_calm {
    $client->flushall;
    $nginx->get($_) for sort keys %asked;
    return (() = $nginx->error_log =~ / fails: /g) == (() = $nginx->error_log =~ /works again for the keys that failed/g);
}

subtest 'the log' => sub {
    ok(wait_until(\&is_calm), 'tells the end of the fault');
    $client->hset(redis_key('gcra', 'a"b%250a'), field => 'value');
    is(statuses('gcra', 'a"b%0a', 1), 200, 'another one begins');
    ok($nginx->wait_for_log(qr/fails: error reply: [^\n]*WRONGTYPE[^\n]*, rule "gcra", key "a\\x22b%0a",/), 'names the rule and the key, escaped')
        or diag($nginx->error_log);
};

subtest 'a zone that shows no keys' => sub {
    ok(wait_until(\&is_calm), 'the fault before is over');
    $client->hset('rl:{hashed:secret-2}:fixed_window:60000', field => 'value');
    is(statuses('hashed', 'secret-2', 1), '200', 'decided on this host');
    ok($nginx->wait_for_log(qr/fails: error reply: [^\n]*WRONGTYPE[^\n]*, rule "hashed\/60s", key "[0-9a-f]{12}",/), 'the log has its hash');
    unlike($nginx->error_log, qr/secret-2/, 'and not the key');
};

subtest 'metrics' => sub {
    my $metrics = $nginx->get('/metrics')->{content};
    unlike($metrics, qr/"breaker": ?[1-9]/, 'the breaker has refused nothing');
};

$nginx->stop;
done_testing;
