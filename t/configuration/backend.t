# What `nginx -t` says of redis_rate_limit_backend and the lines of its block.

use v5.36;
use lib 't/lib';
use RateLimit::Configuration qw(accepts invalid refuse_all refuses warns $long_name $nginx $of_names $secret);
use RateLimit::Nginx;
use Test::More;

my $backend = 'redis_rate_limit_backend';
my $breaker = 'redis_rate_limit_backend: breaker';
my $servers = 'host, host:port, [address]:port or unix:/path';
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
for my $server ("redis://:$secret\@127.0.0.1:6379", "$secret\@localhost", "redis://default:$secret", "redis://127.0.0.1?password=$secret", "127.0.0.1,password=$secret") {
    refuses('block', "server $server;", invalid($backend, 'server', '***', $servers));
}
for my $name ("redis://:$secret", "$secret\@127.0.0.1") {
    refuses('http', "redis_rate_limit_backend $name { }", invalid($backend, 'name', '***', '1 to 64 of A-Za-z0-9._/-'));
}
for my $line ("password=$secret", "password:$secret", "password=$secret $secret") {
    refuses('block', "$line;", invalid($backend, 'parameter', 'password', 'one of server, mode, '));
}
refuses('block', "slots $secret;", invalid($backend, 'parameter', 'slots', 'one of server, mode, '));

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
        "slots;"                     => invalid($backend, 'parameter', 'slots', 'one of server, mode, '),
        'include;'                   => qr/$backend: invalid number of values of "include", expected one/,
        "include $no_file;"          => qr/open\(\) "$no_file" failed/,
        'server a { }'               => qr/unexpected "\{"/,
        'server 127.0.0.1; server 127.0.0.2;' => invalid($backend, 'server', '127.0.0.2', 'one server without mode sentinel or cluster'),
        'server 127.0.0.1; server unix:/redis.sock;' => invalid($backend, 'server', 'unix:/redis.sock', 'one server without mode sentinel or cluster'),
        'mode sentinels;'            => invalid($backend, 'mode', 'sentinels', 'standalone, sentinel or cluster'),
        'mode sentinel;'             => invalid($backend, 'sentinel_master', '', "the master's name with mode sentinel, and none without"),
        'mode cluster; database 1;'  => invalid($backend, 'database', '1', '0 with mode cluster'),
        'mode cluster; server unix:/redis.sock;' => invalid($backend, 'server', 'unix:/redis.sock', 'host or host:port with mode cluster'),
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
        (map { ("server $_;" => invalid($backend, 'server', $_, $servers)) } qw(unix:redis.sock unix:./redis.sock UNIX:redis.sock unix:redis.sock:)),
        'server 6379;'               => invalid($backend, 'server', '6379', $servers),
        'server 6379:6379;'          => invalid($backend, 'server', '6379:6379', $servers),
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
        'prefix "{rl}:";'            => invalid($backend, 'prefix', '{rl}:', 'at most 64 printable characters without spaces, braces and $'),
        (map { ("prefix $_;" => invalid($backend, 'prefix', $_, 'at most 64 printable characters without spaces, braces and $')) } qw($host rl:$host: rl$)),
        'prefix "r l:";'             => invalid($backend, 'prefix', 'r l:', 'at most 64 printable'),
        "prefix ${long_name}:;"      => invalid($backend, 'prefix', "${long_name}:", 'at most 64 printable'),
        'breaker;'                   => invalid($backend, 'number of values of', 'breaker', 'one or more'),
        'breaker on;'                => invalid($breaker, 'parameter', 'on', 'one of failures, cooldown'),
        'breaker failures;'          => invalid($breaker, 'parameter', 'failures', 'name=value'),
        'breaker off failures=1;'    => invalid($backend, 'breaker', 'off', 'off alone, or failures= and cooldown='),
        'breaker failures=0;'        => invalid($breaker, 'failures', '0', 'a whole number from 1 to 1000000'),
        'breaker cooldown=0;'        => invalid($breaker, 'cooldown', '0', 'a time from 1ms to 1h'),
        'breaker failures=1 failures=2;' => invalid($breaker, 'failures', '2', 'it only once'),
        'breaker failures=1; breaker off;' => invalid($backend, 'breaker', 'off', 'it only once'),
        'breaker retries=1;'         => invalid($breaker, 'parameter', 'retries', 'one of failures, cooldown'),
        'ssl_verify_depth -1;'       => invalid($backend, 'ssl_verify_depth', '-1', 'a whole number from 0 to 100'),
        'ssl_protocols;'             => invalid($backend, 'number of values of', 'ssl_protocols', 'one or more'),
        'ssl_protocols TLSv1.2 SSLv3;' => invalid($backend, 'ssl_protocols', 'SSLv3', 'some of TLSv1 TLSv1.1 TLSv1.2 TLSv1.3'),
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

# --- what is no mistake

accepts('block', "breaker $_;") for 'off', 'failures=1', 'cooldown=100ms', 'cooldown=1h failures=1000000';
accepts('block', '');
accepts('block', $_) for 'ssl off; ssl_certificate nowhere;', 'ssl on;', 'ssl on; ssl_verify off; ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3; ssl_ciphers HIGH;',
    'ssl on; server unix:/no/redis/yet; ssl_name redis.test; ssl_verify_depth 0;',
    'mode standalone; server [::1];',
    'mode cluster;', 'mode cluster; server 127.0.0.1:7000; server [::1]:7001; database 0;',
    'mode sentinel; sentinel_master limits; server 127.0.0.1; server [::1]:26380; sentinel_username me; sentinel_password_file nginx.conf;';
accepts('http', 'resolver 127.0.0.1; redis_rate_limit_backend default { server no-such-host.invalid; } server { listen %PORT%; }');
accepts('block', 'server 127.0.0.1:6380; database 15; timeout 1; max_pending 1;');
accepts('block', "connect_timeout $_; timeout $_;") for qw(10 10s 10000ms);
for my $name (qw(timeout connect_timeout)) {
    my %long = ('100' => 100_000, '11s' => 11_000, '10001ms' => 10_001, '1h' => 3_600_000);
    for my $time (sort keys %long) {
        warns('block', "$name $time;", qr/$backend: $name "$time" is $long{$time} ms, expected at most 10s, such as 100ms \(a time without a unit is in seconds\) in \S+nginx\.conf:\d+$/m);
    }
}
accepts('block', "username me; password $secret; prefix '';");
accepts('block', 'server unix:/no/redis/yet; password_file nginx.conf; connect_timeout 1s500ms; prefix a/%b:;');
warns('block', $_, qr/$backend: without "ssl on" other lines of ssl_\* have no effect, and the connections are not encrypted in/)
    for 'ssl_verify off;', 'ssl_trusted_certificate nginx.conf;', 'ssl_protocols TLSv1.3;';

done_testing;
