# Each algorithm through nginx, on a Redis whose clock the test moves: what a client sees at which
# second. All numbers, on far more steps, are in t/algorithms.t and t/sliding_log.t.

use v5.36;
use lib 't/lib';
use RateLimit::Clock;
use RateLimit::Nginx;
use RateLimit::Redis;
use Test::More;

my $second = 1_000_000;
my $start  = 1_700_000_000 * $second; # a multiple of 10 s

my %rule = (
    fixed    => 'algorithm=fixed_window limit=3 window=10',
    aligned  => 'algorithm=fixed_window limit=3 window=10 aligned',
    log      => 'algorithm=sliding_log limit=3 window=10',
    sliding  => 'algorithm=sliding_window limit=10 window=10',
    tokens   => 'algorithm=token_bucket limit=2 window=1 burst=10',
    plain    => 'algorithm=token_bucket limit=2 window=1',
    gcra     => 'algorithm=gcra limit=1 window=1 burst=4',
    even     => 'algorithm=gcra limit=10 window=1',
    uneven   => 'algorithm=gcra limit=700000 window=1',
    nothing  => 'algorithm=token_bucket limit=5 window=1 burst=0',
);
my $clock = RateLimit::Clock->new($start);
my $redis = RateLimit::Redis->start_new(clock => $clock);
my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; timeout 10s; }
redis_rate_limit_zone \$uri zone=z:1m on_error=closed;
server {
    listen %PORT%;
    @{[ map { "location /$_ { redis_rate_limit zone=z $rule{$_}; empty_gif; }" } sort keys %rule ]}
}
END

# Steps are [ at so many seconds, status, X-RateLimit-Remaining, Retry-After or X-RateLimit-Reset ],
# the last two where they matter.
sub sees ($name, @steps) {
    subtest $rule{$name} => sub {
        for (@steps) {
            my ($at, $status, $remaining, $wait) = @$_;
            $clock->set($start + int($at * $second + 0.5));
            my $response = $nginx->get("/$name");
            my $headers  = $response->{headers};
            is($response->{status}, $status, "$status at $at s");
            is($headers->{'x-ratelimit-remaining'}, $remaining, "$remaining left") if defined $remaining;
            my $name = $status == 429 ? 'retry-after' : 'x-ratelimit-reset';
            is($headers->{$name}, $wait, "$name: $wait") if defined $wait;
        }
        $clock->set($start);
    };
}

sees('fixed', [4, 200, 2, 10], [5, 200, 1, 9], [13.5, 200, 0, 1], [13.999999, 429, 0, 1], [14, 200, 2, 10]);
sees('aligned', ([9.999, 200]) x 3, [9.999, 429, 0, 1], ([10, 200]) x 3, [10, 429, 0, 10], [19.999999, 429, 0, 1], [20, 200, 2, 10]);
sees('log', [0, 200, 2], [1, 200, 1], [2, 200, 0], [5, 429, 0, 5], [9.999999, 429, 0, 1], [10, 200, 0, 10]);
sees('sliding', ([9, 200]) x 10, [10, 429, 0, 1], [10.999, 429, 0, 1], [11, 200], [11, 429], [14.999, 200]);
sees('tokens', ([0, 200]) x 10, [0, 429, 0, 1], [0.499999, 429], [0.5, 200, 0, 5], [3.25, 200, 4], ([3.25, 200]) x 4, [3.25, 429], [3.5, 200, 0], [3.5, 429]);
sees('plain', [0, 200, 1, 1], [0, 200, 0, 1], [0, 429, 0, 1], [0.5, 200], [0.5, 429]);
sees('gcra', [0, 200, 4], [0, 200, 3], [0, 200, 2], [0, 200, 1], [0, 200, 0, 5], [0, 429, 0, 1], [3, 200, 2], [3.1, 200, 1], [4, 200, 1], [8, 200, 4]);
sees('even', [0, 200, 0, 1], [0.099999, 429], [0.1, 200], [0.1, 429]);
sees('uneven', [0, 200], [0.000001, 429], [0.000002, 200], [0.000003, 429], [0.000004, 200]);
sees('nothing', [0, 429, 0, undef]);

is($nginx->get('/nothing')->{headers}{'retry-after'}, undef, 'what never passes has no Retry-After');
is($nginx->get('/gcra')->{headers}{'ratelimit-policy'}, '"z/1s";q=5;w=5', 'the window of a bucket is the time it takes to fill');
like($nginx->get('/fixed')->{headers}{'ratelimit'}, qr/^"z\/10s";r=\d;t=\d+$/, 'RateLimit');

my $client = $redis->client;
is_deeply([ grep { $client->pttl($_) <= 0 } $client->keys('*') ], [], 'every key has its end');

$nginx->stop;
done_testing;
