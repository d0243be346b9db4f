# The networks of clients as keys: `$redis_rate_limit_addr_BITS`.

use v5.36;
use lib 't/lib';
use IO::Socket::IP;
use RateLimit::Api qw(api query);
use RateLimit::Configuration qw(accepts refuses);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis = RateLimit::Redis->start_new;
my $ipv6  = IO::Socket::IP->new(LocalHost => '::1', Listen => 1) ? 'listen [::1]:%PORT%;' : '';
my @sizes = (1, 20, 32, 47, 48, 56, 63, 64, 65, 127, 128);
my $sizes = join "\n", map { "add_header X-$_ \$redis_rate_limit_addr_$_ always;" } @sizes;

my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$redis_rate_limit_addr_48 zone=by_48:1m;
redis_rate_limit_zone \${redis_rate_limit_addr_60} zone=by_60:1m;
redis_rate_limit_zone \$redis_rate_limit_addr_128 zone=by_128:1m;
redis_rate_limit_zone a\$redis_rate_limit_addr_48 zone=text:1m;
$sizes
add_header X-Usual \$redis_rate_limit_addr always;
set_real_ip_from 127.0.0.1;
set_real_ip_from unix:;
real_ip_header X-Real-IP;
server {
    listen %PORT%;
    $ipv6
    location / { empty_gif; }
    location /48  { redis_rate_limit zone=by_48  algorithm=fixed_window limit=2 window=1h; empty_gif; }
    location /60  { redis_rate_limit zone=by_60  algorithm=fixed_window limit=2 window=1h; empty_gif; }
    location /128 { redis_rate_limit zone=by_128 algorithm=fixed_window limit=2 window=1h; empty_gif; }
    location /text { redis_rate_limit zone=text algorithm=fixed_window limit=2 window=1h; empty_gif; }
    location /ssi { ssi on; ssi_types *; root %DIR%; }
    location /via-unix { proxy_pass http://unix:%DIR%/inner.sock:/; proxy_set_header X-Real-IP ''; }
    location /api/ { redis_rate_limit_api write; }
}
server { listen unix:%DIR%/inner.sock; location / { return 200 \$redis_rate_limit_addr_48; } }
END

sub headers_for ($address) { return $nginx->get('/', headers => { 'X-Real-IP' => $address })->{headers} }

subtest 'the address of a client' => sub {
    my %network = (
        '2001:db8:1:2ff:ffff:4:5:6' => {
            1 => '::/1', 20 => '2001::/20', 32 => '2001:db8::/32', 47 => '2001:db8::/47', 48 => '2001:db8:1::/48', 56 => '2001:db8:1:200::/56',
            63 => '2001:db8:1:2fe::/63', 64 => '2001:db8:1:2ff::/64', 65 => '2001:db8:1:2ff:8000::/65', 127 => '2001:db8:1:2ff:ffff:4:5:6/127',
            128 => '2001:db8:1:2ff:ffff:4:5:6/128',
        },
        map { ($_ => { map { $_ => '203.0.113.7' } @sizes }) } '203.0.113.7', '::ffff:203.0.113.7', '64:ff9b::203.0.113.7',
    );
    for my $address (sort keys %network) {
        my $headers = headers_for($address);
        is_deeply({ map { $_ => $headers->{"x-$_"} } @sizes }, $network{$address}, $address);
        is($headers->{'x-64'}, $headers->{'x-usual'}, 'with 64 bits it is $redis_rate_limit_addr');
    }
    is($nginx->get('/via-unix')->{content}, 'unix:', 'of a unix socket');
    SKIP: {
        skip 'no IPv6 here', 1 if !$ipv6;
        is($nginx->get('/', host => '[::1]')->{headers}{'x-128'}, '::1/128', 'of a connection over IPv6');
    }
};

subtest 'as a key' => sub {
    my $statuses = sub ($path, @addresses) { join ' ', map { $nginx->get($path, headers => { 'X-Real-IP' => $_ })->{status} } @addresses };
    is($statuses->('/48', qw(2001:db8:7:1::1 2001:db8:7:ffff::1 2001:db8:7::1 2001:db8:8::1)), '200 200 429 200', 'a /48');
    is($statuses->('/60', qw(2001:db8:7:10::1 2001:db8:7:1f::1 2001:db8:7:15::1 2001:db8:7:20::1)), '200 200 429 200', 'a /60');
    is($statuses->('/128', qw(2001:db8::1 2001:db8::1 2001:db8::1 2001:db8::2)), '200 200 429 200', 'a single address');
    is($statuses->('/48', qw(203.0.113.7 64:ff9b::203.0.113.7 ::ffff:203.0.113.7 203.0.113.8)), '200 200 429 200', 'an IPv4 client');
    is(scalar(grep { $_ eq 'rl:{by_48:2001:db8:7::/48}:fixed_window:3600000' } $redis->keys), 1, 'so it stands in Redis');
    like($nginx->error_log, qr/limiting requests, rule "by_60\/3600s", key "2001:db8:7:10::\/60", retry/, 'and in the log');
};

subtest 'whole addresses for the API' => sub {
    my $shown = sub ($zone, $key) {
        my $answer = api($nginx, 'GET key' . query(zone => $zone, key => $key));
        return $answer->{json}{key} // "$answer->{status} $answer->{json}{description}";
    };
    is($shown->('by_48', $_), '2001:db8:7::/48', "by_48: $_") for qw(2001:db8:7:1:2:3:4:5 2001:DB8:7:1::1 2001:db8:7::/48 2001:db8:7:1::/48);
    is($shown->('by_60', $_), '2001:db8:7:10::/60', "by_60: $_") for qw(2001:db8:7:15::1 2001:db8:7:1f::/60);
    is($shown->('by_128', $_), '2001:db8::1/128', "by_128: $_") for qw(2001:db8::1 2001:db8::1/128);
    for my $zone (qw(by_48 by_60 by_128)) {
        is($shown->($zone, $_), '203.0.113.7', "$zone: $_") for '203.0.113.7', '::ffff:203.0.113.7', '64:ff9b::203.0.113.7';
        my $bits = $zone =~ s/by_//r;
        is($shown->($zone, $_), qq(400 parameter "key", expected an IPv4 or IPv6 address, or an IPv6 network /$bits), "$zone: $_")
            for '2001:db8:7::/64', "203.0.113.7/$bits", "::ffff:203.0.113.7/$bits", "/$bits", "2001:db8::/0$bits", 'host';
    }
    is($shown->('text', '2001:db8:7:1::1'), '2001:db8:7:1::1', 'what is more than a network is a text');

    my $key = query(zone => 'by_48', key => '2001:db8:7:42::1');
    is((values api($nginx, "GET key$key")->{json}{rules}->%*)[0]{remaining}, 0, 'what requests have used up');
    is(api($nginx, "DELETE key$key")->{json}{deleted}, 1, 'is given back');
    ok(wait_until(sub { $nginx->get('/48', headers => { 'X-Real-IP' => '2001:db8:7:43::1' })->{status} == 200 }), 'to the whole network');
};

# SSI looks variables up by names that nginx has not seen before.
subtest 'by SSI' => sub {
    mkdir $nginx->dir . '/ssi';
    RateLimit::Nginx::write_file($nginx->dir . '/ssi/page', join ' ', map { qq(<!--# echo var="redis_rate_limit_addr_$_" default="none" -->) } qw(52 052 0 129 x));
    is($nginx->get('/ssi/page', headers => { 'X-Real-IP' => '2001:db8:7:1234::1' })->{content}, '2001:db8:7:1000::/52 none none none none', 'only numbers of bits');
};
$nginx->stop;

subtest 'wrong names' => sub {
    my $expected = qr/expected \$redis_rate_limit_addr_1 to \$redis_rate_limit_addr_128$/m;
    for my $rest ('', qw(0 129 1000 048 00 x 48x _48 99999999999999999999)) {
        my $name = "\$redis_rate_limit_addr_$rest";
        refuses('http', "redis_rate_limit_zone $name zone=z:1m;", qr/redis_rate_limit: invalid variable "\Q$name\E", $expected/);
    }
    refuses('location', 'add_header X "${redis_rate_limit_addr_200}";', qr/invalid variable "\$redis_rate_limit_addr_200", $expected/);
    refuses('http', "redis_rate_limit_zone \$redis_rate_limit_$_ zone=z:1m;", qr/unknown "redis_rate_limit_$_" variable/) for qw(x addr48 addrs address);
    accepts('http', "redis_rate_limit_zone \$redis_rate_limit_addr_$_ zone=z:1m;") for 1, 9, 10, 99, 100, 128;
};

subtest 'variables of the user with such a name' => sub {
    accepts('http', 'map $uri $redis_rate_limit_addr_of { default x; } redis_rate_limit_zone $redis_rate_limit_addr_of zone=z:1m;');
    accepts('location', 'set $redis_rate_limit_addr_of x; add_header X $redis_rate_limit_addr_of;');
};

done_testing;
