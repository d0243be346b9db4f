# Clients that send more than they are asked for, faster than they are answered, or leave before:
# connections stay in step, and nothing is left behind.

use v5.36;
use lib 't/lib';
use JSON::PP qw(decode_json);
use RateLimit::Client;
use RateLimit::Nginx;
use RateLimit::Processes qw(freeze);
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

# HTTP/2 is spoken at 127.0.0.2. Checks may wait long for a Redis that is stopped, but only so
# many at a time.
my $most_pending = 100;

my $redis = RateLimit::Redis->start_new;
my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default {
    server ${\$redis->address};
    timeout 30s;
    max_pending $most_pending;
}
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed;
server {
    listen %PORT%;
    location / {
        redis_rate_limit zone=z algorithm=sliding_log limit=2 window=60;
        proxy_pass http://unix:%DIR%/upstream.sock;
    }
    location /many {
        redis_rate_limit zone=z algorithm=sliding_log limit=50 window=60;
        empty_gif;
    }
    location /left {
        redis_rate_limit zone=z algorithm=sliding_log limit=1000 window=60;
        empty_gif;
    }
    location /after {
        redis_rate_limit zone=z algorithm=sliding_log limit=1000 window=60;
        location /after-free { post_action \@free; empty_gif; }
        location /after-limited { post_action \@limited; empty_gif; }
        location /after-same { post_action \@same; empty_gif; }
    }
    location \@free { proxy_pass http://unix:%DIR%/after.sock; }
    location \@same {
        redis_rate_limit zone=z algorithm=sliding_log limit=1000 window=60;
        proxy_pass http://unix:%DIR%/after.sock;
    }
    location \@limited {
        redis_rate_limit zone=z algorithm=sliding_log limit=1000 window=60 name=limited;
        proxy_pass http://unix:%DIR%/after.sock;
    }
    location /connections { stub_status; }
    location = /metrics { redis_rate_limit_metrics json; }
}
server {
    # answers when Redis does, so that the request before it waits here, too
    listen unix:%DIR%/after.sock;
    access_log %DIR%/after.log;
    location / {
        redis_rate_limit zone=z algorithm=sliding_log limit=1000 window=60 name=after;
        empty_gif;
    }
}
server {
    listen 127.0.0.2:%PORT% http2;
    location / {
        redis_rate_limit zone=z algorithm=sliding_log limit=50 window=60;
        empty_gif;
    }
    location /flood {
        redis_rate_limit zone=z algorithm=sliding_log limit=60 window=60 name=flood;
        redis_rate_limit zone=z algorithm=concurrency limit=1000 name=permits;
        redis_rate_limit zone=z algorithm=gcra limit=\$arg_limit window=60 burst=200 name=variable;
        empty_gif;
    }
}
server {
    listen unix:%DIR%/upstream.sock;
    access_log off;
    location / { return 200 "\$request_method \$arg_n"; }
}
END
my ($worker) = $nginx->workers;

sub message ($method, $target, $body = '', @headers) {
    push @headers, 'Content-Length: ' . length $body if length $body;
    return join "\r\n", "$method $target HTTP/1.1", 'Host: a', @headers, '', $body;
}

# What would be served if a body were taken for a request.
my $trap = message(GET => '/trap');
my $body = substr $trap x 20_000, 0, 300_000;

# --- bodies of refused requests

{
    my $client = RateLimit::Client->new($nginx);
    my @statuses = map { $client->send(message(POST => '/?key=body', $body))->response->{status} } 1 .. 4;
    is("@statuses", '200 200 429 429', 'bodies of 300 KB on one connection');
    is($client->send(message(GET => '/?key=body2&n=1'))->response->{body}, 'GET 1', 'which then is in step');

    my $start = message(POST => '/?key=body', $body);
    my $rest  = substr $start, 100_000, length $start, '';
    is($client->send($start)->response->{status}, 429, 'refused when only some of the body has come');
    is($client->send($rest, message(GET => '/?key=body2&n=2'))->response->{body}, 'GET 2', 'in step after the rest');

    my $chunks = join '', map { sprintf "%x\r\n%s\r\n", length, $_ } $body, $trap, '';
    is(
        $client->send(message(POST => '/?key=body', '', 'Transfer-Encoding: chunked'), $chunks)->response->{status},
        429, 'a body in chunks is refused'
    );
    is($client->send(message(GET => '/?key=body3&n=3'))->response->{body}, 'GET 3', 'in step after it');
    unlike($nginx->access_log, qr/trap/, 'no body was taken for a request');
}

# --- Expect: 100-continue

{
    my $client   = RateLimit::Client->new($nginx);
    my @head     = (POST => '/?key=expect', '', 'Expect: 100-continue', 'Content-Length: ' . length $body);
    my @statuses = ($client->send(message(@head))->response->{status});
    push @statuses, $client->send($body)->response->{status};
    is("@statuses", '100 200', 'a body that is asked for when the request may pass');
    $client->send(message(POST => '/?key=expect', $body))->response;
    is($client->send(message(@head))->response->{status}, 429, 'refused without asking for the body');
    $client->send($body, message(GET => '/?key=expect2&n=4'));
    is($client->response->{body}, 'GET 4', 'in step where it comes all the same');
}

# --- pipelined requests

{
    my $client   = RateLimit::Client->new($nginx);
    my @requests = (
        [ GET     => '/?key=a&n=11', '',    200, 'GET 11' ],
        [ HEAD    => '/?key=a&n=12', '',    200, '' ],
        [ HEAD    => '/?key=a&n=13', '',    429, '' ],
        [ POST    => '/?key=b&n=14', $trap, 200, 'POST 14' ],
        [ OPTIONS => '/?key=b&n=15', '',    200, 'OPTIONS 15' ],
        [ OPTIONS => '/?key=b&n=16', '',    429, '429 Too Many Requests' ],
        [ POST    => '/?key=b&n=17', $trap, 429, '429 Too Many Requests' ],
        [ GET     => '/?n=18',       '',    200, 'GET 18' ],
        [ GET     => '/?key=a&n=19', '',    429, '429 Too Many Requests' ],
        [ GET     => '/?key=c&n=20', $trap, 200, 'GET 20' ],
    );
    $client->send(map { message($_->@[0 .. 2]) } @requests);
    for my $request (@requests) {
        my ($method, $target, undef, $status, $content) = @$request;
        my $response = $client->response($method);
        is($response->{status}, $status, "pipelined: $method $target: $status");
        like($response->{body}, qr/\Q$content\E/, 'and what belongs to it') if length $content;
    }

    $client->send((message(GET => '/many?key=pipe')) x 60);
    my @statuses = map { $client->response->{status} } 1 .. 60;
    is("@statuses", join(' ', (200) x 50, (429) x 10), '60 in one write');
    unlike($nginx->access_log, qr/trap/, 'no body was taken for a request');
}

# --- clients that leave

sub connections_show ($pattern) {
    return wait_until(sub { $nginx->get('/connections')->{content} =~ $pattern });
}

# The connection that asks is one of those shown.
sub no_connection_left { return connections_show(qr/Active connections: 1 /) }
sub all_pending { return connections_show(qr/Writing: ${\($most_pending + 1)} /) }

# Checks are answered in order: once a new one is, so are all before it.
sub thaw {
    $redis->thaw;
    wait_until(sub { $nginx->get('/left?key=new')->{status} == 200 }) or die 'no answer after thaw';
}

# So many requests of the access log ended as their clients left.
sub left ($pattern) { return scalar(() = $nginx->access_log =~ /"GET \S*$pattern\S* HTTP\S*" 499 /g) }

{
    $redis->freeze;
    my @leaving = map { RateLimit::Client->new($nginx)->send(message(GET => '/left?key=left')) } 1 .. $most_pending;
    ok(all_pending(), 'as many checks as may be pending');
    my $one_more = RateLimit::Client->new($nginx)->send(message(GET => '/left?key=left'));
    is($one_more->response->{status}, 503, 'one more than may be pending is refused at once');
    $_->reset for @leaving, $one_more;
    ok(wait_until(sub { left('key=left') == $most_pending }), 'those that left are noticed while Redis is stopped');
    ok(no_connection_left(), 'their connections are closed');
    thaw();
    is($redis->taken('rl:{z:left}:sliding_log:60000'), $most_pending, 'what was sent was charged, once');

    $redis->freeze;
    freeze($worker);
    RateLimit::Client->new($nginx)->send(message(GET => '/left?key=gone'))->reset for 1 .. 5;
    kill CONT => $worker;
    ok(wait_until(sub { left('key=gone') == 5 }), 'clients that are gone before nginx reads their requests');
    thaw();

    $redis->freeze;
    my @staying = map { RateLimit::Client->new($nginx)->send(message(GET => '/left?key=left')) } 1 .. $most_pending;
    ok(all_pending(), 'as many may be pending as before');
    $redis->thaw;
    my @statuses = map { $_->response->{status} } @staying;
    is("@statuses", join(' ', (200) x $most_pending), 'and all pass');
    is($redis->taken('rl:{z:left}:sliding_log:60000'), 2 * $most_pending, 'and each was charged');
    $_->close for @staying;
    ok(no_connection_left(), 'no connection is left');
    is(($nginx->workers)[0], $worker, 'and the worker is the same');
}

# nginx leads a request whose client has left on to its post_action, before it ends.
for my $path ('/after-free', '/after-limited', '/after-same') {
    my $taken = $redis->taken('rl:{z:led}:sliding_log:60000');
    $redis->freeze;
    my $leaving = RateLimit::Client->new($nginx)->send(message(GET => "$path?key=led"));
    ok(connections_show(qr/Writing: 2 /), "$path: suspended");
    $leaving->reset;
    ok($nginx->wait_for_log(qr/prematurely closed connection.*GET \Q$path\E/), "$path: the client leaves");
    thaw();
    ok(no_connection_left(), "$path: the request ends");
    my $log = RateLimit::Nginx::slurp($nginx->dir . '/after.log');
    is(scalar(() = $log =~ /GET \Q$path\E/g), 1, "$path: its post_action ran once");
    is($redis->taken('rl:{z:led}:sliding_log:60000'), $taken + 1, "$path: charged once");
    is(($nginx->workers)[0], $worker, "$path: the worker is the same");
}

# --- HTTP/2

like(
    scalar qx(h2load -n 200 -c 4 -m 20 '@{[ $nginx->url('/?key=h2', '127.0.0.2') ]}'),
    qr/status codes: 50 2xx, 0 3xx, 150 4xx, 0 5xx/,
    'as many of the streams of four connections pass as may'
);

sub ended ($pattern) { return scalar(() = $nginx->access_log =~ /"GET \S*$pattern\S* HTTP/g) }

sub metrics ()   { return decode_json($nginx->get('/metrics')->{content}) }
sub rules ()     { return metrics()->{zones}{z}{rules} }
sub pending ()   { return metrics()->{backends}{default}{pending} }

# A frame, and the header block of a GET out of HPACK's static table and literals.
sub frame ($type, $flags, $stream, $payload = '') {
    return substr(pack('N', length $payload), 1) . pack('CCN', $type, $flags, $stream) . $payload;
}

sub get_on_stream ($stream, $path) {
    return frame(1, 0x05, $stream, "\x82\x86" . pack('C C/a C C/a', 0x01, 'a', 0x04, $path));
}

sub reset_stream ($stream) { return frame(3, 0, $stream, pack 'N', 8) }

# The first byte of the response headers on that stream: 0x88 stands for status 200.
sub answer_on_stream ($client, $wanted) {
    while (defined(my $head = $client->read_bytes(9))) {
        my ($size, $type, undef, $stream) = unpack 'N C C N', "\0$head";
        my $payload = $client->read_bytes($size);
        return ord $payload if $type == 1 && $stream == $wanted;
    }
    return undef;
}

{
    my $client = RateLimit::Client->new($nginx, '127.0.0.2');
    $client->send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", frame(4, 0, 0));
    $client->send(get_on_stream(1, '/?key=first'));
    is(answer_on_stream($client, 1), 0x88, 'a stream');

    my @streams = map { 2 * $_ + 1 } 1 .. 10;
    $redis->freeze;
    $client->send(map { get_on_stream($_, '/?key=reset') } @streams);
    $client->send(map { reset_stream($_) } @streams);
    ok(wait_until(sub { left('key=reset') == @streams }), 'streams that are reset while Redis is stopped');
    $redis->thaw;
    $client->send(get_on_stream(101, '/?key=reset'));
    is(answer_on_stream($client, 101), 0x88, 'the next stream of the connection is answered');

    # Each stream ends in the turn of nginx's event loop in which it has begun: as one that has left, until a
    # denial is known.
    for my $flushed (0, 1) {
        my $key   = "flood$flushed";
        my $flood = "/flood?key=$key&limit=100";
        $redis->client->script_flush if $flushed;
        my $before = rules()->{flood};
        my $first  = 201 + 200 * $flushed;
        for my $batch (0 .. 9) { # nginx closes a connection with too many at once
            $client->send(map { get_on_stream($_, $flood), reset_stream($_) } map { $first + 20 * $batch + 2 * $_ } 0 .. 9);
            ok(wait_until(sub { ended($key) == 10 * $batch + 10 && pending() == 0 }), 'streams that are reset at once');
        }
        my $counted = sub ($outcome) { rules()->{flood}{$outcome} - $before->{$outcome} };
        ok(wait_until(sub { $counted->('passed') + $counted->('rejected') == 100 }), '100 are counted');
        is($counted->('passed'),   60, 'of which 60 passed');
        is($counted->('rejected'), 40, 'and 40 were rejected');
        is($redis->taken("rl:{z:$key}:sliding_log:60000:flood"), 60, 'and charged to Redis');
        cmp_ok(left($key), '<=', 70, 'denials are known after the first batch of them');
        ok(wait_until(sub { !$redis->client->exists("rl:{z:$key}:concurrency:60000:permits") }), 'their permits are given back');
        is(pending(), 0, 'and nothing is left');
    }

    $redis->freeze;
    $client->send(map { get_on_stream($_, '/?key=closed') } 603, 605, 607);
    $client->close;
    ok(wait_until(sub { left('key=closed') == 3 }), 'streams of a connection that is closed');
    $redis->thaw;
    is($nginx->get('/?key=after')->{status}, 200, 'others are served');
    ok(no_connection_left(), 'no connection is left');
    is(($nginx->workers)[0], $worker, 'by the same worker');
}

$nginx->stop;
done_testing;
