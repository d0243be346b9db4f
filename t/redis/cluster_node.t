# A node of a Redis Cluster that is taken for a Redis of its own: keys that it serves have verdicts,
# whatever it says of others, and the log says what is wrong.

use v5.36;
use lib 't/lib';
use RateLimit::Cluster;
use RateLimit::Metrics qw(metrics_of);
use RateLimit::Nginx;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $cluster = RateLimit::Cluster->start_new(replicas => 0);
my ($node)  = $cluster->nodes;

sub start_nginx () {
    return RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default {
    server ${\$cluster->address_of($node)};
    breaker failures=5 cooldown=60s;
    connect_timeout 5s;
    timeout 5s;
}
redis_rate_limit_zone \$arg_key   zone=z:1m     on_error=closed deny_cache=off;
redis_rate_limit_zone \$arg_other zone=other:1m on_error=closed deny_cache=off;
server {
    listen %PORT%;
    location /json { redis_rate_limit_metrics json; }
    location / { redis_rate_limit zone=z algorithm=sliding_log limit=2 window=60; empty_gif; }
    location /both {
        redis_rate_limit zone=z     algorithm=fixed_window limit=2 window=70;
        redis_rate_limit zone=other algorithm=fixed_window limit=2 window=70;
        empty_gif;
    }
}
END
}

sub slot_of ($key) { return $cluster->slot_of("rl:{z:$key}:sliding_log:60000") }

sub is_here ($key) { return $cluster->master_of_slot(slot_of($key)) == $node }

my @here  = grep { is_here($_) } 1 .. 100;
my ($far) = grep { !is_here($_) } 1 .. 100;
my $moved = slot_of($far);

sub is_told ($nginx, $says) {
    like($nginx->error_log, qr/ fails: a node of a cluster, use mode cluster: $says/, 'the log tells what to do');
    is(scalar(() = $nginx->error_log =~ / fails: /g), 1, 'once');
    is(metrics_of($nginx)->{backends}{default}{errors}{breaker}, 0, 'Redis was always asked');
    $nginx->stop;
}

subtest 'keys of another node' => sub {
    my $nginx = start_nginx();
    is($nginx->statuses("/?key=$far", 8), join(' ', (503) x 8), 'have no verdict');
    is($nginx->statuses("/?key=$here[0]", 3), '200 200 429', 'those of this one have');
    is_told($nginx, qr/MOVED $moved /);
};

subtest 'rules whose keys are of several hash slots' => sub {
    my $nginx = start_nginx();
    is($nginx->statuses("/both?key=$here[1]&other=$far", 8), join(' ', (503) x 8), 'have no verdict');
    is($nginx->statuses("/?key=$here[1]", 3), '200 200 429', 'a single rule has');
    is_told($nginx, qr/CROSSSLOT /);
};

subtest 'keys of nobody' => sub {
    my $lost = slot_of($here[2]);
    $node->client->cluster('delslots', $lost);
    my $nginx = start_nginx();
    is($nginx->statuses("/?key=$here[2]", 8), join(' ', (503) x 8), 'have no verdict');
    is($nginx->statuses("/?key=$here[3]", 3), '200 200 429', 'the others have');
    is_told($nginx, qr/CLUSTERDOWN Hash slot not served/);
    $node->client->cluster('addslots', $lost);
    $cluster->wait_until_settled;
};

# There nothing is said of single keys: it is left alone for a while, as any Redis that is down.
subtest 'a cluster that is down' => sub {
    $node->client->config_set('cluster-require-full-coverage', 'yes');
    my ($other) = grep { $_ != $node } $cluster->nodes;
    $other->freeze;
    my $client = $node->client;
    wait_until(sub { $client->cluster('info') =~ /^cluster_state:fail/ }) or die 'the cluster is not down';
    my $nginx = start_nginx();
    is($nginx->statuses("/?key=$here[4]", 8), join(' ', (503) x 8), 'has no verdict');
    like($nginx->error_log, qr/ fails: a node of a cluster, use mode cluster: CLUSTERDOWN The cluster is down/, 'as the log tells');
    is(metrics_of($nginx)->{backends}{default}{errors}{breaker}, 3, 'and is left alone after five failures');
    $nginx->stop;
    $other->thaw;
};

done_testing;
