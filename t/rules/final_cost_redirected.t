# A request that nginx leads from one location to another may meet several rules of one counter. It settles
# once for the counter, over all that these rules have charged to it, whichever of them has a final cost.

use v5.36;
use lib 't/lib';
use List::Util qw(sum0);
use RateLimit::Client;
use RateLimit::Metrics qw(metrics_of);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis = RateLimit::Redis->start_new;

my %burst_of = (
    token_bucket => sub ($limit) { "burst=$limit" },
    gcra         => sub ($limit) { 'burst=' . ($limit - 1) },
    leaky_bucket => sub ($limit) { 'burst=' . ($limit - 1) . ' delay=' . ($limit - 1) },
);
sub rule ($algorithm, $limit, $more) {
    my $burst = exists $burst_of{$algorithm} ? $burst_of{$algorithm}->($limit) : '';
    return "redis_rate_limit zone=z algorithm=$algorithm window=10h limit=$limit $burst $more;";
}

# A location for each way by which a request comes to a second rule of its counter.
sub locations ($algorithm, $more = '') {
    my %cases = (
        second  => ['50 cost=5',                     '50 cost=5 final_cost=$arg_f'],
        first   => ['100 cost=5 final_cost=$arg_f',  '50 cost=5'],
        both    => ['100 cost=5 final_cost=$arg_f',  '50 cost=5 final_cost=$arg_f'],
        dearer  => ['100 cost=5 final_cost=$arg_f',  '50 cost=15'],
        cheaper => ['100 cost=15',                   '50 cost=5 final_cost=$arg_f'],
        later   => ['100 cost=0',                    '50 cost=0 final_cost=$arg_f'],
        largest => ['50 cost=5 final_cost=$arg_f',   '100 cost=5 final_cost=$arg_g'],
        dry_run => ['50 cost=5',                     '50 cost=5 final_cost=$arg_f dry_run'],
        exempt  => ['50 cost=5 final_cost=$arg_f',   '100 cost=5 final_cost=$arg_none'],
    );
    my $text = '';
    for my $name (sort keys %cases) {
        my ($outer, $inner) = map { /^(\d+) (.*)$/ ? rule($algorithm, $1, "$2 name=n $more") : die } $cases{$name}->@*;
        $text .= "location = /$name { $outer try_files /none /inner/$name?\$args; }\n"
            . "location = /inner/$name { $inner try_files /page =404; }\n";
    }
    my ($denying, $charged, $final) = map { rule($algorithm, /^(\d+) (.*)$/) } "4 cost=5 name=n dry_run $more", "50 cost=5 name=n $more", "50 cost=5 final_cost=\$arg_f name=n dry_run $more";
    $text .= "location = /third { $denying try_files /none /inner/third?\$args; }\n"
        . "location = /inner/third { $charged try_files /none /innermost/third?\$args; }\n"
        . "location = /innermost/third { $final try_files /page =404; }\n";
    return "$text location = /left { ${\rule($algorithm, 50, 'cost=0 name=n')} try_files /page =404; }\n";
}

sub start_nginx ($locations, $zone = 'on_error=closed deny_cache=off', $server = $redis->address) {
    my $nginx = RateLimit::Nginx->start_new(<<"END", workers => 1);
redis_rate_limit_backend default { server $server; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$arg_key zone=z:1m $zone;
server {
    listen %PORT%;
    location = /json { redis_rate_limit_metrics json; }
    $locations
}
END
    $nginx->add_page(page => "page\n");
    return $nginx;
}

# How many of the 50 units of the stricter rule are left to a key.
sub left ($nginx, $key) { return $nginx->get("/left?key=$key")->{headers}{'x-ratelimit-remaining'} }

# Asks once for each case: by its path, what it costs in the end, and how many units are then taken.
sub settle_each ($nginx, $what, @cases) {
    for my $case (@cases) {
        my ($path, $arguments, $taken) = $case->@*;
        my $key = join '-', $what, $path, $arguments =~ tr/&=/__/r;
        is($nginx->get("/$path?key=$key&$arguments")->{status}, 200, "$key: passes");
        ok(wait_until(sub { left($nginx, $key) == 50 - $taken }), "$key: $taken units are taken") or diag(50 - left($nginx, $key));
    }
}

my @cases = (
    (map { my $path = $_; map { [$path, "f=$_", $_] } 0, 2, 20 } qw(second first both dearer cheaper later dry_run exempt third)),
    ['dearer', 'f=7', 7], ['cheaper', 'f=7', 7],
    ['largest', 'f=3&g=20', 20], ['largest', 'f=20&g=3', 20], ['largest', 'f=3&g=2', 3], ['largest', 'g=1', 1],
    ['both', '', 5], ['dearer', '', 15], ['dearer', 'f=15', 15],
);

subtest $_ => sub {
    my $nginx = start_nginx(locations($_));
    settle_each($nginx, $_, @cases);
    my $counts = metrics_of($nginx)->{zones}{z}{rules}{n}{settlements};
    is($counts->{charged} + $counts->{returned}, @cases - 4, 'each request is counted once') or diag(explain($counts));
    $nginx->stop;
} for qw(fixed_window sliding_log sliding_window token_bucket gcra leaky_bucket);

subtest "this host alone: $_" => sub {
    my $nginx = start_nginx(locations($_), 'on_error=local deny_cache=off', '127.0.0.1:1');
    settle_each($nginx, "local-$_", grep { $_->[0] =~ /second|first|both|dearer/ } @cases);
    $nginx->stop;
} for qw(fixed_window token_bucket);

# The units that Redis has charged to a key, in all its counters.
sub charged ($key) {
    my $client = $redis->client;
    return sum0 map { (unpack 'dd', $client->get($_))[1] } grep { index($_, "rl:{z:$key") == 0 } $redis->keys;
}

# So few units are spread over fewer shards: the second rule mostly charges another one than the first.
subtest 'shards' => sub {
    my $sharded = 'zone=z algorithm=fixed_window window=10h shards=64 final_cost=$arg_f';
    my $nginx   = start_nginx(<<"END");
location /outer { redis_rate_limit $sharded limit=6400; try_files /none /inner?\$args; }
location /inner { redis_rate_limit $sharded limit=\$arg_limit; try_files /page =404; }
END
    for my $final (0, 3, 20) {
        my @keys = map { "shards-$final-$_-" } 1 .. 4;
        $nginx->get("/outer?key=$_&f=$final&limit=2") for @keys;
        ok(wait_until(sub { 4 * $final == sum0 map { charged($_) } @keys }), "a final cost of $final counts once") or diag(map { charged($_) } @keys);
    }
    $nginx->stop;
};

subtest 'a client that leaves during the second check' => sub {
    my $relay = RateLimit::Relay->start_new($redis->conf->{port});
    my $nginx = start_nginx(locations('fixed_window'), 'on_error=closed deny_cache=off', '127.0.0.1:' . $relay->port);
    my $settled = sub {
        my $counts = metrics_of($nginx)->{zones}{z}{rules}{n}{settlements};
        return "$counts->{charged} charged, $counts->{returned} returned";
    };
    is(left($nginx, 'warm'), 50, 'nginx asks by way of the relay');
    my @cases = (
        ['both',   20, '1 charged, 0 returned'],
        ['both',   2,  '1 charged, 1 returned'],
        ['dearer', 20, '2 charged, 1 returned'],
        ['dearer', 7,  '2 charged, 2 returned'],
        ['dearer', 2,  '2 charged, 3 returned'],
    );
    for my $case (@cases) {
        my ($path, $final, $counts) = $case->@*;
        my $key  = "left-$path-$final";
        my $held = sub { $relay->counts->{held} > 0 };
        my $gone = () = $nginx->access_log =~ / 499 /g;
        $relay->hold;
        my $client = RateLimit::Client->new($nginx);
        $client->send("GET /$path?key=$key&f=$final HTTP/1.1\r\nHost: a\r\n\r\n");
        ok(wait_until($held), "$key: asks for the first rule");
        $relay->release_held;
        ok(wait_until($held), 'and for the second one');
        $client->reset;
        ok(wait_until(sub { (() = $nginx->access_log =~ / 499 /g) > $gone }), 'leaves');
        $relay->release;
        ok(wait_until(sub { $settled->() eq $counts }), "is settled once: $counts") or diag($settled->());
        is(50 - left($nginx, $key), $final, "and $final units are taken");
    }
    $nginx->stop;
};

subtest 'leases' => sub {
    my $leased = 'zone=z algorithm=fixed_window window=10h cost=10';
    my $nginx  = start_nginx(<<"END");
add_header X-Source \$redis_rate_limit_source always;
location /outer { redis_rate_limit $leased limit=100000 lease=10s; try_files /none /inner/\$arg_inner?\$args; }
location /inner/same { redis_rate_limit $leased limit=100000 final_cost=\$arg_f; try_files /page =404; }
location /inner/stricter { redis_rate_limit $leased limit=50000 final_cost=\$arg_f; try_files /page =404; }
END
    my %used;
    for my $inner (qw(same stricter)) {
        my $taken = sub { metrics_of($nginx)->{zones}{z}{rules}{'z/36000s'}{leases}{requests} };
        my $ask   = sub ($final) { $used{$inner} += $final; $nginx->get("/outer?key=$inner&inner=$inner&f=$final") };
        my $before = $taken->();
        ok(wait_until(sub { $ask->(4); $taken->() > $before }), "$inner: units of a lease are used");
        $ask->($_) for (0, 4, 10) x 5, 25;
    }
    $nginx->stop;
    is(charged($_), $used{$_}, "$_: what is not used of them goes back") for qw(same stricter);
};

done_testing;
