# A hash slot of a Redis Cluster that stays open between two masters: some of its keys have moved, and others
# have not. Only checks of several of its keys may have no verdict; nobody else notices.

use v5.36;
use lib 't/lib';
use RateLimit::Cluster;
use RateLimit::Nginx;
use Test::More;

my $cluster = RateLimit::Cluster->start_new(replicas => 0);

sub start_nginx ($locations) {
    return RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { mode cluster; connect_timeout 5s; timeout 5s; ${\$cluster->servers} }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed deny_cache=off;
server {
    listen %PORT%;
    $locations
}
END
}

# The clients of one hash slot, and others whose keys the same master has.
my ($client, @others);
{
    my $master = $cluster->master_of('rl:{z:client}:');
    $client = 'client';
    @others = grep { $cluster->master_of("rl:{z:$_}:") == $master } map { "other$_" } 1 .. 60;
}

# Opens the hash slot of the client. Its keys of these names have moved.
sub open_slot (@names) {
    my $slot = $cluster->slot_of("rl:{z:$client}:");
    my $from = $cluster->master_of_slot($slot);
    my ($to) = grep { $_ != $from } $cluster->masters;
    my $move = $cluster->begin_move($slot, $to);
    $cluster->move_keys($move, map { "rl:{z:$client}:$_" } @names) if @names;
    return $move;
}

sub close_slot ($move) {
    $cluster->move_keys($move);
    $cluster->end_move($move);
}

subtest 'checks that cannot have a verdict take it from nobody else' => sub {
    my $nginx = start_nginx(<<'END');
location /block { redis_rate_limit zone=z algorithm=fixed_window limit=1000 window=100 block=5s; empty_gif; }
location /both  { redis_rate_limit zone=z algorithm=fixed_window limit=1000 window=200; redis_rate_limit zone=z algorithm=fixed_window limit=1000 window=300; empty_gif; }
location /one   { redis_rate_limit zone=z algorithm=fixed_window limit=1000 window=200; empty_gif; }
END
    is($nginx->get("/$_?key=$client")->{status}, 200, "$_: a verdict") for qw(block both);
    my $move = open_slot('fixed_window:300000');
    my $failed = my $passed = 0; # 6 in a row would open the breaker
    for my $other (@others[0 .. 9]) {
        $failed += grep { $nginx->get("/$_?key=$client")->{status} == 503 } (qw(block both)) x 3;
        $passed += $nginx->get("/block?key=$other")->{status} == 200;
    }
    is($failed, 60, 'while some of its keys have moved there is none for all of them');
    is($passed, 10, 'others of the same master have theirs');
    is($nginx->get("/one?key=$client")->{status}, 200, 'and so has the client where one key is asked');
    like($nginx->error_log, qr/fails: error reply: TRYAGAIN .*key "client"/, 'the log tells whose fault it is');
    close_slot($move);
    is($nginx->get("/$_?key=$client")->{status}, 200, "$_: a verdict again") for qw(block both);
    $nginx->stop;
};

done_testing;
