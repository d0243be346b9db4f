# A Redis Cluster: each check goes to the master that serves its key, wherever that is by then, and
# the limits hold while keys move.

use v5.36;
use lib 't/lib';
use IO::Socket::INET;
use List::Util qw(sum0);
use RateLimit::Cluster;
use RateLimit::Dns;
use RateLimit::Liar;
use RateLimit::Load qw(start_requests);
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use RateLimit::Upstream;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $cluster  = RateLimit::Cluster->start_new;
my $upstream = RateLimit::Upstream->start_new;

sub start_nginx ($backend, %options) {
    my $http = delete $options{http} // '';
    return RateLimit::Nginx->start_new(<<"END", %options);
$http
redis_rate_limit_backend default { mode cluster; $backend }
redis_rate_limit_zone \$arg_key   zone=open:1m   on_error=open;
redis_rate_limit_zone \$arg_key   zone=closed:1m on_error=closed;
redis_rate_limit_zone \$arg_other zone=other:1m  on_error=closed deny_cache=off;
redis_rate_limit_log_level info;
server {
    listen %PORT%;
    location /open   { redis_rate_limit zone=open   algorithm=sliding_log limit=2 window=60; empty_gif; }
    location /closed { redis_rate_limit zone=closed algorithm=sliding_log limit=2 window=60; empty_gif; }
    location /both {
        redis_rate_limit zone=closed algorithm=fixed_window limit=5 window=70;
        redis_rate_limit zone=other  algorithm=fixed_window limit=2 window=70;
        redis_rate_limit zone=closed algorithm=token_bucket limit=9 window=90;
        empty_gif;
    }
    location /window { redis_rate_limit zone=closed algorithm=fixed_window limit=2 window=80; empty_gif; }
    location /in_flight { redis_rate_limit zone=closed algorithm=concurrency limit=1 window=1; proxy_pass ${\$upstream->url}; }
}
END
}

my $calm = ' connect_timeout 5s; timeout 5s;';

sub works ($nginx) { return wait_until(sub { $nginx->get('/closed?key=' . rand)->{status} == 200 }) }

sub log_key ($key) { return "rl:{closed:$key}:sliding_log:60000" }

subtest 'keys are where the cluster has them' => sub {
    my $nginx = start_nginx($cluster->servers . $calm);
    for my $key ('a' .. 'j') {
        is($nginx->statuses("/closed?key=$key", 3), '200 200 429', "the limit of $key holds");
        is($cluster->master_of(log_key($key))->taken(log_key($key)), 2, 'at its master');
    }
    my $log = $nginx->error_log;
    unlike($log, qr/fails/, 'from the first request on');
    $nginx->stop;
};

# A rule with shards beside one without: what one has charged is given back where the other denies.
subtest 'shards are on all nodes' => sub {
    my $log   = 'algorithm=sliding_log window=1h';
    my $nginx = start_nginx($cluster->servers . $calm, http => <<"END");
redis_rate_limit_zone \$arg_key zone=spread:1m on_error=closed;
server {
    listen %PORT%;
    server_name 127.0.0.2;
    location /alone  { redis_rate_limit zone=spread $log limit=1600 shards=16; empty_gif; }
    location /beside { redis_rate_limit zone=spread $log limit=40 shards=4 name=a; redis_rate_limit zone=spread $log limit=100 name=b; empty_gif; }
}
END
    my $taken = sub ($key) { $cluster->master_of($key)->taken($key) };
    my @shards = map { "rl:{spread:k%#$_/16}:sliding_log:3600000" } 0 .. 15;
    my %nodes  = map { $cluster->master_of($_)->conf->{bind} => 1 } @shards;
    is(scalar keys %nodes, 3, 'the keys are');
    my $result = start_requests($nginx->url('/alone?key=k', '127.0.0.2'), 10_000, connections => 16)->finish;
    is($result->{faults} + $result->{broken}, 0, 'all have verdicts');
    is($result->{passed}, 1600, 'the limit holds');
    is(join(' ', map { $taken->($_) } @shards), join(' ', (100) x 16), 'each has its share');

    my $beside = start_requests($nginx->url('/beside?key=k', '127.0.0.2'), 500, connections => 4)->finish;
    is($beside->{passed}, 40, 'with another rule');
    ok(wait_until(sub { $taken->('rl:{spread:k}:sliding_log:3600000:b') == 40 }), 'which is charged with what passed');
    $nginx->stop;
};

# A key whose hash slot the master has, or has not.
sub key_at ($master, $is_there = 1) {
    for my $key (map { "key$_" } 1 .. 1000) {
        return $key if ($cluster->master_of(log_key($key)) == $master) == $is_there;
    }
    die 'no key';
}

subtest 'rules whose keys are at different nodes' => sub {
    my $nginx = start_nginx($cluster->servers . $calm);
    is($nginx->statuses('/both?key=k&other=o', 3), '200 200 429', 'one of them denies');
    is($nginx->statuses('/both?key=k&other=p', 2), '200 200', 'the others were given back what they had taken');
    is($nginx->statuses('/both?key=k&other=q', 3), '200 429 429', 'no more than that');
    is($nginx->statuses('/both?key=l&other=q', 2), '200 429', 'and what they deny is not charged');
    $nginx->stop;
};

subtest 'a hash slot that moves' => sub {
    my $nginx = start_nginx($cluster->servers . $calm);
    my ($old, $new) = (log_key('moving'), 'rl:{closed:moving}:fixed_window:80000');
    my $from = $cluster->master_of($old);
    my ($to) = grep { $_ != $from } $cluster->masters;
    is($nginx->get('/closed?key=moving')->{status}, 200, 'a key is at the old master');

    my $move = $cluster->begin_move($cluster->slot_of($old), $to);
    is($nginx->get('/closed?key=moving')->{status}, 200, 'while its hash slot moves it is still there');
    is($nginx->statuses('/window?key=moving', 3), '200 200 429', 'another key is asked for where it is to be');
    is_deeply([$from->keys], [grep { $_ ne $new } $from->keys], 'and not where the other one is');
    $cluster->move_keys($move);
    is($nginx->get('/closed?key=moving')->{status}, 429, 'what has moved is remembered');
    $cluster->end_move($move);
    is($to->client->exists($old, $new), 2, 'both are at the new master');
    is($nginx->get('/both?key=moving')->{status}, 200, 'which is asked from then on');
    unlike($nginx->error_log, qr/fails/, 'no fault');
    $nginx->stop;
};

subtest 'a request in flight keeps its place while its key moves' => sub {
    my $nginx = start_nginx($cluster->servers . $calm);
    $upstream->hold;
    my $first = $nginx->get_later('/in_flight?key=held');
    ok($upstream->wait_for(1), 'a request is in flight');
    my $key = 'rl:{closed:held}:concurrency:1000';
    is($nginx->get('/in_flight?key=held')->{status}, 429, 'no other one may be');
    my $from = $cluster->master_of($key);
    my ($to) = grep { $_ != $from } $cluster->masters;
    my $move = $cluster->begin_move($cluster->slot_of($key), $to);
    $cluster->move_keys($move);
    $cluster->end_move($move);
    my $renewed = sub { join ' ', $to->client->zrange($key, 0, -1, 'WITHSCORES') };
    my $before  = $renewed->();
    ok(wait_until(sub { $renewed->() ne $before }), 'its place is renewed at the new master');
    is($nginx->get('/in_flight?key=held')->{status}, 429, 'still no other one may be');
    $upstream->answer;
    is($first->()->{status}, 200, 'it ends');
    ok(wait_until(sub { !$to->client->exists($key) || $nginx->get('/in_flight?key=held')->{status} == 200 }), 'and its place is free');
    $nginx->stop;
};

# The connections of workers to a node.
sub connections ($node) { return scalar $node->nginx_clients }

subtest 'connections' => sub {
    my $nginx   = start_nginx($cluster->servers . $calm, workers => 2);
    my @masters = $cluster->masters;
    my $all     = sub { sum0(map { connections($_) } $cluster->nodes) };
    ok(works($nginx), 'verdicts');
    $nginx->get("/closed?key=$_") for 1 .. 30;
    cmp_ok($all->(), '<=', 6, 'one of each worker to each master');
    for (1 .. 3) {
        $nginx->reload;
        ok(works($nginx), 'after a reload');
    }
    ok(wait_until(sub { !$nginx->leaving_workers }), 'old workers leave');
    cmp_ok($all->(), '<=', 6, 'with their connections');
    unlike($nginx->error_log, qr/fails/, 'nothing failed');
    $nginx->stop;
    ok(wait_until(sub { $all->() == 0 }), 'in the end there are none');
};

subtest 'a master that is added, and one that goes' => sub {
    my $nginx = start_nginx($cluster->servers . $calm);
    ok(works($nginx), 'verdicts');
    my $old = $cluster->master_of(log_key('follows'));
    is($nginx->get('/closed?key=follows')->{status}, 200, 'a key is at the old one');
    my $new  = $cluster->add_master;
    my $move = $cluster->begin_move($cluster->slot_of(log_key('follows')), $new);
    $cluster->move_keys($move);
    $cluster->end_move($move);
    is($nginx->statuses('/closed?key=follows', 2), '200 429', 'it is found at the new one');
    is($new->taken(log_key('follows')), 2, 'which has it');
    is(connections($new), 1, 'by a connection of its own');

    $move = $cluster->begin_move($cluster->slot_of(log_key('follows')), $old);
    $cluster->move_keys($move);
    $cluster->end_move($move);
    ok(wait_until(sub { $nginx->get('/window?key=follows'); connections($new) == 0 }), 'one that serves nothing is left');
    $cluster->remove_node($new);
    ok(works($nginx), 'verdicts');
    unlike($nginx->error_log, qr/fails/, 'no fault');
    $nginx->stop;
};

subtest 'servers that are of no use' => sub {
    my $nowhere = empty_port();
    my $silent  = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 5) or die "listen: $!";
    my $rude    = RateLimit::Liar->start_new("HTTP/1.1 400 Bad Request\r\n\r\n");
    my $mad     = RateLimit::Liar->start_new("*1\r\n*3\r\n:0\r\n:99999\r\n*2\r\n\$1\r\na\r\n:1\r\n");
    my $others  = "server 127.0.0.1:$nowhere; server 127.0.0.1:${\$silent->sockport}; ${\$rude->server} ${\$mad->server} ";
    my $nginx   = start_nginx($others . $cluster->servers);
    ok(works($nginx), 'others are asked');
    $nginx->stop;

    $nginx = start_nginx("server 127.0.0.1:$nowhere;");
    is($nginx->get('/open?key=nowhere')->{status}, 200, 'none: open passes');
    ok(wait_until(sub { $nginx->get('/closed?key=nowhere')->{status} == 503 }), 'closed does not');
    ok($nginx->wait_for_log(qr/backend "default" at 127.0.0.1:$nowhere fails: no node tells who serves the keys: connecting failed,/), 'the log tells why');
    $nginx->stop;

    my $mean = RateLimit::Liar->start_new("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n\$6\r\nred\nis\r\n:6379\r\n");
    my $dns  = RateLimit::Dns->start_new;
    $nginx = start_nginx($mean->server . 'connect_timeout 10s; timeout 10s;', http => $dns->resolver); # or the log tells of a busy name server
    is($nginx->get('/closed?key=mean')->{status}, 503, 'a name that is none leads nowhere');
    ok($nginx->wait_for_log(qr/backend "default" at red\\x0ais fails: its name cannot be resolved/), 'and stays on its line of the log');
    $nginx->stop;

    my $alone = RateLimit::Redis->start_new;
    $nginx = start_nginx("server ${\$alone->address};");
    ok($nginx->wait_for_log(qr/fails: no node tells who serves the keys: ERR This instance has cluster support disabled,/), 'one that is of no cluster says so');
    $nginx->stop;

    my $empty = RateLimit::Redis->start_new('cluster-enabled' => 'yes', 'cluster-require-full-coverage' => 'no');
    $nginx = start_nginx("server ${\$empty->address};");
    ok($nginx->wait_for_log(qr/fails: no node tells who serves the keys: no node of the cluster serves any keys,/), 'or one of an empty one');
    $empty->client->cluster('addslots', 0 .. 16383);
    ok(works($nginx), 'as soon as it serves, it is asked');
    ok($nginx->wait_for_log(qr/works again/), 'and the log tells so');
    $empty->client->cluster('delslots', $empty->client->cluster('keyslot', log_key('lost')));
    is($nginx->get('/open?key=lost')->{status}, 200, 'a key that nobody serves passes');
    is($nginx->get('/closed?key=lost')->{status}, 503, 'or does not');
    ok(wait_until(sub { $nginx->get('/closed?key=found' . rand)->{status} == 200 }), 'others are served');
    $nginx->stop;
};

subtest 'a master that stands still' => sub {
    my $nginx   = start_nginx($cluster->servers);
    my ($still) = $cluster->masters;
    my ($key, $other) = map { key_at($still, $_) } 1, 0;
    ok(wait_until(sub { $nginx->get("/window?key=$key")->{status} == 200 }), 'a verdict');
    $still->freeze;
    is($nginx->get("/closed?key=$key")->{status}, 503, 'its keys get none');
    is($nginx->get("/closed?key=$other")->{status}, 200, 'those of others do');
    ok(wait_until(sub { $nginx->get('/closed?key=' . $key)->{status} == 200 }, 20), 'its replica takes over');
    $still->thaw;
    $cluster->wait_until_settled;
    is($nginx->get("/both?key=$key&other=" . rand)->{status}, 200, 'and goes on');
    is(connections($still), 0, 'nobody is at the old one');
    ok($nginx->wait_for_log(qr/ at ${\$cluster->address_of($still)} is no longer asked by this worker, it failed for/), 'the log tells that it is over');
    $nginx->stop;
};

done_testing;
