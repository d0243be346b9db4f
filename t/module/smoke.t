# What every nginx does with a module that was built for it, and every relative of nginx: see
# RATE_LIMIT_NGINX in docs/contributing.md.

use v5.36;
use lib 't/lib';
use RateLimit::Metrics qw(metrics_of outcomes);
use RateLimit::Nginx;
use RateLimit::Redis;
use Test::More;

my $redis = RateLimit::Redis->start_new;

# The name stands in /etc/hosts, so it is found without a `resolver`.
my $nginx = RateLimit::Nginx->start_new(<<"END", workers => 2);
redis_rate_limit_backend default { server localhost:${\$redis->conf->{port}}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$arg_key zone=per_key:1m on_error=closed deny_cache=off;
server {
    listen %PORT%;
    location /metrics { redis_rate_limit_metrics; }
    location /json    { redis_rate_limit_metrics json; }
    location /limits/ { redis_rate_limit_dashboard; }
    location / {
        redis_rate_limit zone=per_key algorithm=sliding_log limit=3 window=60;
        empty_gif;
    }
}
END
diag(qx(@{[ RateLimit::Nginx::binary ]} -v 2>&1));

my ($said, $is_valid) = $nginx->test_configuration;
ok($is_valid, '`nginx -t` is content') or diag($said);

is($nginx->statuses('/?key=a', 5), '200 200 200 429 429', 'three requests pass');
is($redis->taken('rl:{per_key:a}:sliding_log:60000'), 3, 'Redis knows them');

$nginx->reload;
is($nginx->statuses('/?key=a', 1), '429', 'after a reload, too');
is($nginx->statuses('/?key=b', 4), '200 200 200 429', 'new workers ask Redis');

is_deeply(outcomes(metrics_of($nginx), 'per_key', 'per_key/60s'), { passed => 6, rejected => 4 }, 'metrics count them');
like($nginx->get('/metrics')->{content}, qr/^nginx_redis_rate_limit_requests_total\{.*outcome="passed"\} 6$/m, 'also for Prometheus');
like($nginx->get('/limits/')->{content}, qr/<html/, 'the dashboard');
is($nginx->get('/limits/status.json')->{status}, 200, 'and its data');

# Where localhost is ::1, too, that may be tried first, which is no failure.
unlike($nginx->error_log, qr/ fails: /, 'Redis was always reached');
$nginx->stop;
done_testing;
