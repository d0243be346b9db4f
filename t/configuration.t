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
    ok($accepted && $said !~ /\[warn\] redis_rate_limit/, "accepted: $place: $text") or diag $said;
}

sub warns ($place, $text, $message) {
    $nginx->configure($around{$place}($text));
    my ($said, $accepted) = $nginx->test_configuration;
    ok($accepted && $said =~ /\[warn\] .*$message/, "accepted with a warning: $place: $text") or diag $said;
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
for my $again (qw(zone=z algorithm=sliding_log limit=2 limit=$arg_limit window=30)) {
    my ($parameter, $value) = split /=/, $again;
    refuses('rule', "$rule $again", invalid('redis_rate_limit', $parameter, $value, 'it only once'));
}
for my $again (qw(name=a burst=1 delay=1 cost=1 shards=1 phase=access)) {
    my ($parameter, $value) = split /=/, $again;
    refuses('rule', "zone=z algorithm=leaky_bucket limit=1 window=60 $again $again", invalid('redis_rate_limit', $parameter, $value, 'it only once'));
}
for my $flag (qw(aligned dry_run)) {
    my $rule = 'zone=z algorithm=fixed_window limit=1 window=60';
    refuses('rule', "$rule $flag $flag", invalid('redis_rate_limit', $flag, '', 'it only once'));
    refuses('rule', "$rule $flag=on",    invalid('redis_rate_limit', 'parameter', "$flag=on", 'no value'));
}

for my $value ('', qw(0 0s 0ms abc -1 1.5s 60sec 1s1m 367d 1y2d 99999999999999999999 $arg_window)) {
    for my $algorithm (qw(sliding_log concurrency)) {
        refuses(
            'rule',
            "zone=z algorithm=$algorithm limit=1 window=$value",
            invalid('redis_rate_limit', 'window', $value, 'a time from 1ms to 366d')
        );
    }
}
for my $value ('', qw(-1 +1 1000000001 99999999999999999999 abc 0x10 1e3 1.5 10r/s inf nan)) {
    my $rule     = 'zone=z algorithm=leaky_bucket window=60';
    my $expected = 'a whole number from 0 to 1000000000';
    refuses('rule', "$rule limit=$value", invalid('redis_rate_limit', 'limit', $value, $expected));
    refuses('rule', "$rule limit=1 $_=$value", invalid('redis_rate_limit', $_, $value, $expected)) for qw(burst delay cost);
}
refuses('rule', 'zone=z algorithm=leaky_bucket limit=1 window=60 delay=$arg_delay', invalid('redis_rate_limit', 'delay', '$arg_delay', 'a whole number'));
for my $number (qw(limit=1000001 cost=1001)) {
    my ($parameter, $value) = split /=/, $number;
    my $most  = $value - 1;
    my $words = join ' ', grep { !/^$parameter=/ } split ' ', $rule;
    refuses('rule', "$number $words", invalid('redis_rate_limit', $parameter, $value, "a whole number from 0 to $most with sliding_log"));
}
for my $parameter (qw(limit burst cost)) {
    my $words = join ' ', grep { !/^$parameter=/ } split ' ', 'zone=z algorithm=gcra window=60 limit=1';
    refuses('rule', "$words $parameter=\$no_such", qr/unknown "no_such" variable/);
    refuses('rule', "$words $parameter=5\$",       qr/invalid variable name/);
}

for my $value ('', qw(sliding_logs SLIDING_LOG leaky)) {
    refuses(
        'rule',
        "zone=z algorithm=$value limit=1 window=60",
        invalid(
            'redis_rate_limit', 'algorithm', $value,
            'fixed_window, sliding_log, sliding_window, token_bucket, gcra, leaky_bucket or concurrency'
        )
    );
}
my @algorithms = qw(fixed_window sliding_log sliding_window token_bucket gcra leaky_bucket concurrency);
my %taken_by   = (
    'burst=1'          => 'token_bucket, gcra or leaky_bucket',
    'burst=$arg_burst' => 'token_bucket, gcra or leaky_bucket',
    'delay=0'          => 'leaky_bucket',
    'aligned'          => 'fixed_window',
);
for my $parameter (sort keys %taken_by) {
    my $name = $parameter =~ s/=.*//r;
    for my $algorithm (@algorithms) {
        my $words = "$parameter zone=z algorithm=$algorithm limit=1 window=60";
        if ($taken_by{$parameter} =~ /\b$algorithm\b/) {
            accepts('rule', $words);
        } else {
            refuses('rule', $words, invalid('redis_rate_limit', "parameter $name with algorithm", $algorithm, $taken_by{$parameter}));
        }
    }
}
# capacity * T / N: 3653 days are 10 years
for my $bucket (
    'token_bucket burst=10',
    'gcra burst=9',
    'leaky_bucket burst=9',
    map { 'token_bucket burst=' . 99_999_999 * $_ } 1 .. 10 # also where microseconds exceed 64 bits
    )
{
    my ($burst) = $bucket =~ /burst=(\d+)/;
    refuses(
        'rule',
        "zone=z limit=1 window=366d algorithm=$bucket",
        invalid('redis_rate_limit', 'burst', $burst, 'a bucket that fills, by limit and window, within 10 years')
    );
}
for my $value ('', qw(0 -1 65 1.5 $arg_shards)) {
    refuses('rule', "$rule shards=$value", invalid('redis_rate_limit', 'shards', $value, 'a whole number from 1 to 64'));
}
for my $spread ('sliding_log limit=7', 'gcra limit=100', 'gcra limit=100 burst=6', 'gcra limit=7 burst=100', 'token_bucket limit=100 burst=7',
    'sliding_log limit=23 cost=3', 'token_bucket limit=100 burst=23 cost=3')
{
    refuses(
        'rule',
        "zone=z window=60 shards=8 algorithm=$spread",
        invalid('redis_rate_limit', 'shards', 8, 'so few that each has a unit of the limit, and at once what a request costs')
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
for my $value ('', qw(preaccess Access on)) {
    refuses('rule', "$rule phase=$value", invalid('redis_rate_limit', 'phase', $value, 'access or precontent'));
}
for my $word (qw(z dry_runs nodelay)) {
    refuses('rule', "$rule $word", invalid('redis_rate_limit', 'parameter', $word, 'name=value'));
}
for my $name (qw(rate Limit)) {
    refuses('rule', "$rule $name=1", invalid('redis_rate_limit', 'parameter', $name, 'a known one'));
}

# --- the rules of a level

my $log  = "redis_rate_limit $rule";
my $gcra = 'redis_rate_limit zone=z algorithm=gcra limit=1';
my $once = 'each name once on a level';
refuse_all(
    location => (
        'redis_rate_limit;'                 => qr/invalid number of arguments in "redis_rate_limit"/,
        "redis_rate_limit off $rule;"       => invalid('redis_rate_limit', 'parameter', 'off', 'name=value'),
        "$log off;"                         => invalid('redis_rate_limit', 'parameter', 'off', 'name=value'),
        "redis_rate_limit off; $log;"       => invalid('redis_rate_limit', 'parameter', 'zone=z', 'off alone on a level'),
        "$log; redis_rate_limit off;"       => invalid('redis_rate_limit', 'parameter', 'off', 'off alone on a level'),
        ('redis_rate_limit off;' x 2)       => invalid('redis_rate_limit', 'parameter', 'off', 'off alone on a level'),
        "limit_except GET { $log; }"        => qr/"redis_rate_limit" directive is not allowed here/,
        "$log; $log;"                       => invalid('redis_rate_limit', 'name', 'z/60s', $once),
        "$log name=a; $gcra window=1 name=a;" => invalid('redis_rate_limit', 'name', 'a', $once),
        "$log; $gcra window=1m;"            => invalid('redis_rate_limit', 'name', 'z/60s', $once),
        "$log; $gcra window=1 name=z/60s;"  => invalid('redis_rate_limit', 'name', 'z/60s', $once),
        "$log; $log phase=precontent;"      => invalid('redis_rate_limit', 'name', 'z/60s', $once),
        "$log; $log dry_run;"               => invalid('redis_rate_limit', 'name', 'z/60s', $once),
        'redis_rate_limit zone=z algorithm=concurrency limit=1; redis_rate_limit zone=z algorithm=concurrency limit=1 window=5;' =>
            invalid('redis_rate_limit', 'name', 'z/concurrency', $once),
        join(' ', map { "$log name=$_;" } 1 .. 13) =>
            invalid('redis_rate_limit', 'number of rules', 13, '12 of a phase on a level at most'),
        join(' ', map { "$log phase=precontent name=$_;" } 1 .. 13) =>
            invalid('redis_rate_limit', 'number of rules', 13, '12 of a phase on a level at most'),
    )
);

# What shows only after all has been read tells where it stands: on the one line with this text.
sub refuses_line ($http, $text, $message) {
    $nginx->configure($http);
    my @lines = split /\n/, RateLimit::Nginx::slurp($nginx->dir . '/nginx.conf');
    my ($line) = grep { $lines[ $_ - 1 ] =~ /$text/ } 1 .. @lines;
    my ($said, $accepted) = $nginx->test_configuration;
    ok(!$accepted && $said =~ /$message in \S+nginx\.conf:$line$/m, "refused, and the line is told: $text") or diag $said;
}

refuses_line(
    $around{location}("\n\nredis_rate_limit zone=nowhere algorithm=sliding_log limit=1 window=60;\n"),
    'nowhere', qr/redis_rate_limit: unknown zone "nowhere", expected a defined one/
);
my $other_algorithm = invalid('redis_rate_limit', 'name', 'z/60s', 'algorithm=sliding_log as its other rules of the zone have, or another name=');
refuses_line($around{location}("$log;\n location /a {\n $gcra window=60;\n }\n"), 'gcra', $other_algorithm);
refuses_line(
    $around{location}("$log;") . "server { listen %PORT%; server_name other;\n $gcra window=1 name=z/60s;\n }\n",
    'gcra', $other_algorithm
);
refuses_line(
    $around{location}("redis_rate_limit zone=z algorithm=sliding_log limit=10 window=60 shards=4;\n location /a {\n $log;\n }\n"),
    'limit=1 ', invalid('redis_rate_limit', 'shards', 1, 'shards=4 as the other rules of its counter have, or another name=')
);

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
        '$arg_key zone=z:1m on_error=' => invalid('redis_rate_limit_zone', 'on_error', '', 'local, open or closed'),
        '$arg_key zone=z:1m on_error=Open' => invalid('redis_rate_limit_zone', 'on_error', 'Open', 'local, open or closed'),
        (map { ("\$arg_key zone=z:1m local_limit=$_" => invalid('redis_rate_limit_zone', 'local_limit', $_, '1% to 100%')) } '', '%', '0%', '101%', '50', '-1%', '1.5%'),
        '$arg_key zone=z:1m rate=1r/s' => invalid('redis_rate_limit_zone', 'parameter', 'rate', 'a known one'),
        '$arg_key zone=z:1m sync'      => invalid('redis_rate_limit_zone', 'parameter', 'sync', 'name=value'),
        'zone=z:1m $arg_key'           => invalid('redis_rate_limit_zone', 'parameter', '$arg_key', 'name=value'),
        '$no_such zone=z:1m'           => qr/unknown "no_such" variable/,
        '$arg_key zone=z:1m; redis_rate_limit_zone $uri zone=z:1m' =>
            invalid('redis_rate_limit_zone', 'zone', 'z', 'each zone once'),
    )
);
# Rules of one name count once, on whatever level they stand.
sub rules ($size, $count) {
    my $rule = 'redis_rate_limit zone=z algorithm=gcra limit=1 window=1';
    return "redis_rate_limit_zone \$arg_key zone=z:$size; server { listen %PORT%; $rule name=1; "
        . join('', map { "location /$_ { $rule name=$_; }" } 1 .. $count) . '}';
}
for my $zone ([ '32k', 16 ], [ '1m', 64 ], [ '2000k', 125 ]) {
    my ($size, $most) = @$zone;
    my $told = $size eq '1m' ? '1024k' : $size;
    accepts('http', rules($size, $most));
    my $needed = 16 * ($most + 1);
    refuses('http', rules($size, $most + 1), invalid('redis_rate_limit_zone', 'zone', "z:$told", "a size of at least ${needed}k for its ${\($most + 1)} rules in"));
    accepts('http', rules("${needed}k", $most + 1));
}
refuses('zone', '$arg_key zone=z:1m top=on', invalid('redis_rate_limit_zone', 'parameter', 'top', 'a known one'));
for my $value ('', qw(x 0 0ms -1 -1s 1.5s 367d ON)) {
    refuses('zone', "\$arg_key zone=z:1m deny_cache=$value", invalid('redis_rate_limit_zone', 'deny_cache', $value, 'on, off or a time from 1ms to 366d'));
}
refuses('zone', '$arg_key zone=z:1m deny_cache=on deny_cache=off', invalid('redis_rate_limit_zone', 'deny_cache', 'off', 'it only once'));
for my $value ('', qw(5 ON)) {
    refuses('zone', "\$arg_key zone=z:1m top_keys=$value", invalid('redis_rate_limit_zone', 'top_keys', $value, 'on or off'));
}
accepts('zone', "\$arg_key zone=z:1m top_keys=$_") for qw(on off);
accepts('zone', "\$arg_key zone=z:1m deny_cache=$_") for qw(on off 1ms 200ms 60 366d);
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
for my $name (qw(server username password password_file database prefix connect_timeout timeout max_pending ssl ssl_verify ssl_verify_depth
    ssl_name ssl_trusted_certificate ssl_certificate ssl_certificate_key ssl_ciphers
    mode sentinel_master sentinel_username sentinel_password sentinel_password_file)) {
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
refuses('block', "slots $secret;", invalid($backend, 'parameter', 'slots', 'a known one'));

for my $name (qw(ssl ssl_verify)) {
    refuses('block', "$name yes;", invalid($backend, $name, 'yes', 'on or off'));
}
for my $name (qw(ssl_name ssl_trusted_certificate ssl_certificate ssl_certificate_key ssl_ciphers)) {
    refuses('block', "$name '';", invalid($backend, $name, '', 'one that is not empty'));
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
        'server 127.0.0.1; server 127.0.0.2;' => invalid($backend, 'server', '127.0.0.2', 'one server without mode sentinel or cluster'),
        'mode sentinels;'            => invalid($backend, 'mode', 'sentinels', 'standalone, sentinel or cluster'),
        'mode sentinel;'             => invalid($backend, 'sentinel_master', '', "the master's name with mode sentinel, and none without"),
        'mode cluster; database 1;'  => invalid($backend, 'database', '1', '0 with mode cluster'),
        'mode cluster; server unix:/redis.sock;' => invalid($backend, 'server', 'unix:', 'host or host:port with mode cluster'),
        'mode cluster; sentinel_master limits;'  =>
            invalid($backend, 'sentinel_master', 'limits', "the master's name with mode sentinel, and none without"),
        'sentinel_master limits;'    => invalid($backend, 'sentinel_master', 'limits', "the master's name with mode sentinel, and none without"),
        "sentinel_password $secret;" => invalid($backend, 'sentinel_password', '***', 'mode sentinel with it'),
        'mode sentinel; sentinel_master limits; sentinel_username me;' =>
            invalid($backend, 'sentinel_username', 'me', 'a sentinel_password or sentinel_password_file with it'),
        "mode sentinel; sentinel_master limits; sentinel_password_file $no_file;" => qr/invalid sentinel_password_file "$no_file", $first_line/,
        'server no-such-host.invalid;' =>
            qr/$backend: invalid server "no-such-host\.invalid" of "b" \(host not found\), expected a host that resolves, or a resolver/,
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
        'breaker;'                   => invalid($backend, 'number of values of', 'breaker', 'one or more'),
        'breaker on;'                => invalid($backend, 'parameter', 'on', 'name=value'),
        'breaker off failures=1;'    => invalid($backend, 'parameter', 'off', 'name=value'),
        'breaker failures=0;'        => invalid($backend, 'failures', '0', 'a whole number from 1 to 1000000'),
        'breaker cooldown=0;'        => invalid($backend, 'cooldown', '0', 'a time from 1ms to 1h'),
        'breaker failures=1 failures=2;' => invalid($backend, 'failures', '2', 'it only once'),
        'breaker failures=1; breaker off;' => invalid($backend, 'breaker', 'off', 'it only once'),
        'breaker retries=1;'         => invalid($backend, 'parameter', 'retries', 'a known one'),
        'ssl_verify_depth -1;'       => invalid($backend, 'ssl_verify_depth', '-1', 'a whole number from 0 to 100'),
        'ssl_protocols;'             => invalid($backend, 'number of values of', 'ssl_protocols', 'one or more'),
        'ssl_protocols TLSv1.2 SSLv3;' => invalid($backend, 'ssl_protocols', 'SSLv3', 'of TLSv1 TLSv1.1 TLSv1.2 TLSv1.3'),
        'ssl_protocols TLSv1.2; ssl_protocols TLSv1.3;' => invalid($backend, 'ssl_protocols', 'TLSv1.3', 'it only once'),
        'ssl on; ssl_ciphers none;'  => invalid($backend, 'ssl_ciphers', 'none', 'a list of ciphers'),
        "ssl on; ssl_trusted_certificate $no_file;" => invalid($backend, 'ssl_trusted_certificate', $no_file, 'a file of certificates'),
        'ssl on; ssl_trusted_certificate nginx.conf;' => invalid($backend, 'ssl_trusted_certificate', 'nginx.conf', 'a file of certificates'),
        'ssl on; ssl_certificate nginx.conf;' => invalid($backend, 'ssl_certificate', 'nginx.conf', 'an ssl_certificate and an ssl_certificate_key, or neither'),
        "ssl on; ssl_certificate $no_file; ssl_certificate_key nginx.conf;" => invalid($backend, 'ssl_certificate', $no_file, 'a file of a certificate'),
        'ssl on; server unix:/no/redis/yet;' => invalid($backend, 'ssl', 'on', 'an ssl_name with it'),
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
for my $value ('', qw(1 yes true)) {
    refuses('location', qq(redis_rate_limit_dry_run "$value";), qr/invalid value "$value" in "redis_rate_limit_dry_run" directive, it must be "on" or "off"/);
}
refuse_all(
    location => (
        'redis_rate_limit_dry_run on; redis_rate_limit_dry_run on;' => qr/"redis_rate_limit_dry_run" directive is duplicate/,
        'redis_rate_limit_dry_run;'                                 => qr/invalid number of arguments in "redis_rate_limit_dry_run"/,
        'if ($arg_a) { redis_rate_limit_dry_run on; }'              => qr/"redis_rate_limit_dry_run" directive is not allowed here/,
    )
);
refuse_all(
    location => (
        'redis_rate_limit_metrics on;'         => invalid('redis_rate_limit_metrics', 'format', 'on', 'prometheus or json'),
        'redis_rate_limit_metrics JSON;'       => invalid('redis_rate_limit_metrics', 'format', 'JSON', 'prometheus or json'),
        'redis_rate_limit_metrics json json;'  => qr/invalid number of arguments in "redis_rate_limit_metrics"/,
        'redis_rate_limit_metrics; redis_rate_limit_metrics json;' => qr/redis_rate_limit_metrics: expected once on a level/,
        'if ($arg_a) { redis_rate_limit_metrics; }'                => qr/"redis_rate_limit_metrics" directive is not allowed here/,
    )
);
refuse_all(
    location => (
        'redis_rate_limit_dashboard on;'                             => qr/invalid number of arguments in "redis_rate_limit_dashboard"/,
        'redis_rate_limit_dashboard; redis_rate_limit_dashboard;'    => qr/redis_rate_limit_dashboard: expected once on a level/,
        'redis_rate_limit_metrics json; redis_rate_limit_dashboard;' => qr/redis_rate_limit_dashboard: expected once on a level/,
        'redis_rate_limit_dashboard; redis_rate_limit_metrics;'      => qr/redis_rate_limit_metrics: expected once on a level/,
        'if ($arg_a) { redis_rate_limit_dashboard; }'                => qr/"redis_rate_limit_dashboard" directive is not allowed here/,
    )
);
for my $location ('/a', '= /a/', '~ /a/', '@a/') {
    my $shown = $location =~ s/^\S* //r;
    refuses('http', "server { location $location { redis_rate_limit_dashboard; } }", invalid('redis_rate_limit_dashboard', 'location', $shown, 'a prefix that ends in /'));
}
accepts('http', "server { location $_ { redis_rate_limit_dashboard; } }") for '/', '/a/', '^~ /a/';
refuses('http', 'redis_rate_limit_dashboard;', qr/"redis_rate_limit_dashboard" directive is not allowed here/);
refuses('http', 'redis_rate_limit_metrics;', qr/"redis_rate_limit_metrics" directive is not allowed here/);
refuses('http', 'server { redis_rate_limit_metrics; }', qr/"redis_rate_limit_metrics" directive is not allowed here/);

# --- what is no mistake

for my $window (qw(60 60s 1m 500ms 1ms 1m30s 1h 366d)) {
    accepts('rule', "zone=z algorithm=sliding_log limit=1 window=$window");
}
for my $limit (qw(0 1 007 1000000)) {
    accepts('rule', "zone=z algorithm=sliding_log limit=$limit window=60");
}
for my $rule ('fixed_window limit=1000000000', 'fixed_window limit=0 aligned', 'sliding_window limit=1000000000',
    'token_bucket limit=0', 'token_bucket limit=1000000000 burst=0', 'gcra limit=0 burst=5', 'gcra limit=7 burst=1000000',
    'leaky_bucket limit=1000000000 burst=1000000000 delay=1000000000', 'leaky_bucket limit=1 delay=5',
    'concurrency limit=1000000000', 'sliding_log limit=1 cost=1000', 'gcra limit=1 cost=1000000000', 'sliding_window limit=0 cost=0',
    'sliding_log limit=$arg_limit cost=$arg_cost', 'token_bucket limit=1${arg_limit}0 burst=$arg_burst cost=$1', 'gcra limit=1 burst=$arg_burst')
{
    accepts('rule', "zone=z algorithm=$rule window=60");
}
accepts('rule', 'zone=z algorithm=concurrency limit=1');
accepts('rule', "zone=z window=60 shards=8 algorithm=$_") for 'sliding_log limit=8', 'sliding_log limit=24 cost=3', 'sliding_log limit=8 cost=9', 'sliding_log limit=0',
    'gcra limit=8 burst=7', 'gcra limit=1 burst=$arg_burst', 'concurrency limit=$arg_limit';
accepts('location', 'redis_rate_limit zone=z algorithm=gcra limit=64 burst=63 window=60 shards=64; location /a { redis_rate_limit zone=z algorithm=gcra limit=1 window=60 name=a; }');
accepts('rule', "zone=z algorithm=$_ limit=1 window=365d burst=8") for qw(token_bucket gcra leaky_bucket);
accepts('rule', "$rule phase=$_ dry_run name=a") for qw(access precontent);
accepts('location', "$log; $gcra window=1;");
accepts('location', "$log name=a; $log name=b; $log;");
accepts('location', join ' ', map { ("$log name=$_;", "$log name=p$_ phase=precontent;") } 1 .. 12);
accepts('location', "$log; location /a { redis_rate_limit off; location /a/b { $log; if (\$arg_a) { $log; } } }");
accepts('location', "$log name=a; location /a { redis_rate_limit zone=z algorithm=sliding_log limit=5 window=5 name=a; }");
accepts('http', <<'END'); # a name in each of two zones
redis_rate_limit_zone $uri zone=a:1m;
redis_rate_limit_zone $uri zone=b:1m;
redis_rate_limit zone=a algorithm=gcra limit=1 window=1 name=n;
server { listen %PORT%; server_name other; redis_rate_limit zone=b algorithm=sliding_log limit=1 window=1 name=n; }
END
accepts('rule', "$rule name=$long_name");
accepts('rule', "window=60 limit=1 algorithm=sliding_log zone=z");
accepts('rule', 'off');
accepts('zone', '$arg_key zone=z:32k');
accepts('zone', '$arg_key zone=z:1m backend=default on_error=closed');
accepts('zone', '$arg_key zone=z:1m on_error=local local_limit=1%');
accepts('zone', '$arg_key zone=z:1m local_limit=100% on_error=open');
accepts('block', "breaker $_;") for 'off', 'failures=1', 'cooldown=100ms', 'cooldown=1h failures=1000000';
accepts('zone', "\$arg_key zone=z:1m; redis_rate_limit_zone \$uri zone=$long_name:64k");
accepts('http', 'redis_rate_limit_zone $arg_key zone=z:1m; limit_req_zone $arg_key zone=z:1m rate=1r/s;');
accepts('block', '');
accepts('block', $_) for 'ssl off; ssl_certificate nowhere;', 'ssl on;', 'ssl on; ssl_verify off; ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3; ssl_ciphers HIGH;',
    'ssl on; server unix:/no/redis/yet; ssl_name redis.test; ssl_verify_depth 0;',
    'mode standalone; server [::1];',
    'mode cluster;', 'mode cluster; server 127.0.0.1:7000; server [::1]:7001; database 0;',
    'mode sentinel; sentinel_master limits; server 127.0.0.1; server [::1]:26380; sentinel_username me; sentinel_password_file nginx.conf;';
accepts('http', 'resolver 127.0.0.1; redis_rate_limit_backend default { server no-such-host.invalid; } server { listen %PORT%; }');
accepts('block', 'server 127.0.0.1:6380; database 15; timeout 1; max_pending 1;');
accepts('block', "username me; password $secret; prefix '';");
accepts('block', 'server unix:/no/redis/yet; password_file nginx.conf; connect_timeout 1m30s; prefix a/%b:;');
warns('block', $_, qr/$backend: without "ssl on" other lines of ssl_\* have no effect, and the connections are not encrypted in/)
    for 'ssl_verify off;', 'ssl_trusted_certificate nginx.conf;', 'ssl_protocols TLSv1.3;';
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
}
END
RateLimit::Nginx::write_file($served->dir . '/redis.conf', "server ${\$redis->address};\nprefix a:;\n");
$served->start;
is($served->statuses('/?key=a', 2), '200 429', 'a rule before its zone before its backend, which is in part included');

$served->stop;
done_testing;
