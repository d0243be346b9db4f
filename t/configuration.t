# What `nginx -t` refuses, and that it says which directive, which value, and what is expected.

use v5.36;
use lib 't/lib';
use RateLimit::Nginx;
use RateLimit::Redis;
use Test::More;

my $nginx = RateLimit::Nginx->new('');

# The whole of `http`, by the place where the text in question stands.
my %around = (
    http => sub ($text) { "$text\nserver { listen %PORT%; }" },
    zone => sub ($words) { "redis_rate_limit_zone $words;\nserver { listen %PORT%; }" },
    rule => sub ($words) {
        "redis_rate_limit_zone \$arg_key zone=z:1m;\nserver { listen %PORT%; redis_rate_limit $words; }";
    },
    location => sub ($text) {
        "redis_rate_limit_zone \$arg_key zone=z:1m;\nserver { listen %PORT%; location / { $text } }";
    },
    block => sub ($lines) {
        "redis_rate_limit_backend b { $lines }\n"
            . 'redis_rate_limit_zone $arg_key zone=z:1m backend=b;'
            . "\nserver { listen %PORT%; }";
    },
);

my $secret = 'pssst';

sub refuses ($place, $text, $message) {
    $nginx->configure($around{$place}($text));
    my ($said, $accepted) = $nginx->test_configuration;
    my $as_expected = !$accepted && $said =~ /\[emerg\].*$message/ && $said !~ /$secret/;
    ok($as_expected, "refused: $place: $text") or diag $said;
}

sub accepts ($place, $text) {
    $nginx->configure($around{$place}($text));
    my ($said, $accepted) = $nginx->test_configuration;
    ok($accepted, "accepted: $place: $text") or diag $said;
}

sub refuse_all ($place, @cases) {
    while (my ($text, $message) = splice @cases, 0, 2) {
        refuses($place, $text, $message);
    }
}

# A mistake of a single parameter's value has one form of message.
sub invalid ($directive, $what, $value, $expected) {
    return qr/\Q$directive: invalid $what "$value", expected $expected\E/;
}

my $rule      = 'zone=z algorithm=sliding_log limit=1 window=60';
my $long_name = 'n' x 64;
my $of_names  = '1 to 64 of A-Za-z0-9._/-';

# --- redis_rate_limit

for my $without (qw(zone algorithm limit window)) {
    my $words = join ' ', grep { !/^$without=/ } split ' ', $rule;
    refuses('rule', $words, qr/redis_rate_limit: missing "$without="/);
}
for my $again (qw(zone=z algorithm=sliding_log limit=2 window=30)) {
    my ($parameter, $value) = split /=/, $again;
    refuses('rule', "$rule $again", invalid('redis_rate_limit', $parameter, $value, 'it only once'));
}
refuses('rule', "$rule name=a name=b", invalid('redis_rate_limit', 'name', 'b', 'it only once'));

for my $value ('', qw(0 0s 0ms abc -1 1.5s 60sec 1s1m 367d 1y2d 99999999999999999999)) {
    refuses(
        'rule',
        "zone=z algorithm=sliding_log limit=1 window=$value",
        invalid('redis_rate_limit', 'window', $value, 'a time from 1ms to 366d')
    );
}
for my $value ('', qw(-1 +1 1000000001 99999999999999999999 abc 0x10 1e3 1.5 10r/s inf nan $arg_limit)) {
    my $expected = 'a whole number from 0 to 1000000000';
    refuses('rule', "zone=z algorithm=gcra limit=$value window=60", invalid('redis_rate_limit', 'limit', $value, $expected));
    refuses('rule', "zone=z algorithm=gcra limit=1 window=60 burst=$value", invalid('redis_rate_limit', 'burst', $value, $expected));
}
refuses(
    'rule',
    'zone=z limit=1000001 algorithm=sliding_log window=60',
    invalid('redis_rate_limit', 'limit', 1000001, 'a whole number from 0 to 1000000 with sliding_log')
);
for my $value ('', qw(sliding_logs SLIDING_LOG leaky_bucket concurrency)) {
    refuses(
        'rule',
        "zone=z algorithm=$value limit=1 window=60",
        invalid('redis_rate_limit', 'algorithm', $value, 'fixed_window, sliding_log, sliding_window, token_bucket or gcra')
    );
}
for my $algorithm (qw(fixed_window sliding_log sliding_window)) {
    refuses(
        'rule',
        "burst=1 zone=z algorithm=$algorithm limit=1 window=60",
        invalid('redis_rate_limit', 'parameter burst with algorithm', $algorithm, 'token_bucket or gcra')
    );
}
for my $algorithm (qw(sliding_log sliding_window token_bucket gcra)) {
    refuses(
        'rule',
        "aligned zone=z algorithm=$algorithm limit=1 window=60",
        invalid('redis_rate_limit', 'parameter aligned with algorithm', $algorithm, 'fixed_window')
    );
}
refuses('rule', "$rule aligned=1", invalid('redis_rate_limit', 'parameter', 'aligned=1', 'no value'));
refuses('rule', 'zone=z algorithm=fixed_window limit=1 window=60 aligned aligned', invalid('redis_rate_limit', 'aligned', '', 'it only once'));
# capacity * T / N: 3653 days are 10 years
for my $burst (10, map { 99_999_999 * $_ } 1 .. 10) { # also where microseconds exceed 64 bits
    refuses(
        'rule',
        "zone=z algorithm=token_bucket limit=1 window=366d burst=$burst",
        invalid('redis_rate_limit', 'burst', $burst, 'a bucket that fills, by limit and window, within 10 years')
    );
}
for my $value ('', 'a:b', 'a{b}', "n$long_name", "\xc3\xa4") {
    refuses('rule', qq($rule "name=$value"), invalid('redis_rate_limit', 'name', $value, $of_names));
    refuses(
        'rule',
        qq("zone=$value" algorithm=sliding_log limit=1 window=60),
        invalid('redis_rate_limit', 'zone', $value, $of_names)
    );
}
for my $word (qw(dry_run z)) {
    refuses('rule', "$rule $word", invalid('redis_rate_limit', 'parameter', $word, 'name=value'));
}
for my $name (qw(delay cost phase shards rate Limit)) {
    refuses('rule', "$rule $name=1", invalid('redis_rate_limit', 'parameter', $name, 'a known one'));
}
refuse_all(
    location => (
        'redis_rate_limit;'                            => qr/invalid number of arguments in "redis_rate_limit"/,
        "redis_rate_limit off $rule;"                  => invalid('redis_rate_limit', 'parameter', 'off', 'name=value'),
        "redis_rate_limit $rule off;"                  => invalid('redis_rate_limit', 'parameter', 'off', 'name=value'),
        "redis_rate_limit off; redis_rate_limit $rule;" => qr/redis_rate_limit: expected once on a level/,
        "redis_rate_limit $rule; redis_rate_limit off;" => qr/redis_rate_limit: expected once on a level/,
        "redis_rate_limit $rule; redis_rate_limit $rule name=other;" => qr/redis_rate_limit: expected once on a level/,
        "limit_except GET { redis_rate_limit $rule; }" => qr/"redis_rate_limit" directive is not allowed here/,
    )
);

# That a rule's zone is unknown shows only after all has been read: then the message tells where
# the rule stands.
{
    $nginx->configure($around{location}("\n\nredis_rate_limit zone=nowhere algorithm=sliding_log limit=1 window=60;\n"));
    my @lines = split /\n/, RateLimit::Nginx::slurp($nginx->dir . '/nginx.conf');
    my ($line) = grep { $lines[ $_ - 1 ] =~ /nowhere/ } 1 .. @lines;
    my ($said, $accepted) = $nginx->test_configuration;
    ok(!$accepted, 'refused: an unknown zone');
    like(
        $said,
        qr/redis_rate_limit: unknown zone "nowhere", expected a defined one in \S+nginx\.conf:$line$/m,
        'and the line of the rule is told'
    );
}

# --- redis_rate_limit_zone

refuse_all(
    zone => (
        '$arg_key'                     => qr/invalid number of arguments in "redis_rate_limit_zone"/,
        '$arg_key backend=b'           => qr/redis_rate_limit_zone: missing "zone="/,
        '$arg_key zone=z:1m zone=y:1m' => invalid('redis_rate_limit_zone', 'zone', 'y:1m', 'it only once'),
        '$arg_key zone=z'              => invalid('redis_rate_limit_zone', 'zone', 'z', 'name:size'),
        '$arg_key zone=z:'             => invalid('redis_rate_limit_zone', 'zone', 'z:', 'a size'),
        '$arg_key zone=z:big'          => invalid('redis_rate_limit_zone', 'zone', 'z:big', 'a size'),
        '$arg_key zone=z:-1m'          => invalid('redis_rate_limit_zone', 'zone', 'z:-1m', 'a size'),
        '$arg_key zone=z:31k'          => invalid('redis_rate_limit_zone', 'zone', 'z:31k', 'a size of at least 32k'),
        '$arg_key zone=z:0'            => invalid('redis_rate_limit_zone', 'zone', 'z:0', 'a size of at least 32k'),
        '$arg_key zone=:1m'            => invalid('redis_rate_limit_zone', 'zone', ':1m', $of_names),
        '$arg_key zone=z:1m backend='  => invalid('redis_rate_limit_zone', 'backend', '', $of_names),
        '$arg_key zone=z:1m backend=a:b' => invalid('redis_rate_limit_zone', 'backend', 'a:b', $of_names),
        '$arg_key zone=z:1m on_error=' => invalid('redis_rate_limit_zone', 'on_error', '', 'open or closed'),
        '$arg_key zone=z:1m on_error=local' => invalid('redis_rate_limit_zone', 'on_error', 'local', 'open or closed'),
        '$arg_key zone=z:1m rate=1r/s' => invalid('redis_rate_limit_zone', 'parameter', 'rate', 'a known one'),
        '$arg_key zone=z:1m sync'      => invalid('redis_rate_limit_zone', 'parameter', 'sync', 'name=value'),
        'zone=z:1m $arg_key'           => invalid('redis_rate_limit_zone', 'parameter', '$arg_key', 'name=value'),
        '$no_such zone=z:1m'           => qr/unknown "no_such" variable/,
        '$arg_key zone=z:1m; redis_rate_limit_zone $uri zone=z:1m' =>
            invalid('redis_rate_limit_zone', 'zone', 'z', 'each zone once'),
    )
);
for my $name (qw(local_limit deny_cache top_keys)) {
    refuses('zone', "\$arg_key zone=z:1m $name=on", invalid('redis_rate_limit_zone', 'parameter', $name, 'a known one'));
}
refuses(
    'zone',
    '$arg_key zone=z:1m backend=nowhere',
    qr/redis_rate_limit_zone: unknown backend "nowhere", expected a defined one in \S+nginx\.conf:\d+$/m
);

# --- redis_rate_limit_backend

my $backend = 'redis_rate_limit_backend';
for my $name ('a:b', 'a b', "n$long_name") {
    refuses('http', qq($backend "$name" { }), invalid($backend, 'name', $name, $of_names));
}
refuse_all(
    http => (
        "$backend { }"               => qr/invalid number of arguments in "$backend"/,
        "$backend b;"                => qr/directive "$backend" has no opening "\{"/,
        "$backend b { } $backend b { }" => invalid($backend, 'name', 'b', 'each backend once'),
    )
);
for my $name (qw(server username password password_file database prefix connect_timeout timeout max_pending)) {
    my $message = invalid($backend, 'number of values of', $name, 'one');
    refuses('block', "$name;",     $message);
    refuses('block', "$name $secret $secret;", $message);
}
for my $time ('""', qw(0 0ms abc -1 1.5s 61m 9223372036854775807ms)) {
    my $value = $time =~ s/"//gr;
    for my $name (qw(connect_timeout timeout)) {
        refuses('block', "$name $time;", invalid($backend, $name, $value, 'a time from 1ms to 1h, such as 100ms'));
    }
}
for my $name (qw(mode sentinel_master sentinel_password breaker ssl ssl_verify ssl_name)) {
    refuses('block', "$name $secret;", invalid($backend, 'parameter', $name, 'a known one'));
}

my $no_file = $nginx->dir . '/no-such-file';
my $empty   = $nginx->dir . '/empty';
RateLimit::Nginx::write_file($empty, "\n$secret\n");
my $first_line = 'expected a readable file whose first line is the password';

refuse_all(
    block => (
        'include;'                   => qr/$backend: invalid number of values of "include", expected one/,
        "include $no_file;"          => qr/open\(\) "$no_file" failed/,
        'server a { }'               => qr/unexpected "\{"/,
        'server 127.0.0.1; server 127.0.0.2;' => invalid($backend, 'server', '127.0.0.2', 'it only once'),
        'server no-such-host.invalid;' =>
            qr/$backend: invalid server "no-such-host\.invalid" \(host not found\), expected host/,
        'server 127.0.0.1:99999;'    => qr/$backend: invalid server "127\.0\.0\.1:99999" \(invalid port\)/,
        'server unix:;'              => qr/$backend: invalid server "unix:" \(no path in the unix domain socket\)/,
        'server "";'                 => qr/$backend: invalid server "" \(no host\)/,
        'username "";'               => invalid($backend, 'username', '', 'a name'),
        'username me;'               => invalid($backend, 'username', 'me', 'a password or password_file with it'),
        'password "";'               => invalid($backend, 'password', '***', 'one password or password_file'),
        "password $secret; password $secret;" => invalid($backend, 'password', '***', 'it only once'),
        "password_file $empty; password $secret;" => qr/invalid password_file "$empty", $first_line/,
        "password_file $no_file;"    => qr/invalid password_file "$no_file", $first_line \(2: No such file or directory\)/,
        'password_file .;'           => qr/invalid password_file "\S+", $first_line \(21: Is a directory\)/,
        "password_file nginx.conf; password $secret;" => invalid($backend, 'password', '***', 'one password or password_file'),
        "password $secret; password_file nginx.conf;" => qr/invalid password_file "nginx.conf", expected one password or password_file/,
        'database -1;'               => invalid($backend, 'database', '-1', 'a whole number from 0'),
        'database one;'              => invalid($backend, 'database', 'one', 'a whole number from 0'),
        'prefix "{rl}:";'            => invalid($backend, 'prefix', '{rl}:', 'at most 64 printable characters without spaces and braces'),
        'prefix "r l:";'             => invalid($backend, 'prefix', 'r l:', 'at most 64 printable'),
        "prefix ${long_name}:;"      => invalid($backend, 'prefix', "${long_name}:", 'at most 64 printable'),
        'max_pending 0;'             => invalid($backend, 'max_pending', '0', 'a whole number from 1 to 1000000'),
        'max_pending 1000001;'       => invalid($backend, 'max_pending', '1000001', 'a whole number from 1 to 1000000'),
    )
);

# --- the rest

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
my %bad_headers = ('on' => 'on', 'X' => 'X', 'off x' => 'off', 'x off' => 'off', 'x x' => 'x', 'ietf x ietf' => 'ietf');
for my $values (sort keys %bad_headers) {
    refuses(
        'location',
        "redis_rate_limit_headers $values;",
        invalid('redis_rate_limit_headers', 'value', $bad_headers{$values}, 'off alone, or x and ietf, each once')
    );
}
my %values = (status => 429, log_level => 'warn', headers => 'x');
for my $name (sort keys %values) {
    my $directive = "redis_rate_limit_$name";
    refuse_all(
        location => (
            "$directive $values{$name}; $directive $values{$name};" => qr/$directive: expected once on a level/,
            "$directive;"                             => qr/invalid number of arguments in "$directive"/,
            "if (\$arg_a) { $directive $values{$name}; }" => qr/"$directive" directive is not allowed here/,
        )
    );
}
refuse_all(
    location => (
        'redis_rate_limit_zone $uri zone=y:1m;' => qr/"redis_rate_limit_zone" directive is not allowed here/,
        "$backend b { }"                        => qr/"$backend" directive is not allowed here/,
    )
);
for my $name (qw(dry_run metrics dashboard)) {
    refuses('location', "redis_rate_limit_$name on;", qr/unknown directive "redis_rate_limit_$name"/);
}

# --- what is no mistake

for my $window (qw(60 60s 1m 500ms 1ms 1m30s 1h 366d)) {
    accepts('rule', "zone=z algorithm=sliding_log limit=1 window=$window");
}
for my $limit (qw(0 1 1000000)) {
    accepts('rule', "zone=z algorithm=sliding_log limit=$limit window=60");
}
for my $rule ('fixed_window limit=1000000000', 'fixed_window limit=0 aligned', 'sliding_window limit=1000000000',
    'token_bucket limit=0', 'token_bucket limit=1000000000 burst=0', 'gcra limit=0 burst=5', 'gcra limit=7 burst=1000000')
{
    accepts('rule', "zone=z algorithm=$rule window=60");
}
accepts('rule', 'zone=z algorithm=gcra limit=1 window=365d burst=9');
accepts('rule', "$rule name=$long_name");
accepts('rule', "window=60 limit=1 algorithm=sliding_log zone=z");
accepts('rule', 'off');
accepts('zone', '$arg_key zone=z:32k');
accepts('zone', '$arg_key zone=z:1m backend=default on_error=closed');
accepts('zone', "\$arg_key zone=z:1m; redis_rate_limit_zone \$uri zone=$long_name:64k");
accepts('http', 'redis_rate_limit_zone $arg_key zone=z:1m; limit_req_zone $arg_key zone=z:1m rate=1r/s;');
accepts('block', '');
accepts('block', 'server 127.0.0.1:6380; database 15; timeout 1; max_pending 1;');
accepts('block', "username me; password $secret; prefix '';");
accepts('block', 'server unix:/no/redis/yet; password_file nginx.conf; connect_timeout 1m30s; prefix a/%b:;');
accepts('location', 'redis_rate_limit_headers ietf x; redis_rate_limit_status 400; redis_rate_limit_log_level info;');
accepts('location', 'redis_rate_limit_headers off; redis_rate_limit_status 599;');

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
}
END
RateLimit::Nginx::write_file($served->dir . '/redis.conf', "server ${\$redis->address};\nprefix a:;\n");
$served->start;
is($served->statuses('/?key=a', 2), '200 429', 'a rule before its zone before its backend, which is in part included');

$served->stop;
done_testing;
