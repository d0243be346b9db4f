# What stands in Redis for a client key, whatever bytes the client put into it; which rules share
# a counter; and how keys look in the log.

use v5.36;
use lib 't/lib';
use Digest::SHA qw(sha256_hex);
use RateLimit::Nginx;
use RateLimit::Redis;
use Test::More;

my $longest = 'n' x 64;

# Client keys of arbitrary bytes come by ways that nginx leaves open: $bytes out of a
# percent-encoded URI (all but NUL), a header (what may stand in one, of any length), and the
# bytes of an address that a client may state (all, NUL too).
my $redis = RateLimit::Redis->start_new;
my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_backend bare { server ${\$redis->address}; connect_timeout 5s; timeout 5s; prefix ''; }
redis_rate_limit_backend long { server ${\$redis->address}; connect_timeout 5s; timeout 5s; prefix ${\('p' x 64)}; }
redis_rate_limit_zone \$bytes zone=uri:1m;
redis_rate_limit_zone \$http_x_key zone=header:1m;
redis_rate_limit_zone x\$binary_remote_addr zone=bytes:1m;
redis_rate_limit_zone \$binary_remote_addr zone=address:1m;
redis_rate_limit_zone \$http_x_key zone=bare:1m backend=bare;
redis_rate_limit_zone \$http_x_key zone=$longest:1m backend=long;
set_real_ip_from 127.0.0.1;
set_real_ip_from unix:;
real_ip_header X-Real-IP;
large_client_header_buffers 4 2m;

server {
    listen %PORT%;
    location ~ (?s)^/uri/(?<bytes>.*)\$ { redis_rate_limit zone=uri algorithm=sliding_log limit=1 window=60; }
    location /header { redis_rate_limit zone=header algorithm=sliding_log limit=1 window=60; empty_gif; }
    location /bytes { redis_rate_limit zone=bytes algorithm=sliding_log limit=1 window=60; empty_gif; }
    location /address { redis_rate_limit zone=address algorithm=sliding_log limit=1 window=60; empty_gif; }
    location /via-unix { proxy_pass http://unix:%DIR%/inner.sock:/address; proxy_set_header X-Real-IP ''; }

    location /bare { redis_rate_limit zone=bare algorithm=sliding_log limit=1 window=500ms name=a.b; empty_gif; }
    location /longest { redis_rate_limit zone=$longest algorithm=sliding_log limit=1 window=366d name=$longest; empty_gif; }

    location /same { redis_rate_limit zone=header algorithm=sliding_log limit=2 window=1m; empty_gif; }
    location /other-window { redis_rate_limit zone=header algorithm=sliding_log limit=1 window=61; empty_gif; }
    location /other-name { redis_rate_limit zone=header algorithm=sliding_log limit=1 window=60 name=other; empty_gif; }
    location /other-zone { redis_rate_limit zone=bare algorithm=sliding_log limit=1 window=60; empty_gif; }
}
server {
    listen %PORT%;
    server_name 127.0.0.2;
    redis_rate_limit zone=header algorithm=sliding_log limit=3 window=60000ms;
    location / { empty_gif; }
}
server {
    listen unix:%DIR%/inner.sock;
    location /address { redis_rate_limit zone=address algorithm=sliding_log limit=1 window=60; empty_gif; }
}
END
my $client = $redis->client;

# As docs/redis.md says of keys, written anew.
sub encoded ($key) {
    my $encoded = $key =~ s/([^!-~]|[{}%])/sprintf '%%%02X', ord $1/ger;
    return length $encoded > 128 || $encoded =~ /^%[0-9a-f]{64}$/ ? '%' . sha256_hex($key) : $encoded;
}

sub redis_key ($zone, $key) { return "rl:{$zone:${\encoded($key)}}:sliding_log:60000" }

my %taken; # by Redis key, in all of this test
my $status;

sub request ($path, $redis_key, %options) {
    $status = $nginx->get($path, %options)->{status};
    ++$taken{$redis_key} if $status != 429;
}

sub by_header ($path, $key, $redis_key = redis_key('header', $key)) {
    request($path, $redis_key, headers => { 'X-Key' => $key });
}

sub redis_holds ($what) {
    my %held = map { $_ => $redis->taken($_) } $redis->keys;
    is_deeply(\%held, \%taken, $what);
}

# --- the key's form

by_header('/header', 'plain');
is((keys %taken)[0], 'rl:{header:plain}:sliding_log:60000', 'prefix, zone, key, algorithm, window');
redis_holds('and nothing else');

by_header('/bare', 'plain', '{bare:plain}:sliding_log:500:a.b');
redis_holds('no prefix, a window of less than a second, a name');

by_header('/longest', 'k' x 128, ('p' x 64) . "{$longest:" . ('k' x 128) . '}:sliding_log:31622400000:' . $longest);
redis_holds('the longest of all parts');

# --- bytes

for my $number (0 .. 255) {
    my $address = "10.13.0.$number";
    request('/bytes', redis_key('bytes', 'x' . pack('C4', split /\./, $address)), headers => { 'X-Real-IP' => $address });
}
redis_holds('256 keys that differ in one byte, each of its own');

my @hostile = (
    '%', '%25', '%2525', '{', '}', '{}', '}:sliding_log:60000', '{a}b', 'a b', "\xa0", '"', "'", '\\', '*', '?', '[a]',
    "\r\n", "a\r\nSET x 1\r\n", "a\nb", "\n", "\x7f", "\x80", "\xff\xfe", "\xc3\xa4", '$3', '*1', ':', 'a:b', '0', '-1',
);
for my $key (@hostile) {
    request('/uri/' . ($key =~ s/(.)/sprintf '%%%02X', ord $1/gesr), redis_key('uri', $key));
}
redis_holds('hostile keys, each of its own');

# --- lengths

for my $key (map { 'a' x $_ } 1, 127, 128, 129, 1000, 7000, 1_000_000) {
    by_header('/header', $key);
    by_header('/header', substr($key, 1) . 'b');
}
by_header('/header', '{' x 42 . 'aa'); # 128 bytes when encoded
by_header('/header', '{' x 42 . 'aaa');
by_header('/header', '{' x 43);
redis_holds('long keys, each of its own');
by_header('/header', 'a' x 7000);
is($status, 429, 'and limited like any other');

my $forged = substr sha256_hex('a' x 129), 2;
request("/uri/%12$forged", redis_key('uri', "\x12$forged"));
like(redis_key('uri', "\x12$forged"), qr/%[0-9a-f]{64}\}/, 'a key that would read like a digest');
by_header('/header', '%' . sha256_hex('a' x 129));
redis_holds('no key equals the digest of another');

# --- which rules share a counter

by_header('/header', 'shared');
by_header('/header', 'shared');
is($status, 429, 'one unit is all that a location grants');
by_header('/same', 'shared');
is($status, 200, 'another location grants two of the same counter');
request('/', redis_key('header', 'shared'), host => '127.0.0.2', headers => { 'X-Key' => 'shared' });
is($status, 200, 'another server three');
request('/', redis_key('header', 'shared'), host => '127.0.0.2', headers => { 'X-Key' => 'shared' });
is($status, 429, 'and no more');
by_header('/same', 'shared');
is($status, 429, 'a location whose limit has been passed grants none');
by_header('/other-window', 'shared', 'rl:{header:shared}:sliding_log:61000');
by_header('/other-name',   'shared', 'rl:{header:shared}:sliding_log:60000:other');
by_header('/other-zone',   'shared', '{bare:shared}:sliding_log:60000');
redis_holds('another window, name or zone has its own');

# --- every key goes

my @short_lived;
for my $key ($redis->keys) {
    my ($window) = $key =~ /:sliding_log:(\d+)/;
    my $time_to_live = $client->pttl($key);
    my ($seconds, $microseconds) = $client->time;
    my $age = $seconds * 1000 + $microseconds / 1000 - $client->lindex($key, -1) / 1000;
    push @short_lived, "$key: $time_to_live" if $time_to_live + $age < $window + 5000;
}
is("@short_lived", '', 'all keys expire, 5 s or more after their last entry');

# --- in the log

sub shown ($path, $what, $shown, %options) {
    my $before = length $nginx->error_log;
    $nginx->get($path, %options) for 1 .. 2;
    my $lines = substr $nginx->error_log, $before;
    my ($key) = $lines =~ /limiting requests, rule "[^"]+", key "([^"]*)", retry after [\d.]+s, client: /;
    is($key, $shown, "in the log: $what");
}
shown('/address', 'an address', '203.0.113.7', headers => { 'X-Real-IP' => '203.0.113.7' });
shown('/address', 'an IPv6 address', '2001:db8::1', headers => { 'X-Real-IP' => '2001:db8::1' });
shown('/via-unix', 'a client of a unix socket', 'unix:');
shown('/bytes', 'bytes that are but a part of the key', 'x\x7f\x00\x00\x01');
shown('/uri/a%22b%5Cc%0A%0D%7F%FFd', 'escaped', 'a\x22b\x5cc\x0a\x0d\x7f\xffd');
shown('/header', 'cut', 'l' x 64, headers => { 'X-Key' => 'l' x 65 });
shown('/uri/' . '%0A' x 65, 'escaped and cut', '\x0a' x 64);

$nginx->stop;
done_testing;
