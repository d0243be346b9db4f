# Redis comes back without its newest writes: a replica that lacks them is promoted, or one is started from
# an older snapshot. What operators had set holds on where a host knows it, and is written back.

use v5.36;
use lib 't/lib';
use RateLimit::Api qw(api query);
use RateLimit::Cluster;
use RateLimit::LiveStore;
use RateLimit::Metrics qw(metrics_of);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Sentinels;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep time);

my $soon = 2; # by the promise

sub start_host ($backend) {
    return RateLimit::Nginx->start_new(<<"END", workers => 2);
redis_rate_limit_backend default { $backend }
redis_rate_limit_zone \$arg_key zone=z:1m deny_cache=off on_error=open;
server {
    listen %PORT%;
    add_header X-Said "\$redis_rate_limit_limit" always;
    location / { redis_rate_limit zone=z algorithm=fixed_window limit=100000 window=1h name=r; empty_gif; }
    location = /json { redis_rate_limit_metrics json; }
    location /api/ { redis_rate_limit_api write; }
}
END
}

# '429 ' of a ban, '200 ' of an exemption, else with a limit.
sub told ($host, $key) {
    my $response = $host->get("/?key=$key");
    return "$response->{status} " . ($response->{headers}{'x-said'} // '');
}

my ($banned, $exempt, $ordinary) = (qr/^429 /, qr/^200 $/, qr/^200 100000$/);

sub obeyed ($hosts, $key, $expected, $what, $seconds = $soon) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my @late = grep { my $host = $_; !wait_until(sub { told($host, $key) =~ $expected }, $seconds) } $hosts->@*;
    return ok(!@late, $what) || diag map { told($_, $key) . "\n" } @late;
}

# Each host says so each time, for longer than it takes to learn the contrary.
sub obeyed_on ($hosts, %expected) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $until = time + 3;
    my %wrong;
    while (time < $until) {
        for my $key (keys %expected) {
            my @said = map { told($_, $key) } $hosts->@*;
            $wrong{"$key: $_"}++ for grep { $_ !~ $expected{$key} } @said;
        }
        sleep 0.05;
    }
    return is(join(', ', map { "$_ ($wrong{$_})" } sort keys %wrong), '', 'all of it holds on');
}

sub put ($host, $key, %body) { return api($host, 'PUT override' . query(zone => 'z', key => $key), body => \%body)->{status} }
sub remove ($host, $key) { return api($host, 'DELETE override' . query(zone => 'z', key => $key))->{status} }

# What the API lists, as `key action`.
sub listed ($host) {
    my $found = api($host, 'GET overrides' . query(zone => 'z'))->{json}{overrides} // [];
    return join ' ', sort map { $_->{key} . ($_->{ban} ? ' ban' : $_->{exempt} ? ' exempt' : " $_->{limit}") } $found->@*;
}

sub followed ($host) { return metrics_of($host)->{backends}{default}{live_limits_followed} }

# So that a replica hears of no write any more.
sub cut_replication ($master) {
    my $client = $master->client;
    $client->acl(qw(SETUSER default -psync -sync));
    $client->client_kill('TYPE', 'replica');
    return wait_until(sub { $client->info('replication')->{connected_slaves} == 0 });
}

# Overrides that all hosts obey, then others that the store will have lost.
sub set_before ($hosts) {
    put($hosts->[0], 'kept',    ban => \1);
    put($hosts->[0], 'deleted', ban => \1);
    put($hosts->[0], 'freed',   ban => \1);
    return obeyed($hosts, 'freed', $banned, 'bans', 5);
}

sub set_after ($hosts) {
    is(put($hosts->[0], 'new',   ban    => \1), 200, 'a ban');
    is(put($hosts->[1], 'freed', exempt => \1), 200, 'an exemption in place of a ban');
    is(remove($hosts->[1], 'deleted'), 200, 'one ban less');
    obeyed($hosts, 'new',     $banned,   'the ban holds');
    obeyed($hosts, 'freed',   $exempt,   'the exemption, too');
    obeyed($hosts, 'deleted', $ordinary, 'and the other one no longer');
}

sub hold_on ($hosts, $backend) {
    obeyed_on($hosts, kept => $banned, new => $banned, freed => $exempt, deleted => qr/^200 /);
    ok(wait_until(sub { listed($hosts->[0]) eq 'freed exempt kept ban new ban' }), 'the API lists it') or diag listed($hosts->[0]);
    my $late = start_host($backend);
    obeyed([$late], 'new', $banned, 'a host that comes now learns it', 5);
    obeyed([$late], $_->@*, 'all of it') for ['freed', $exempt], ['deleted', $ordinary], ['kept', $banned];
    $late->stop;
    # A worker may not have heard of a cluster's other master yet.
    ok(wait_until(sub { remove($hosts->[1], 'new') == 200 }), 'what was written back');
    obeyed($hosts, 'new', $ordinary, 'can be deleted');
    for my $host ($hosts->@*) {
        unlike($host->error_log, qr/has lost|refuses|reaches this host again/, 'no warning');
        ok(followed($host), 'the host follows');
        $host->stop;
    }
}

subtest 'Sentinels promote a replica that lacks the newest' => sub {
    my $sentinels = RateLimit::Sentinels->start_new;
    my $backend   = "mode sentinel; sentinel_master limits; ${\$sentinels->servers}";
    my @hosts     = map { start_host($backend) } 1, 2;
    set_before(\@hosts);
    my $old = $sentinels->master;
    ok(wait_until(sub { $old->client->wait(1, 1000) >= 1 }, 20), 'that the replica has');
    ok(cut_replication($old), 'it hears of nothing more');
    set_after(\@hosts);
    $old->kill_now;
    ok(wait_until(sub { my $now = $sentinels->master; $now && $now != $old }, 30), 'another master');
    unlike($sentinels->master->client->hget('rl:{live}:data', 'K z new') // '', qr/ban/, 'has not heard of them');
    ok(wait_until(sub { listed($hosts[0]) =~ /kept/ }, 20), 'hosts ask it');
    hold_on(\@hosts, $backend);
};

subtest 'a Redis is started from an older snapshot' => sub {
    my $redis   = RateLimit::Redis->start_new;
    my $backend = "server ${\$redis->address};";
    my @hosts   = map { start_host($backend) } 1, 2;
    set_before(\@hosts);
    $redis->client->save;
    set_after(\@hosts);
    $redis->restart;
    hold_on(\@hosts, $backend);
};

subtest 'a cluster promotes a replica that lacks the newest' => sub {
    my $cluster = RateLimit::Cluster->start_new;
    my $head    = 'rl:{live}:head';
    my $backend = "mode cluster; ${\$cluster->servers}";
    my @hosts   = map { start_host($backend) } 1, 2;
    set_before(\@hosts);
    my $old = $cluster->master_of($head);
    ok(wait_until(sub { $old->client->wait(1, 1000) >= 1 }, 20), 'that the replica has');
    ok(cut_replication($old), 'it hears of nothing more');
    set_after(\@hosts);
    $old->kill_now;
    ok(wait_until(sub { my $now = $cluster->master_of($head); $now && $now != $old }, 30), 'its replica is promoted');
    ok(wait_until(sub { listed($hosts[0]) =~ /kept/ }, 20), 'hosts ask it');
    hold_on(\@hosts, $backend);
};

# One that has not heard of it all learns it from the other, also where there were other writes meanwhile.
subtest 'one host knows more than the other' => sub {
    my $redis = RateLimit::Redis->start_new;
    my $backend = "server ${\$redis->address};";
    my $knows   = start_host($backend);
    put($knows, 'kept', ban => \1);
    obeyed([$knows], 'kept', $banned, 'a ban', 5);
    $redis->client->save;
    put($knows, "new$_", ban => \1) for 1 .. 1200;
    obeyed([$knows], 'new1200', $banned, 'many more', 5);
    $redis->restart;
    RateLimit::LiveStore->new($redis->client)->put(zone => 'z', key => 'other', ban => 1);
    my $knows_not = start_host($backend);
    my @hosts = ($knows, $knows_not);
    obeyed(\@hosts, $_, $banned, $_, 5) for qw(kept other new1 new600 new1200);
    unlike($_->error_log, qr/has lost|refuses/, 'no warning') for @hosts;
    $_->stop for @hosts;
};

# The worker that knew it has gone before anybody hears of the loss.
subtest 'no host knows it' => sub {
    my $redis = RateLimit::Redis->start_new;
    my $host  = start_host("server ${\$redis->address};");
    put($host, $_, ban => \1) for qw(kept freed);
    obeyed([$host], 'kept', $banned, 'a ban', 5);
    $redis->client->save;
    put($host, 'new',   ban    => \1);
    put($host, 'freed', exempt => \1);
    obeyed([$host], 'freed', $exempt, 'an exemption');
    ok(followed($host), 'the host follows');
    $redis->kill_now;
    $host->reload;
    ok(wait_until(sub { !$host->leaving_workers }, 10), 'the workers that knew are gone');
    $redis->restart;
    my $warning = qr/\[warn\] .*backend "default" has lost the newest of what operators had set/;
    ok($host->wait_for_log($warning, 15), 'a warning');
    ok(wait_until(sub { !followed($host) }), 'the host says that it does not follow');
    obeyed_on([$host], kept => $banned, new => $banned, freed => $exempt);
    is(scalar(() = $host->error_log =~ /$warning/g), 1, 'it warns once');
    $host->reload;
    obeyed_on([$host], kept => $banned, new => $banned, freed => $exempt);
    is(scalar(() = $host->error_log =~ /$warning/g), 1, 'and so after a reload');
    is(put($host, 'next', ban => \1), 200, 'the next write');
    ok(wait_until(sub { followed($host) }), 'ends it');
    obeyed([$host], 'next', $banned, 'and holds');
    obeyed([$host], 'new', $ordinary, 'what nobody knew is lost');
    like($host->error_log, qr/what operators set in backend "default" reaches this host again/, 'the log says so');
    $host->stop;
};

done_testing;
