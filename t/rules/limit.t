# The main job: so many requests pass, the next one is refused, and says when to come back.

use v5.36;
use lib 't/lib';
use RateLimit::Nginx;
use RateLimit::Redis;
use Test::More;

my $redis = RateLimit::Redis->start_new;
my $nginx = RateLimit::Nginx->start_new(<<"END", workers => 2);
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$arg_key zone=per_key:1m;
server {
    listen %PORT%;
    location / {
        redis_rate_limit zone=per_key algorithm=sliding_log limit=3 window=60;
        empty_gif;
    }
}
END

for my $left (2, 1, 0) {
    my $response = $nginx->get('/?key=a');
    is($response->{status}, 200, "passes with $left left");
    my $headers = $response->{headers};
    is($headers->{'x-ratelimit-limit'},     3,                             'X-RateLimit-Limit');
    is($headers->{'x-ratelimit-remaining'}, $left,                         'X-RateLimit-Remaining');
    is($headers->{'x-ratelimit-reset'},     60,                            'X-RateLimit-Reset');
    is($headers->{'ratelimit-policy'},      '"per_key/60s";q=3;w=60',      'RateLimit-Policy');
    is($headers->{'ratelimit'},             qq("per_key/60s";r=$left;t=60), 'RateLimit');
    is($headers->{'retry-after'},           undef,                         'no Retry-After');
}

my $refused = $nginx->get('/?key=a');
is($refused->{status},                           429,                       'the fourth is refused');
is($refused->{headers}{'retry-after'},           60,                        'Retry-After');
is($refused->{headers}{'x-ratelimit-remaining'}, 0,                         'nothing remains');
is($refused->{headers}{'ratelimit'},             '"per_key/60s";r=0;t=60', 'RateLimit');
like(
    $nginx->error_log,
    qr/\[error\] .*limiting requests, rule "per_key\/60s", key "a", retry after (?:59\.\d{3}|60\.000)s, client/,
    'the refusal is logged'
);

is($nginx->statuses('/?key=b', 4), '200 200 200 429', 'another key has its own count');
is($nginx->statuses('/',       5), '200 200 200 200 200', 'an empty key is not counted');
is($nginx->get('/')->{headers}{'x-ratelimit-limit'}, undef, 'and gets no headers');

$nginx->stop;
done_testing;
