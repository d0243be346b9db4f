# Each algorithm through nginx, on a Redis whose clock the test moves: what a client sees at which
# second, and for what cost. All numbers, on far more steps, are in t/rules/algorithms.t.

use v5.36;
use lib 't/lib';
use IO::Socket::INET;
use RateLimit::Clock;
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(time);

my $second = 1_000_000;
my $start  = 1_700_000_000 * $second; # a multiple of 10 s
my $minute = 28_333_334 * 60 * $second - $start; # until the next one

my $upstream = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 5) or die "listen: $!";

my %rule = (
    fixed    => 'algorithm=fixed_window limit=3 window=10',
    aligned  => 'algorithm=fixed_window limit=3 window=10 aligned',
    log      => 'algorithm=sliding_log limit=3 window=10',
    log1ms   => 'algorithm=sliding_log limit=1 window=1ms',
    log366d  => 'algorithm=sliding_log limit=1 window=366d',
    sliding  => 'algorithm=sliding_window limit=10 window=10',
    estimate => 'algorithm=sliding_window limit=60 window=60',
    tokens   => 'algorithm=token_bucket limit=2 window=1 burst=10',
    plain    => 'algorithm=token_bucket limit=2 window=1',
    gcra     => 'algorithm=gcra limit=1 window=1 burst=4',
    even     => 'algorithm=gcra limit=10 window=1',
    uneven   => 'algorithm=gcra limit=700000 window=1',
    nothing  => 'algorithm=token_bucket limit=5 window=1 burst=0',
    leaky    => 'algorithm=leaky_bucket limit=10 window=1 burst=3 delay=1',
    slots    => 'algorithm=concurrency limit=2',
);
my $clock = RateLimit::Clock->new($start);
my $redis = RateLimit::Redis->start_new(clock => $clock);
my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$uri zone=z:1m on_error=closed deny_cache=off;
map \$arg_cost \$cost { default \$arg_cost; '' 1; }
server {
    listen %PORT%;
    @{[ map { "location /$_ { redis_rate_limit zone=z $rule{$_} cost=\$cost name=$_; empty_gif; }" } sort keys %rule ]}
    location /slots/held {
        redis_rate_limit zone=z $rule{slots} name=held;
        proxy_pass http://127.0.0.1:${\$upstream->sockport};
    }
}
END

# Steps are [ at so many seconds, cost, status, X-RateLimit-Remaining, Retry-After or
# X-RateLimit-Reset ], the last two where they matter. A `never` for the Retry-After: there is none.
sub sees ($name, @steps) {
    subtest $rule{$name} => sub {
        for (@steps) {
            my ($at, $cost, $status, $remaining, $wait) = @$_;
            $clock->set($start + int($at * $second + 0.5));
            my $response = $nginx->get("/$name?cost=$cost");
            my $headers  = $response->{headers};
            is($response->{status}, $status, "$status at $at s for $cost");
            is($headers->{'x-ratelimit-remaining'}, $remaining, "$remaining left") if defined $remaining;
            next if !defined $wait;
            my $header = $status == 429 ? 'retry-after' : 'x-ratelimit-reset';
            is($headers->{$header} // 'never', $wait, "$header: $wait");
        }
        $clock->set($start);
    };
}

sees('fixed', [4, 1, 200, 2, 10], [5, 1, 200, 1, 9], [13.5, 1, 200, 0, 1], [13.999999, 1, 429, 0, 1], [14, 1, 200, 2, 10]);
sees('aligned',
    [9.999, 0, 200, 3, 0], [9.999, 3, 200, 0, 1], [9.999, 1, 429, 0, 1], [10, 3, 200, 0, 10], [10, 1, 429, 0, 10],
    [19.999999, 1, 429, 0, 1], [20, 2, 200, 1, 10], [20, 2, 429, 1, 10], [20, 0, 200, 1, 10], [20, 1, 200, 0], [25, 4, 429, 0, 'never'],
    [30, 4, 429, 3, 'never'], [30, 3, 200, 0]);
sees('log',
    [0, 1, 200, 2], [1, 1, 200, 1], [2, 1, 200, 0], [5, 1, 429, 0, 5], [9.999999, 1, 429, 0, 1], [10, 1, 200, 0, 10],
    [10.5, 1, 429, 0, 1], [10.5, 2, 429, 0, 2], [10.5, 0, 200, 0, 10], [11, 1, 200], [12, 1, 200], [12, 1, 429, 0, 8],
    [100, 3, 200, 0, 10], [100, 1, 429, 0, 10], [110, 4, 429, 3, 'never'], [110, 0, 200, 3, 0], [110, 3, 200, 0, 10]);
sees('log1ms', [0, 1, 200], [0, 1, 429, 0, 1], [0.000999, 1, 429, 0, 1], [0.001, 1, 200], [0.001, 1, 429]);
sees('log366d', [0, 1, 200], [366 * 86400 - 1, 1, 429, 0, 1], [366 * 86400, 1, 200]);
sees('sliding',
    [9, 10, 200, 0], [10, 1, 429, 0, 1], [10.999, 1, 429, 0, 1], [11, 2, 429, 1, 1], [11, 1, 200, 0], [11, 1, 429, 0, 1],
    [14.999, 0, 200, 3], [14.999, 4, 429, 3, 1], [14.999, 3, 200, 0], [15, 1, 200, 0], [15, 11, 429, 0, 'never']);
# 42 in the minute before, 18 in this one: 42 * 45 / 60 + 18 = 49.5 after 15 s, 10.5 are free
sees('estimate',
    (map { $_->[0] += $minute / $second; $_ }
        [-1, 42, 200, 18, 61], [0, 18, 200, 0], [15, 0, 200, 10], [15, 11, 429, 10, 1], [15, 10, 200, 0], [15, 1, 429, 0, 1], [15, 61, 429, 0, 'never']));
sees('tokens',
    [0, 10, 200, 0, 5], [0, 1, 429, 0, 1], [0.499999, 1, 429, 0, 1], [0.5, 1, 200, 0, 5], [3.25, 6, 429, 5, 1], [3.25, 5, 200, 0],
    [3.5, 1, 200, 0], [3.5, 1, 429, 0, 1], [1000, 11, 429, 10, 'never'], [1000, 0, 200, 10, 0], [1000, 10, 200, 0, 5]);
sees('plain', [0, 1, 200, 1, 1], [0, 1, 200, 0, 1], [0, 1, 429, 0, 1], [0.5, 1, 200], [0.5, 1, 429]);
sees('gcra',
    [0, 6, 429, 5, 'never'], [0, 1, 200, 4, 1], [0, 1, 200, 3, 2], [0, 1, 200, 2, 3], [0, 1, 200, 1, 4], [0, 1, 200, 0, 5],
    [0, 1, 429, 0, 1], [3, 1, 200, 2], [3.1, 1, 200, 1], [4, 1, 200, 1], [8, 1, 200, 4], [9.5, 1, 200, 4], [9.5, 0, 200, 4],
    [9.5, 2, 200, 2], [9.5, 5, 429, 2, 3], [15, 6, 429, 5, 'never']);
sees('even', [0, 1, 200, 0, 1], [0.099999, 1, 429], [0.1, 1, 200], [0.1, 1, 429]);
sees('uneven', [0, 1, 200], [0.000001, 1, 429], [0.000002, 1, 200], [0.000003, 1, 429], [0.000004, 1, 200]);
sees('nothing', [0, 1, 429, 0, 'never'], [0, 0, 429, 0, 'never']);
sees('slots', [0, 1, 200, 1, 1], [0, 2, 200, 0, 1], [0, 3, 429, 2, 'never'], [0, 0, 200, 2, 0]);

subtest $rule{leaky} => sub {
    my @delays = (0, 0, 0.1, 0.2);
    for my $i (0 .. $#delays) {
        my $began = time;
        my $lines = length $nginx->error_log;
        is($nginx->get('/leaky')->{status}, 200, "number $i passes");
        cmp_ok(time - $began, '>=', $delays[$i], "after $delays[$i] s");
        my ($told) = substr($nginx->error_log, $lines) =~ /\[warn\] .*delaying request, rule "leaky", key "\/leaky", by ([\d.]+)s, client/;
        is(($told // 0) + 0, $delays[$i], 'as the log tells');
    }
    my $refused = $nginx->get('/leaky');
    is($refused->{status}, 429, 'the next one is refused');
    is($refused->{headers}{'retry-after'}, 1, 'Retry-After');
    my $began = time;
    is($nginx->get('/leaky?cost=0')->{status}, 200, 'a peek passes');
    cmp_ok(time - $began, '<', 0.1, 'at once: it takes nothing that could be held back');
    $clock->move(50_000);
    is($nginx->get('/leaky')->{headers}{'retry-after'}, 1, 'half a unit later too');
    $clock->move(50_000);
    is($nginx->get('/leaky')->{status}, 200, 'a unit later one more passes');
    $clock->move(-100_000);
};

subtest $rule{slots} => sub {
    my @answers = map { $nginx->get_later('/slots/held') } 1 .. 2;
    my @held    = map { $upstream->accept } 1 .. 2;
    my $refused = $nginx->get('/slots/held');
    is($refused->{status}, 429, 'two are in flight, a third is refused');
    is($refused->{headers}{'retry-after'}, 1, 'Retry-After');
    is($refused->{headers}{'ratelimit-policy'}, '"held";q=2;qu="concurrent-requests"', 'RateLimit-Policy');
    is($refused->{headers}{'ratelimit'},        '"held";r=0',                          'RateLimit');

    my $connection = shift @held;
    print $connection "HTTP/1.0 200 OK\r\n\r\n";
    close $connection;
    is((shift @answers)->()->{status}, 200, 'one ends');
    my $next = $nginx->get_later('/slots/held');
    push @held, $upstream->accept;
    is($nginx->get('/slots/held')->{status}, 429, 'there is room for one more');
    close $_ for @held;
    $_->() for @answers, $next;
    ok(wait_until(sub { !grep { /slots\/held/ } $redis->keys }), 'when all have ended Redis holds nothing');
};

is($nginx->get('/gcra')->{headers}{'ratelimit-policy'}, '"gcra";q=5;w=5', 'the window of a bucket is the time it takes to fill');
like($nginx->get('/fixed')->{headers}{'ratelimit'}, qr/^"fixed";r=\d;t=\d+$/, 'RateLimit');

my $client = $redis->client;
is_deeply([ grep { $client->pttl($_) <= 0 } $redis->keys ], [], 'every key has its end');

$nginx->stop;
done_testing;
