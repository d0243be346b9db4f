# The operator's API as HTTP: paths, methods, parameters, bodies and headers. What it does in Redis is in
# the other files of t/api.

use v5.36;
use lib 't/lib';
use JSON::PP ();
use RateLimit::Api qw(api query);
use RateLimit::Client;
use RateLimit::Nginx;
use RateLimit::Redis;
use Test::More;

my $redis = RateLimit::Redis->start_new;
my $rules = <<"END";
redis_rate_limit_backend default { server ${\$redis->address}; }
redis_rate_limit_zone \$arg_key zone=plain:1m;
redis_rate_limit_zone \$binary_remote_addr zone=address:1m;
redis_rate_limit_zone \$redis_rate_limit_addr zone=network:1m;
END
my $server = <<'END';
    location /limited {
        redis_rate_limit zone=plain algorithm=sliding_log limit=10 window=60;
        redis_rate_limit zone=address algorithm=token_bucket limit=10 window=60;
        redis_rate_limit zone=network algorithm=gcra limit=10 window=60 name=n;
    }
END
my $nginx = RateLimit::Nginx->start_new("$rules server { listen %PORT%; $server location /api/ { redis_rate_limit_api write; } }");
my $key   = query(zone => 'plain', key => 'a');

sub is_error ($response, $status, $name, $description, $what) {
    is("$response->{status} $response->{json}{error}", "$status $name", "$what: $status $name");
    like($response->{json}{description}, $description, 'in words');
}

subtest 'nothing there' => sub {
    for my $path ('', 'zone', 'zones/', 'zones/x', 'KEY', 'overrides/') {
        is_error(api($nginx, "GET $path"), 404, 'not_found', qr/nothing at this path/, "/api/$path");
    }
    my $redirect = $nginx->get('/api');
    is("$redirect->{status} " . $redirect->{headers}{location} =~ s{.*(/api/)}{$1}r, '301 /api/', 'without its slash');
    is_error(api($nginx, 'GET key' . query(zone => 'other', key => 'a')), 404, 'unknown_zone', qr/^unknown zone "other"$/, 'a zone');
    is_error(api($nginx, "PUT override$key&rule=other", body => { ban => \1 }), 404, 'unknown_rule', qr/^unknown rule "other" of zone "plain"$/, 'a rule');
    is_error(api($nginx, 'PUT rule' . query(zone => 'plain', rule => 'n'), body => { limit => 1 }), 404, 'unknown_rule', qr/rule "n"/, 'one of another zone');
    like(api($nginx, 'GET overrides' . query(zone => "\xff\n\"" . 'x' x 1000))->{json}{description}, qr/^unknown zone "\\xff\\x0a"x{40,60}"$/, 'and names are cut and escaped');
};

subtest 'methods' => sub {
    my %allowed = (
        zones     => 'GET, HEAD',
        key       => 'GET, HEAD, DELETE',
        override  => 'PUT, DELETE',
        overrides => 'GET, HEAD',
        rule      => 'PUT, DELETE',
    );
    for my $path (sort keys %allowed) {
        for my $method (qw(GET HEAD PUT DELETE POST PATCH OPTIONS)) {
            next if $allowed{$path} =~ /\b$method\b/;
            my $response = api($nginx, "$method $path");
            is("$response->{status} $response->{headers}{allow}", "405 $allowed{$path}", "$method $path");
        }
    }
    is(api($nginx, 'POST zones')->{json}{error}, 'method_not_allowed', 'in JSON');
};

subtest 'a location without write' => sub {
    my $readers = RateLimit::Nginx->start_new("$rules server { listen %PORT%; $server location /api/ { redis_rate_limit_api; } }");
    my $zones = api($readers, 'GET zones');
    is($zones->{status}, 200, 'tells');
    is($zones->{json}{write}, JSON::PP::false, 'and says that it does not write');
    for my $request ('DELETE key', 'PUT override', 'DELETE override', 'PUT rule', 'DELETE rule', 'PUT zones') {
        my $response = api($readers, $request);
        is("$response->{status} $response->{headers}{allow}", '405 GET, HEAD', $request);
        like($response->{json}{description}, qr/without write/, 'and says why');
    }
    is(api($readers, "GET $_")->{status}, 404, "$_ is nothing to read there") for qw(override rule);
    $readers->stop;
};

subtest 'headers of answers' => sub {
    for my $request ('GET zones', 'GET nothing', 'POST zones', 'GET key', "PUT override$key") {
        my $headers = api($nginx, $request)->{headers};
        is(join(' ', map { $headers->{$_} // 'none' } qw(content-type cache-control cross-origin-resource-policy x-content-type-options)),
            'application/json no-store same-origin nosniff', $request);
    }
    my $client   = RateLimit::Client->new($nginx);
    my $whole    = $client->send("GET /api/zones HTTP/1.1\r\nHost: h\r\n\r\n")->response;
    my $headless = $client->send("HEAD /api/zones HTTP/1.1\r\nHost: h\r\n\r\n")->response('HEAD');
    is($headless->{status}, 200, 'HEAD');
    is($headless->{headers}{'content-length'}, length $whole->{body}, 'has the length of the content that GET has');
    is($client->send("GET /api/nothing HTTP/1.1\r\nHost: h\r\n\r\n")->response->{status}, 404, 'and no content: the connection goes on');
};

subtest 'parameters' => sub {
    my %wrong = (
        ''                       => 'missing_parameter zone',
        '?'                      => 'missing_parameter zone',
        '?zone=plain'            => 'missing_parameter key',
        '?key=a'                 => 'missing_parameter zone',
        '?zone=plain&key='       => 'invalid_parameter key',
        '?zone=plain&key'        => 'invalid_parameter key',
        '?zone=&key=a'           => 'invalid_parameter zone',
        '?zone=plain&key=a&key=a'  => 'doubled_parameter key',
        '?zone=plain&key=a&k%65y=b' => 'doubled_parameter key',
        '?zone=plain&zone=plain&key=a' => 'doubled_parameter zone',
        '?zone=plain&key=a&key_sha256=' . 'a' x 64 => 'doubled_parameter key and key_sha256',
        '?zone=plain&key=a&rule=r'   => 'unknown_parameter rule',
        '?zone=plain&key=a&other=1'  => 'unknown_parameter other',
        '?zone=plain&key=a&cursor=1' => 'unknown_parameter cursor',
        '?zone=plain&key=%'      => 'invalid_parameter key',
        '?zone=plain&key=%4'     => 'invalid_parameter key',
        '?zone=plain&key=%zz'    => 'invalid_parameter key',
        '?zone=plain&key_sha256=' . 'a' x 63 => 'invalid_parameter key_sha256',
        '?zone=plain&key_sha256=' . 'g' x 64 => 'invalid_parameter key_sha256',
    );
    for my $query (sort keys %wrong) {
        my ($name, $parameter) = split ' ', $wrong{$query}, 2;
        is_error(api($nginx, "GET key$query"), 400, $name, qr/\b$parameter\b/, "GET key$query");
    }
    is(api($nginx, "GET key?&zone=plain&&key=a&")->{status}, 200, 'an empty one counts for nothing');
    is(api($nginx, 'GET zones?zone=plain')->{json}{error}, 'unknown_parameter', 'where none is taken');
    is_error(api($nginx, "GET overrides?zone=plain&cursor=$_"), 400, 'invalid_parameter', qr/cursor/, "cursor=$_") for qw(x -1 1e3 99999999999999999999);
};

# What the API shows is what it was asked for.
sub key_of ($zone, $text) { return api($nginx, 'GET key' . query(zone => $zone, key => $text)) }

subtest 'addresses' => sub {
    my %taken = (
        'address 203.0.113.7'                => '203.0.113.7',
        'address 2001:db8::1'                => '2001:db8::1',
        'address 2001:DB8:0:0::1'            => '2001:db8::1',
        'address ::ffff:203.0.113.7'         => '::ffff:203.0.113.7',
        'network 203.0.113.7'                => '203.0.113.7',
        'network 2001:db8:1:2::5'            => '2001:db8:1:2::/64',
        'network 2001:db8:1:2::/64'          => '2001:db8:1:2::/64',
        'network 2001:db8:1:2:3:4:5:6/64'    => '2001:db8:1:2::/64',
        'network ::ffff:203.0.113.7'         => '203.0.113.7',
        'network 64:ff9b::203.0.113.7'       => '203.0.113.7',
        'network unix:'                      => 'unix:',
        'address unix:'                      => 'unix:',
    );
    for (sort keys %taken) {
        my $response = key_of(split ' ');
        is($response->{json}{key}, $taken{$_}, $_);
        is($response->{json}{key_encoded}, query(k => $taken{$_}) =~ s/^\?k=//r, 'and goes back into a URL');
    }
    for ('address 203.0.113', 'address 203.0.113.300', 'address host', 'address 203.0.113.7/32', 'address ::1%lo', "address 203.0.113.7\0",
        'network 203.0.113.0/24', 'network 2001:db8::/48', 'network host', 'network /64', 'network ::ffff:203.0.113.7/64') {
        my ($zone, $text) = split ' ', $_, 2;
        is_error(key_of($zone, $text), 400, 'invalid_parameter', qr/"key", expected (?:an IPv4 or IPv6 address|the address of one client)/, $_);
    }
};

sub put ($body, %headers) { return api($nginx, "PUT override$key", body => $body, headers => \%headers) }

subtest 'bodies' => sub {
    is_error(put('{"ban": true}', 'Content-Type' => $_), 415, 'unsupported_media_type', qr/application\/json/, $_)
        for 'text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data', 'application/jsonx', 'application/json2; charset=utf-8', 'x-application/json';
    is(put('{"ban": true}', 'Content-Type' => $_)->{status}, 200, $_) for 'application/json; charset=utf-8', 'Application/JSON', 'application/json ;x=y';
    my $client = RateLimit::Client->new($nginx);
    is($client->send("PUT /api/override$key HTTP/1.1\r\nHost: h\r\nContent-Length: 13\r\n\r\n{\"ban\": true}")->response->{status}, 415, 'a body without a type');
    is($client->send("PUT /api/override$key HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n\r\n")->response->{status}, 400, 'no body');
    my $pad = sub ($size) { '{"ban": true' . ' ' x ($size - 13) . '}' };
    is(put($pad->(4096))->{status}, 200, '4096 bytes');
    is_error(put($pad->($_)), 413, 'too_large', qr/at most 4096 bytes/, "$_ bytes") for 4097, 100_000;
    my $chunked = sub (@chunks) {
        my $head = "PUT /api/override$key HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
        my $body = join '', map { sprintf "%x\r\n%s\r\n", length, $_ } @chunks;
        return RateLimit::Client->new($nginx)->send($head)->send($body)->send("0\r\n\r\n")->response->{status};
    };
    is($chunked->('{"ban"', ': true}'), 200, 'in chunks');
    is($chunked->($pad->(4096)), 200, '4096 bytes of them');
    is($chunked->($pad->(4097)), 413, 'and one more');
    is($chunked->(map { 'x' x 1000 } 1 .. 900), 413, 'and many more');
    is($client->send("PUT /api/override$key HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n")->send('{"ban"')->send(': true}')->response->{status}, 200, 'in pieces');
    my %wrong = (
        '{"limit": -1}'                    => 'member "limit", expected a whole number from 0 to 1000000000',
        '{"limit": 1000001}'               => 'member "limit", expected a whole number from 0 to 1000000 with sliding_log, which rule "plain/60s" has',
        '{"limit": "5"}'                   => 'member "limit", expected a whole number from 0 to 1000000000',
        '{"limit": 5, "burst": 1}'         => 'member "burst", expected no burst, for no rule of the zone is a bucket',
        '{"limits": 5}'                    => 'member "limits", expected one of limit, burst, ban, exempt, expires_in and note',
        '{"limit": 5, "ban": true}'        => 'member "limit", expected no numbers beside ban',
        '{"ban": true, "expires_in": 0}'   => 'member "expires_in", expected a whole number of seconds from 1 to 31622400',
        '{}'                               => 'body, expected limit, burst, ban or exempt',
        '{"ban": true'                     => 'body, expected a JSON object in UTF-8',
        "{\"\xff\": 1}"                    => 'body, expected a JSON object in UTF-8',
        '[]'                               => 'body, expected a JSON object',
    );
    my $before = api($nginx, 'GET overrides?zone=plain')->{json};
    for my $body (sort keys %wrong) {
        my $response = put($body);
        is("$response->{status} $response->{json}{error} $response->{json}{description}", "400 invalid_body $wrong{$body}", $body);
    }
    is_deeply(api($nginx, 'GET overrides?zone=plain')->{json}, $before, 'and nothing has changed');
    my $refill = api($nginx, 'PUT override' . query(zone => 'network', key => '192.0.2.1', rule => 'n'), body => { limit => 1, burst => 1_000_000_000 });
    is($refill->{json}{description}, 'member "burst", expected a bucket that fills, by limit and window, within 10 years at rule "n"', 'a bucket that takes too long');
    is(api($nginx, 'PUT rule' . query(zone => 'plain', rule => 'plain/60s'), body => { ban => \1 })->{json}{description},
        'member "ban", expected one of limit, burst, expires_in and note', 'a ban of all clients of a rule');
};

subtest 'pages of other sites' => sub {
    for my $site (qw(cross-site same-site)) {
        for my $request ("DELETE key$key", "PUT override$key", "DELETE override$key", 'PUT rule?zone=plain&rule=plain/60s', 'DELETE rule?zone=plain&rule=plain/60s') {
            is_error(api($nginx, $request, body => { limit => 1 }, headers => { 'Sec-Fetch-Site' => $site }), 403, 'cross_site', qr/Sec-Fetch-Site/, "$site: $request");
        }
        is(api($nginx, 'GET zones', headers => { 'Sec-Fetch-Site' => $site })->{status}, 200, 'may be answered to where nothing is written');
    }
    is(put({ exempt => \1 }, 'Sec-Fetch-Site' => $_)->{status}, 200, $_) for qw(same-origin none);
    my $client = RateLimit::Client->new($nginx);
    my $both   = "Sec-Fetch-Site: none\r\nsec-fetch-site: cross-site\r\n";
    is($client->send("DELETE /api/override$key HTTP/1.1\r\nHost: h\r\n$both\r\n")->response->{status}, 403, 'one of two headers is enough');
    is(api($nginx, 'OPTIONS key')->{headers}{'access-control-allow-origin'}, undef, 'nobody is told that others may');
};

subtest 'curl' => sub {
    my $curl = sub (@arguments) {
        open my $said, '-|', 'curl', '-sf', @arguments or die "curl: $!";
        my $text = do { local $/; <$said> };
        close $said;
        return ($? >> 8, $text);
    };
    my ($code, $text) = $curl->($nginx->url("/api/key$key"));
    is($code, 0, 'curl -f is content');
    like($text, qr/\A\{\n  "zone": "plain",\n.*\n\}\n\z/s, 'with lines that people read');
    is(($curl->($nginx->url('/api/key?zone=other&key=a')))[0], 22, 'and fails where the API does');
    ($code) = $curl->('-X', 'PUT', '--json', '{"limit": 5, "expires_in": 60}', $nginx->url("/api/override$key"));
    is($code, 0, 'curl --json');
    ($code, $text) = $curl->('-X', 'DELETE', $nginx->url("/api/override$key"));
    is($code, 0, 'curl -X DELETE');
};

subtest 'HTTP/2' => sub {
    my $http2 = RateLimit::Nginx->start_new("$rules server { listen %PORT% http2; $server location /api/ { redis_rate_limit_api write; } }");
    my $curl = sub (@arguments) {
        my $status = qx{curl -s --http2-prior-knowledge -o /dev/null -w '%{http_code}' @arguments};
        return $status;
    };
    my $url = "'" . $http2->url("/api/override$key") . "'";
    is($curl->("-X PUT --json '{\"limit\": 5}' $url"), 200, 'a body');
    is($curl->("-X PUT -H 'Content-Type: application/json' -T - $url </dev/null"), 400, 'an empty one');
    # The stream ends before all of it is sent, which curl may take for an error.
    my $nghttp = sub (@arguments) {
        my ($status) = qx{nghttp -v -H ':method: PUT' -H 'Content-Type: application/json' @arguments $url} =~ /:status: (\d+)/;
        return $status;
    };
    my $body = $http2->dir . '/request';
    RateLimit::Nginx::write_file($body, ' ' x 4097);
    is($nghttp->('-d', $body), 413, 'one that is too long');
    is($nghttp->('--no-content-length', '-d', $body), 413, 'and that says so only by its bytes');
    RateLimit::Nginx::write_file($body, '{"limit": 5}' . ' ' x 4000);
    is($nghttp->('--no-content-length', '-d', $body), 200, 'one that is not');
    is($curl->("-X DELETE $url"), 200, 'no body');
    is($curl->('-I ' . $http2->url('/api/zones')), 200, 'HEAD');
    $http2->stop;
};

subtest 'blocks inside of the location' => sub {
    my $inside = RateLimit::Nginx->start_new(<<"END");
$rules
server {
    listen %PORT%;
    $server
    location /api/ {
        redis_rate_limit_api write;
        if (\$http_x_if) { set \$taken 1; }
        limit_except GET { allow 127.0.0.1; deny all; }
    }
    location /closed/ {
        redis_rate_limit_api write;
        limit_except GET { deny all; }
    }
}
END
    my $write = sub (%headers) { api($inside, "PUT override$key", body => { limit => 5 }, headers => \%headers)->{status} };
    is($write->(), 200, 'limit_except lets those write whom it allows');
    is(api($inside, "DELETE override$key")->{status}, 200, 'and delete');
    is($inside->get("/closed/override$key", method => 'DELETE')->{status}, 403, 'and nobody else');
    is($inside->get('/closed/zones')->{status}, 200, 'who may read');
    is($write->('X-If' => 1), 200, 'an if that applies changes nothing');
    is(api($inside, 'GET zones', headers => { 'X-If' => 1 })->{json}{write}, JSON::PP::true, 'so it is told');
    $inside->stop;
};

subtest 'configurations' => sub {
    my %wrong = (
        'location /api { redis_rate_limit_api; }'                => 'invalid location "/api", expected a prefix that ends in /',
        'location = /api/ { redis_rate_limit_api; }'             => 'invalid location "/api/", expected a prefix that ends in /',
        'location ~ /api/ { redis_rate_limit_api; }'             => 'invalid location "/api/", expected a prefix that ends in /',
        'location /api/ { redis_rate_limit_api read; }'          => 'invalid parameter "read", expected write or nothing',
        'location /api/ { redis_rate_limit_api write write; }'   => 'invalid number of arguments in "redis_rate_limit_api" directive',
        'location /api/ { redis_rate_limit_api; redis_rate_limit_api write; }' => 'a location serves one thing',
        'location /api/ { redis_rate_limit_api; redis_rate_limit_dashboard; }' => 'a location serves one thing',
        'location /api/ { redis_rate_limit_metrics; redis_rate_limit_api; }'   => 'a location serves one thing',
        'redis_rate_limit_api;'                                  => '"redis_rate_limit_api" directive is not allowed here',
    );
    for my $line (sort keys %wrong) {
        my ($said, $is_valid) = RateLimit::Nginx->new("server { listen %PORT%; $line }")->test_configuration;
        ok(!$is_valid, $line);
        like($said, qr/\Q$wrong{$line}\E/, 'is told why');
    }
};

$nginx->stop;
done_testing;
