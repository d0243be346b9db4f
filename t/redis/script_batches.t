# Checks that come in one turn of the event loop share script runs: each is decided, charged,
# answered and fails as if it had been alone.

use v5.36;
use lib 't/lib';
use List::Util qw(shuffle sum);
use RateLimit::Client;
use RateLimit::Nginx;
use RateLimit::Processes qw(freeze);
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis  = RateLimit::Redis->start_new;
my $client = $redis->client;

my %rule = (
    fixed   => 'algorithm=fixed_window   limit=100 window=600',
    log     => 'algorithm=sliding_log    limit=100 window=600',
    sliding => 'algorithm=sliding_window limit=100 window=600',
    tokens  => 'algorithm=token_bucket   limit=100 window=600',
    gcra    => 'algorithm=gcra           limit=100 window=600 burst=99',
    leaky   => 'algorithm=leaky_bucket   limit=100 window=600 burst=99 delay=99',
);
my @names = sort keys %rule;

# With one worker.
sub start_nginx ($redis) {
    return RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; breaker off; }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed deny_cache=off;
redis_rate_limit_log_level info;
server {
    listen %PORT%;
    @{[ map { "location /$_ { redis_rate_limit zone=z $rule{$_} name=$_; empty_gif; }" } @names ]}
    @{[ map { "location /cost/$_ { redis_rate_limit zone=z $rule{$_} name=$_ cost=\$arg_cost; empty_gif; }" } @names ]}
    location /all { @{[ map { "redis_rate_limit zone=z $rule{$_} name=all-$_;" } @names ]} empty_gif; }
    location /ten { redis_rate_limit zone=z algorithm=sliding_log limit=10 window=600 name=ten; empty_gif; }
    location /two {
        redis_rate_limit zone=z algorithm=fixed_window limit=20 window=600 name=two-20;
        redis_rate_limit zone=z algorithm=sliding_log  limit=7  window=600 name=two-7;
        redis_rate_limit zone=z algorithm=gcra         limit=1  window=600 name=trial dry_run;
        empty_gif;
    }
    location /permits { redis_rate_limit zone=z algorithm=concurrency limit=100; empty_gif; }
    location /nothing { return 204; }
}
END
}

my $nginx = start_nginx($redis);
my ($worker) = $nginx->workers;
my @connections;

# Connections that nginx has accepted.
sub connections ($count) {
    while (@connections < $count) {
        push @connections, my $connection = RateLimit::Client->new($nginx);
        request($connection, '/nothing');
        $connection->response->{status} == 204 or die 'nginx does not answer';
    }
    return @connections[0 .. $count - 1];
}

sub request ($connection, $path) { $connection->send("GET $path HTTP/1.1\r\nHost: localhost\r\n\r\n") }

# Requests that the worker finds all at once, each on a connection of its own.
sub ask_together ($connections, @paths) {
    freeze($worker);
    request($connections->[$_], $paths[$_]) for 0 .. $#paths;
    kill CONT => $worker;
}

# Their answers: `200 <remaining>`, or the status alone.
sub answers (@connections) {
    return map { join ' ', $_->{status}, $_->{headers}{'x-ratelimit-remaining'} // () } map { $_->response } @connections;
}

sub together (@paths) {
    my @connections = connections(scalar @paths);
    ask_together(\@connections, @paths);
    return answers(@connections);
}

# So many scripts were called by these names since the last time.
sub calls (@names) {
    state %before;
    my %now   = $redis->script_calls->%*;
    my %calls = map { $_ => $now{$_} - ($before{$_} // 0) } keys %now;
    %before = %now;
    return sum(@calls{ @names ? @names : keys %calls });
}

subtest 'each gets its own answer' => sub {
    for my $name (@names) {
        my @keys = map { "$name-$_" } 1 .. 64;
        is(join(' ', map { $nginx->get("/cost/$name?key=$name-$_&cost=$_")->{status} } 1 .. 64), join(' ', (200) x 64), "$name: each key has its own state");
        calls();
        for my $round (1 .. 3) {
            my @order = shuffle 1 .. 64;
            is(join(', ', together(map { "/$name?key=$name-$_" } @order)), join(', ', map { '200 ' . (100 - $_ - $round) } @order), "round $round");
        }
        cmp_ok(calls(), '<=', 3 * 4, 'by few calls');
    }
    my @two = together(map { "/two?key=pair-$_" } 1 .. 64);
    is(join(' ', @two), join(' ', ('200 6') x 64), 'several rules, too');
};

subtest 'of one client' => sub {
    calls();
    my @answers = together(('/ten?key=one') x 64);
    is(join(', ', sort @answers), join(', ', sort((map { "200 $_" } 0 .. 9), ('429 0') x 54)), 'exactly so many pass as may, each is told what is left');
    cmp_ok(calls(), '<=', 4, 'by few calls');
    is($redis->taken('rl:{z:one}:sliding_log:600000:ten'), 10, 'and is charged');

    is(join(', ', sort { $b cmp $a } together(('/two?key=one') x 20)), join(', ', ('429 0') x 13, map { "200 $_" } reverse 0 .. 6), 'of two rules the tighter decides');
    is(unpack('x8 d', $client->get('rl:{z:one}:fixed_window:600000:two-20')), 7, 'the other is charged no more');
    is(join(' ', sort { $b cmp $a } together(map { "/all?key=all-@{[ $_ % 2 ]}" } 1 .. 20)), join(' ', map { ("200 $_") x 2 } reverse 90 .. 99), 'so it is with all algorithms at once');
};

subtest 'a denial among others' => sub {
    is($nginx->get('/cost/gcra?key=denied-1&cost=100')->{status}, 200, 'one client has used up its limit');
    my @paths = map { "/gcra?key=denied-$_" } 1 .. 16;
    calls();
    for my $round (1 .. 3) {
        is(join(', ', together(@paths)), join(', ', '429 0', ('200 ' . (100 - $round)) x 15), "round $round: the others are charged");
    }
    cmp_ok(calls(), '<=', 3 * 2, 'by few calls');
};

subtest 'a key of another type' => sub {
    $client->rpush("rl:{z:type-$_}:gcra:600000:gcra", 'x') for 5, 9;
    $client->set('rl:{z:type-12}:sliding_log:600000:two-7', 'x');
    my @fails = map { /^(?:5|9)$/ ? 503 : '200 99' } 1 .. 16;
    calls();
    is(join(', ', together(map { "/gcra?key=type-$_" } 1 .. 16)), join(', ', @fails), 'fails alone');
    cmp_ok(calls(), '<=', 2, 'among others');
    ok($nginx->wait_for_log(qr/backend "default" .*fails: .*WRONGTYPE/), 'the log tells what Redis said');
    is(join(', ', together(map { "/two?key=type-$_" } 10 .. 14)), '200 6, 200 6, 503, 200 6, 200 6', 'beside other rules, too');
    ok(!$client->exists('rl:{z:type-12}:fixed_window:600000:two-20'), 'which are not charged');
};

subtest 'scripts are forgotten' => sub {
    calls();
    for my $round (1 .. 10) {
        $client->script_flush;
        is(join(', ', together(map { "/gcra?key=flush-$_" } 1 .. 32)), join(', ', ('200 ' . (100 - $round)) x 32), "round $round: each passes, charged once");
    }
    cmp_ok(calls('eval'), '>=', 10, 'the script was sent again');
};

# Redis stands still until all of them have been asked.
for my $flushed (0, 1) {
    subtest 'clients leave midway' . ($flushed ? ', and scripts are forgotten' : '') => sub {
        my @staying = map { RateLimit::Client->new($nginx) } 1 .. 8;
        my @leaving = map { RateLimit::Client->new($nginx) } 1 .. 8;
        for (@staying, @leaving) {
            request($_, '/nothing');
            $_->response;
        }
        my @connections = map { ($leaving[$_], $staying[$_]) } 0 .. 7;
        my @paths = map { ("/gcra?key=left-$flushed-$_", "/gcra?key=stays-$flushed-$_") } 1 .. 8;
        $client->script_flush if $flushed;
        $redis->freeze;
        ask_together(\@connections, @paths);
        $_->reset for @leaving;
        ok(wait_until(sub { 8 == (() = $nginx->access_log =~ /key=left-$flushed-\S+ HTTP\S*" 499 /g) }), 'they are gone');
        $redis->thaw;
        is(join(', ', answers(@staying)), join(', ', ('200 99') x 8), 'the others are answered');
        is(join(', ', together(map { "/gcra?key=stays-$flushed-$_" } 1 .. 8)), join(', ', ('200 98') x 8), 'and were charged once');
        is(join(', ', together(map { "/gcra?key=left-$flushed-$_" } 1 .. 8)), join(', ', ('200 98') x 8), 'those that left too');
        is(scalar(() = $nginx->error_log =~ /NOSCRIPT/g), 0, 'which is no fault of Redis');
    };
}

subtest 'other rules in the same turn' => sub {
    my @paths = map { ("/gcra?key=mix-$_", "/cost/gcra?key=vary-$_&cost=$_", "/permits?key=mix-$_", "/two?key=mix-$_", "/ten?key=mix-$_") } 1 .. 10;
    for my $round (1 .. 3) {
        my @left = map { (100 - $round, 100 - $_ * $round, 99, 7 - $round, 10 - $round) } 1 .. 10;
        is(join(', ', together(@paths)), join(', ', map { "200 $_" } @left), "round $round: each has its answer");
        ok(wait_until(sub { !grep { /:concurrency:/ } $redis->keys }), 'permits are given back');
    }
    my @answers = together(('/permits?key=permits') x 20);
    is(scalar(grep { /^200 / } @answers), 20, 'permits of one client');
    ok(wait_until(sub { !grep { /:concurrency:/ } $redis->keys }), 'are given back');
};

subtest 'Redis is killed while they are asked' => sub {
    my $lines = sub ($say) { scalar(() = $nginx->error_log =~ /$say/g) };
    my $over  = sub {
        $nginx->get($_) for '/gcra?key=type-5', '/gcra?key=type-9', '/two?key=type-12';
        return $lines->('works again') == $lines->(' fails: ');
    };
    $client->flushall;
    ok(wait_until($over), 'earlier faults are over');
    my $told = length $nginx->error_log;
    $redis->freeze;
    my @connections = connections(64);
    ask_together(\@connections, map { "/gcra?key=killed-$_" } 1 .. 64);
    is($nginx->get('/nothing')->{status}, 204, 'they are under way');
    $redis->kill_now;
    is(join(' ', answers(@connections)), join(' ', (503) x 64), 'each fails');
    $redis->restart;
    ok(wait_until(sub { $redis->nginx_clients == 1 }), 'Redis is back');
    is(join(', ', together(map { "/gcra?key=killed-$_" } 1 .. 64)), join(', ', ('200 99') x 64), 'each is answered');
    my $log = wait_until(sub { substr($nginx->error_log, $told) =~ /(works again.*)/ && $1 });
    like($log, qr/ 64 checks got no verdict/, 'each failed once');
};

is(($nginx->workers)[0], $worker, 'the worker is the same');
$nginx->stop;

# As a single endpoint before a cluster, too.
subtest 'a Redis that takes no keys of several slots at once' => sub {
    my $slots = RateLimit::Redis->start_new('cluster-enabled' => 'yes');
    $slots->client->cluster('ADDSLOTS', 0 .. 16383);
    ok(wait_until(sub { $slots->client->cluster('INFO') =~ /cluster_state:ok/ }), 'has all slots');
    $nginx       = start_nginx($slots);
    ($worker)    = $nginx->workers;
    @connections = ();
    is(join(', ', together(map { "/gcra?key=slots-$_" } 1 .. 20)), join(', ', ('200 99') x 20), 'each is answered');
    is(join(', ', together(map { "/gcra?key=slots-$_" } 1 .. 20)), join(', ', ('200 98') x 20), 'and charged once');
    unlike($nginx->error_log, qr/CROSSSLOT/, 'it is no fault');
    $nginx->stop;
};

done_testing;
