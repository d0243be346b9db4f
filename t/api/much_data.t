# What Redis holds may be much, whoever has put it there: no worker is held up by it, and what the API does
# is bounded. Pings beside each say how long the worker was held.

use v5.36;
use lib 't/lib';
use List::Util qw(max);
use POSIX ();
use RateLimit::Api qw(api query);
use RateLimit::Client;
use RateLimit::LiveStore;
use RateLimit::Measure qw(cpu_ns);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep time);

my $redis = RateLimit::Redis->start_new;
my $client = $redis->client;
my $zones = join '', map { "redis_rate_limit_zone \$arg_key zone=of_$_:1m;\n" } 1 .. 100;
my $rules = join '', map { "location /$_/ { redis_rate_limit zone=of_$_ algorithm=fixed_window limit=100 window=1h; }\n" } 1 .. 100;
my $names = join '', map { my $i = $_; "location /n$i/ { "
    . join('', map { "redis_rate_limit zone=z algorithm=fixed_window limit=100 window=1h shards=64 name=r$i-$_;" } 1 .. 10) . " }\n" } 1 .. 10;
my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; }
redis_rate_limit_zone \$arg_key zone=z:200m;
$zones
server {
    listen %PORT%;
    keepalive_requests 1000000;
    $rules
    $names
    location /api/ { redis_rate_limit_api write; }
    location /ping { empty_gif; }
}
END
my ($worker) = $nginx->workers;

# A page of overrides takes about 12, most of it for memory of the zone that nobody has touched before; all at
# once would take 200. A sanitizer, or a busy machine's cold caches, make more of it.
my $most_ms = $ENV{RATE_LIMIT_PRELOAD} ? 150 : 50;

# Does it while another process asks the worker for something that it has at once, and returns what the code
# returns. What counts is the CPU time of the worker between such a question and its answer: a worker is to
# be held for about 10 ms at most, and other processes of the machine do not matter.
sub with_ping ($what, $code) {
    pipe my $in, my $out or die "pipe: $!";
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        my $goes_on = 1;
        local $SIG{TERM} = sub { $goes_on = 0 };
        my $pinger = RateLimit::Client->new($nginx);
        my ($longest, $count) = (0, 0);
        while ($goes_on) {
            my $before = cpu_ns($worker);
            $pinger->send("GET /ping HTTP/1.1\r\nHost: a\r\n\r\n")->response->{status} == 200 or last;
            $longest = max($longest, (cpu_ns($worker) - $before) / 1e6);
            syswrite $out, "begun\n" if ++$count == 10;
            sleep 0.001;
        }
        syswrite $out, "$longest $count\n";
        POSIX::_exit(0);
    }
    close $out;
    readline $in;
    my $began  = time;
    my $result = $code->();
    my $lasted = time - $began;
    kill TERM => $pid;
    my ($longest, $count) = split ' ', readline($in) // '1e9 0';
    waitpid $pid, 0;
    note sprintf '%s: %.3f s; beside it %d pings, the longest with %.2f ms of the worker', $what, $lasted, $count, $longest;
    cmp_ok($longest, '<', $most_ms, "$what holds no worker");
    return $result;
}

my $now = sub { my ($seconds) = $client->time; return $seconds * 1_000_000 };
sub register (@fields) {
    $client->hset('rl:{live}:rules', map { ($_, $now->()) } splice @fields, 0, 1000) while @fields;
}
my $key = query(zone => 'z', key => 'k');

is(api($nginx, "GET key$key")->{status}, 200, 'the API is there');
is(with_ping('GET key of 100 rules of 64 shards', sub { api($nginx, "GET key$key") })->{status}, 200, 'which is answered');

subtest 'counters that many hosts have registered' => sub {
    my @names  = map { "fixed_window:3600000:other$_" } 1 .. 2000;
    my %left   = map { ("rl:{z:k%#$_/64}:$names[$_]" => 1, "rl:{z:k%#$_/64}:$names[$_]#block" => 1) } 0 .. 63;
    register(map { ("z $_ 64", "z $_ 8", "z $_ 1") } @names);
    $client->set($_, 1) for keys %left;
    my $told = with_ping('DELETE key of 6000 of them', sub { api($nginx, "DELETE key$key") });
    like($told->{json}{description}, qr/more than 4096 counters/, 'are too many, which is said');
    is($told->{status}, 502, 'and is no success');

    $client->del('rl:{live}:rules');
    register(map { "z $_ 64" } @names);
    $client->set($_, 1) for keys %left, "rl:{z:k}:$names[-1]", "rl:{z:k%#7/8}:$names[0]";
    $told = with_ping('DELETE key of 2000 of 64 shards', sub { api($nginx, "DELETE key$key") });
    is("$told->{status} $told->{json}{deleted}", '200 128', 'finds all of them');
    is(scalar(grep { /^rl:\{z:k/ } $redis->keys), 2, 'and nothing else');
};

subtest 'counters of other zones' => sub {
    register(map { "y fixed_window:3600000:name$_ 64" } 1 .. 6_000);
    is(with_ping('DELETE key beside 6,000 of them', sub { api($nginx, "DELETE key$key") })->{status}, 200, 'is no concern of it');
};

subtest 'overrides' => sub {
    my $store = RateLimit::LiveStore->new($client);
    my $known = sub { api($nginx, 'GET zones')->{json}{zones}{z}{overrides} };
    my @all   = map { { zone => $_ % 4 ? 'z' : 'of_' . (1 + $_ % 97), key => "client$_" . 'x' x 100, limit => $_ } } 1 .. 6_000;
    with_ping('learning of 6,000 overrides', sub { $store->put_all(@all); ok(wait_until(sub { $known->() == 4_500 }, 60), 'they are known') });
    is(with_ping('GET overrides', sub { api($nginx, 'GET overrides?zone=z') })->{status}, 200, 'a list of them');
    is(with_ping('GET overrides of a zone that has none', sub { api($nginx, 'GET overrides?zone=of_99') })->{status}, 200, 'or of none');
    with_ping('the expiry of some', sub {
        $store->put_all(map { { $_->%*, expires_in => 1 } } @all[0 .. 1999]);
        ok(wait_until(sub { $known->() <= 4_500 - 1500 }, 60), 'they end');
    });
    $client->flushall;
    with_ping('a lost store', sub { ok(wait_until(sub { $known->() == 0 }, 60), 'none of them holds') });
};

is(($nginx->workers)[0], $worker, 'the worker is the same');
$nginx->stop;

done_testing;
