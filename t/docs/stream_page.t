# What docs/stream.md says of its examples: each is run, with smaller numbers where it takes fewer sessions
# to see.

use v5.36;
use lib 't/lib';
use IO::Socket::INET;
use RateLimit::Documentation qw(example_with stream_level);
use RateLimit::Process;
use RateLimit::Redis;
use RateLimit::Stream qw(client_hello echo_server new_statuses new_stream open_session take_line udp_answer);
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis   = RateLimit::Redis->start_new;
my $echo    = echo_server();
my $backend = "%STREAM_LOG%\nredis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }\n";

# The example with these words, in an nginx that passes sessions on to `upstream`. What is changed are pairs
# of its text and another one for it. Returns the nginx and the port in the place of the example's.
sub start_example ($words, $upstream, @changes) {
    my $example = example_with('docs/stream.md', $words);
    while (my ($from, $to) = splice @changes, 0, 2) {
        $example =~ s/\Q$from\E/$to/g or die "the example has no \"$from\"\n$example";
    }
    $example =~ s/(proxy_pass )[^;]+/$1$upstream/;
    my ($text, %port) = stream_level($example);
    my $nginx = new_stream($backend . $text);
    $nginx->start;
    return ($nginx, values %port);
}

# Opens a session and sends it a line. Returns it with what comes back, an empty text if it is rejected.
sub session ($port, $text, @from) {
    my $socket = open_session($port, @from);
    local $SIG{PIPE} = 'IGNORE'; # it may be rejected by then
    syswrite $socket, $text;
    return ($socket, take_line($socket));
}

sub answer (@session) { return (session(@session))[1] }

subtest 'the first limit' => sub {
    my ($nginx, $port) = start_example('zone=per_client:10m', $echo->address, 'limit=100', 'limit=2');
    is(join(',', map { answer($port, "line\n") } 1 .. 3), "line\n,line\n,", 'two sessions pass and the third does not');
    is(new_statuses($nginx, 3), '200 PASSED, 200 PASSED, 503 REJECTED', 'which the log tells');
    ok($nginx->wait_for_log(qr/limiting requests, rule "per_client\/60s", key "127\.0\.0\.1", retry after \S+s while/), 'and error.log');
    $nginx->stop;
};

subtest 'connections of an address' => sub {
    $redis->client->flushall;
    my ($nginx, $port) = start_example('zone=connections:10m', $echo->address, 'limit=60', 'limit=4', 'limit=20', 'limit=2');
    my @open = map { [ session($port, "line\n") ] } 1 .. 2;
    is(join(',', map { $_->[1] } @open), "line\n,line\n", 'two are open');
    is(answer($port, "line\n"), '', 'a third is not opened');
    is(answer($port, "line\n", LocalAddr => '127.0.0.2'), "line\n", 'but one of another address is');
    @open = ();
    ok(wait_until(sub { !$redis->client->zcard('rl:{connections:127.0.0.1}:concurrency:60000') }), 'permits are given back');
    is(join(',', map { answer($port, "line\n") } 1 .. 2), "line\n,line\n", 'two more, one after another');
    is(answer($port, "line\n"), '', 'are all of the minute');
    $nginx->stop;
};

# Over two hosts, with tenants that take turns.
subtest 'connections of a tenant' => sub {
    $redis->client->flushall;
    my @hosts = map { [ start_example('$ssl_preread_server_name $tenant', $echo->address, 'limit=500', 'limit=2') ] } 1 .. 2;
    my @ports = map { $_->[1] } @hosts;
    my $opens = sub ($host, $name) {
        my ($socket, $line) = session($ports[$host], client_hello($name));
        return length $line ? $socket : undef;
    };
    my @red = map { $opens->($_, 'red.example.com') } 0, 1;
    is(scalar(grep { defined } @red), 2, 'one connection at each of two hosts');
    is($opens->($_, 'red.example.com'), undef, 'and no more at any') for 0, 1;
    my @others = ($opens->(0, 'blue.example.com'), $opens->(1, 'made-up.example'), $opens->(0, ''));
    is(scalar(grep { defined } @others), 3, 'another tenant, and two of the others');
    is($opens->(1, 'made-up-too.example'), undef, 'for whom another name is no other tenant');
    close $red[0];
    ok(wait_until(sub { $red[2] = $opens->(1, 'red.example.com') }), 'one that ends makes room at the other host');
    @red = @others = ();
    $_->[0]->stop for @hosts;
};

subtest 'DNS' => sub {
    $redis->client->flushall;
    my $server  = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Proto => 'udp') or die "udp: $!";
    my $process = RateLimit::Process->run(sub {
        while (my $from = $server->recv(my $query, 1000)) {
            $server->send("answer to $query", 0, $from);
        }
    });
    my ($nginx, $port) = start_example('zone=queries:10m', '127.0.0.1:' . $server->sockport, 'limit=50', 'limit=1', 'window=1 ', 'window=1h ', 'burst=200', 'burst=1');
    is(udp_answer($port, $_), "answer to $_", "query $_") for 1, 2;
    is(udp_answer($port, 3, 0.3), undef, 'no third one');
    is(new_statuses($nginx, 3), '200 PASSED, 200 PASSED, 503 REJECTED', 'in the log');
    $nginx->stop;
};

subtest 'bytes a day' => sub {
    $redis->client->flushall;
    my ($nginx, $port) = start_example('zone=bytes:10m', $echo->address, 'limit=1000000000', 'limit=1000');
    my $line = 'x' x 1499 . "\n";
    is(length answer($port, $line), 1500, 'a session takes more than there is');
    ok(wait_until(sub { answer($port, "line\n") eq '' }), 'and no other one begins');
    $nginx->stop;
};

subtest 'a broker behind a balancer' => sub {
    $redis->client->flushall;
    my ($nginx, $port) = start_example('set_real_ip_from', $echo->address, '10.0.0.0/8', '127.0.0.1', 'limit=10', 'limit=1');
    my $from = sub ($address, @balancer) { answer($port, "PROXY TCP4 $address 192.0.2.99 1024 1883\r\n", @balancer) };
    like($from->('192.0.2.1'), qr/^PROXY TCP4 192\.0\.2\.1 /, 'the broker learns the address');
    is($from->('192.0.2.1'), '', 'which has one attempt');
    isnt($from->('192.0.2.2'), '', 'another one has its own');
    isnt($from->('192.0.2.3', LocalAddr => '127.0.0.2'), '', 'whoever is no balancer has one');
    is($from->('192.0.2.4', LocalAddr => '127.0.0.2'), '', 'whatever address it tells');
    $nginx->stop;
};

done_testing;
