# The concurrency rule: never more requests in flight than the limit, and a permit is given back
# however its request ends, and whatever becomes of Redis or nginx meanwhile.

use v5.36;
use lib 't/lib';
use RateLimit::Client;
use RateLimit::Http2;
use RateLimit::Load qw(start_requests);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Upstream;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep time);

my $redis    = RateLimit::Redis->start_new;
my $client   = $redis->client;
my $upstream = RateLimit::Upstream->start_new;

# HTTP/2 is spoken at 127.0.0.2.
sub start_nginx (%options) {
    my $server  = delete $options{server}  // $redis->address;
    my $backend = delete $options{backend} // 'connect_timeout 10s; timeout 10s;';
    my $proxy   = "proxy_pass ${\(delete $options{upstream} // $upstream)->url}";
    my $nginx = RateLimit::Nginx->start_new(<<"END", %options);
redis_rate_limit_backend default { server $server; $backend }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed;
redis_rate_limit_zone \$arg_key zone=log:1m on_error=closed;
server {
    listen %PORT%;
    listen 127.0.0.2:%PORT% http2;
    location /2 { redis_rate_limit zone=z algorithm=concurrency limit=2; $proxy; }
    location /5 { redis_rate_limit zone=z algorithm=concurrency limit=5; $proxy; }
    location /1s { redis_rate_limit zone=z algorithm=concurrency limit=1 window=1; $proxy; }
    location /many { redis_rate_limit zone=z algorithm=concurrency limit=150 window=1; $proxy; }
    location /2s { redis_rate_limit zone=z algorithm=concurrency limit=2 window=2; $proxy; }
    location /file { redis_rate_limit zone=z algorithm=concurrency limit=2; alias %DIR%/html/file; limit_rate 1k; }
    location /cost { redis_rate_limit zone=z algorithm=concurrency limit=7 cost=3; $proxy; }
    location /peek { redis_rate_limit zone=z algorithm=concurrency limit=2 cost=0; empty_gif; }
    location /beside {
        redis_rate_limit zone=z algorithm=concurrency limit=1;
        redis_rate_limit zone=log algorithm=sliding_log limit=2 window=60;
        $proxy;
    }
    location /held-back {
        redis_rate_limit zone=z algorithm=concurrency limit=2;
        redis_rate_limit zone=log algorithm=leaky_bucket limit=1 window=30 burst=2 name=bucket;
        empty_gif;
    }
    location /empty { redis_rate_limit zone=z algorithm=concurrency limit=2; empty_gif; }
}
END
    $nginx->add_page(file => 'x' x 1_000_000);
    return $nginx;
}

# So many permits are held of a key, or undef where its bookkeeping is wrong.
sub held ($key, $window = 60_000) {
    my %permits = $client->zrange("rl:{z:$key}:concurrency:$window", 0, -1, 'withscores');
    my $sum   = delete $permits{''} // 0; # below 0
    $sum += $_ for map { / (\d+)$/ } keys %permits;
    return $sum == 0 ? scalar keys %permits : undef;
}

sub holds ($count, $key, $what, $window = 60_000) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    ok(wait_until(sub { (held($key, $window) // -1) == $count }), "$what: $count held");
}

# A request that stays at the upstream.
sub start_request ($nginx, $target, $method = 'GET') {
    my $open = $upstream->counts->{open};
    my $one  = RateLimit::Client->new($nginx)->send("$method $target HTTP/1.1\r\nHost: a\r\n\r\n");
    $upstream->wait_for($open + 1) or die "$target does not reach the upstream";
    return $one;
}

# NOREPLICAS, as MISCONF of a full disk: checks fail, and so do releases.
subtest 'a Redis that refuses to write' => sub {
    my $nginx = start_nginx();
    $nginx->get('/1s?key=look'); # so that permits are looked at often
    $client->config('set', 'min-replicas-to-write', 1);
    $nginx->get("/5?key=refused$_") for 1 .. 20;
    # Releases follow the answers.
    my $calls    = sub { $redis->script_calls->{evalsha} };
    my $calls_in = sub ($seconds) { my $before = $calls->(); sleep $seconds; return $calls->() - $before };
    ok(wait_until(sub { $calls_in->(1) == 0 }), 'it is not told again and again of permits that it never gave');

    $client->config('set', 'min-replicas-to-write', 0);
    ok(wait_until(sub { $nginx->get('/2?key=again')->{status} == 200 }), 'Redis decides again');
    $upstream->hold;
    my $held = start_request($nginx, '/2?key=leaving');
    $client->config('set', 'min-replicas-to-write', 1);
    $upstream->answer;
    is($held->response->{status}, 200, 'a request that holds a permit ends');
    $nginx->stop; # and does not wait for the end of the window
    $client->config('set', 'min-replicas-to-write', 0);
    $client->flushall;
};

subtest 'never more at once than the limit' => sub {
    my $busy  = RateLimit::Upstream->start_new(seconds => 0.003);
    my @nginx = map { start_nginx(workers => 2, upstream => $busy) } 1 .. 2;
    my @load  = map { start_requests($_->url('/5?key=load'), 8000, connections => 16) } @nginx;
    my @done  = map { $_->finish } @load;
    is($_->{broken} + $_->{faults}, 0, 'all requests have verdicts') for @done;
    my $counts = $busy->counts;
    is($counts->{most}, 5, 'all five permits were taken at once, and no more');
    is($counts->{accepted}, $done[0]{passed} + $done[1]{passed}, "as many passed as came through: $counts->{accepted}");
    cmp_ok($counts->{accepted}, '>', 100, 'over and over');
    ok(wait_until(sub { !$client->exists('rl:{z:load}:concurrency:60000') }), 'nothing is left in Redis');
    $_->stop for @nginx;
};

subtest 'what a client sees' => sub {
    my $nginx = start_nginx();
    $upstream->hold;
    my @requests = map { start_request($nginx, '/2?key=seen') } 1 .. 2;
    my $denied   = $nginx->get('/2?key=seen');
    is($denied->{status}, 429, 'one more is denied');
    my $headers = $denied->{headers};
    is($headers->{'retry-after'},           1,                                           'Retry-After');
    is($headers->{'x-ratelimit-limit'},     2,                                           'X-RateLimit-Limit');
    is($headers->{'x-ratelimit-remaining'}, 0,                                           'X-RateLimit-Remaining');
    is($headers->{'ratelimit-policy'},      '"z/concurrency";q=2;qu="concurrent-requests"', 'RateLimit-Policy');
    is($headers->{'ratelimit'},             '"z/concurrency";r=0',                          'RateLimit');
    is($nginx->get('/peek?key=seen')->{headers}{'x-ratelimit-remaining'}, 0, 'a request of cost 0 sees the same');
    is($nginx->get('/peek?key=seen')->{status}, 200, 'and passes');
    cmp_ok($client->pttl('rl:{z:seen}:concurrency:60000'), '>', 60_000, 'the key expires after its permits');
    $upstream->answer;
    is(join(' ', map { $_->response->{headers}{ratelimit} } @requests), '"z/concurrency";r=1 "z/concurrency";r=0', 'each was told');
    holds(0, 'seen', 'both have ended');
    ok(!$client->exists('rl:{z:seen}:concurrency:60000'), 'and the key is gone');
    $nginx->stop;
};

subtest 'however a request ends' => sub {
    my $nginx = start_nginx();
    my ($worker) = $nginx->workers;
    my $ends = sub ($what, $request, $end) {
        $upstream->hold;
        my $one = $request->();
        holds(1, 'end', "before $what");
        $end->($one);
        holds(0, 'end', "after $what");
    };
    my $get = sub { start_request($nginx, '/2?key=end') };
    $ends->('an answer',          $get, sub ($one) { $upstream->answer; is($one->response->{status}, 200, 'passes') });
    $ends->('an answer to HEAD',  sub { start_request($nginx, '/2?key=end', 'HEAD') }, sub ($one) { $upstream->answer; $one->response('HEAD') });
    $ends->('an upstream error',  $get, sub ($one) { $upstream->drop; is($one->response->{status}, 502, 'is told') });
    $ends->('the client leaving', $get, sub ($one) { $one->close });
    $ends->('a download that the client leaves', sub {
        my $one = RateLimit::Client->new($nginx)->send("GET /file?key=end HTTP/1.1\r\nHost: a\r\n\r\n");
        $one->read_bytes(1000);
        return $one;
    }, sub ($one) { $one->close });

    my $http2 = RateLimit::Http2->new($nginx, '127.0.0.2');
    $ends->('a reset of its stream', sub {
        my $stream = $http2->request('/2?key=end');
        $upstream->wait_for(1);
        return $stream;
    }, sub ($stream) { $http2->cancel($stream) });

    $ends->('the client leaving while the request is held back', sub {
        is($nginx->get('/held-back?key=end')->{status}, 200, 'the first is not');
        my $one = RateLimit::Client->new($nginx)->send("GET /held-back?key=end HTTP/1.1\r\nHost: a\r\n\r\n");
        $nginx->wait_for_log(qr/delaying request/);
        return $one;
    }, sub ($one) { $one->close });

    # a connection that stays open holds nothing
    my $one = RateLimit::Client->new($nginx);
    $upstream->answer;
    for (1 .. 3) {
        is($one->send("GET /2?key=end HTTP/1.1\r\nHost: a\r\n\r\n")->response->{status}, 200, 'on one connection');
        holds(0, 'end', 'between its requests');
    }
    $one->send("GET /empty?key=end HTTP/1.1\r\nHost: a\r\n\r\n" x 50);
    $one->response for 1 .. 50;
    holds(0, 'end', 'after fifty in one write');
    is(($nginx->workers)[0], $worker, 'the worker is the same');
    $nginx->stop;
};

subtest 'clients that leave before the verdict' => sub {
    my $relay = RateLimit::Relay->start_new($redis->conf->{port});
    my $nginx = start_nginx(server => "127.0.0.1:${\$relay->port}");
    is($nginx->get('/empty?key=early')->{status}, 200, 'works');
    holds(0, 'early', 'at first');
    $relay->hold;
    my @leaving = map { RateLimit::Client->new($nginx)->send("GET /2?key=early HTTP/1.1\r\nHost: a\r\n\r\n") } 1 .. 3;
    holds(2, 'early', 'as verdicts are on their way');
    $_->reset for @leaving;
    ok(wait_until(sub { 3 == (() = $nginx->access_log =~ /key=early\S* HTTP\S*" 499 /g) }), 'all leave');
    holds(0, 'early', 'released before the verdicts came');
    $relay->release;
    is($nginx->get('/empty?key=early')->{status}, 200, 'others are served');
    holds(0, 'early', 'afterwards');
    $nginx->stop;
};

subtest 'checks that time out' => sub {
    my $relay = RateLimit::Relay->start_new($redis->conf->{port});
    my $nginx = start_nginx(server => "127.0.0.1:${\$relay->port}", backend => 'timeout 100ms;');
    is($nginx->get('/empty?key=late')->{status}, 200, 'works');
    $relay->hold;
    is($nginx->get('/empty?key=late')->{status}, 503, 'no verdict comes');
    $relay->release;
    holds(0, 'late', 'the permit is given back');

    $redis->freeze;
    is($nginx->get('/empty?key=late')->{status}, 503, 'Redis has not even read the check');
    $redis->thaw;
    holds(0, 'late', 'the permit is given back');

    $relay->hold;
    my $connections = $relay->counts->{accepted};
    is($nginx->get('/empty?key=late')->{status}, 503, 'no verdict comes, on a connection');
    ok(wait_until(sub { $relay->counts->{accepted} > $connections }), 'that is given up');
    $relay->release;
    ok(wait_until(sub { $nginx->get('/empty?key=new')->{status} == 200 }), 'until Redis answers');
    holds(0, 'late', 'the permit is given back');
    $nginx->stop;
};

subtest 'Redis is away' => sub {
    my $relay = RateLimit::Relay->start_new($redis->conf->{port});
    my $nginx = start_nginx(server => "127.0.0.1:${\$relay->port}", backend => 'timeout 100ms;');
    $upstream->hold;
    my @requests = map { start_request($nginx, '/2?key=away') } 1 .. 2;
    $relay->reset_all;
    ok(wait_until(sub { $relay->counts->{open} == 1 }), 'a new connection');
    holds(2, 'away', 'what was held over a reset');
    $redis->freeze;
    $upstream->answer;
    is(join(' ', map { $_->response->{status} } @requests), '200 200', 'requests end while Redis is stopped');
    ok($nginx->wait_for_log(qr/no answer for too long/), 'for longer than a connection waits');
    $redis->thaw;
    holds(0, 'away', 'when it is back');
    $nginx->stop;
};

subtest 'Redis forgets' => sub {
    my $nginx = start_nginx();
    $upstream->hold;
    my @before = map { start_request($nginx, '/2?key=forgets') } 1 .. 2;
    $client->flushall;
    my $after = start_request($nginx, '/2?key=forgets');
    $_->close for @before;
    $upstream->wait_for(1);
    holds(1, 'forgets', 'after those ended that Redis does not know');
    $upstream->answer;
    $after->response;
    holds(0, 'forgets', 'after all');
    $nginx->stop;
};

subtest 'scripts are forgotten' => sub {
    my $nginx = start_nginx();
    $upstream->hold;
    my @requests = map { start_request($nginx, '/2?key=flush') } 1 .. 2;
    $client->script_flush;
    is($nginx->get('/2?key=flush')->{status}, 429, 'a check');
    $client->script_flush;
    $upstream->answer;
    $_->response for @requests;
    holds(0, 'flush', 'and two releases');
    $nginx->stop;
};

subtest 'costs' => sub {
    my $nginx = start_nginx();
    $upstream->hold;
    my @requests = map { start_request($nginx, '/cost?key=cost') } 1 .. 2;
    my $denied = $nginx->get('/cost?key=cost');
    is("$denied->{status} $denied->{headers}{ratelimit}", '429 "z/concurrency";r=1', 'six of seven are taken');
    $upstream->answer;
    $_->response for @requests;
    holds(0, 'cost', 'all six are given back');
    is($client->keys('rl:{z:cost}*'), 0, 'and the key is gone');
    $nginx->stop;
};

subtest 'beside another rule' => sub {
    my $nginx = start_nginx();
    my $log   = 'rl:{log:both}:sliding_log:60000';
    $upstream->hold;
    my $one = start_request($nginx, '/beside?key=both');
    is($nginx->get('/beside?key=both')->{status}, 429, 'denied for its permit');
    is($redis->taken($log), 1, 'costs no unit of the other');
    $upstream->answer;
    $one->response;
    holds(0, 'both', 'after that');
    is($nginx->statuses('/beside?key=both', 2), '200 429', 'denied for its units');
    holds(0, 'both', 'takes no permit');
    $nginx->stop;
};

subtest 'a worker dies' => sub {
    my $nginx = start_nginx();
    my ($victim) = $nginx->workers;
    $upstream->hold;
    my $began    = time;
    my @requests = map { start_request($nginx, '/2s?key=dead') } 1 .. 2;
    kill KILL => $victim;
    ok(wait_until(sub { my @now = $nginx->workers; @now == 1 && $now[0] != $victim }), 'it is replaced');
    $upstream->answer;
    is($nginx->get('/2s?key=dead')->{status}, 429, 'its permits are held for the rest of the window');
    ok(wait_until(sub { $nginx->get('/2s?key=dead')->{status} == 200 }), 'then they are free');
    cmp_ok(time - $began, '>=', 2, 'not before');
    $nginx->stop(expect => qr/worker process $victim exited on signal 9/);
};

# Also by workers that are to leave.
subtest 'requests longer than the window' => sub {
    my ($staying, $leaving) = map { start_nginx() } 1 .. 2;
    $upstream->hold;
    my $other = start_request($staying, '/1s?key=other'); # the first to be renewed
    $client->set('rl:{z:other}:concurrency:1000', 'of another type');
    my @many = map { start_request($staying, '/many?key=many') } 1 .. 150;
    my %request = map { $_->[0] => start_request($_->[1], "/1s?key=$_->[0]") } [ staying => $staying ], [ leaving => $leaving ];
    $leaving->reload;
    is(scalar $leaving->leaving_workers, 1, 'one is served by a worker that is to leave');
    my $began = time;
    my %denied;
    while (time - $began < 3) { # the requests' length itself
        for my $key (keys %request) {
            ++$denied{$key}{ $staying->get("/1s?key=$key")->{status} };
        }
        sleep 0.02;
    }
    is_deeply([ keys $denied{$_}->%* ], [429], "$_: the permit was kept for 3 s") for sort keys %request;
    is($staying->get('/many?key=many')->{status}, 429, 'so were many at once, beside one whose key is of another type');
    $upstream->answer;
    is($request{$_}->response->{status}, 200, "$_: the request ends well") for sort keys %request;
    $_->response for $other, @many;
    holds(0, $_, 'after that', 1000) for 'many', sort keys %request;
    ok(wait_until(sub { !$leaving->leaving_workers }), 'the worker leaves');
    $_->stop for $staying, $leaving;
};

# What the docs say of windows.
subtest 'a worker that is held up' => sub {
    my ($held_up, $other) = map { start_nginx() } 1 .. 2;
    my ($worker) = $held_up->workers;
    $upstream->hold;
    my $first = start_request($held_up, '/1s?key=held-up');
    kill STOP => $worker;
    my $in_time = wait_until(sub { !$client->exists('rl:{z:held-up}:concurrency:1000') });
    my $second  = $in_time && start_request($other, '/1s?key=held-up');
    kill CONT => $worker;
    ok($second, 'its permit falls free');
    my $ends = sub { join ' ', $client->zrange('rl:{z:held-up}:concurrency:1000', 0, -1, 'withscores') };
    for (1 .. 2) {
        my $before = $ends->();
        ok(wait_until(sub { $ends->() ne $before }), 'permits are renewed');
    }
    holds(1, 'held-up', 'the permit that was lost is not counted again', 1000);
    $upstream->answer;
    is(join(' ', map { $_->response->{status} } $first, $second), '200 200', 'both requests end well');
    holds(0, 'held-up', 'after that', 1000);
    $_->stop for $held_up, $other;
};

subtest 'a graceful stop' => sub {
    my $nginx = start_nginx(workers => 2);
    $upstream->hold;
    my @requests = map { start_request($nginx, '/2?key=stop') } 1 .. 2;
    kill QUIT => $nginx->pid;
    ok(wait_until(sub { $nginx->leaving_workers >= 1 }), 'the workers are to leave');
    holds(2, 'stop', 'meanwhile');
    $upstream->answer;
    is(join(' ', map { $_->response->{status} } @requests), '200 200', 'requests are served');
    $nginx->stop;
    holds(0, 'stop', 'after the stop');
};

subtest 'worker_shutdown_timeout' => sub {
    my $nginx = start_nginx(main => 'worker_shutdown_timeout 100ms;');
    $upstream->hold;
    my @requests = map { start_request($nginx, '/2?key=cut') } 1 .. 2;
    $nginx->stop;
    holds(0, 'cut', 'after requests that were cut off');
};

subtest 'a graceful stop while Redis is away' => sub {
    my $gone  = RateLimit::Redis->start_new;
    my $nginx = start_nginx(server => $gone->address);
    $upstream->hold;
    my $one = start_request($nginx, '/2?key=gone');
    $gone->kill_now;
    kill QUIT => $nginx->pid;
    $upstream->answer;
    is($one->response->{status}, 200, 'the request is served');
    my $began = time;
    $nginx->stop;
    cmp_ok(time - $began, '<', 5, 'the worker does not wait for the permit to fall free');
};

done_testing;
