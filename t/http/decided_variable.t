# $redis_rate_limit_decided: the time of a decision, by Redis's clock where Redis decided, and by this
# host's clock elsewhere.

use v5.36;
use lib 't/lib';
use RateLimit::Clock;
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use Test::More;
use Time::HiRes qw(time);

my $clock   = RateLimit::Clock->new(1_700_000_000_123_456);
my $redis   = RateLimit::Redis->start_new(clock => $clock);
my $nowhere = empty_port();

my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; timeout 10s; }
redis_rate_limit_backend nowhere { server 127.0.0.1:$nowhere; }
redis_rate_limit_zone \$uri zone=z:1m on_error=closed;
redis_rate_limit_zone \$uri zone=local:1m backend=nowhere;
redis_rate_limit_zone \$uri zone=open:1m backend=nowhere on_error=open;
add_header X-Decided \$redis_rate_limit_decided always;
add_header X-Source \$redis_rate_limit_source always;
server {
    listen %PORT%;
    location /one   { redis_rate_limit zone=z algorithm=fixed_window limit=1 window=1h; empty_gif; }
    location /lease { redis_rate_limit zone=z algorithm=fixed_window limit=1000 window=1h lease=10s; empty_gif; }
    location /zero  { redis_rate_limit zone=z algorithm=fixed_window limit=0 window=1h name=zero; empty_gif; }
    location /local { redis_rate_limit zone=local algorithm=fixed_window limit=1 window=1h; empty_gif; }
    location /open  { redis_rate_limit zone=open algorithm=fixed_window limit=1 window=1h; empty_gif; }
    location /wrong { redis_rate_limit zone=z algorithm=fixed_window limit=\$arg_limit window=1h name=wrong; empty_gif; }
    location /none  { empty_gif; }
}
END

sub by_redis ($path, $what) {
    my $headers = $nginx->get($path)->{headers};
    is("$headers->{'x-source'} $headers->{'x-decided'}", sprintf('redis %.6f', $clock->now / 1e6), $what);
}

sub by_this_host ($path, $source, $what) {
    my $before  = time;
    my $headers = $nginx->get($path)->{headers};
    my $after   = time;
    my $decided = $headers->{'x-decided'};
    is($headers->{'x-source'}, $source, "$what: source");
    like($decided, qr/^\d+\.\d{6}$/, "$what: seconds");
    # perl rounds its own times to a tenth of a microsecond, and the conversion is a microsecond off
    ok($before - 0.00001 < $decided && $decided < $after + 0.00001, "$what: $before < $decided < $after");
}

by_redis('/one', 'Redis grants');
is($nginx->get('/one')->{status}, 429, 'Redis denies');
by_this_host('/one', 'deny_cache', 'the deny cache');
$clock->move(1_000_001);
by_redis('/lease', 'at another time') for 1 .. 4;
by_this_host('/lease', 'lease',      'a lease');
by_this_host('/zero',  'none',       'a limit of 0');
by_this_host('/local', 'local',      'this host alone');
by_this_host('/open',  'none',       'no verdict');
by_this_host('/wrong?limit=x', 'none', 'no number');
is($nginx->get('/none')->{headers}{'x-decided'}, undef, 'no rule');

$nginx->stop;
done_testing;
