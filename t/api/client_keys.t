# The API names clients as checks do, whatever bytes their keys have: what one has counted the other one
# finds, overrides and resets.

use v5.36;
use lib 't/lib';
use Digest::SHA qw(sha256_hex);
use JSON::PP ();
use RateLimit::Api qw(api query);
use RateLimit::Client;
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis = RateLimit::Redis->start_new;
# A key that only a configuration can have: of 1 MB.
my $doubled = join '', map { "map x \$a$_ { default '\${a${\($_ - 1)}}\${a${\($_ - 1)}}'; }\n" } 1 .. 16;
my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
map_hash_bucket_size 512;
map x \$a0 { default '0123456789abcdef'; }
$doubled
redis_rate_limit_zone \$arg_key zone=raw:1m;
redis_rate_limit_zone \$uri zone=path:1m;
redis_rate_limit_zone \$http_x_key zone=header:1m;
redis_rate_limit_zone \$a16 zone=long:1m;
redis_rate_limit_zone \$binary_remote_addr zone=address:1m;
redis_rate_limit_zone \$redis_rate_limit_addr zone=network:1m;
redis_rate_limit_zone \$remote_addr zone=plain:1m;
redis_rate_limit_zone \$remote_addr zone=unix_plain:1m;
redis_rate_limit_zone \$binary_remote_addr zone=unix_bytes:1m;
redis_rate_limit_zone \${Remote_Addr} zone=hashed_plain:1m show_keys=hash;
redis_rate_limit_zone \$arg_key zone=hashed:1m show_keys=hash;
set_real_ip_from 127.0.0.1;
set_real_ip_from unix:;
real_ip_header X-Real-IP;
server {
    listen %PORT%;
    location / { redis_rate_limit zone=path algorithm=sliding_log limit=3 window=60; empty_gif; }
    location /raw     { redis_rate_limit zone=raw     algorithm=sliding_log limit=3 window=60; empty_gif; }
    location /header  { redis_rate_limit zone=header  algorithm=sliding_log limit=3 window=60; empty_gif; }
    location /long    { redis_rate_limit zone=long    algorithm=sliding_log limit=3 window=60; empty_gif; }
    location /address { redis_rate_limit zone=address algorithm=sliding_log limit=3 window=60; empty_gif; }
    location /network { redis_rate_limit zone=network algorithm=sliding_log limit=3 window=60; empty_gif; }
    location /plain   { redis_rate_limit zone=plain   algorithm=sliding_log limit=3 window=60; empty_gif; }
    location /hashed-plain { redis_rate_limit zone=hashed_plain algorithm=sliding_log limit=3 window=60; empty_gif; }
    location /hashed  { redis_rate_limit zone=hashed  algorithm=sliding_log limit=0 window=60; empty_gif; }
    location /api/    { redis_rate_limit_api write; allow all; }
}
server {
    listen unix:%DIR%/clients.sock;
    location / { redis_rate_limit zone=unix_plain algorithm=sliding_log limit=1000 window=60; redis_rate_limit zone=unix_bytes algorithm=sliding_log limit=1000 window=60; empty_gif; }
}
END

# Clients: what they are, the query that names them, and a request of theirs, which returns its headers.
my @clients;
sub is_client ($what, $query, $request) { push @clients, { what => $what, query => $query, request => $request } }

# $uri has the bytes that the path's escapes stand for.
sub by_path ($path) { return sub { RateLimit::Client->new($nginx)->send("GET $path HTTP/1.1\r\nHost: h\r\n\r\n")->response->{headers} } }
sub by_header ($value) { return sub { RateLimit::Client->new($nginx)->send("GET /header HTTP/1.1\r\nHost: h\r\nX-Key: $value\r\n\r\n")->response->{headers} } }
sub by_argument ($text) { return sub { RateLimit::Client->new($nginx)->send("GET /raw?key=$text HTTP/1.1\r\nHost: h\r\n\r\n")->response->{headers} } }
sub from ($path, $address) { return sub { $nginx->get($path, headers => { 'X-Real-IP' => $address })->{headers} } }

my %paths = (
    '/a%2Fb%25c'             => '/a/b%c',
    '/{braces}%20and%09tabs' => "/{braces} and\ttabs",
    '/%C3%A9%FF%80'          => "/\xc3\xa9\xff\x80",
    '/a+b'                   => '/a+b',
    '/*?'                    => '/*',
    '/"quoted"\\'            => '/"quoted"\\',
);
is_client("a path: $_", query(zone => 'path', key => $paths{$_}), by_path($_)) for sort keys %paths;
is_client('an argument with escapes', query(zone => 'raw', key => '%00%2F'), by_argument('%00%2F'));
is_client('with lower-case escapes in the query', '?zone=path&key=%2fa%7b%7d', by_path('/a%7B%7D'));
is_client('of 128 bytes', query(zone => 'raw', key => 'x' x 128), by_argument('x' x 128));
is_client('of 129 bytes', query(zone => 'raw', key => 'x' x 129), by_argument('x' x 129));
is_client('by its digest', query(zone => 'raw', key_sha256 => uc sha256_hex('y' x 200)), by_argument('y' x 200));
is_client('of 1 MB', query(zone => 'long', key_sha256 => sha256_hex('0123456789abcdef' x 65_536)), by_path('/long'));
is_client('that reads like a digest', query(zone => 'header', key => "\xab" . 'c' x 62), by_header("\xab" . 'c' x 62));
is_client('an address', query(zone => 'address', key => '203.0.113.7'), from('/address', '203.0.113.7'));
is_client('one of IPv6', query(zone => 'address', key => '2001:db8::7'), from('/address', '2001:db8::7'));
is_client('a whole one of a network', query(zone => 'network', key => '2001:db8:1:2:3::4'), from('/network', '2001:db8:1:2::5'));
is_client('one mapped into IPv6', query(zone => 'network', key => '::ffff:203.0.113.9'), from('/network', '203.0.113.9'));

sub limit_of ($client) { return $client->{request}->()->{'x-ratelimit-limit'} // 'none' }
sub rule_of ($query) { return (values api($nginx, "GET key$query")->{json}{rules}->%*)[0] }
sub for_each ($what, $condition) {
    subtest $what => sub { ok($condition->($_), $_->{what}) for @clients };
}

for_each('a request of the client that a query names', sub ($client) { limit_of($client) == 3 && rule_of($client->{query})->{remaining} == 2 });
for_each('gets an override', sub ($client) { ($client->{put} = api($nginx, "PUT override$client->{query}", body => { limit => 9 })->{json})->{limit} == 9 });
for_each('which holds', sub ($client) { wait_until(sub { limit_of($client) == 9 }) });
for_each('what the list has of it goes back into a URL', sub ($client) {
    my ($zone, $sha256, $encoded) = $client->{put}->@{qw(zone key_sha256 key_encoded)};
    my ($listed) = grep { ($_->{key_sha256} // $_->{key_encoded}) eq ($sha256 // $encoded) } api($nginx, "GET overrides?zone=$zone")->{json}{overrides}->@*;
    $client->{listed} = "?zone=$zone&" . (defined $listed->{key_sha256} ? "key_sha256=$listed->{key_sha256}" : "key=$listed->{key_encoded}");
    return rule_of($client->{listed})->{limit} == 9;
});
for_each('and names the override', sub ($client) { api($nginx, "DELETE override$client->{listed}")->{json}{deleted} == 1 });
for_each('which ends', sub ($client) { wait_until(sub { limit_of($client) == 3 }) });
for_each('and the counter', sub ($client) { api($nginx, "DELETE key$client->{listed}")->{json}{deleted} == 1 });
for_each('which is gone', sub ($client) { rule_of($client->{query})->{remaining} == 3 });

# nginx refuses %00 in a path, but a query may have it.
subtest 'a null byte' => sub {
    my $query = query(zone => 'raw', key => "a\0b");
    is(api($nginx, "PUT override$query", body => { limit => 5 })->{json}{key}, 'a\x00b', 'is shown');
    my ($name) = grep { /^K raw a/ } $redis->client->hkeys('rl:{live}:data');
    is($name, 'K raw a%00b', 'and stored as checks do');
    api($nginx, "DELETE override$query");
};

subtest 'how keys are shown' => sub {
    my $shown = sub ($key) { api($nginx, 'GET key' . query(zone => 'raw', key => $key))->{json} };
    is($shown->("\xc3\xa9 <b>\"\\")->{key}, "\x{e9} <b>\"\\x5c", 'text as it is');
    is($shown->("\xff\n\e[1m\xc2\x9b")->{key}, '\xff\x0a\x1b[1m\xc2\x9b', 'other bytes are escaped');
    is(length $shown->('x' x 1000)->{key}, 256, 'up to 256 bytes');
    is(length $shown->('x' x 1000)->{key_encoded}, 1000, 'the whole is for URLs');
    my $digest = sha256_hex('x' x 1000);
    is_deeply([ api($nginx, "GET key?zone=raw&key_sha256=$digest")->{json}->@{qw(key key_encoded)} ], [ $digest, $digest ], 'or its digest');
    my $key = "\x12" . '0' x 62;
    isnt($shown->($key)->{key_encoded}, '%12' . '0' x 61, 'no key looks like another one');
};

# A ban of a key that no client has would be answered with 200, and hold nobody.
subtest 'keys that no client has' => sub {
    my $banned = sub ($zone, $key) {
        my $answer = api($nginx, 'PUT override' . query(zone => $zone, key => $key), body => { ban => \1 });
        return $answer->{status} == 200 ? $answer->{json}{key} : "$answer->{status} $answer->{json}{description}";
    };
    my $expected = sub ($what) { qq(400 parameter "key", expected $what) };
    my %meant = (
        '203.0.113.007' => '203.0.113.7', '203.000.113.7' => '203.0.113.7', ' 203.0.113.7' => '203.0.113.7', "203.0.113.7\t" => '203.0.113.7',
        '[2001:db8::1]' => '2001:db8::1',
    );
    my %spelled = ('2001:DB8::1' => '2001:db8::1', '2001:db8:0:0::1' => '2001:db8::1', '2001:db8:0:0:0:0:0:1' => '2001:db8::1', '2001:0db8::0001' => '2001:db8::1', '::ffff:cb00:7107' => '::ffff:203.0.113.7');
    for my $zone (qw(plain hashed_plain)) {
        is($banned->($zone, $_), $expected->(qq("$meant{$_}", as nginx writes this address)), "$zone: '$_'") for sort keys %meant;
        is($banned->($zone, $_), $expected->(qq("$spelled{$_}", as nginx writes this address)), "$zone: '$_'") for sort keys %spelled;
        is($banned->($zone, $_), $expected->(q(the address of one client, for a network is no client's key)), "$zone: '$_'") for '203.0.113.0/24', '2001:db8::/64';
        is($banned->($zone, $_), $expected->('an IPv4 or IPv6 address'), "$zone: '$_'") for qw(host 203.0.113 203.0.113.256 203.0.113.7:80 2001:db8::1%eth0 0), "203.0.113.7\0";
    }
    for my $zone (qw(address network)) {
        is($banned->($zone, $_), $expected->(qq("$meant{$_}", as nginx writes this address)), "$zone: '$_'") for sort keys %meant;
    }
    is($banned->('address', '203.0.113.0/24'), $expected->(q(the address of one client, for a network is no client's key)), 'a network');
    is($banned->('address', '2001:DB8::1'), '2001:db8::1', 'bytes of an address have no spelling');
    is($banned->('plain', $_), $_, "$_ is an address") for '203.0.113.7', '2001:db8::1', '::1', '::ffff:203.0.113.7', '2001:db8:0:1:1:1:1:1';
    ok(wait_until(sub { $nginx->get('/plain', headers => { 'X-Real-IP' => $_ })->{status} == 429 }), "$_ is banned") for '203.0.113.7', '2001:db8::1', '2001:db8:0:1:1:1:1:1';
    is($nginx->get('/plain', headers => { 'X-Real-IP' => '2001:db8::2' })->{status}, 200, 'and others are not');
};

subtest 'a client on a unix socket' => sub {
    for my $zone (qw(unix_plain unix_bytes)) {
        my $query = query(zone => $zone, key => 'unix:');
        is(api($nginx, "PUT override$query", body => { ban => \1 })->{status}, 200, "$zone: is named");
        my $status = sub { qx{curl -s -o /dev/null -w '%{http_code}' --unix-socket ${\$nginx->dir}/clients.sock http://h/} };
        ok(wait_until(sub { $status->() == 429 }), 'and banned');
        api($nginx, "DELETE override$query");
        ok(wait_until(sub { $status->() == 200 }), 'until it is not');
    }
};

subtest 'digests that logs show' => sub {
    my $expected = 'parameter "key", expected the key itself, of which show_keys=hash shows this digest';
    my $digest   = sub ($key) { substr sha256_hex($key), 0, 12 };
    my $ban      = sub ($zone, $key) { api($nginx, 'PUT override' . query(zone => $zone, key => $key), body => { ban => \1 }) };
    is($ban->('hashed_plain', $digest->('203.0.113.9'))->{json}{description}, $expected, 'no address');
    is($ban->('plain', $digest->('203.0.113.9'))->{json}{description}, 'parameter "key", expected an IPv4 or IPv6 address', 'without show_keys=hash it is nothing');
    is($ban->('hashed', $digest->('mine'))->{status}, 200, 'a key may look so');
    $nginx->get('/hashed?key=theirs');
    is($ban->('hashed', $digest->('theirs'))->{json}{description}, $expected, 'but not one that is shown');
    is($ban->('hashed', 'theirs')->{status}, 200, 'the key itself');
};

# Older versions have stored any text.
subtest 'overrides of such keys' => sub {
    for my $key ('203.0.113.007', "k\t") {
        my $zone = $key eq "k\t" ? 'raw' : 'plain';
        is(api($nginx, 'DELETE override' . query(zone => $zone, key => $key))->{json}{deleted}, 0, 'can be deleted');
    }
};

subtest 'IPv4 on a socket of both families' => sub {
    my $both = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$remote_addr zone=plain:1m;
redis_rate_limit_zone \$redis_rate_limit_addr zone=network:1m;
server {
    listen [::]:%PORT% ipv6only=off;
    location /plain { redis_rate_limit zone=plain algorithm=sliding_log limit=100 window=60; empty_gif; }
    location /network { redis_rate_limit zone=network algorithm=sliding_log limit=100 window=60; empty_gif; }
    location /api/ { redis_rate_limit_api write; }
}
END
    my %key_of = (network => '127.0.0.1', plain => '::ffff:127.0.0.1');
    api($both, 'PUT override' . query(zone => 'plain', key => '127.0.0.1'), body => { ban => \1 });
    for my $zone (sort keys %key_of) {
        is($both->get("/$zone")->{status}, 200, "$zone: a client");
        api($both, 'PUT override' . query(zone => $zone, key => $key_of{$zone}), body => { ban => \1 });
        ok(wait_until(sub { $both->get("/$zone")->{status} == 429 }), "is banned as $key_of{$zone}");
    }
    $both->stop;
};

$nginx->stop;
done_testing;
