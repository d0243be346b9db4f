# docs/directives.md: each example of the parameters of `redis_rate_limit` does what the page says beside it, with
# smaller numbers or longer windows where that takes fewer requests to see. Windows of a calendar are in
# t/docs/examples.t, too.

use v5.36;
use lib 't/lib';
use HTTP::Tiny;
use RateLimit::Client;
use RateLimit::Documentation qw(example_with http_level);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis   = RateLimit::Redis->start_new;
my $backend = "redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }\n";

# An upstream that answers what the query asks for, with as many tokens.
my $upstream = <<'END';
server {
    listen unix:%DIR%/upstream.sock;
    add_header X-Tokens $arg_header;
    default_type application/json;
    location / { return 200 '{"usage": {"total_tokens": $arg_body}}'; }
}
END

# The example with these words, in a running nginx. What is changed are pairs of its text and another one for it.
sub start_example ($words, @changes) {
    my $example = example_with('docs/directives.md', $words);
    while (my ($from, $to) = splice @changes, 0, 2) {
        $example =~ s/\Q$from\E/$to/g or die "the example has no \"$from\"\n$example";
    }
    my $own = $example =~ s{http://127\.0\.0\.1:8081}{http://unix:%DIR%/upstream.sock:}g ? $upstream : '';
    $redis->client->flushall;
    return RateLimit::Nginx->start_new($backend . $own . http_level($example));
}

# The rules that a response names, with their limits and windows: "per_ip/1s:30:3".
sub policy ($response) {
    return join ' ', map { /"(.*)";q=(\d+)(?:;w=(\d+))?/ ? join(':', grep { defined } $1, $2, $3) : () } split /, /, $response->{headers}{'ratelimit-policy'} // '';
}

sub remaining ($response) { return $response->{headers}{'x-ratelimit-remaining'} }

# The statuses of requests from another address of this host.
sub statuses_of ($nginx, $address, $count, $path = '/') {
    my $http = HTTP::Tiny->new(local_address => $address);
    return join ' ', map { $http->get($nginx->url($path))->{status} } 1 .. $count;
}

subtest 'algorithms' => sub {
    my $nginx = start_example('burst=30');
    my %told = map { $_ => policy($nginx->get($_)) } qw(/api/ /reports/ /export/);
    is($told{'/api/'}, 'per_ip/1s:30:3', 'thirty at once, which take three seconds to come back');
    is($told{'/reports/'}, 'per_ip/86400s:1000:86400', 'a day');
    is($told{'/export/'}, 'per_ip/concurrency:3', 'three at a time');
    $nginx->stop;
};

subtest 'limit and window' => sub {
    my $nginx = start_example('limit=0');
    is($nginx->statuses('/trial/', 4), '404 404 404 429', 'three');
    is($nginx->statuses('/closed/', 1), '429', 'nobody');
    $nginx->stop;
};

subtest 'burst and delay' => sub {
    my $nginx = start_example('delay=5', 'window=1m', 'window=10h'); # one in ten minutes
    is($nginx->statuses('/api/', 6), '404 404 404 404 404 429', 'five at once');
    my $client = RateLimit::Client->new($nginx);
    $client->send(map { "GET /pages/ HTTP/1.1\r\nHost: a\r\n\r\n" } 1 .. 7);
    is(join(' ', map { $client->response->{status} } 1 .. 6), '404 404 404 404 404 404', 'six are answered');
    ok(wait_until(sub { $redis->client->pttl('rl:{per_ip:127.0.0.1}:leaky_bucket:36000000:pages') > 6.5 * 600_000 }), 'the seventh is counted');
    ok(!$client->has_input, 'and waits');
    $client->close;
    $nginx->stop;
};

subtest 'permits' => sub {
    my $nginx = start_example('window=10m');
    is(policy($nginx->get('/export/')), 'per_ip/concurrency:3', 'three at a time');
    $nginx->stop;
};

subtest 'billing days' => sub {
    my $text = http_level('redis_rate_limit zone=per_ip algorithm=fixed_window limit=1 window=day timezone=Europe/Berlin;');
    plan skip_all => 'built without cctz' if !(RateLimit::Nginx->new($text)->test_configuration)[1];
    my $nginx = start_example('starts=15');
    $nginx->get('/', headers => { 'X-Api-Key' => 'acme' });
    is(join(' ', $redis->keys), 'rl:{billed:acme}:fixed_window:quarter-15@Europe/Berlin', 'a quarter of its own');
    $nginx->stop;
};

subtest 'several rules' => sub {
    my $nginx = start_example('zone=per_key algorithm=fixed_window');
    my %key   = (headers => { 'X-Api-Key' => 'k' });
    is(policy($nginx->get('/', %key)), 'per_ip/1s:21:3 per_ip/3600s:1000:3600 per_key/86400s:50000:86400', 'all of the server');
    is(policy($nginx->get('/login', %key)), 'login:5:60', 'one alone');
    is(policy($nginx->get('/health', %key)), '', 'none');
    $nginx->stop;
};

subtest 'names and counters' => sub {
    my $nginx = start_example('name=c;', 'limit=100', 'limit=2', 'window=1m', 'window=1h');
    is($nginx->statuses($_, 1), '404', "$_ passes") for qw(/a/ /b/);
    is($nginx->statuses($_, 1), '429', "$_ has used up the counter of both") for qw(/a/ /b/);
    is($nginx->statuses('/c/', 3), '404 404 429', '/c/ has its own');
    $nginx->stop;

    $nginx = start_example('name=search', 'limit=60 ', 'limit=2 ', 'window=1m', 'window=1h');
    is($nginx->statuses('/search', 3), '404 404 429', 'one of two limits is used up');
    is(remaining($nginx->get('/api/')), 599, 'and the other one is not');
    $nginx->stop;
};

subtest 'variables' => sub {
    my $nginx = start_example('$per_minute', '192.0.2.0/24', '127.0.0.2');
    my $limit = sub ($address) { HTTP::Tiny->new(local_address => $address)->get($nginx->url)->{headers}{'x-ratelimit-limit'} // 'none' };
    is(join(' ', map { $limit->("127.0.0.$_") } 1 .. 3), 'none 6000 60', 'limits by address');
    $nginx->stop;

    $nginx = start_example('cost=$units');
    is(remaining($nginx->get('/')), 99, 'a GET costs one');
    is(remaining($nginx->get('/', method => 'POST')), 94, 'a POST five');
    is(remaining($nginx->get('/', method => 'HEAD')), 94, 'a HEAD nothing');
    $nginx->stop;
};

subtest 'final costs' => sub {
    my @slowly = ('window=1m', 'window=100d');
    my $nginx  = start_example('$upstream_http_x_tokens', @slowly);
    is(remaining($nginx->get('/v1/completions?header=42')), 92_000, '8000 are reserved');
    ok(wait_until(sub { remaining($nginx->get('/v1/completions?header=0')) == 91_958 }), 'and 42 are charged');
    $nginx->get('/v1/completions');
    ok(wait_until(sub { remaining($nginx->get('/v1/completions?header=0')) == 83_958 }), 'where nothing is told the reservation stands');
    $nginx->stop;

    $nginx = start_example('final_cost=$tokens', @slowly);
    is(remaining($nginx->get('/v1/chat?body=42')), 92_000, '8000 are reserved');
    ok(wait_until(sub { remaining($nginx->get('/v1/chat?body=0')) == 91_958 }), 'and what the body tells is charged');
    $nginx->stop;

    $nginx = start_example('final_cost=$bytes_sent', 'limit=1000000000', 'limit=100');
    is($nginx->statuses('/downloads/', 1), '404', 'nothing is reserved');
    ok(wait_until(sub { $nginx->statuses('/downloads/', 1) eq '429' }), 'but what was sent is charged');
    $nginx->stop;

    $nginx = start_example('final_cost=$missed', 'limit=20', 'limit=2');
    $nginx->add_page('page', 'here');
    is($nginx->statuses('/page', 9), join(' ', (200) x 9), 'what is there');
    $nginx->statuses('/none', 2);
    ok(wait_until(sub { $nginx->statuses('/page', 1) eq '429' }), 'two requests for what is not are enough');
    $nginx->stop;
};

subtest 'phases' => sub {
    my $nginx = start_example('phase=precontent');
    is(statuses_of($nginx, '127.0.0.2', 1, '/internal/'), '403', 'who may not');
    is(join(' ', $redis->keys), 'rl:{per_ip:127.0.0.2}:sliding_log:60000', 'is counted by the first rule');
    is(policy($nginx->get('/internal/')), 'per_ip/60s:100:60 allowed:50:60', 'who may, by both');
    $nginx->stop;
};

subtest 'dry run' => sub {
    my $nginx = start_example('name=stricter');
    is(policy($nginx->get('/search')), 'per_ip/1s:21:3', 'clients see one rule');
    is(join(' ', map { /:gcra:1000(.*)/ } $redis->keys), ' :stricter', 'Redis counts for two');
    $nginx->stop;
};

subtest 'blocks' => sub {
    my $nginx = start_example('block=15m', 'limit=10', 'limit=1', 'window=1m', 'window=1s');
    is($nginx->statuses('/login', 2), '404 429', 'one too many');
    my $denied = $nginx->get('/login');
    is($denied->{status}, 429, 'is out');
    cmp_ok($denied->{headers}{'retry-after'}, '>', 850, 'for a quarter of an hour');
    ok($redis->client->exists('rl:{per_ip:127.0.0.1}:sliding_log:1000:login#block'), 'on all hosts');
    $nginx->stop;
};

subtest 'leases' => sub {
    for my $words ('lease=auto', 'lease=500ms') {
        my $nginx = start_example($words, 'server {', "server {\n    location /metrics { redis_rate_limit off; redis_rate_limit_metrics; }");
        my $busy  = RateLimit::Client->new($nginx);
        $busy->send(map { "GET / HTTP/1.1\r\nHost: a\r\n\r\n" } 1 .. 900);
        is(scalar(grep { $busy->response->{status} == 404 } 1 .. 900), 900, "$words: all pass");
        my ($leased) = $nginx->get('/metrics')->{content} =~ /^nginx_redis_rate_limit_lease_requests_total\S* (\d+)/m;
        cmp_ok($leased, '>', 450, 'most of them by leases');
        $nginx->stop;
    }
};

subtest 'shards' => sub {
    my $nginx = start_example('shards=16');
    is(policy($nginx->get('/')), 'site/60s:100000:60', 'clients see the whole rule');
    $nginx->statuses('/', 50);
    my @shards = map { m{%#(\d+)/16\}} } $redis->keys;
    cmp_ok(scalar @shards, '>', 4, 'which has several counters');
    $nginx->stop;
};

done_testing;
