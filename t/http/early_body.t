# client_body_early_read, of nginx 1.31.5 and newer: the body is read before a location is chosen, so
# that it can be a key, a limit or a cost. What comes then is as without it: a request is counted once,
# its connection stays in step, and its client may end its sending side.

use v5.36;
use lib 't/lib';
use RateLimit::Client;
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

my ($said) = RateLimit::Nginx->new('client_body_early_read 1; server { listen %PORT%; }')->test_configuration;
plan skip_all => 'this nginx has no client_body_early_read' if $said =~ /unknown directive "client_body_early_read"/;

my $redis = RateLimit::Redis->start_new;
my $log   = 'algorithm=sliding_log window=1h';
my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 30s; }
redis_rate_limit_zone \$request_body zone=by_body:1m on_error=closed deny_cache=off;
redis_rate_limit_zone \$arg_key      zone=by_key:1m  on_error=closed deny_cache=off;
map \$arg_late \$is_early { default 1; yes 0; }
client_body_early_read \$is_early;
client_max_body_size 1m;
keepalive_timeout 60s;
server {
    listen %PORT%;
    redis_rate_limit zone=by_body $log limit=2;
    location / { proxy_pass http://unix:%DIR%/upstream.sock; }
    location /limits {
        redis_rate_limit zone=by_key $log limit=10 cost=\$request_body name=cost;
        proxy_pass http://unix:%DIR%/upstream.sock;
    }
    location /key {
        redis_rate_limit zone=by_key $log limit=2;
        proxy_ignore_client_abort on; # else nginx takes the end of sending for the client's leaving
        proxy_pass http://unix:%DIR%/upstream.sock;
        location /key/held { redis_rate_limit zone=by_key algorithm=leaky_bucket limit=1 window=1 burst=5 name=held; proxy_pass http://unix:%DIR%/upstream.sock; }
        location /key/free { redis_rate_limit off; proxy_pass http://unix:%DIR%/upstream.sock; }
    }
    location /api/ { redis_rate_limit off; redis_rate_limit_api write; }
    location = /count { redis_rate_limit off; stub_status; }
}
server {
    listen unix:%DIR%/upstream.sock;
    return 200 "\$request_method \$request_body";
}
END
my ($worker) = $nginx->workers;

sub post ($path, $body, @fields) { return join "\r\n", "POST $path HTTP/1.1", 'Host: a', 'Content-Length: ' . length $body, @fields, '', $body }

sub statuses ($path, @bodies) {
    my $client = RateLimit::Client->new($nginx);
    return join ' ', map { $client->send(post($path, $_))->response->{status} } @bodies;
}

sub taken ($key) { return $redis->taken("rl:{$key}:sliding_log:3600000") }

subtest 'a key and a cost' => sub {
    is(statuses('/', qw(a a a b)), '200 200 429 200', 'the body is the key, by a rule of the server');
    is(taken('by_body:a'), 2, 'which Redis has counted');
    is(statuses('/limits?key=c', qw(7 4 3 1)), '200 429 200 429', 'the body is the cost');
    is(statuses('/limits?key=c', 'x'), '503', 'which is no number');
    is(statuses('/?late=yes', qw(z z z)), '200 200 200', 'a body that is not read early is empty, and not counted');
    is(statuses('/', ('l' x 20_000) x 3), '200 200 200', 'nor is one that does not fit its buffer');
};

subtest 'the body goes on' => sub {
    for my $body ('short', 'x' x 300_000) {
        my $response = RateLimit::Client->new($nginx)->send(post('/key/free', $body))->response;
        my $seen = length $body > 16_384 ? '' : $body; # the variable is empty for a body in a file
        is("$response->{status} $response->{body}", "200 POST $seen", length($body) . ' bytes');
    }
    my $chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nchu\r\n4\r\nnked\r\n0\r\n\r\n";
    my $client = RateLimit::Client->new($nginx);
    is(join(' ', map { $client->send($chunked)->response->{status} } 1 .. 3), '200 200 429', 'in chunks');
    is(taken('by_body:chunked'), 2, 'it is the same key');
};

subtest 'a connection stays in step' => sub {
    my $large  = post('/key?key=step', 'GET /key/free HTTP/1.1' x 20_000);
    my $client = RateLimit::Client->new($nginx)->send($large x 3, post('/key/free', 'last'));
    is(join(' ', map { $client->response->{status} } 1 .. 3), '200 200 429', 'large bodies, the last one refused');
    is($client->response->{body}, 'POST last', 'and the request behind it is answered');
    my $late = RateLimit::Client->new($nginx)->send("POST /key?key=late HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc");
    ok(!$late->has_input, 'a body that has not come');
    is(taken('by_key:late'), 0, 'is not asked about');
    is($late->send('def')->response->{body}, 'POST abcdef', 'until it is there');
    is(taken('by_key:late'), 1, 'and then once');
    is(statuses('/key?key=huge', 'h' x 1_100_000), '413', 'one that is too large is refused by nginx');
    is(taken('by_key:huge'), 0, 'and not counted');
};

subtest 'while Redis is asked, or a request is held back' => sub {
    $redis->freeze;
    my $half  = RateLimit::Client->new($nginx)->send(post('/key?key=half', 'h'))->end_sending;
    my $reset = RateLimit::Client->new($nginx)->send(post('/key?key=reset', 'r'));
    $nginx->get('/count') for 1, 2; # a whole turn of the event loop is over
    $reset->reset;
    ok(wait_until(sub { $nginx->access_log =~ /key=reset \S+ 499 / }), 'a client that resets its connection has left');
    $redis->thaw;
    is($half->response->{body}, 'POST h', 'one that ends its sending side is answered');
    ok(wait_until(sub { taken('by_key:reset') == 1 && taken('by_key:half') == 1 }), 'both are charged once');
    is(statuses('/key/held?key=held', 1, 2), '200 200', 'held back, and answered');
};

subtest 'the API reads its body, too' => sub {
    my $body = '{"ban": true}';
    my $path = '/api/override?zone=by_key&key=banned';
    my $put  = post($path, $body, 'Content-Type: application/json') =~ s/^POST/PUT/r;
    my $response = RateLimit::Client->new($nginx)->send($put)->response;
    is($response->{status}, 200, 'it takes what was read early') or diag $response->{body};
    ok(wait_until(sub { statuses('/key?key=banned', 'x') eq '429' }), 'and it holds');
};

is(($nginx->workers)[0], $worker, 'the worker is the same');
ok(wait_until(sub { $nginx->get('/count')->{content} =~ /Active connections: 1 / }), 'no connection is left');
$nginx->stop;
done_testing;
