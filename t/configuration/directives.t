# What `nginx -t` says of directives without a block, and where in the file each may stand.

use v5.36;
use lib 't/lib';
use RateLimit::Configuration qw(accepts invalid refuse_all refuses);
use RateLimit::Nginx;
use RateLimit::Redis;
use Test::More;

for my $code (qw(399 600 0 -429 abc 429.0)) {
    refuses('location', "redis_rate_limit_status $code;", invalid('redis_rate_limit_status', 'code', $code, '400 to 599'));
}
for my $level (qw(debug crit WARN on)) {
    refuses(
        'location',
        "redis_rate_limit_log_level $level;",
        invalid('redis_rate_limit_log_level', 'level', $level, 'info, notice, warn or error')
    );
}
my %bad_headers = (
    'on' => 'on', 'X' => 'X', 'off x' => 'off', 'x off' => 'off', 'x x' => 'x', 'ietf x ietf' => 'ietf', 'retry_after=off' => '', 'off x retry_after=off' => 'off',
    'retry_after=off x' => 'retry_after=off', 'x retry_after=off retry_after=off' => 'retry_after=off', 'x retry_after' => 'retry_after',
);
for my $values (sort keys %bad_headers) {
    refuses(
        'location',
        "redis_rate_limit_headers $values;",
        invalid('redis_rate_limit_headers', 'value', $bad_headers{$values}, 'off alone, or x and ietf, each once, and perhaps retry_after= behind them')
    );
}
for my $time ('', qw(yes 0 0s 500ms 999ms 367d -1 1x)) {
    refuses('location', "redis_rate_limit_headers x retry_after=$time;", invalid('redis_rate_limit_headers', 'retry_after', $time, 'on, off or a time from 1s to 366d'));
}
accepts('location', "redis_rate_limit_headers $_;") for 'off retry_after=off', 'x ietf retry_after=on', 'ietf retry_after=1s', 'x retry_after=366d', 'off retry_after=60', 'x retry_after=1h30m';
my %values = (status => 429, log_level => 'warn', headers => 'x');
for my $name (sort keys %values) {
    my $directive = "redis_rate_limit_$name";
    refuse_all(
        location => (
            "$directive $values{$name}; $directive $values{$name};" => invalid($directive, 'second value', $values{$name}, 'one on a level'),
            "$directive;"                             => qr/invalid number of arguments in "$directive"/,
            "if (\$arg_a) { $directive $values{$name}; }" => qr/"$directive" directive is not allowed here/,
        )
    );
}
refuse_all(
    location => (
        'redis_rate_limit_zone $uri zone=y:1m;' => qr/"redis_rate_limit_zone" directive is not allowed here/,
        "redis_rate_limit_backend b { }"                        => qr/"redis_rate_limit_backend" directive is not allowed here/,
    )
);
for my $flag (qw(redis_rate_limit_dry_run redis_rate_limit_problem)) {
    refuses('location', qq($flag "$_";), qr/invalid value "$_" in "$flag" directive, it must be "on" or "off"/) for '', qw(1 yes true);
    refuse_all(
        location => (
            "$flag on; $flag on;"          => qr/"$flag" directive is duplicate/,
            "$flag;"                       => qr/invalid number of arguments in "$flag"/,
            "if (\$arg_a) { $flag on; }" => qr/"$flag" directive is not allowed here/,
        )
    );
    accepts('http', "$flag on; server { $flag off; location / { $flag on; } }");
}
refuse_all(
    location => (
        'redis_rate_limit_metrics on;'         => invalid('redis_rate_limit_metrics', 'format', 'on', 'prometheus or json'),
        'redis_rate_limit_metrics JSON;'       => invalid('redis_rate_limit_metrics', 'format', 'JSON', 'prometheus or json'),
        'redis_rate_limit_metrics json json;'  => qr/invalid number of arguments in "redis_rate_limit_metrics"/,
        'redis_rate_limit_metrics; redis_rate_limit_metrics json;' => qr/redis_rate_limit_metrics: a location serves one thing/,
        'if ($arg_a) { redis_rate_limit_metrics; }'                => qr/"redis_rate_limit_metrics" directive is not allowed here/,
    )
);
refuse_all(
    location => (
        'redis_rate_limit_dashboard on;'                             => invalid('redis_rate_limit_dashboard', 'parameter', 'on', 'one of api'),
        'redis_rate_limit_dashboard api;'                            => invalid('redis_rate_limit_dashboard', 'parameter', 'api', 'name=value'),
        'redis_rate_limit_dashboard api=/a/ api=/b/;'                => qr/invalid number of arguments in "redis_rate_limit_dashboard"/,
        'redis_rate_limit_dashboard; redis_rate_limit_dashboard;'    => qr/redis_rate_limit_dashboard: a location serves one thing/,
        'redis_rate_limit_metrics json; redis_rate_limit_dashboard;' => qr/redis_rate_limit_dashboard: a location serves one thing/,
        'redis_rate_limit_dashboard; redis_rate_limit_metrics;'      => qr/redis_rate_limit_metrics: a location serves one thing/,
        'if ($arg_a) { redis_rate_limit_dashboard; }'                => qr/"redis_rate_limit_dashboard" directive is not allowed here/,
    )
);
for my $location ('/a', '= /a/', '~ /a/', '@a/') {
    my $shown = $location =~ s/^\S* //r;
    refuses('http', "server { location $location { redis_rate_limit_dashboard; } }", invalid('redis_rate_limit_dashboard', 'location', $shown, 'a prefix that ends in /'));
}
accepts('http', "server { location $_ { redis_rate_limit_dashboard; } }") for '/', '/a/', '^~ /a/';
for my $path ('', 'a/', '/a', '//a/', 'http://a/', '/a?b/', '/a#/', '/<a>/', "/'a/", '/&amp;/', '/a b/', '/$a/', "/\xe9/") {
    my $expected = 'the path of a location with redis_rate_limit_api: / at both ends, and A-Za-z0-9._~%/- between them';
    refuses('http', qq(server { location / { redis_rate_limit_dashboard "api=$path"; } }), invalid('redis_rate_limit_dashboard', 'api', $path, $expected));
}
accepts('http', "server { location /a/ { redis_rate_limit_dashboard api=$_; } location $_ { redis_rate_limit_api; } }") for '/', '/limits/api/', '/A-z0_9.~/';
accepts('http', 'server { location /a/ { redis_rate_limit_dashboard api=/b%20c/; } location "/b c/" { redis_rate_limit_api; } }');
refuses('http', 'redis_rate_limit_dashboard;', qr/"redis_rate_limit_dashboard" directive is not allowed here/);
refuses('http', 'redis_rate_limit_metrics;', qr/"redis_rate_limit_metrics" directive is not allowed here/);
refuses('http', 'server { redis_rate_limit_metrics; }', qr/"redis_rate_limit_metrics" directive is not allowed here/);

accepts('location', 'redis_rate_limit_headers ietf x; redis_rate_limit_status 400; redis_rate_limit_log_level info;');
accepts('location', 'redis_rate_limit_headers off; redis_rate_limit_status 599; redis_rate_limit_dry_run off;');

# --- order and place in the file do not matter

my $redis  = RateLimit::Redis->start_new;
my $served = RateLimit::Nginx->new(<<'END');
server {
    listen %PORT%;
    redis_rate_limit zone=z algorithm=sliding_log limit=1 window=60;
    location / { empty_gif; }
}
redis_rate_limit_zone $arg_key zone=z:1m backend=b on_error=closed;
redis_rate_limit_backend b {
    include %DIR%/redis*.conf;
    timeout 5s;
    connect_timeout 5s;
}
END
RateLimit::Nginx::write_file($served->dir . '/redis.conf', "server ${\$redis->address};\nprefix a:;\n");
$served->start;
is($served->statuses('/?key=a', 2), '200 429', 'a rule before its zone before its backend, which is in part included');

$served->stop;
done_testing;
