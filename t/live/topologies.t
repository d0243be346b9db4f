# What operators set reaches hosts from a Sentinel's master and from a cluster, too, through failovers and
# while hash slots move.

use v5.36;
use lib 't/lib';
use RateLimit::Cluster;
use RateLimit::LiveStore;
use RateLimit::Nginx;
use RateLimit::Sentinels;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $soon = 2; # by the promise

sub start_host ($backend) {
    return RateLimit::Nginx->start_new(<<"END", workers => 2);
redis_rate_limit_backend default { $backend }
redis_rate_limit_zone \$arg_key zone=z:1m deny_cache=off on_error=open;
server { listen %PORT%; location / { redis_rate_limit zone=z algorithm=fixed_window limit=100000 window=1h name=r; empty_gif; } }
END
}

sub status ($host, $key) { return $host->get("/?key=$key")->{status} }

sub obeyed ($hosts, $key, $expected, $what, $seconds = $soon) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my @late = grep { my $host = $_; !wait_until(sub { status($host, $key) == $expected }, $seconds) } $hosts->@*;
    return ok(!@late, $what);
}

subtest 'Sentinels' => sub {
    my $sentinels = RateLimit::Sentinels->start_new;
    my $store     = RateLimit::LiveStore->new(sub { $sentinels->master->client });
    my @hosts     = map { start_host("mode sentinel; sentinel_master limits; ${\$sentinels->servers}") } 1, 2;
    $store->put(zone => 'z', key => 'kept', ban => 1);
    obeyed(\@hosts, 'kept', 429, 'a ban', 5);
    my $old = $sentinels->master;
    ok(wait_until(sub { $old->client->wait(1, 1000) >= 1 }), 'that the replica has');
    $old->kill_now;
    obeyed(\@hosts, 'kept', 429, 'holds while the master is away');
    ok(wait_until(sub { my $now = $sentinels->master; $now && $now != $old }, 30), 'another master');
    ok(wait_until(sub { eval { $store->put(zone => 'z', key => 'new', ban => 1) } }, 20), 'takes another ban');
    obeyed(\@hosts, 'new', 429, 'which holds', 10);
    obeyed(\@hosts, 'kept', 429, 'as the first one does');
    $store->remove(zone => 'z', key => 'kept');
    obeyed(\@hosts, 'kept', 200, 'until it is deleted');
    unlike($_->error_log, qr/has lost|refuses/, 'no warning') for @hosts;
    $_->stop for @hosts;
};

subtest 'a cluster' => sub {
    my $cluster = RateLimit::Cluster->start_new;
    my $head    = 'rl:{live}:head';
    my $store   = RateLimit::LiveStore->new(sub { $cluster->master_of($head)->client });
    my @hosts   = map { start_host("mode cluster; ${\$cluster->servers}") } 1, 2;
    $store->put(zone => 'z', key => 'k', ban => 1);
    obeyed(\@hosts, 'k', 429, 'a ban', 5);
    $store->put(zone => 'z', key => 'expires', ban => 1, expires_in => 3600); # else a key is missing: TRYAGAIN

    my $old = $cluster->master_of($head);
    my $replica = wait_until(sub {
        my ($range) = grep { $_->[2][2] eq $cluster->id_of($old) } $cluster->ranges;
        return $range->[3] && $cluster->node_of_id($range->[3][2]);
    });
    ok(wait_until(sub { my $reader = $replica->client; $reader->readonly; ($reader->get($head) // '') eq $old->client->get($head) }), 'that the replica has');
    $old->kill_now;
    obeyed(\@hosts, 'k', 429, 'it holds while the master is away');
    ok(wait_until(sub { my $now = $cluster->master_of($head); $now && $now != $old }, 30), 'its replica is promoted');
    ok(wait_until(sub { eval { $store->put(zone => 'z', key => 'promoted', ban => 1) } }, 20), 'and takes another ban');
    obeyed(\@hosts, 'promoted', 429, 'which holds', 10);
    obeyed(\@hosts, 'k', 429, 'as the first one does');

    my $from = $cluster->master_of($head);
    my ($to) = grep { $_ != $from } $cluster->masters;
    my $move = $cluster->begin_move($cluster->slot_of($head), $to);
    $cluster->move_keys($move);
    RateLimit::LiveStore->new(sub { my $client = $to->client; $client->asking; $client })->put(zone => 'z', key => 'asked', ban => 1);
    obeyed(\@hosts, 'asked', 429, 'one that is set while the hash slot moves');
    $cluster->end_move($move);
    $store->put(zone => 'z', key => 'moved', ban => 1);
    obeyed(\@hosts, 'moved', 429, 'one that is set at its new place');
    $store->remove(zone => 'z', key => 'k');
    obeyed(\@hosts, 'k', 200, 'one that is deleted there');
    unlike($_->error_log, qr/has lost|refuses/, 'no warning') for @hosts;
    $_->stop for @hosts;
};

done_testing;
