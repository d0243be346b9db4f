# A Redis Cluster by TLS, with a password, and by whatever names its nodes are known.

use v5.36;
use lib 't/lib';
use RateLimit::Certificates;
use RateLimit::Cluster;
use RateLimit::Dns;
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

sub start_nginx ($backend, $http = '') {
    return RateLimit::Nginx->start_new(<<"END");
$http
redis_rate_limit_backend default { mode cluster; connect_timeout 5s; timeout 5s; $backend }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed;
redis_rate_limit_log_level info;
server {
    listen %PORT%;
    location /window { redis_rate_limit zone=z algorithm=fixed_window limit=2 window=80; empty_gif; }
    location / { redis_rate_limit zone=z algorithm=sliding_log limit=2 window=60; empty_gif; }
}
END
}

# At every node, with redirects of both kinds.
sub limits ($name, $cluster, $backend, $http = '') {
    my $nginx = start_nginx($backend, $http);
    my $run   = $name =~ s/\W//gr;
    is($nginx->statuses("/?key=$run$_", 3), '200 200 429', "$name: the limit of $_ holds") for 1 .. 6;
    my $key  = "rl:{z:${run}1}:sliding_log:60000";
    my $from = $cluster->master_of($key);
    my ($to) = grep { $_ != $from } $cluster->masters;
    my $move = $cluster->begin_move($cluster->slot_of($key), $to);
    is($nginx->get("/window?key=${run}1")->{status}, 200, "$name: a key that is where its hash slot moves to");
    $cluster->move_keys($move);
    $cluster->end_move($move);
    is($nginx->statuses("/?key=${run}1", 1), '429', "$name: and when it has moved");
    unlike($nginx->error_log, qr/fails/, "$name: no fault");
    $nginx->stop;
}

subtest 'TLS and a password' => sub {
    my $certificates = RateLimit::Certificates->new;
    $certificates->issue('redis', join ',', map { "IP:127.0.0.$_" } 11 .. 13);
    my $cluster = RateLimit::Cluster->start_new(replicas => 0, tls => $certificates, password => 'correct-horse');
    my $trusted = 'ssl on; ssl_trusted_certificate ' . $certificates->certificate('authority') . ';';
    my $backend = "${\$cluster->servers} $trusted password correct-horse;";
    limits('TLS', $cluster, $backend);

    my $page   = RateLimit::Nginx::slurp('docs/redis.md');
    my ($user) = $page =~ /^ACL (SETUSER limiter on >secret .+)$/m;
    my ($more) = $page =~ /and\s`(\+\S+ \+\S+)` with `mode cluster`/;
    $_->client->acl(split ' ', "$user $more") for $cluster->nodes;
    limits('the user of docs/redis.md', $cluster, "${\$cluster->servers} $trusted username limiter; password secret;");

    my $nginx = start_nginx("${\$cluster->servers} $trusted password wrong-horse;");
    ok($nginx->wait_for_log(qr/fails: no node tells who serves the keys: WRONGPASS,/), 'a wrong password is told');
    unlike($nginx->error_log, qr/horse/, 'and not what it is');
    $nginx->stop;

    $nginx = start_nginx("${\$cluster->servers} ssl on; password correct-horse;");
    ok($nginx->wait_for_log(qr/fails: no node tells who serves the keys: .*certificate/), 'so is a certificate of strangers');
    $nginx->stop;
};

subtest 'nodes that do not know their address, and names' => sub {
    plan(skip_all => 'Redis 6 tells addresses alone') if RateLimit::Redis::major_version() < 7;
    my $cluster = RateLimit::Cluster->start_new(replicas => 0, address => '127.0.0.1');
    my $type    = sub ($type) { $_->client->config('set', 'cluster-preferred-endpoint-type', $type) for $cluster->nodes };
    $type->('unknown-endpoint');
    limits('no address', $cluster, $cluster->servers);

    $type->('hostname');
    limits('no name', $cluster, $cluster->servers);

    $_->client->config('set', 'cluster-announce-hostname', 'node.test') for $cluster->nodes;
    ok(wait_until(sub { !grep { $_->[2][0] ne 'node.test' } map { $_->client->cluster('slots')->@* } $cluster->nodes }), 'all nodes know their names');
    limits('a name without a resolver', $cluster, $cluster->servers);

    my $dns = RateLimit::Dns->start_new;
    limits('a name that the resolver does not know', $cluster, $cluster->servers, $dns->resolver);

    $dns->answer('node.test' => '127.0.0.1');
    limits('a name', $cluster, $cluster->servers, $dns->resolver);
    my ($port) = $cluster->servers =~ /:(\d+)/;
    limits('a name of the configuration', $cluster, "server node.test:$port;", $dns->resolver);
};

done_testing;
