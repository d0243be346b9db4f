# A Redis that Sentinels watch is handed over to a replica, as for an upgrade, by the commands that
# docs/deploying.md has: nothing that was counted is forgotten.

use v5.36;
use lib 't/lib';
use RateLimit::Load qw(start_load);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Sentinels;
use RateLimit::Wait qw(wait_until);
use Test::More;

plan skip_all => 'the server has no FAILOVER' if !(RateLimit::Redis->start_new->client->command('info', 'failover') // [])->[0];

my $page = RateLimit::Nginx::slurp('docs/deploying.md') =~ s/.*^### Handing over with Sentinels$//msr;
my @documented = map { s/^ +//mgr } $page =~ /^ *```sh\n(.*?)^ *```$/msg;
is(scalar @documented, 2, 'the page has commands to hand over, and before them to choose a replica');
my ($hand_over, $choose) = @documented;

# Runs commands of the page, with the servers that its addresses stand for.
sub run ($commands, %servers) {
    while (my ($address, $port) = each %servers) {
        $commands =~ s/-h \Q$address\E(?: -p \d+)?(?= )/-h 127.0.0.1 -p $port/g;
        $commands =~ s/TO \Q$address\E \d+/TO 127.0.0.1 $port/;
    }
    die "no server stands for an address:\n$commands" if $commands =~ /10\.0\.0/;
    open my $said, '-|', 'timeout', 60, 'sh', '-c', $commands or die "sh: $!";
    my $text = do { local $/; <$said> };
    close $said;
    return $text // '';
}

sub is_replica_of ($redis, $master) {
    my $info = $redis->client->info('replication');
    return $info->{role} eq 'slave' && $info->{master_port} == $master->conf->{port} && $info->{master_link_status} eq 'up';
}

for my $replicas (1, 2) {
    subtest "with $replicas replicas" => sub {
        my $sentinels = RateLimit::Sentinels->start_new(replicas => $replicas);
        my @hosts     = map { RateLimit::Nginx->start_new(<<"END", workers => 2) } 1 .. 2;
redis_rate_limit_backend default { mode sentinel; sentinel_master limits; ${\$sentinels->servers} }
redis_rate_limit_zone \$uri zone=z:1m on_error=closed;
server { listen %PORT%; location / { redis_rate_limit zone=z algorithm=sliding_log limit=1000000 window=1h; empty_gif; } }
END
        my ($old, $new) = map { $sentinels->redis($_) } 0, $replicas; # Sentinels would not always choose that one
        my %servers = ('10.0.0.11' => $old->conf->{port}, '10.0.0.12' => $new->conf->{port}, '10.0.0.21' => $sentinels->{sentinels}[0]{port});
        if ($replicas > 1) {
            ok(wait_until(sub { run($choose, %servers) =~ /^$servers{'10.0.0.12'}\n.*?^slave-priority\n1\n/ms }, 30), 'Sentinels know the one that is chosen');
        }
        ok(wait_until(sub { $old->client->info('replication')->{"slave@{[$_ - 1]}"} =~ /state=online/ }), "replica $_ has the data") for 1 .. $replicas;
        my @load   = map { start_load($_->url, connections => 2) } @hosts;
        my $counted = sub ($redis) { return eval { $redis->taken('rl:{z:/}:sliding_log:3600000') } // 0 }; # a Sentinel may close the test's connection
        ok(wait_until(sub { $counted->($old) > 1000 }), 'the old master counts');
        like(run($hand_over, %servers), qr/^OK\nOK$/, 'it is handed over');
        my $at_first = $counted->($new);
        ok(wait_until(sub { $counted->($new) > $at_first + 1000 }), 'the new one counts');
        ok(wait_until(sub { eval { is_replica_of($old, $new) } }), 'the old one follows it');
        $_->finish for @load;
        $_->stop for @hosts; # then no request is on its way
        my $passed = () = join('', map { $_->access_log } @hosts) =~ m{"GET / HTTP/1.1" 200 }g;
        cmp_ok($counted->($new), '>=', $passed, "nothing is forgotten of $passed requests");
    };
}

done_testing;
