# Which rule and which of the other directives hold where: those of the innermost level that has
# any.

use v5.36;
use lib 't/lib';
use RateLimit::Nginx;
use RateLimit::Redis;
use Test::More;

# Rules that deny all need no counter. Their names tell them apart, in headers and in the log.
sub rule ($name, $limit = 0) {
    return "redis_rate_limit zone=z algorithm=sliding_log limit=$limit window=60 name=$name;";
}

my @statuses   = (400, 401, 403, 404, 418, 429, 451, 500, 503, 599);
my @log_levels = qw(info notice warn error); # error_log's is notice

my $redis = RateLimit::Redis->start_new;
my $nginx = RateLimit::Nginx->start_new(<<"END", log_level => 'notice');
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$remote_addr zone=z:1m;
redis_rate_limit_headers ietf;
redis_rate_limit_log_level info;
redis_rate_limit_status 420;
${\rule('http')}

server {
    listen %PORT%;
    server_name 127.0.0.1;
    location /inherits/ { }
    location /own/ {
        ${\rule('own')}
        location /own/inherits/ { }
        location /own/own/ { ${\rule('inner')} }
        location /own/off/ {
            redis_rate_limit off;
            location /own/off/inherits/ { }
            location /own/off/own/ { ${\rule('again')} }
        }
    }
    location /if/ {
        if (\$arg_own) { ${\rule('if')} }
        if (\$arg_off) { redis_rate_limit off; }
        if (\$arg_none) { set \$none 1; }
    }
    location /if-alone/ {
        redis_rate_limit off;
        if (\$arg_own) { ${\rule('if')} }
    }
    location /headers/ {
        location /headers/inherits/ { }
        location /headers/x/ { redis_rate_limit_headers x; }
        location /headers/off/ { redis_rate_limit_headers off; }
    }
}

server {
    listen %PORT%;
    server_name 127.0.0.2;
    redis_rate_limit_headers x;
    redis_rate_limit_log_level warn;
    redis_rate_limit_status 503;
    ${\rule('server')}
    location / { }
    location /off/ { redis_rate_limit off; }
    ${\join "\n", map { "location /status/$_ { redis_rate_limit_status $_; }" } @statuses, 444}
    ${\join "\n", map { "location /log/$_ { redis_rate_limit_log_level $_; ${\rule($_)} }" } @log_levels}
    location /satisfied/403 {
        redis_rate_limit_status 403;
        satisfy any;
        allow all;
        ${\rule('satisfied-403', 1)}
    }
    location /satisfied/401 {
        redis_rate_limit_status 401;
        satisfy any;
        allow all;
        ${\rule('satisfied-401', 1)}
    }
}
END
$nginx->add_page(page => 'all there is');

# --- rules

my %rule_of = (
    '/'                       => 'http',
    '/inherits/'              => 'http',
    '/own/'                   => 'own',
    '/own/inherits/'          => 'own',
    '/own/own/'               => 'inner',
    '/own/off/'               => 'none',
    '/own/off/inherits/'      => 'none',
    '/own/off/own/'           => 'again',
    '/if/'                    => 'http',
    '/if/?none=1'             => 'http',
    '/if/?own=1'              => 'if',
    '/if/?off=1'              => 'none',
    '/if-alone/'              => 'none',
    '/if-alone/?own=1'        => 'if',
);
for my $path (sort keys %rule_of) {
    my $policy = $nginx->get($path)->{headers}{'ratelimit-policy'} // '"none"';
    is($policy =~ s/;.*//r, qq("$rule_of{$path}"), "$path is under one rule: $rule_of{$path}");
}

# --- headers, status

sub families ($path, $host = '127.0.0.1') {
    my $headers = $nginx->get($path, host => $host)->{headers};
    return join ' ', grep { defined $headers->{$_} } qw(x-ratelimit-limit ratelimit);
}
is(families('/headers/inherits/'), 'ratelimit',         'headers of http');
is(families('/headers/x/'),        'x-ratelimit-limit', 'of the location');
is(families('/headers/off/'),      '',                  'none for the location');
is(families('/', '127.0.0.2'),     'x-ratelimit-limit', 'of the server');

is($nginx->get('/')->{status},                           420, 'the status of http');
is($nginx->get('/', host => '127.0.0.2')->{status},      503, 'of the server');
is($nginx->get('/page')->{status},                       420, 'a page that is there is refused like any other');
is($nginx->get('/off/', host => '127.0.0.2')->{status},  404, 'off: as without limits');
for my $status (@statuses) {
    is($nginx->get("/status/$status", host => '127.0.0.2')->{status}, $status, "$status of the location");
}
like(
    $nginx->get('/status/444', host => '127.0.0.2')->{content},
    qr/Unexpected end of stream/,
    '444 closes the connection, as it does with limit_req'
);
for my $status (401, 403) {
    my @got = map { $nginx->get("/satisfied/$status", host => '127.0.0.2')->{status} } 1 .. 3;
    is("@got", "404 $status $status", "a $status is no opinion that `allow all` outvotes under satisfy any");
}

# --- log level

# The levels of the lines that this one request brings.
sub levels ($path, $host) {
    my $before = length $nginx->error_log;
    $nginx->get($path, host => $host);
    return join ' ', substr($nginx->error_log, $before) =~ /\[(\w+)\] .*limiting requests, rule/g;
}
is(levels('/', '127.0.0.1'), '',     'the level of http: below that of error_log, no line');
is(levels('/', '127.0.0.2'), 'warn', 'of the server');
for my $level (@log_levels) {
    is(levels("/log/$level", '127.0.0.2'), $level eq 'info' ? '' : $level, "$level of the location");
}

$nginx->stop;
done_testing;
