# docs/openapi.yaml against the server: each operation is asked for, each answer is one that the page has,
# and the server takes no parameter and no member that the page does not have.

use v5.36;
use lib 't/lib';
use Digest::SHA qw(sha256_hex);
use JSON::PP ();
use JSON::Validator;
use RateLimit::Api qw(api query);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use YAML::XS ();

local $YAML::XS::Boolean = 'JSON::PP';
my $page = YAML::XS::LoadFile('docs/openapi.yaml');
is($page->{openapi}, '3.1.0', 'OpenAPI 3.1');
is("$page->{info}{version}\n", RateLimit::Nginx::slurp('VERSION'), 'of this version');

# What a reference leads to.
sub followed ($node) {
    while (my $to = $node->{'$ref'}) {
        $node = $page;
        $node = $node->{$_} // die "$to leads nowhere" for split '/', $to =~ s{^#/}{}r;
    }
    return $node;
}

# OpenAPI 3.1's schemas are those of JSON Schema 2020-12, of which the page has nothing that 2019-09 has not.
my %validators;
sub faults ($schema, $value) {
    my $text      = JSON::PP->new->canonical->encode($schema);
    my $validator = $validators{$text} //= JSON::Validator->new->schema({
        '$schema' => 'https://json-schema.org/draft/2019-09/schema', allOf => [$schema], components => $page->{components},
    });
    return join '; ', $validator->validate($value);
}

my $redis = RateLimit::Redis->start_new;
my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$arg_key zone=z:1m;
redis_rate_limit_zone \$binary_remote_addr zone=hidden:32k show_keys=off;
server {
    listen %PORT%;
    location / {
        redis_rate_limit zone=z algorithm=sliding_log  limit=3 window=60;
        redis_rate_limit zone=z algorithm=token_bucket limit=\$arg_limit window=500ms burst=10 cost=\$arg_cost name=bucket dry_run;
        redis_rate_limit zone=z algorithm=fixed_window limit=0 window=60 name=none;
        redis_rate_limit zone=hidden algorithm=gcra limit=10 window=60 name=gcra;
        empty_gif;
    }
    location /api/ { redis_rate_limit_api write; }
}
END

my (%asked, %answered);

# Asks, and holds the answer against the page.
sub holds ($request, %options) {
    my ($method, $path, $query) = $request =~ /^(\S+) (\w+)(.*)/ or die $request;
    my $operation = $page->{paths}{"/$path"}{ lc $method } // die "the page has no $method /$path";
    my $response  = api($nginx, $request, %options);
    my $told      = $operation->{responses}{ $response->{status} };
    ok($told, "$request: $response->{status} is on the page") or return $response;
    ++$answered{"$operation->{operationId} $response->{status}"};
    my $answer = followed($told);
    my $schema = $answer->{content}{'application/json'}{schema};
    is(faults($schema, $response->{json}), '', 'with such an answer') or diag $response->{content};
    ok(exists $response->{headers}{lc $_}, "and $_") for keys(($answer->{headers} // {})->%*);
    if (my $body = $operation->{requestBody}) {
        my $fault = faults($body->{content}{'application/json'}{schema}, $options{body});
        is($fault eq '', 1, 'a body as on the page') if $response->{status} == 200;
        $asked{body}{$_} = 1 for $fault eq '' ? keys $options{body}->%* : ();
    }
    return $response;
}

sub of (@more) { return query(zone => 'z', key => 'k', @more) }
my $rule = query(zone => 'z', rule => 'bucket');
my $long = query(zone => 'z', key_sha256 => sha256_hex('x' x 200));

$nginx->get('/?key=k&limit=5&cost=1') for 1 .. 5;
holds('GET zones');
holds("GET key$_") for of(), $long, query(zone => 'hidden', key => '127.0.0.1');
holds('PUT override' . of(), body => { limit => 5, burst => 7, expires_in => 600, note => "\x{e9}" });
holds('PUT override' . of(rule => 'z/60s'), body => { ban => JSON::PP::true, expires_in => 600 });
holds('PUT override' . of(rule => 'bucket'), body => { exempt => JSON::PP::true });
holds("PUT override$long", body => { limit => 0 });
holds("PUT rule$rule", body => { limit => 1, burst => 2, note => 'brake', expires_in => 60 });
ok(wait_until(sub { api($nginx, 'GET zones')->{json}{zones}{z}{rules}{bucket}{overridden} }), 'the rule is overridden');
holds("GET $_") for 'zones', 'key' . of(), "key$long", 'overrides?zone=z', 'overrides?zone=hidden', 'overrides?zone=z&cursor=0';
holds('DELETE override' . of()) for 1, 2;
holds("DELETE rule$rule");
holds('DELETE key' . of());

holds('GET zones?x=1');
holds("GET $_") for 'key', 'overrides';
holds("DELETE $_") for 'key', 'override', 'rule';
holds("PUT $_", body => { limit => 1 }) for 'override', 'rule';
my $other = query(zone => 'other', key => 'k');
holds("GET $_") for "key$other", 'overrides?zone=other';
holds("DELETE $_") for "key$other", "override$other", 'rule?zone=z&rule=other';
holds("PUT $_", body => { limit => 1 }) for "override$other", 'rule?zone=z&rule=other';
my %from_elsewhere = (headers => { 'Sec-Fetch-Site' => 'cross-site' });
holds("DELETE $_", %from_elsewhere) for 'key' . of(), 'override' . of(), "rule$rule";
holds("PUT $_", body => { limit => 1 }, %from_elsewhere) for 'override' . of(), "rule$rule";
for my $request ('PUT override' . of(), "PUT rule$rule") {
    holds($request, body => '{"limit": 1}', headers => { 'Content-Type' => 'text/plain' });
    holds($request, body => ' ' x 5000);
    holds($request, body => '{');
}

subtest 'a host without room' => sub {
    my $i = 0;
    my $full = wait_until(sub { ++$i; api($nginx, 'PUT override' . query(zone => 'hidden', key => "10.0.${\($i >> 8)}.${\($i & 255)}"), body => { limit => 1 })->{status} == 507 }, 30);
    ok($full, "after $i overrides");
    holds('PUT override' . query(zone => 'hidden', key => "10.0.${\($i >> 8)}.${\($i & 255)}"), body => { limit => 1 });
};

subtest 'a location without write' => sub {
    my $readers = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$arg_key zone=z:1m;
server { listen %PORT%; location /api/ { redis_rate_limit_api; } }
END
    my $writer = $nginx;
    $nginx = $readers;
    holds("DELETE $_") for 'key' . of(), 'override' . of(), "rule$rule";
    holds("PUT $_", body => { limit => 1 }) for 'override' . of(), "rule$rule";
    $nginx = $writer;
    $readers->stop;
};

subtest 'without Redis' => sub {
    $redis->kill_now;
    holds("GET $_") for 'key' . of(), 'overrides?zone=z';
    holds("DELETE $_") for 'key' . of(), 'override' . of(), "rule$rule";
    holds("PUT $_", body => { limit => 1 }) for 'override' . of(), "rule$rule";
};

my @documented;
for my $path (values $page->{paths}->%*) {
    for my $operation (grep { ref eq 'HASH' && $_->{operationId} } values %$path) {
        push @documented, map { "$operation->{operationId} $_" } keys $operation->{responses}->%*;
    }
}
# The rule's override takes the same way to a host without room as that of a client.
is_deeply([ grep { $_ ne 'putRule 507' } sort @documented ], [ sort keys %answered ], 'each answer of the page was seen, and no other one');
is_deeply([ sort keys $asked{body}->%* ], [ sort keys $page->{components}{schemas}{OverrideOfClient}{properties}->%* ], 'each member of a body was sent');

subtest 'parameters' => sub {
    my %all = map { $_ => 1 } qw(zone key key_sha256 rule cursor);
    for my $path (sort keys $page->{paths}->%*) {
        my $of   = $page->{paths}{$path};
        for my $method (grep { /^(?:get|put|delete)$/ } sort keys %$of) {
            my %takes = map { followed($_)->{name} => 1 } ($of->{parameters} // [])->@*, ($of->{$method}{parameters} // [])->@*;
            for my $name (sort keys %all) {
                my $error = api($nginx, uc($method) . " ${\substr $path, 1}?$name=")->{json}{error};
                is($error, $takes{$name} ? 'invalid_parameter' : 'unknown_parameter', "$method $path: $name");
            }
        }
    }
};

$nginx->stop;
done_testing;
