# Rules of one location on two Redis servers: asked side by side, all or nothing all the same, and
# never more than the limits.

use v5.36;
use lib 't/lib';
use RateLimit::Client;
use RateLimit::Load qw(start_requests);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(time);

my %redis = map { $_ => RateLimit::Redis->start_new } qw(a b);
my %relay = map { $_ => RateLimit::Relay->start_new($redis{$_}->conf->{port}) } qw(a b);
my @algorithms = qw(fixed_window sliding_log sliding_window token_bucket gcra leaky_bucket concurrency);

sub rule ($zone, $algorithm, $limit, $more = '') {
    my $burst = $algorithm =~ /gcra|leaky/ ? 'burst=' . ($limit - 1) : '';
    $burst .= ' delay=1000' if $algorithm eq 'leaky_bucket';
    my $name = $more =~ /name=/ ? '' : "name=$zone-$algorithm";
    return "redis_rate_limit zone=$zone algorithm=$algorithm limit=$limit window=60 $burst $name $more;";
}

# Of each pair of rules the second decides; /plain and /closed ask by the relays.
sub start_nginx (%options) {
    my $refunded = join '', map { <<"END" } @algorithms;
    location /refund-$_ { ${\rule('direct-a', $_, 10, 'cost=2')} ${\rule('direct-b', 'sliding_log', 2, 'cost=$arg_cost')} empty_gif; }
    location /peek-$_ { ${\rule('direct-a', $_, 10, 'cost=0')} empty_gif; }
END
    return RateLimit::Nginx->start_new(<<"END", %options);
${\join '', map { <<"BACKEND" } qw(a b)}
redis_rate_limit_backend $_ { server 127.0.0.1:${\$relay{$_}->port}; timeout 1s; }
redis_rate_limit_backend direct-$_ { server ${\$redis{$_}->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$arg_key zone=$_:1m backend=$_ on_error=open;
redis_rate_limit_zone \$arg_key zone=closed-$_:1m backend=$_ on_error=closed;
redis_rate_limit_zone \$arg_key zone=direct-$_:1m backend=direct-$_ on_error=closed deny_cache=off;
BACKEND
server {
    listen %PORT%;
    location /open { ${\rule('a', 'sliding_log', 5)} ${\rule('b', 'sliding_log', 5)} empty_gif; }
    location /closed { ${\rule('closed-a', 'sliding_log', 5)} ${\rule('closed-b', 'sliding_log', 5)} empty_gif; }
    location /mixed { ${\rule('a', 'sliding_log', 5)} ${\rule('closed-b', 'sliding_log', 5)} empty_gif; }
    location /load { ${\rule('direct-a', 'sliding_log', 50)} ${\rule('direct-b', 'gcra', 60)} empty_gif; }
    location /three {
        ${\rule('direct-a', 'sliding_log', 1, 'name=first')}
        ${\rule('direct-b', 'sliding_log', 3)}
        ${\rule('direct-a', 'fixed_window', 3, 'name=third')}
        empty_gif;
    }
    $refunded
}
END
}

sub taken ($name, $zone, $key) { return $redis{$name}->taken("rl:{$zone:$key}:sliding_log:60000:$zone-sliding_log") }

my $nginx = start_nginx();
is($nginx->get('/open?key=warm')->{status}, 200, 'works');

subtest 'side by side' => sub {
    $_->hold for values %relay;
    my $answer = $nginx->get_later('/open?key=side');
    ok(wait_until(sub { taken('a', 'a', 'side') && taken('b', 'b', 'side') }), 'both are asked before either has answered');
    $relay{b}->release;
    is($nginx->get('/refund-gcra?key=side&cost=1')->{status}, 200, 'an answer of one');
    is($relay{a}->counts->{held} > 0, 1, 'does not go on without the other');
    $relay{a}->release;
    my $response = $answer->();
    is($response->{status}, 200, 'but with it');
    is($response->{headers}{ratelimit} =~ tr/"//, 4, 'headers tell of both');
};

# A bucket's also tells, in the end, what it has given back.
sub state_of ($key) {
    my $client = $redis{a}->client;
    return $client->type($key) eq 'string' ? substr $client->get($key), 0, 24 : $client->dump($key);
}

subtest 'a denial by one refunds the other' => sub {
    for my $algorithm (@algorithms) {
        my $left   = sub { $nginx->get("/peek-$algorithm?key=$algorithm")->{headers}{'x-ratelimit-remaining'} };
        my $window = $algorithm eq 'concurrency' ? 0 : 2;
        is($nginx->get("/refund-$algorithm?key=$algorithm&cost=2")->{status}, 200, "$algorithm: charged");
        ok(wait_until(sub { $left->() == 10 - $window }), 'two units');
        my ($key) = grep { /direct-a:$algorithm/ } $redis{a}->keys;
        my $before = $key && state_of($key);
        for (1 .. 3) {
            my $response = $nginx->get("/refund-$algorithm?key=$algorithm&cost=1");
            is($response->{status}, 429, "$algorithm: denied by the other");
            my $shown = 10 - $window;
            like($response->{headers}{'ratelimit'}, qr/"direct-a-$algorithm";r=$shown\b/, "which shows $shown");
        }
        ok(wait_until(sub { $left->() == 10 - $window }), "$algorithm: nothing is charged");
        is($redis{a}->client->exists($key), 1, 'the key is there') if $key;
        is(state_of($key), $before, 'in the state that it was in') if $key && $algorithm ne 'sliding_window';
    }
    my $first = $nginx->get('/refund-gcra?key=fresh&cost=3');
    is($first->{status}, 429, 'also a key\'s first charge');
    like($first->{headers}{ratelimit}, qr/"direct-a-gcra";r=10(?!;t)/, 'which shows ten');
    ok(wait_until(sub { $nginx->get('/peek-gcra?key=fresh')->{headers}{'x-ratelimit-remaining'} == 10 }), 'is given back');
    my $client = $redis{a}->client;
    my @keys   = $redis{a}->keys;
    is_deeply([ grep { $client->pttl($_) < 0 && $client->exists($_) } @keys ], [], 'no key is without expiry');
};

subtest 'three rules, of which one backend has two' => sub {
    is($nginx->get('/three?key=three')->{status}, 200, 'charged');
    my $denied = $nginx->get('/three?key=three');
    is($denied->{status}, 429, 'denied');
    like($denied->{headers}{ratelimit}, qr/"third";r=2/, 'the rule beside it is not charged');
    ok(wait_until(sub { taken('b', 'direct-b', 'three') == 1 }), 'nor is that of the other backend');
};

subtest 'never more than the limits, at many connections' => sub {
    my @both   = map { start_nginx(workers => 2) } 1 .. 2;
    my @load   = map { start_requests($_->url('/load?key=load'), 2000, connections => 16) } @both;
    my @done   = map { $_->finish } @load;
    my $passed = $done[0]{passed} + $done[1]{passed};
    is($_->{broken} + $_->{faults}, 0, 'all have verdicts') for @done;
    cmp_ok($passed, '<=', 50, "$passed pass");
    ok(wait_until(sub { taken('a', 'direct-a', 'load') == $passed }), 'and only they are charged');
    my $rest = 0;
    ++$rest while $nginx->get('/load?key=load')->{status} == 200;
    is($passed + $rest, 50, 'one after another get what is left');
    $_->stop for @both;
};

subtest 'one of them is silent' => sub {
    $relay{b}->hold;
    my $began = time;
    is($nginx->get('/open?key=silent')->{status},   200, 'open passes');
    is($nginx->get('/closed?key=silent')->{status}, 503, 'closed rejects');
    is($nginx->get('/mixed?key=silent')->{status},  503, 'one closed rule without a verdict rejects');
    cmp_ok(time - $began, '<', 3 * 1.5, 'each after one timeout');
    $relay{b}->release;
    # a refund may come after the answer
    ok(wait_until(sub { taken('a', 'a', 'silent') == 1 }), 'what passed was charged where it could be, and what was rejected refunded');
    ok(wait_until(sub { taken('a', 'closed-a', 'silent') == 0 }), 'closed: refunded');
    ok(wait_until(sub { $nginx->get('/closed?key=again')->{status} == 200 }), 'both work again');
};

subtest 'one of them is gone' => sub {
    $redis{b}->kill_now;
    ok(wait_until(sub { $nginx->get('/closed?key=gone')->{status} == 503 }), 'closed rejects');
    $nginx->statuses('/closed?key=gone', 20);
    ok(wait_until(sub { taken('a', 'closed-a', 'gone') == 0 }), 'and charges nobody');
    is($nginx->statuses('/open?key=gone', 6), '200 200 200 200 200 429', 'with open the other rule decides');
    $redis{b}->restart;
    ok(wait_until(sub { $nginx->get('/closed?key=back')->{status} == 200 }), 'until it is back');
};

subtest 'a client leaves midway' => sub {
    my ($worker) = $nginx->workers;
    $relay{b}->hold;
    my $client = RateLimit::Client->new($nginx)->send("GET /closed?key=left HTTP/1.1\r\nHost: a\r\n\r\n");
    ok(wait_until(sub { taken('b', 'closed-b', 'left') && taken('a', 'closed-a', 'left') }), 'when both were asked, and one has answered');
    $client->reset;
    ok(wait_until(sub { $nginx->access_log =~ /key=left\S* HTTP\S*" 499 / }), 'it is gone');
    $relay{b}->release;
    is($nginx->get('/closed?key=left')->{status}, 200, 'others are served');
    is(taken($_, "closed-$_", 'left'), 2, 'both were charged once a request') for qw(a b);
    is(($nginx->workers)[0], $worker, 'the worker is the same');
};

$nginx->stop;
done_testing;
