# The API where Redis fails: what it tells, that repeating is safe, and that two who write at once, or a
# worker that is killed, leave nothing half done.

use v5.36;
use lib 't/lib';
use JSON::PP ();
use RateLimit::Api qw(api query);
use RateLimit::Client;
use RateLimit::Nginx;
use RateLimit::Process;
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(time);

my $redis = RateLimit::Redis->start_new;
my $relay = RateLimit::Relay->start_new($redis->conf->{port});
$relay->include_control; # the API's commands take the connection by which a host follows live limits
my $rules = <<'END';
redis_rate_limit_zone $arg_key zone=z:1m on_error=open;
server {
    listen %PORT%;
    location / { redis_rate_limit zone=z algorithm=sliding_log limit=3 window=60; empty_gif; }
    location /api/ { redis_rate_limit_api write; }
}
END
sub backend ($address) { return "redis_rate_limit_backend default { server $address; connect_timeout 5s; timeout 5s; breaker off; }\n" }
my $nginx   = RateLimit::Nginx->start_new(backend($relay->address) . $rules);
my $witness = RateLimit::Nginx->start_new(backend($redis->address) . $rules);

my $key = query(zone => 'z', key => 'k');
sub override_of ($host, $of) { return api($host, 'GET key' . query(zone => 'z', key => $of))->{json}{rules}{'z/60s'}{override} }
sub fails ($request, $what, %options) {
    my $begun    = time;
    my $response = api($nginx, $request, %options);
    is("$response->{status} $response->{json}{error}", '502 redis', $what);
    cmp_ok(time - $begun, '<', 6, 'in time');
    return $response->{json};
}
# After a refusal a host asks again only a while later, and says so to who writes meanwhile.
sub follows ($host) {
    my $nobody = query(zone => 'z', key => 'nobody');
    ok(wait_until(sub { (api($host, "DELETE override$nobody")->{json}{error} // '') ne 'not_followed' }), 'it follows live limits');
}
my @requests = ("GET key$key", "DELETE key$key", "PUT override$key", "DELETE override$key", 'GET overrides?zone=z');

subtest 'Redis is down' => sub {
    $nginx->get('/?key=k');
    $redis->kill_now;
    for my $request (@requests) {
        my $told = fails($request, $request, body => { limit => 5 });
        like($told->{description}, qr/\w/, "says: $told->{description}");
    }
    is(api($nginx, 'GET zones')->{status}, 200, 'the zones are known to the host');
    $redis->restart;
    ok(wait_until(sub { api($nginx, "GET key$key")->{status} == 200 }), 'and comes back');
};

subtest 'Redis refuses' => sub {
    my $client = $redis->client;
    $client->config_set('min-replicas-to-write', 1);
    my $told = fails("PUT override$key", 'a write', body => { limit => 5 });
    like($told->{description}, qr/not written: Redis said: .*NOREPLICAS/, 'by what Redis said');
    ok(!exists $told->{outcome}, 'and its outcome is known');
    $client->config_set('min-replicas-to-write', 0);
    is(override_of($witness, 'k'), undef, 'nothing is written');
    $client->lpush('rl:{live}:data', 'x');
    fails($_, "a foreign key: $_", body => { limit => 5 }) for "GET key$key", "PUT override$key", 'GET overrides?zone=z';
    $client->del('rl:{live}:data');
    $client->hset('rl:{z:k}:sliding_log:60000', 'x', 'y');
    my $foreign = fails("GET key$key", 'a counter of another type');
    like($foreign->{description}, qr/^rule "z\/60s": Redis said: .*WRONGTYPE/, 'is named by its rule');
    follows($nginx);
    is_deeply(api($nginx, "DELETE key$key")->{json}, { deleted => 1 }, 'and can be deleted');
};

# So that a connection for commands is there, on which an answer can be held.
sub connect_worker ($host) { is(api($host, "GET key$key")->{status}, 200, 'Redis answers') }

subtest 'an answer is lost' => sub {
    follows($nginx);
    api($nginx, "DELETE override$key");
    connect_worker($nginx);
    $relay->hold;
    my $told = fails("PUT override$key", 'a write whose answer does not come', body => { limit => 8, note => 'lost' });
    $relay->reset_all;
    $relay->release;
    is($told->{outcome}, 'unknown', 'its outcome is unknown');
    is(override_of($witness, 'k')->{limit}, 8, 'it was written');
    my $again = api($nginx, "PUT override$key", body => { limit => 8, note => 'lost' });
    is($again->{status}, 200, 'repeating it is safe');
    is(scalar api($witness, 'GET overrides?zone=z')->{json}{overrides}->@*, 1, 'and leaves one override');
    like($nginx->error_log, qr/changing limits, by 127\.0\.0\.1: limit 8 until deleted, note 'lost', zone "z", key "k", outcome unknown: /, 'the log says so');

    $witness->get('/?key=k') for 1 .. 2;
    connect_worker($nginx);
    $relay->hold;
    $told = fails("DELETE key$key", 'a reset whose first answer does not come');
    $relay->reset_all;
    $relay->release;
    is_deeply(api($nginx, "DELETE key$key")->{json}, { deleted => 1 }, 'is repeated');
};

subtest 'two who write at once' => sub {
    my @bodies = map { my $n = $_; +{ limit => $n, expires_in => 1000 + $n, note => "n$n" } } 1 .. 2;
    my @writers = map {
        my ($host, $body) = @$_;
        RateLimit::Process->run(sub { api($host, "PUT override$key", body => $body) for 1 .. 100 });
    } [ $nginx, $bodies[0] ], [ $witness, $bodies[1] ];
    my %seen;
    while (grep { $_->is_running } @writers) {
        my $override = override_of($witness, 'k') or next;
        ++$seen{"$override->{limit} $override->{note}"};
    }
    my @mixed = grep { !/^(?:1 n1|2 n2|8 lost)$/ } keys %seen;
    is("@mixed", '', 'each override is one of theirs, as a whole');
    my $last = override_of($witness, 'k');
    is($last->{note}, "n$last->{limit}", 'and so is the last one');
    my $everywhere = wait_until(sub {
        my @limits = map { $_->get('/?key=k')->{headers}{'x-ratelimit-limit'} } $nginx, $witness;
        return $limits[0] == $last->{limit} && $limits[1] == $last->{limit};
    });
    ok($everywhere, 'which all hosts obey');
};

subtest 'a worker is killed' => sub {
    api($witness, "DELETE override$key");
    connect_worker($nginx);
    $relay->hold;
    my $client = RateLimit::Client->new($nginx);
    my $body   = '{"limit": 77}';
    $client->send("PUT /api/override$key HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: " . length($body) . "\r\n\r\n$body");
    ok(wait_until(sub { ((override_of($witness, 'k') // {})->{limit} // 0) == 77 }), 'in the middle of a write');
    my @killed = $nginx->workers;
    kill KILL => @killed;
    is($client->response->{status}, 0, 'there is no answer');
    $relay->reset_all;
    $relay->release;
    ok(wait_until(sub { my @now = $nginx->workers; @now == 1 && $now[0] != $killed[0] }), 'nginx has others');
    ok(wait_until(sub { ($nginx->get('/?key=k')->{headers}{'x-ratelimit-limit'} // 0) == 77 }), 'what was written holds');
    is(api($nginx, "PUT override$key", body => { limit => 78 })->{status}, 200, 'and can be written again');
    $nginx->stop(expect => RateLimit::Nginx::ends_of_killed(@killed));
};

subtest 'a client leaves' => sub {
    my $slow = RateLimit::Nginx->start_new(backend($relay->address) . $rules);
    connect_worker($slow);
    $relay->hold;
    my $client = RateLimit::Client->new($slow);
    $client->send("DELETE /api/override$key HTTP/1.1\r\nHost: h\r\n\r\n");
    ok(wait_until(sub { !defined override_of($witness, 'k') }), 'whose write Redis has');
    $client->reset;
    $relay->release;
    ok($slow->wait_for_log(qr/changing limits, by 127\.0\.0\.1: delete the override, zone "z", key "k"\n/), 'it is logged');
    $slow->stop;
};

$witness->stop;
done_testing;
