# A hash slot of a Redis Cluster that stays open between two masters: some of its keys have moved, and others
# have not. Only checks of several of its keys may have no verdict. Nobody else notices, and what is given back, settled or
# held is exact in the end. RATE_LIMIT_OPEN_SLOT says for how many seconds it stays open under load.

use v5.36;
use lib 't/lib';
use List::Util qw(min);
use RateLimit::Client;
use RateLimit::Cluster;
use RateLimit::Load qw(start_load);
use RateLimit::Metrics qw(metrics_of);
use RateLimit::Nginx;
use RateLimit::Upstream;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep time);

my $seconds = $ENV{RATE_LIMIT_OPEN_SLOT} // 8;
my $cluster = RateLimit::Cluster->start_new(replicas => 0);

sub start_nginx ($on_error, $locations) {
    return RateLimit::Nginx->start_new(<<"END");
log_format keys '\$uri \$status \$arg_key \$redis_rate_limit_source';
map "\$uri \$status \$redis_rate_limit_source" \$is_told { "~^/block 200 redis" 0; "~ 429 redis" 0; default 1; }
redis_rate_limit_backend default { mode cluster; connect_timeout 5s; timeout 5s; ${\$cluster->servers} }
redis_rate_limit_zone \$arg_key  zone=z:1m    on_error=$on_error deny_cache=off;
redis_rate_limit_zone \$arg_full zone=full:1m on_error=closed    deny_cache=off;
add_header X-Source \$redis_rate_limit_source always;
server {
    listen %PORT%;
    access_log %DIR%/keys.log keys if=\$is_told;
    location = /json { redis_rate_limit_metrics json; }
    $locations
}
END
}

# The client whose hash slot it is, and others whose keys the same master has.
my $client = 'run-000001';
my @others = grep { $cluster->master_of("rl:{z:$_}:") == $cluster->master_of("rl:{z:$client}:") } map { "other$_" } 1 .. 60;

sub key ($name) { return "rl:{z:$client}:$name" }

sub open_slot () {
    my $slot = $cluster->slot_of(key(''));
    my $from = $cluster->master_of_slot($slot);
    my ($to) = grep { $_ != $from } $cluster->masters;
    return $cluster->begin_move($slot, $to);
}

# The client's keys of these names, or all.
sub move ($move, @names) { $cluster->move_keys($move, map { key($_) } @names) }

sub close_slot ($move) {
    move($move);
    $cluster->end_move($move);
}

subtest 'checks that cannot have a verdict take it from nobody else' => sub {
    my $nginx = start_nginx('closed', <<'END');
location /block { redis_rate_limit zone=z algorithm=fixed_window limit=1000 window=100 block=5s; empty_gif; }
location /both  { redis_rate_limit zone=z algorithm=fixed_window limit=1000 window=200; redis_rate_limit zone=z algorithm=fixed_window limit=1000 window=300; empty_gif; }
location /one   { redis_rate_limit zone=z algorithm=fixed_window limit=1000 window=200; empty_gif; }
END
    is($nginx->get("/$_?key=$client")->{status}, 200, "$_: a verdict") for qw(block both);
    my $move = open_slot();
    move($move, 'fixed_window:300000');
    my $failed = my $passed = 0; # 6 in a row would open the breaker
    for my $other (@others[0 .. 9]) {
        $failed += grep { $nginx->get("/$_?key=$client")->{status} == 503 } (qw(block both)) x 3;
        $passed += $nginx->get("/block?key=$other")->{status} == 200;
    }
    is($failed, 60, 'while some of its keys have moved there is none for all of them');
    is($passed, 10, 'others of the same master have theirs');
    is($nginx->get("/one?key=$client")->{status}, 200, 'and so has the client where one key is asked');
    like($nginx->error_log, qr/fails: error reply: TRYAGAIN .*key "$client"/, 'the log tells whose fault it is');
    close_slot($move);
    is($nginx->get("/$_?key=$client")->{status}, 200, "$_: a verdict again") for qw(block both);
    $nginx->stop;
};

# The units that Redis has charged to the client in a window of so many hours.
sub charged ($hours) {
    my $key   = key('fixed_window:' . $hours * 3_600_000);
    my $state = $cluster->master_of($key)->client->get($key) // return 0;
    return (unpack 'dd', $state)[1];
}

# Asks so often. Returns how often each `status source` came.
sub told ($nginx, $path, $times = 1) {
    my %told;
    for (1 .. $times) {
        my $response = $nginx->get("$path&key=$client");
        ++$told{"$response->{status} $response->{headers}{'x-source'}"};
    }
    return join ', ', map { "$told{$_} x $_" } sort keys %told;
}

# The access log: how many requests of each client passed at /one, and how many had no verdict, by path and client.
sub seen ($nginx) {
    my (%passed, %none);
    open my $log, '<', $nginx->dir . '/keys.log' or die "keys.log: $!";
    while (<$log>) {
        my ($path, $status, $key, $source) = split;
        ++$none{"$path $key"} if $source eq 'none';
        ++$passed{$key}       if $path eq '/one' && $status == 200;
    }
    return (\%passed, \%none);
}

subtest "open for $seconds seconds under load" => sub {
    my $clients  = 100;
    my $limit    = 5;
    my $upstream = RateLimit::Upstream->start_new;
    my $in_flight = 'redis_rate_limit zone=z algorithm=concurrency limit=2 window=3s';
    my $window    = 'redis_rate_limit zone=z algorithm=fixed_window limit=1000000';
    my $nginx     = start_nginx('open', <<"END");
keepalive_requests 1000000000;
proxy_read_timeout 1h;
location /one      { redis_rate_limit zone=z algorithm=fixed_window limit=$limit window=1h; empty_gif; }
location /block    { $window window=2h block=1s; empty_gif; }
location /rejected { $window window=3h; redis_rate_limit zone=full algorithm=fixed_window limit=1 window=3h; empty_gif; }
location /settled  { $window window=4h cost=10 final_cost=3; empty_gif; }
location /leased   { $window window=5h lease=1s; empty_gif; }
location /held_a   { $in_flight name=a; proxy_pass ${\$upstream->url}; }
location /held_b   { $in_flight name=b; proxy_pass ${\$upstream->url}; }
location /asks_a   { $in_flight name=a; empty_gif; }
location /asks_b   { $in_flight name=b; empty_gif; }
END
    is(told($nginx, '/block?'), '1 x 200 redis', 'a counter without a block');
    is(told($nginx, '/rejected?full=f'), '1 x 200 redis', 'a counter of which another rule denies from now on');
    $upstream->hold;
    my @held = map { $nginx->get_later("/held_$_?key=$client") } qw(a b) x 2;
    ok($upstream->wait_for(4), 'as many requests in flight as may be');

    my $began = time;
    my $move  = open_slot();
    move($move, 'concurrency:3000:a', 'fixed_window:10800000');
    my (%wrong, $settled, $leased);
    my $expect = sub ($path, $told, $times = 1) {
        my $got = told($nginx, $path, $times);
        ++$wrong{"$path $got"} if $got ne "$times x $told";
    };
    my $is_half_over = 0;
    while (time < $began + $seconds) {
        my $end  = min(time + 60, $began + $seconds);
        my @load = map { start_load($nginx->url("/$_?key="), connections => 8, script => ['t/bench/keys.lua', $clients, 'run']) } qw(one block);
        while (time < $end) {
            $expect->("/asks_$_?", '429 redis') for qw(a b);
            $expect->('/rejected?full=f', '429 redis', 5);
            $expect->('/settled?',        '200 redis', 2);
            $settled += 2;
            my $connection = RateLimit::Client->new($nginx); # for all at once: only busy keys are leased
            $connection->send(map { "GET /leased?key=$client HTTP/1.1\r\nHost: a\r\n\r\n" } 1 .. 30);
            $connection->response->{status} == 200 || ++$wrong{leased} for 1 .. 30;
            $leased += 30;
            if (!$is_half_over && time > $began + $seconds / 2) {
                $is_half_over = 1;
                move($move, map { 'fixed_window:' . $_ * 3_600_000 } 4, 5);
            }
            sleep 0.05; # so that leases end before they are used up
        }
        is($_->finish->{broken}, 0, 'each request was answered') for @load;
    }
    is_deeply(\%wrong, {}, 'the client had the verdicts that it should have, wherever its keys were');
    is($upstream->counts->{open}, 4, 'while its requests were in flight');
    my $rules      = sub { metrics_of($nginx)->{zones}{z}{rules} };
    my $leases     = sub { $rules->()->{'z/18000s'}{leases} };
    my $are_back   = sub ($leases) { $leases->{returned} > 0 && $leases->{units} == $leases->{used} + $leases->{returned} };
    ok(wait_until(sub { $are_back->($leases->()) }), 'Redis has back what leases had left') or diag explain $leases->();
    close_slot($move);

    is(charged(5), $leased, 'so that it has charged what was granted');
    ok(wait_until(sub { charged(4) == 3 * $settled }), 'what requests turned out to cost is charged')
        or diag charged(4), ' of ', 3 * $settled;
    is($rules->()->{'z/14400s'}{settlements}{lost}, 0, 'no settlement is lost');
    is(charged(3), 1, 'what another rule denied is given back');
    $upstream->answer;
    is($_->()->{status}, 200, 'a request in flight ends') for @held;
    for my $name (qw(a b)) {
        ok(wait_until(sub { told($nginx, "/asks_$name?") eq '1 x 200 redis' }), 'and gives its place back');
        is(told($nginx, "/asks_$name?", 3), '3 x 200 redis', 'again and again');
    }

    # Where the machine was busy, the load has left them something.
    my @run = map { sprintf 'run-%06d', $_ } 1 .. $clients;
    my ($passed) = seen($nginx);
    $nginx->statuses("/one?key=$_", $limit) for grep { ($passed->{$_} // 0) < $limit } @run;
    ($passed, my $none) = seen($nginx);
    is(join(' ', grep { ($passed->{$_} // 0) != $limit } @run), '', "$clients clients got what the limit allows");
    cmp_ok($none->{"/block $client"}, '>', 0, 'a check of two keys in the hash slot had no verdict');
    my $slot    = $cluster->slot_of(key(''));
    my @without = grep { !m{^/block (.*)} || $cluster->slot_of("rl:{z:$1}:") != $slot } sort keys %$none;
    is("@without", '', 'nobody else was without one');
    $nginx->stop;
};

done_testing;
