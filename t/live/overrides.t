# What operators set for a client or for a rule, on the road of a request: which numbers hold, and
# what they change of all that a rule does. t/live/sync.t tests how they come to a host, and
# t/live/bans.t what bans do.

use v5.36;
use lib 't/lib';
use Digest::SHA qw(sha256_hex);
use RateLimit::Client;
use RateLimit::DenyCache qw(calls);
use RateLimit::Live;
use RateLimit::LiveStore;
use RateLimit::Metrics qw(metrics_of outcomes);
use RateLimit::Nginx;
use RateLimit::Processes;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis = RateLimit::Redis->start_new;
my $store = RateLimit::LiveStore->new($redis->client);

my %rule = (
    fixed    => 'algorithm=fixed_window limit=3',
    more     => 'algorithm=fixed_window limit=50',
    log      => 'algorithm=sliding_log limit=3',
    tokens   => 'algorithm=token_bucket limit=3',
    burst    => 'algorithm=token_bucket limit=3 burst=20',
    gcra     => 'algorithm=gcra limit=3 burst=1',
    leaky    => 'algorithm=leaky_bucket limit=3 burst=1 delay=1',
    permits  => 'algorithm=concurrency limit=1 cost=2',
    shards   => 'algorithm=fixed_window limit=8 shards=4',
    variable => 'algorithm=token_bucket limit=$arg_limit burst=$arg_burst cost=$arg_cost',
    leased   => 'algorithm=fixed_window limit=100000 lease=10s',
);

# The name that its rule has by default is longer than one that is configured may be.
my $long_zone = 'z' x 61;

my $nginx = RateLimit::Nginx->start_new(<<"END", workers => 1);
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$arg_key     zone=z:1m on_error=closed;
redis_rate_limit_zone \$arg_b       zone=b:1m on_error=closed;
redis_rate_limit_zone \$arg_key     zone=open:1m;
redis_rate_limit_zone \$http_x_key  zone=header:1m;
redis_rate_limit_zone \$bytes       zone=uri:1m;
redis_rate_limit_zone \$binary_remote_addr zone=address:1m;
redis_rate_limit_zone \$arg_key     zone=$long_zone:1m;
large_client_header_buffers 4 2m;
keepalive_requests 1000000;
add_header X-Said "\$redis_rate_limit_status \$redis_rate_limit_limit \$redis_rate_limit_source" always;
server {
    listen %PORT%;
    location = /json { redis_rate_limit_metrics json; }
    location = /marker { redis_rate_limit zone=z algorithm=fixed_window limit=1000000 window=1h name=marker; empty_gif; }
    @{[ map { "location = /$_ { redis_rate_limit zone=z $rule{$_} window=1h name=$_; empty_gif; }" } sort keys %rule ]}
    location = /two {
        redis_rate_limit zone=z $rule{fixed} window=1h name=fixed;
        redis_rate_limit zone=z $rule{more} window=1h name=more;
        redis_rate_limit zone=b $rule{more} window=1h name=other;
        empty_gif;
    }
    location = /trial {
        redis_rate_limit zone=z $rule{more} window=1h name=more;
        redis_rate_limit zone=z $rule{fixed} window=1h name=trial dry_run;
        empty_gif;
    }
    location ~ (?s)^/uri/(?<bytes>.*)\$ { redis_rate_limit zone=uri $rule{fixed} window=1h; }
    location = /open    { redis_rate_limit zone=open $rule{variable} window=1h name=open; empty_gif; }
    location = /header  { redis_rate_limit zone=header  $rule{fixed} window=1h; empty_gif; }
    location = /address { redis_rate_limit zone=address $rule{fixed} window=1h; empty_gif; }
    location = /long    { redis_rate_limit zone=$long_zone $rule{fixed} window=1h; empty_gif; }
}
END
my $live = RateLimit::Live->new($store, $nginx);

# Status, and what $redis_rate_limit_... say of status, limit and source: `200 PASSED 3 redis`.
sub told ($path, %options) {
    my $response = $nginx->get($path, %options);
    return "$response->{status} " . ($response->{headers}{'x-said'} // '');
}

sub counts ($zone, $rule) { return outcomes(metrics_of($nginx), $zone, $rule) }

subtest 'precedence' => sub {
    my $said = sub ($key, $limit, $what) { is(told("/two?key=$key"), "200 PASSED $limit redis", $what) };
    my %rule_of_all = (zone => 'z', rule => 'fixed');
    my @targets = ({ zone => 'z', key => 'k' }, { zone => 'z', key => 'l' }, { zone => 'z', key => 'l', rule => 'fixed' });
    $live->put({ %rule_of_all, limit => 15 }, { $targets[0]->%*, limit => 30 }, { $targets[1]->%*, limit => 30 }, { $targets[2]->%*, limit => 20 });
    $said->('any', 15, 'for all clients of a rule');
    $said->('k', 30, 'a client comes before that');
    $said->('l', 20, 'a client at the rule comes before both');
    is(told('/more?key=l'), '200 PASSED 30 redis', 'and holds at no other rule');
    is($nginx->get('/two?key=l')->{headers}{'ratelimit-policy'}, '"fixed";q=20;w=3600, "more";q=30;w=3600', 'the headers say so');
    is(metrics_of($nginx)->{zones}{z}{overrides}{count}, 4 + $live->markers, 'they are counted');
    $live->remove(@targets[0, 2]);
    $said->('l', 30, 'without it the client again');
    $said->('k', 15, 'without that the rule');
    $live->remove(\%rule_of_all);
    $said->('any', 3, 'the configured limit again');
    is(metrics_of($nginx)->{zones}{z}{overrides}{count}, 1 + $live->markers, 'what is deleted is not counted');
};

subtest 'the counter stays' => sub {
    is($nginx->statuses("/fixed?key=$_", 4), '200 200 200 429', 'three') for qw(higher lower nothing);
    my $nothing = { zone => 'z', key => 'nothing' };
    $live->put({ zone => 'z', key => 'higher', limit => 5 }, { zone => 'z', key => 'lower', limit => 2 }, { %$nothing, limit => 0 });
    is($nginx->statuses('/fixed?key=higher', 3), '200 200 429', 'two more');
    is(told('/fixed?key=lower'), '429 REJECTED 2 redis', 'a lower limit');
    my $response = $nginx->get('/fixed?key=nothing');
    is("$response->{status} $response->{headers}{'x-said'}", '429 REJECTED 0 none', 'a limit of 0');
    is($response->{headers}{'retry-after'}, undef, 'no waiting helps');
    $live->remove($nothing);
    is(told('/fixed?key=nothing'), '429 REJECTED 3 deny_cache', 'what was denied by the configured limit still is');
};

subtest 'buckets' => sub {
    my $said = sub ($path, $limit, $what) { is(told($path), "200 PASSED $limit redis", $what) };
    $live->put({ zone => 'z', key => 'b1', limit => 7 }, { zone => 'z', key => 'b2', limit => 7, burst => 9 }, { zone => 'z', key => 'b3', burst => 4 });
    $said->('/tokens?key=b1', 7, 'a token bucket without burst follows the limit');
    $said->('/burst?key=b1', 20, 'with one it stays');
    $said->('/gcra?key=b1', 2, 'as that of gcra does');
    is($nginx->get('/gcra?key=b1')->{headers}{'ratelimit-policy'}, '"gcra";q=2;w=1029', 'but it fills faster');
    $said->('/tokens?key=b2', 9, 'a burst');
    $said->('/burst?key=b2', 9, 'in place of another');
    $said->('/gcra?key=b2', 10, 'of gcra');
    $said->('/fixed?key=b2', 7, 'of a rule that takes none');
    $said->('/tokens?key=b3', 4, 'a burst without a limit');
    $said->('/fixed?key=b3', 3, 'changes nothing where there is none');
};

subtest 'variables' => sub {
    my $said = sub ($arguments, $said, $what) { is(told("/variable?$arguments"), $said, $what) };
    my $invalid = sub () { counts('z', 'variable')->{invalid} // 0 };
    $live->put({ zone => 'z', key => 'v1', limit => 100 }, { zone => 'z', key => 'v2', limit => 1, burst => 50 });
    $said->('key=v0&limit=5&burst=6&cost=1', '200 PASSED 6 redis', 'as they are');
    $said->('key=v1&limit=no&burst=40&cost=1', '200 PASSED 40 redis', 'a limit stands for the variable, which nobody evaluates');
    $said->('key=v1&limit=&burst=40&cost=1', '200 PASSED 40 redis', 'nor cares for an empty one');
    $said->('key=v1&limit=5&burst=&cost=1', '200 ', 'another empty one still exempts');
    is($invalid->(), 0, 'none was invalid');
    $said->('key=v1&limit=5&burst=no&cost=1', '503 ERROR_CLOSED  none', 'another one that is no number');
    is($invalid->(), 1, 'is invalid');
    $said->('key=v2&limit=no&burst=no&cost=10', '200 PASSED 50 redis', 'a burst, too');
    is($nginx->get('/variable?key=v2&cost=0')->{headers}{'x-ratelimit-remaining'}, 40, 'the cost counts');
    $said->('key=v2&cost=51', '429 REJECTED 50 redis', 'one that is too large');
    $said->('key=v2&cost=', '200 ', 'an empty one exempts');
    $said->('key=v2&cost=no', '503 ERROR_CLOSED  none', 'one that is no number');
};

# A host may have rules that the host did not have which took the override, and the numbers of variables
# are known to none. What a rule cannot take becomes the most that it can: it never lets pass.
subtest 'numbers that a rule cannot take' => sub {
    $live->put({ zone => 'z', key => 'large', limit => 2_000_000 }, { zone => 'z', key => 'slow', limit => 1, burst => 1_000_000_000 });
    my $most = 3653 * 24; # comes back within ten years at one an hour
    is(told('/fixed?key=large'), '200 PASSED 2000000 redis', 'this rule can');
    is(told('/log?key=large'), '200 PASSED 1000000 redis', 'a log that is too large');
    is(told('/tokens?key=slow'), "200 PASSED $most redis", 'a bucket that fills too slowly');
    is(told('/gcra?key=slow'), "200 PASSED $most redis", 'one of gcra');
    is(told('/leaky?key=slow'), "200 PASSED $most redis", 'a leaky one');
    $live->put({ zone => 'z', key => 'huge', limit => 9_007_199_254_740_992, burst => 9_007_199_254_740_992 });
    is(told('/fixed?key=huge'), '200 PASSED 1000000000 redis', 'more than any limit');
    is(told('/tokens?key=huge'), '200 PASSED 1000000000 redis', 'more than any burst');

    $live->put({ zone => 'open', rule => 'open', limit => 1 });
    is(told("/open?key=o&limit=1000&burst=1000000&cost=$most"), "200 PASSED $most redis", 'a brake, and a larger burst of a variable');
    is(told('/open?key=o&limit=1000&burst=1000000&cost=1'), "429 REJECTED $most redis", 'which holds');
    is(told('/open?key=p&limit=1000&burst=3&cost=1'), '200 PASSED 3 redis', 'a smaller burst stays');
    $live->remove({ zone => 'open', rule => 'open' });
    $live->put({ zone => 'open', rule => 'open', burst => 1_000_000 });
    is(told("/open?key=q&limit=2&burst=1&cost=1"), "200 PASSED @{[ 2 * $most ]} redis", 'a burst, and a lower limit of a variable');
    $live->remove({ zone => 'open', rule => 'open' });
    is_deeply([map { counts(@$_)->{invalid} // 0 } (map { ['z', $_] } qw(log tokens gcra leaky)), ['open', 'open']], [(0) x 5], 'none counts as invalid');
    is(told('/open?key=o&limit=1&burst=1000000&cost=1'), '200 ', 'numbers of variables alone still are');
    is(counts('open', 'open')->{invalid}, 1, 'and count as such');
};

subtest 'a rule without a name of its own' => sub {
    my $rule = "$long_zone/3600s";
    is(told('/long?key=any'), '200 PASSED 3 redis', 'the configured limit');
    ok(counts($long_zone, $rule)->{passed}, "its name has ${\length $rule} bytes");
    $live->put({ zone => $long_zone, rule => $rule, limit => 20 }, { zone => $long_zone, key => 'k', rule => $rule, limit => 30 });
    is(told('/long?key=any'), '200 PASSED 20 redis', 'for all clients');
    is(told('/long?key=k'), '200 PASSED 30 redis', 'and for one');
};

subtest 'exemptions' => sub {
    $live->put(
        (map { { zone => 'z', key => $_, exempt => 1 } } qw(free almost)),
        { zone => 'z', key => 'almost', rule => 'fixed', limit => 6 },
        { zone => 'z', key => 'once', rule => 'fixed', exempt => 1 }
    );
    calls($redis);
    my $response = $nginx->get('/fixed?key=free');
    is("$response->{status} $response->{headers}{'x-said'}", '200 ', 'no rule was applied');
    is_deeply([ grep { /ratelimit/ } keys $response->{headers}->%* ], [], 'no headers');
    is($nginx->statuses('/fixed?key=free', 5), '200 200 200 200 200', 'nor ever is');
    is(calls($redis), 0, 'and Redis was not asked');
    is(told('/two?key=free&b=b'), '200 PASSED 50 redis', 'other zones count');
    is(told('/two?key=almost'), '200 PASSED 6 redis', 'a client at a rule comes before');
    is(told('/two?key=once'), '200 PASSED 50 redis', 'an exemption from one rule');
};

subtest 'dry run' => sub {
    $live->put({ zone => 'z', key => 'dry', rule => 'trial', limit => 1 });
    is(told('/trial?key=dry'), '200 PASSED 50 redis', 'one');
    is(told('/trial?key=dry'), '200 REJECTED_DRY_RUN 50 redis', 'two');
    is_deeply(counts('z', 'trial'), { passed => 1, dry_run_rejected => 1 }, 'counted');
};

subtest 'other algorithms' => sub {
    is($nginx->get('/permits?key=p')->{status}, 429, 'a cost that is too large for the permits');
    $live->put({ zone => 'z', key => 'p', limit => 2 }, { zone => 'z', key => 's', limit => 400 });
    is($nginx->statuses('/permits?key=p', 3), '200 200 200', 'and no longer');
    my $passed = grep { $_ eq '200' } split ' ', $nginx->statuses('/shards?key=s', 40);
    is($passed, 40, 'shards have their parts of the limit');
    is(told('/shards?key=s'), '200 PASSED 400 redis', 'which headers tell whole');
};

# All of one turn of the event loop, some of which share a script call.
subtest 'batches' => sub {
    my @keys = map { ("plain$_", "low$_", "high$_") } 1 .. 8;
    my %limit = map { $_ => /plain/ ? 50 : /low/ ? 2 : 70 } @keys;
    $live->put(map { { zone => 'z', key => $_, rule => 'more', limit => $limit{$_} } } grep { !/plain/ } @keys);
    my @connections = map { RateLimit::Client->new($nginx) } @keys;
    for my $round (1 .. 3) {
        my ($worker) = $nginx->workers;
        RateLimit::Processes::freeze($worker);
        $connections[$_]->send("GET /more?key=$keys[$_] HTTP/1.1\r\nHost: a\r\n\r\n") for 0 .. $#keys;
        kill CONT => $worker;
        my @wrong = grep { $_ } map {
            my $response = $connections[$_]->response;
            my $limit    = $limit{ $keys[$_] };
            my $expected = $round > $limit ? '429' : '200';
            my $said     = "$response->{status} $response->{headers}{'x-ratelimit-limit'}";
            $said eq "$expected $limit" ? '' : "$keys[$_]: $said"
        } 0 .. $#keys;
        is("@wrong", '', "each has its own numbers, round $round");
    }
};

subtest 'leases' => sub {
    my $flood = sub ($key, $count) {
        my $connection = RateLimit::Client->new($nginx);
        $connection->send(map { "GET /leased?key=$key HTTP/1.1\r\nHost: a\r\n\r\n" } 1 .. $count);
        my %told;
        ++$told{ $connection->response->{headers}{'x-said'} } for 1 .. $count;
        return \%told;
    };
    my $leases = sub () { metrics_of($nginx)->{zones}{z}{rules}{leased}{leases} };
    cmp_ok($flood->($_, 300)->{'PASSED 100000 lease'} // 0, '>', 200, "a busy key: $_") for qw(braked busy);
    my $before = $leases->();
    $live->put({ zone => 'z', key => 'busy', limit => 90_000 }, { zone => 'z', key => 'braked', limit => 10 });
    is(told('/leased?key=busy'), '200 PASSED 90000 redis', 'another quota asks');
    is(told('/leased?key=braked'), '429 REJECTED 10 redis', 'an emergency brake holds at once');
    is($leases->()->{used}, $before->{used}, 'and nobody takes anything of the leases before');
    my $told = $flood->('busy', 300);
    cmp_ok($told->{'PASSED 90000 lease'} // 0, '>', 200, 'the other quota leases by itself');
    is($told->{'PASSED 100000 lease'}, undef, 'and takes nothing else');
};

subtest 'keys' => sub {
    my @keys = ('%', '%25', 'a b', '{}', 'x' x 128, 'y' x 129, 'x' x 1_000_000, '%' . 'a' x 64);
    my $encoded = sub ($key) {
        my $text = $key =~ s/([^!-~]|[{}%])/sprintf '%%%02X', ord $1/ger;
        return length $text > 128 || $text =~ /^%[0-9a-f]{64}$/ ? '%' . sha256_hex($key) : $text;
    };
    $live->put(
        (map { { zone => 'header', key => $encoded->($_), limit => 9 } } @keys),
        { zone => 'address', key => '%7F%00%00%01', limit => 9 },
        { zone => 'uri', key => 'a%0A%FF', limit => 9 }
    );
    for my $key (@keys) {
        my $shown = substr $key, 0, 12;
        is(told('/header', headers => { 'X-Key' => $key }), '200 PASSED 9 redis', "$shown, of ${\length $key} bytes");
        is(told('/header', headers => { 'X-Key' => "$key." }), '200 PASSED 3 redis', 'and no other');
    }
    is(told('/address'), '200 PASSED 9 redis', 'bytes of an address, NUL among them');
    is(told('/uri/a%0A%FF') =~ s/^404/200/r, '200 PASSED 9 redis', 'a line feed and a byte of no text');
};

$nginx->stop;
done_testing;
