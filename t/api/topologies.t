# The API with Sentinels and with a cluster: it finds the master of each hash slot, follows keys that move,
# and names what could not be done.

use v5.36;
use lib 't/lib';
use RateLimit::Api qw(api query);
use RateLimit::Cluster;
use RateLimit::Nginx;
use RateLimit::Sentinels;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $rules = <<'END';
redis_rate_limit_zone $arg_key zone=z:1m;
server {
    listen %PORT%;
    location / {
        redis_rate_limit zone=z algorithm=sliding_log limit=3 window=60;
        redis_rate_limit zone=z algorithm=gcra limit=600 window=60 burst=5 name=bucket;
        empty_gif;
    }
    location /sharded { redis_rate_limit zone=z algorithm=fixed_window limit=32 window=60 shards=16 name=sharded; empty_gif; }
    location /api/ { redis_rate_limit_api write; }
}
END

sub start ($backend) {
    return RateLimit::Nginx->start_new("redis_rate_limit_backend default { $backend connect_timeout 5s; timeout 5s; }\n$rules", workers => 2);
}
sub of ($key, @more) { return query(zone => 'z', key => $key, @more) }
sub limit_of ($nginx, $key) { return $nginx->get("/?key=$key")->{headers}{'x-ratelimit-limit'} // 'none' }

# All rows of the API's table.
sub works ($nginx, $key) {
    is(limit_of($nginx, $key), 3, 'a request');
    my $rules = api($nginx, 'GET key' . of($key))->{json}{rules};
    is(join(' ', map { $rules->{$_}{remaining} } 'z/60s', 'bucket', 'sharded'), '2 5 32', 'GET key');
    is(api($nginx, 'PUT override' . of($key, rule => 'z/60s'), body => { limit => 2, expires_in => 600 })->{json}{limit}, 2, 'PUT override');
    ok(wait_until(sub { limit_of($nginx, $key) == 2 }), 'which holds');
    is(scalar api($nginx, 'GET overrides?zone=z')->{json}{overrides}->@*, 1, 'GET overrides');
    is_deeply(api($nginx, 'DELETE override' . of($key, rule => 'z/60s'))->{json}, { deleted => 1 }, 'DELETE override');
    is(api($nginx, 'PUT rule' . query(zone => 'z', rule => 'bucket'), body => { limit => 60, burst => 1 })->{json}{burst}, 1, 'PUT rule');
    ok(wait_until(sub { api($nginx, 'GET zones')->{json}{zones}{z}{rules}{bucket}{capacity} == 2 }), 'which holds');
    is_deeply(api($nginx, 'DELETE rule' . query(zone => 'z', rule => 'bucket'))->{json}, { deleted => 1 }, 'DELETE rule');
    ok(wait_until(sub { api($nginx, 'GET zones')->{json}{zones}{z}{rules}{bucket}{capacity} == 6 }), 'which ends it');
    $nginx->get("/sharded?key=$key") for 1 .. 32;
    cmp_ok(api($nginx, 'GET key' . of($key))->{json}{rules}{sharded}{remaining}, '<', 20, 'shards are summed up');
    my $deleted = api($nginx, 'DELETE key' . of($key))->{json}{deleted};
    cmp_ok($deleted, '>', 8, "DELETE key: $deleted counters");
    is(api($nginx, 'GET key' . of($key))->{json}{rules}{sharded}{remaining}, 32, 'of all shards');
    ok(wait_until(sub { limit_of($nginx, $key) == 3 }), 'and it goes on');
}

subtest 'Sentinels' => sub {
    my $sentinels = RateLimit::Sentinels->start_new;
    my $nginx     = start("mode sentinel; sentinel_master limits; ${\$sentinels->servers}");
    works($nginx, 'k');
    $nginx->stop;
};

subtest 'a cluster' => sub {
    my $cluster = RateLimit::Cluster->start_new(replicas => 0);
    my $nginx   = start("mode cluster; ${\$cluster->servers}");
    works($nginx, 'k'); # shards and the rules of the zone are on all masters

    # of each master one key
    my %key_of;
    for (my $i = 0; keys %key_of < 3; ++$i) {
        $key_of{ $cluster->id_of($cluster->master_of("rl:{z:m$i}:")) } //= "m$i";
    }
    my $live  = $cluster->master_of('rl:{live}:head');
    my $moved = $cluster->slot_of('rl:{live}:head');
    api($nginx, 'PUT override' . of('kept'), body => { limit => 2 });
    my ($target) = grep { $_ != $live } $cluster->masters;
    my $move = $cluster->begin_move($moved, $target);
    $cluster->move_keys($move);
    is(api($nginx, 'GET key' . of('kept'))->{json}{rules}{'z/60s'}{limit}, 2, 'while the hash slot moves (ASK)');
    is(api($nginx, 'PUT override' . of('kept'), body => { limit => 4 })->{status}, 200, 'it is written to, too');
    $cluster->end_move($move);
    is(api($nginx, 'GET key' . of('kept'))->{json}{rules}{'z/60s'}{limit}, 4, 'and when it has moved (MOVED)');

    # Most keys that DELETE names do not exist, and of those that do some have moved.
    my $half = $cluster->slot_of('rl:{z:half}:');
    my $keys = sub ($node) { $node->client->cluster('countkeysinslot', $half) };
    for my $count (0 .. 2) {
        my $from = $cluster->master_of_slot($half);
        ok(wait_until(sub { limit_of($nginx, 'half') == 3 && $keys->($from) == 2 }), 'a client of two counters');
        my ($to) = grep { $_ != $from } $cluster->masters;
        $move = $cluster->begin_move($half, $to);
        my @moved = $from->client->cluster('getkeysinslot', $half, $count)->@*;
        $cluster->move_keys($move, @moved) if @moved;
        is_deeply(api($nginx, 'DELETE key' . of('half'))->{json}, { deleted => 2 }, "DELETE key while its hash slot moves: $count of 2 have moved");
        is($keys->($_), 0, 'nothing is left') for $from, $to;
        $cluster->end_move($move);
    }

    my ($down) = grep { $_ != $target } $cluster->masters;
    my $id     = $cluster->id_of($down);
    limit_of($nginx, $_) for values %key_of;
    $down->kill_now;
    my $refused; # the map that this worker has may still lead to the master from which the hash slot moved
    ok(wait_until(sub { $refused = api($nginx, 'DELETE key' . of($key_of{$id})); $refused->{json}{description} !~ /rules are not known/ }), 'a master is down');
    is($refused->{status}, 502, 'a client of it cannot be reset');
    like($refused->{json}{description}, qr/^not deleted: .*(?:sliding_log:60000|gcra:60000:bucket|fixed_window:60000:sharded)/, 'and is told what is still there');
    $down->restart;
    $cluster->wait_until_settled;
    ok(wait_until(sub { api($nginx, 'DELETE key' . of($key_of{$id}))->{status} == 200 }, 20), 'until it is back');
    $nginx->stop;
};

done_testing;
