# Credentials out of the fields of requests: `$redis_rate_limit_bearer`, `$redis_rate_limit_field_NAME`,
# and keys without the blanks and tabs that HTTP allows around a value.

use v5.36;
use lib 't/lib';
use RateLimit::Api qw(api query);
use RateLimit::Client;
use RateLimit::Configuration qw(accepts refuses);
use RateLimit::Http2;
use RateLimit::Nginx;
use RateLimit::Redis;
use Test::More;

my $redis = RateLimit::Redis->start_new;
my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$http_x_key zone=header:1m;
redis_rate_limit_zone "v1 \$http_x_key" zone=text:1m;
redis_rate_limit_zone \$redis_rate_limit_field_x_key zone=field:1m;
redis_rate_limit_zone \$redis_rate_limit_bearer zone=bearer:1m;
redis_rate_limit_zone \$binary_remote_addr zone=address:1m;
redis_rate_limit_zone \$by_map zone=map:1m;
redis_rate_limit_zone \$by_map\$uri zone=map_and_more:1m;
map \$http_x_key \$by_map { '' \$binary_remote_addr; default \$http_x_key; }
set_real_ip_from 127.0.0.0/8;
set_real_ip_from unix:;
real_ip_header X-Real-IP;
add_header X-Field "[\$redis_rate_limit_field_x_key]" always;
add_header X-Bearer "[\$redis_rate_limit_bearer]" always;
underscores_in_headers on;
server {
    listen %PORT%;
    location / { empty_gif; }
    location /header { redis_rate_limit zone=header algorithm=fixed_window limit=1 window=1h; empty_gif; }
    location /text   { redis_rate_limit zone=text   algorithm=fixed_window limit=1 window=1h; empty_gif; }
    location /field  { redis_rate_limit zone=field  algorithm=fixed_window limit=1 window=1h; empty_gif; }
    location /bearer { redis_rate_limit zone=bearer algorithm=fixed_window limit=1 window=1h; empty_gif; }
    location /address { redis_rate_limit zone=address algorithm=fixed_window limit=1 window=1h; empty_gif; }
    location /map    { redis_rate_limit zone=map    algorithm=fixed_window limit=1 window=1h; empty_gif; }
    location /map-and-more { redis_rate_limit zone=map_and_more algorithm=fixed_window limit=1 window=1h; empty_gif; }
    location /refused { redis_rate_limit zone=field algorithm=fixed_window limit=0 window=1h name=none; error_page 429 /other; empty_gif; }
    location /other { internal; return 200 "\$redis_rate_limit_field_x_key \$redis_rate_limit_bearer"; }
    location /by-auth {
        auth_request /auth;
        auth_request_set \$told \$upstream_http_x_told;
        add_header X-Told \$told;
        empty_gif;
    }
    location /auth { internal; proxy_pass http://unix:%DIR%/auth.sock; proxy_set_header X-Key changed; }
    location /ssi { ssi on; ssi_types *; root %DIR%; }
    location /api/ { redis_rate_limit_api write; }
}
server { listen unix:%DIR%/auth.sock; location / { add_header X-Told \$redis_rate_limit_field_x_key; return 204; } }
server { listen 127.0.0.2:%PORT% http2; location / { return 200 "[\$redis_rate_limit_field_x_key] [\$redis_rate_limit_bearer]"; } }
END

# The response to lines of a head as they are.
sub sent ($path, @lines) {
    return RateLimit::Client->new($nginx)->send(map({ "$_\r\n" } "GET $path HTTP/1.1", 'Host: a', @lines, ''))->response;
}

sub statuses ($path, @lines) { join ' ', map { sent($path, ref ? @$_ : $_)->{status} } @lines }

sub field (@lines)  { sent('/', @lines)->{headers}{'x-field'} }
sub bearer (@lines) { sent('/', @lines)->{headers}{'x-bearer'} }

sub shown ($text) { $text =~ s/\t/\\t/gr }

subtest 'a field' => sub {
    my @with_it = ('X-Key: k', 'x-key: k', "X-KEY:k", "X-Key:\tk", "X-Key: \t k", "X-Key: k\t", "X-Key: k \t ", "X-Key:\t k\t", 'X_Key: k');
    is(field($_), '[k]', shown($_)) for @with_it;
    is(field("X-Key:\ta b\tc "), "[a b\tc]", 'blanks inside stay');
    is(field($_), '[]', shown($_)) for 'X-Key:', "X-Key: \t ", 'X-Keys: k', 'X-Ke: k', 'Key: k';
    is(field('X-Key: k', 'X-Key: k'), '[]', 'twice the same');
    is(field('X-Key: k', 'X-Key: l'), '[]', 'two values');
    is(field('x-key: k', 'X-KEY: '), '[]', 'an empty one beside it');
    is(field('X-Key: k', 'X_Key: l'), '[]', 'by another name that is the same to nginx');
    is(field('X-Other: o', map({ "X-Number-$_: $_" } 1 .. 60), 'X-Key: k'), '[k]', 'behind many others');
    is(field(map({ "X-Number-$_: $_" } 1 .. 60), 'X-Key: k', map({ "X-Many-$_: $_" } 1 .. 60), 'X-Key: l'), '[]', 'twice, far apart');
    is(sent('/', 'X-Key: k', ' folded: l')->{status}, 400, 'nginx refuses a folded line');
    is(sent('/', "X-Key: k\0")->{status}, 400, 'and a NUL');
};

subtest 'a token' => sub {
    my $authorization = 'Authorization:';
    is(bearer("$authorization$_"), '[t]', shown($_)) for ' Bearer t', ' bearer t', ' BEARER  t', " Bearer\tt", "\tBearer \t t\t ";
    is(bearer("$authorization Bearer aZ9-._~+/=="), '[aZ9-._~+/==]', 'of all characters');
    is(bearer("$authorization$_"), '[]', shown($_)) for '', ' Bearer', ' t', ' Basic dDp0', ' Bearer a b', ' Bearer a,b', ' Bearer "t"', ' Bearer t=t', ' Bearer =';
    is(bearer("$authorization Bearer t", "$authorization Bearer t"), '[]', 'two fields');
    is(bearer("$authorization Bearer t", "$authorization Basic dDp0"), '[]', 'two schemes');
    is(bearer('X-Authorization: Bearer t'), '[]', 'another field');
};

subtest 'over HTTP/2' => sub {
    my $client = RateLimit::Http2->new($nginx, '127.0.0.2');
    my $told   = sub (@fields) { $client->content($client->request('/', fields => \@fields)) };
    is($told->('x-key' => $_), '[k] []', shown($_)) for 'k', ' k', "k ", "\t k \t";
    is($told->('x-key' => ' '), '[] []', 'blanks alone');
    is($told->('x-key' => 'k', 'x-key' => 'k'), '[] []', 'twice');
    is($told->(authorization => "\tBearer  t "), '[] [t]', 'a token');
    like($told->(authorization => 'Bearer t', authorization => 'Bearer t'), qr/^(?:\[\] \[\]$|.*400 Bad Request)/s, 'two, which nginx may refuse');
};

subtest 'where nginx leads a request elsewhere' => sub {
    is(sent('/refused', 'X-Key: k', 'Authorization: Bearer t')->{body}, 'k t', 'an error page');
    is(sent('/by-auth', 'X-Key: k')->{headers}{'x-told'}, 'changed', 'a subrequest sends what it is told to');
    mkdir $nginx->dir . '/ssi';
    RateLimit::Nginx::write_file($nginx->dir . '/ssi/page', '[<!--# echo var="redis_rate_limit_field_x_other" default="none" --> <!--# echo var="redis_rate_limit_field_" default="none" -->]');
    is($nginx->get('/ssi/page', headers => { 'X-Other' => 'o' })->{content}, '[o none]', 'a name that only SSI has');
};

subtest 'keys' => sub {
    is(statuses('/header', 'X-Key: k', "X-Key:\tk", "X-Key: k\t", "X-Key:\t \tk \t", 'X-Key: l'), '200 429 429 429 200', 'have no blanks at their ends');
    is(statuses('/header', "X-Key: \t", "X-Key:\t", 'X-Key:'), '200 200 200', 'and are empty of blanks alone');
    is(statuses('/header', 'X-Key: a b', "X-Key: a\tb", 'X-Key: ab'), '200 200 200', 'those inside count');
    is(statuses('/text', 'X-Key: k', "X-Key: k\t"), '200 429', 'of texts and variables');
    is(statuses('/text', "X-Key:\t", 'X-Key:'), '200 429', 'no more than at their ends');
    is(statuses('/field', 'X-Key: k', "X-Key:\tk", ['X-Key: k', 'X-Key: k'], 'X-Other: k'), '200 429 200 200', 'of a field');
    is(statuses('/bearer', map { "Authorization:$_" } ' Bearer t', " bearer\tt\t", ' Basic dDp0'), '200 429 200', 'of a token');
    my @keys = grep { /header/ } sort $redis->keys;
    is(scalar(grep { $_ eq 'rl:{header:k}:fixed_window:3600000' } @keys), 1, 'so they stand in Redis');
    unlike("@keys", qr/:%(?:09|20)|%(?:09|20)\}/, 'and in no other way');
    like($nginx->error_log, qr/rule "header\/3600s", key "k", retry/, 'and in the log');
};

# The first bytes of 9.0.0.0/8 and 32.0.0.0/8 are a tab and a blank, and 2001::/16 begins with a blank.
subtest 'the bytes of addresses' => sub {
    my @addresses = qw(9.1.2.3 32.1.2.3 1.2.3.9 1.2.3.32 32.9.32.9 9.32.9.32 2001:db8::9 2001:db8::20);
    for my $path (qw(/address /map /map-and-more)) {
        is(statuses($path, map { ["X-Real-IP: $_"] } @addresses), join(' ', map { 200 } @addresses), "$path: each is a client of its own");
        is(statuses($path, map { ["X-Real-IP: $_"] } @addresses), join(' ', map { 429 } @addresses), 'and is known again');
    }
    is(statuses('/map', 'X-Key: k', "X-Key:\tk"), '200 429', 'what is no address is a text');
};

subtest 'keys of the API' => sub {
    my $expected = '400 parameter "key", expected a key without blanks or tabs at its ends, which are no part of keys';
    my $answer = sub ($method, $zone, $key, $body = undef) {
        my $got = api($nginx, "$method " . ($method eq 'PUT' ? 'override' : 'key') . query(zone => $zone, key => $key), body => $body);
        return $got->{status} == 200 ? $got->{json}{key} // 'deleted' : "$got->{status} $got->{json}{description}";
    };
    for my $key (" k", "k\t", "\t") {
        is($answer->('PUT', 'header', $key, '{"ban": true}'), $expected, 'a ban that would hold nobody: ' . shown("'$key'"));
        is($answer->($_, 'header', $key), $expected, $_) for qw(GET DELETE);
    }
    is($answer->('PUT', 'header', 'a b', '{"ban": true}'), 'a b', 'blanks inside');
    is(api($nginx, 'PUT override' . query(zone => 'header', key => 'k'), body => '{"ban": true}')->{status}, 200, 'a ban');
    is(statuses('/header', "X-Key:\tk\t"), '429', 'holds whatever blanks the client sends');
    is(api($nginx, 'DELETE override' . query(zone => 'header', key => 'k '))->{json}{deleted}, 0, 'an override of older versions can be deleted');
};
$nginx->stop;

subtest 'configurations' => sub {
    accepts('http', "redis_rate_limit_zone $_ zone=z:1m;") for qw($redis_rate_limit_bearer $redis_rate_limit_field_x $Redis_Rate_Limit_Field_X ${redis_rate_limit_field_x_api_key});
    accepts('http', 'map $uri $redis_rate_limit_field_mine { default x; } redis_rate_limit_zone $redis_rate_limit_field_mine zone=z:1m;');
    refuses('http', 'redis_rate_limit_zone $redis_rate_limit_field_ zone=z:1m;',
        qr/redis_rate_limit: invalid variable "\$redis_rate_limit_field_", expected the name of a field behind it, as in \$redis_rate_limit_field_x_api_key$/m);
};

done_testing;
