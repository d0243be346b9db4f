# What a request turns out to cost is charged when it ends: more is charged above the limit, too, less is
# given back.

use v5.36;
use lib 't/lib';
use RateLimit::Client;
use RateLimit::Cluster;
use RateLimit::Metrics qw(metrics_of outcomes);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Upstream;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep time);

my $redis  = RateLimit::Redis->start_new;
my $client = $redis->client; # until Redis is another process

sub start_nginx ($locations, %options) {
    my $servers = $options{servers} // "server ${\$redis->address};";
    return RateLimit::Nginx->start_new(<<"END", workers => $options{workers} // 1);
redis_rate_limit_backend default { $servers connect_timeout 10s; timeout @{[ $options{timeout} // '10s' ]}; @{[ $options{backend} // '' ]} }
redis_rate_limit_zone \$arg_key zone=z:1m @{[ $options{zone} // 'on_error=closed deny_cache=off' ]};
redis_rate_limit_zone \$arg_b   zone=b:1m on_error=closed deny_cache=off;
map \$status \$failed { 401 1; 403 1; default 0; }
add_header X-Source \$redis_rate_limit_source always;
server {
    listen %PORT%;
    location = /json { redis_rate_limit_metrics json; }
    $locations
}
END
}

my $fixed = 'zone=z algorithm=fixed_window window=1h';

# The units that Redis has charged to a key of $fixed.
sub charged ($key, $name = '', $zone = 'z') {
    my $state = $client->get("rl:{$zone:$key}:fixed_window:3600000" . ($name ? ":$name" : '')) // return 0;
    return (unpack 'dd', $state)[1];
}
sub is_charged ($key, $expected, $name) {
    ok(wait_until(sub { charged($key) == $expected }), $name) or diag(charged($key));
}
sub settlements ($nginx, $rule = 'z/3600s') {
    my $counts = metrics_of($nginx)->{zones}{z}{rules}{$rule}{settlements};
    return join ' ', $counts->@{qw(charged returned lost)};
}

subtest 'a final cost' => sub {
    my $nginx = start_nginx("location / { redis_rate_limit $fixed limit=100 cost=10 final_cost=\$arg_final; empty_gif; }");
    $nginx->get('/?key=k&final=4');
    is_charged('k', 4, 'what was reserved too much is given back');
    $nginx->get('/?key=k&final=90');
    is_charged('k', 94, 'what was reserved too little is charged');
    is($nginx->get('/?key=k&final=1')->{status}, 429, 'the next one has no room for its reservation');
    $nginx->get('/?key=l&final=150');
    is_charged('l', 150, 'above the limit, too');
    my $denied = $nginx->get('/?key=l&final=1');
    is("$denied->{status} $denied->{headers}{'x-ratelimit-remaining'}", '429 0', 'nothing is left then');
    $nginx->get('/?key=m');
    $nginx->get("/?key=m&final=$_") for '-1', '1.5', 'x', '10';
    is_charged('m', 50, 'without a number the reservation stays');
    like($nginx->error_log, qr/invalid final_cost "[^"]+", expected a whole number from 0 to 1000000000, rule "z\/3600s"/, 'which is logged');
    is(outcomes(metrics_of($nginx), 'z', 'z/3600s')->{invalid}, 3, 'and counted');
    $nginx->get('/?key=n&final=99999999999999999999999');
    is_charged('n', 1e9, 'it is a thousand million at most');
    is(charged('k'), 94, 'nobody else is charged');
    is(settlements($nginx), '3 1 0', 'settlements are counted');
    $nginx->stop;
};

my %window_of = (token_bucket => '1h burst=100', gcra => '1h burst=99', leaky_bucket => '1h burst=99 delay=99');
subtest $_ => sub {
    my $algorithm = $_;
    my $nginx     = start_nginx(<<"END");
location /probe { redis_rate_limit zone=z algorithm=$algorithm limit=100 window=${\($window_of{$algorithm} // '1h')} cost=0 name=n; empty_gif; }
location / { redis_rate_limit zone=z algorithm=$algorithm limit=100 window=${\($window_of{$algorithm} // '1h')} cost=10 final_cost=\$arg_final name=n; empty_gif; }
END
    my $left = sub ($key) { $nginx->get("/probe?key=$key")->{headers}{'x-ratelimit-remaining'} };
    $nginx->get("/?key=$algorithm&final=4");
    ok(wait_until(sub { $left->($algorithm) == 96 }), 'less is given back') or diag($left->($algorithm));
    $nginx->get("/?key=$algorithm&final=86");
    ok(wait_until(sub { $left->($algorithm) == 10 }), 'more is charged') or diag($left->($algorithm));
    $nginx->get("/?key=$algorithm&final=500");
    ok(wait_until(sub { $left->($algorithm) == 0 }), 'above the limit');
    my $denied = $nginx->get("/?key=$algorithm&final=1");
    is($denied->{status}, 429, 'the next one waits');
    cmp_ok($denied->{headers}{'retry-after'}, '>', $algorithm =~ /window/ ? 0 : 3600, 'until that is worked off');
    $nginx->stop;
} for qw(sliding_log sliding_window token_bucket gcra leaky_bucket);

subtest 'a cost of 0' => sub {
    my $nginx = start_nginx("location / { redis_rate_limit $fixed limit=50 cost=0 final_cost=\$body_bytes_sent; empty_gif; }");
    is($nginx->get('/?key=bytes')->{status}, 200, 'takes nothing');
    is_charged('bytes', 43, 'but what it costs in the end');
    is($nginx->get('/?key=bytes')->{headers}{'x-ratelimit-remaining'}, 7, 'is told what is left before that');
    is_charged('bytes', 86, 'and may lead above the limit');
    is($nginx->get('/?key=bytes')->{status}, 429, 'where there is no unit left it is denied');
    is(charged('bytes'), 86, 'and a denied request costs nothing');
    $nginx->stop;
};

subtest 'failed logins' => sub {
    my $nginx = start_nginx(<<"END");
location /login { redis_rate_limit $fixed limit=3 cost=1 final_cost=\$failed; try_files /none \@app; }
location \@app { if (\$arg_status = 401) { return 401; } return 204; }
END
    is($nginx->get('/login?key=u&status=204')->{status}, 204, 'a login') for 1 .. 5;
    is_charged('u', 0, 'that succeeds costs nothing');
    $nginx->get('/login?key=u&status=401') for 1 .. 3;
    is_charged('u', 3, 'one that fails does');
    is($nginx->get('/login?key=u&status=204')->{status}, 429, 'so many may fail');
    $nginx->stop;
};

subtest 'each request settles once' => sub {
    my $nginx = start_nginx(<<"END");
location /redirected { redis_rate_limit $fixed limit=100 cost=10 final_cost=3; error_page 404 /other; try_files /none =404; }
location /other { internal; redis_rate_limit $fixed limit=100 cost=10 final_cost=3; empty_gif; }
location /mirrored { redis_rate_limit $fixed limit=100 cost=10 final_cost=3; mirror /mirror; empty_gif; }
location /mirror { internal; redis_rate_limit $fixed limit=100 cost=10 final_cost=3; return 204; }
location /after { redis_rate_limit $fixed limit=100 cost=10 final_cost=3; post_action /action; empty_gif; }
location /action { internal; empty_gif; }
location / { redis_rate_limit $fixed limit=100 cost=10 final_cost=3; empty_gif; }
END
    my $connection = RateLimit::Client->new($nginx);
    for (1 .. 4) {
        $connection->send("GET /?key=alive HTTP/1.1\r\nHost: a\r\n\r\n");
        $connection->response;
    }
    is_charged('alive', 12, 'of a connection that stays');
    for my $path (qw(redirected mirrored after)) {
        $nginx->get("/$path?key=$path");
        is_charged($path, 3, $path);
    }
    is(settlements($nginx), '0 7 0', 'all of them');
    $nginx->stop;
};

subtest 'rejections' => sub {
    my $nginx = start_nginx(<<"END");
location /alone { redis_rate_limit $fixed limit=5 cost=10 final_cost=3; empty_gif; }
location /two {
    redis_rate_limit $fixed limit=100 cost=10 final_cost=3;
    redis_rate_limit zone=b algorithm=fixed_window limit=0 window=1h;
    empty_gif;
}
location /later {
    redis_rate_limit $fixed limit=100 cost=10 final_cost=3;
    redis_rate_limit zone=b algorithm=fixed_window limit=0 window=1h phase=precontent;
    empty_gif;
}
location /dry { redis_rate_limit $fixed limit=12 cost=10 final_cost=11 dry_run; empty_gif; }
END
    is($nginx->get("/$_?key=$_&b=1")->{status}, 429, $_) for qw(alone two later);
    is_charged('later', 10, 'what was reserved before stays');
    is(charged($_), 0, 'nothing is settled') for qw(alone two);
    is($nginx->get('/dry?key=dry')->{status}, 200, 'a dry run');
    is_charged('dry', 11, 'settles') for 1 .. 2;
    is($nginx->get('/dry?key=dry')->{status}, 200, 'and one that would deny');
    is(settlements($nginx), '1 0 0', 'does not');
    $nginx->stop;
};

subtest 'clients that leave' => sub {
    my $upstream = RateLimit::Upstream->start_new;
    my $nginx    = start_nginx("location / { redis_rate_limit $fixed limit=100 cost=10 final_cost=\$arg_final; proxy_pass ${\$upstream->url}; }");
    $upstream->hold;
    my $connection = RateLimit::Client->new($nginx);
    $connection->send("GET /?key=left&final=4 HTTP/1.1\r\nHost: a\r\n\r\n");
    $upstream->wait_for(1);
    $connection->reset;
    is_charged('left', 4, 'while the response is awaited (499)');
    $redis->freeze;
    my $early = RateLimit::Client->new($nginx);
    $early->send("GET /?key=early&final=4 HTTP/1.1\r\nHost: a\r\n\r\n");
    ok(wait_until(sub { metrics_of($nginx)->{backends}{default}{pending} == 1 }), 'a check that waits');
    $early->reset;
    ok(wait_until(sub { $nginx->access_log =~ /key=early/ }), 'of a client that leaves');
    $redis->thaw;
    is_charged('early', 4, 'is settled when it is answered');
    $nginx->stop;
};

subtest 'a client that leaves before a post_action' => sub {
    my $upstream = RateLimit::Upstream->start_new;
    my $nginx    = start_nginx(<<"END");
location / { redis_rate_limit $fixed limit=100 cost=10 final_cost=4; post_action /action; empty_gif; }
location /action { internal; proxy_pass ${\$upstream->url}; }
END
    my $pending = sub { metrics_of($nginx)->{backends}{default}{pending} };
    $upstream->hold;
    $redis->freeze;
    my $connection = RateLimit::Client->new($nginx);
    $connection->send("GET /?key=action HTTP/1.1\r\nHost: a\r\n\r\n");
    ok(wait_until(sub { $pending->() == 1 }), 'a check that waits');
    $connection->reset;
    ok($upstream->wait_for(1), 'while the request goes on');
    $redis->thaw;
    ok(wait_until(sub { charged('action') == 10 && $pending->() == 0 }), 'is answered');
    $upstream->answer;
    is_charged('action', 4, 'and settled when the request ends');
    $nginx->stop;
};

subtest 'without Redis' => sub {
    my $upstream = RateLimit::Upstream->start_new;
    my $nginx = start_nginx("location / { redis_rate_limit $fixed limit=1000 cost=10 final_cost=\$arg_final; proxy_pass ${\$upstream->url}; }",
        backend => 'max_pending 20;');
    $upstream->hold;
    my @kept = map { $nginx->get_later("/?key=kept&final=$_") } 1 .. 4;
    my @more = map { $nginx->get_later("/?key=more&final=11") } 1 .. 16;
    ok($upstream->wait_for(20), 'requests are under way');
    $redis->stop;
    $upstream->answer;
    $_->() for @kept, @more;
    $redis->restart;
    $client = $redis->client;
    ok(wait_until(sub { settlements($nginx) =~ /^16 4 0$/ }, 20), 'what they cost is kept') or diag(settlements($nginx));
    $nginx->stop;
};

subtest 'kept up to a bound' => sub {
    my $upstream = RateLimit::Upstream->start_new;
    my $nginx = start_nginx("location / { redis_rate_limit $fixed limit=1000 cost=10 final_cost=9; proxy_pass ${\$upstream->url}; }",
        backend => 'max_pending 5;');
    $upstream->hold;
    my @asked;
    for my $count (1 .. 12) {
        push @asked, $nginx->get_later("/?key=bound");
        $upstream->wait_for($count);
    }
    $redis->stop;
    $upstream->answer;
    $_->() for @asked;
    is(settlements($nginx), '0 0 7', 'the others are lost');
    $redis->restart;
    $client = $redis->client;
    ok(wait_until(sub { settlements($nginx) eq '0 5 7' }, 20), 'and these are settled') or diag(settlements($nginx));
    $nginx->stop;
};

subtest 'a reply that is lost' => sub {
    my $relay    = RateLimit::Relay->start_new($redis->conf->{port});
    my $upstream = RateLimit::Upstream->start_new;
    my $nginx    = start_nginx("location / { redis_rate_limit $fixed limit=1000 cost=10 final_cost=9; proxy_pass ${\$upstream->url}; }",
        servers => "server 127.0.0.1:${\$relay->port};");
    $upstream->hold;
    my $asked = $nginx->get_later('/?key=lost');
    $upstream->wait_for(1);
    $relay->hold;
    $upstream->answer;
    $asked->();
    is_charged('lost', 9, 'a settlement that Redis has done');
    $relay->reset_all;
    $relay->release;
    ok(wait_until(sub { settlements($nginx) eq '0 0 1' }), 'counts as lost') or diag(settlements($nginx));
    is($nginx->get('/?key=other')->{status}, 200, 'and when Redis is there again');
    is(charged('lost'), 9, 'it is not sent a second time');
    $nginx->stop;
};

subtest 'this host alone' => sub {
    my $nginx = start_nginx("location / { redis_rate_limit $fixed limit=20 cost=10 final_cost=\$arg_final; empty_gif; }",
        zone => 'on_error=local deny_cache=off', servers => 'server 127.0.0.1:1;');
    is($nginx->get("/?key=k&final=2")->{headers}{'x-source'}, 'local', 'decides') for 1 .. 1;
    is($nginx->get("/?key=k&final=2")->{status}, 200, 'and settles') for 1 .. 4; # each finds room for 10
    $nginx->get("/?key=k&final=2");
    is($nginx->get("/?key=k&final=2")->{status}, 429, 'until there is none');
    $nginx->get("/?key=l&final=25");
    is($nginx->get("/?key=l&final=2")->{status}, 429, 'or more was charged');
    is(settlements($nginx), '1 6 0', 'which is counted');
    $nginx->stop;
};

subtest 'denials' => sub {
    my $nginx = start_nginx("location / { redis_rate_limit $fixed limit=10 cost=10 final_cost=\$arg_final; empty_gif; }",
        zone => 'on_error=closed');
    $nginx->get('/?key=cached');
    is($nginx->get('/?key=cached')->{headers}{'x-source'}, 'redis', 'one of Redis');
    is($nginx->get('/?key=cached')->{headers}{'x-source'}, 'deny_cache', 'is known');
    my $began = time;
    ok(wait_until(sub { $nginx->get('/?key=cached')->{headers}{'x-source'} eq 'redis' }, 3), 'for a second at most');
    $nginx->stop;
};

subtest 'leases' => sub {
    my $nginx = start_nginx("location / { redis_rate_limit $fixed limit=100000 cost=10 final_cost=\$arg_final lease=10s; empty_gif; }");
    my $asked = 0;
    ok(wait_until(sub { ++$asked; $nginx->get('/?key=leased&final=4')->{headers}{'x-source'} eq 'lease' }), 'are used');
    ($nginx->get('/?key=leased&final=4'), ++$asked) for 1 .. 20;
    my $last = ($nginx->get('/?key=leased&final=13'), ++$asked)[0]{headers}{'x-source'};
    my $leases = sub { metrics_of($nginx)->{zones}{z}{rules}{'z/3600s'}{leases} };
    my $used = 4 * $leases->()->{requests} + ($last eq 'lease' ? 10 - 4 : 0);
    ok(wait_until(sub { $leases->()->{used} == $used }), 'what requests give back is not used')
        or diag(explain($leases->()));
    cmp_ok($leases->()->{used}, '<=', $leases->()->{units}, 'no more is used than was leased');
    $nginx->stop; # returns what is left of them
    is_charged('leased', 4 * ($asked - 1) + 13, 'what is not used of them goes back');
};

subtest 'a reload and the end' => sub {
    my $upstream = RateLimit::Upstream->start_new;
    my $nginx = start_nginx("location / { redis_rate_limit $fixed limit=1000 cost=10 final_cost=\$arg_final; proxy_pass ${\$upstream->url}; }", workers => 2);
    $upstream->hold;
    my @asked = map { $nginx->get_later("/?key=reload&final=$_") } 1 .. 5;
    ok($upstream->wait_for(5), 'requests are under way');
    $nginx->reload;
    $upstream->answer;
    $_->() for @asked;
    is_charged('reload', 15, 'and settled by the workers that leave');
    $nginx->stop;
};

# It has closed its connection, and no deadline of a check is left that holds it.
for my $signal (qw(HUP QUIT)) {
    subtest "the last request of a worker that leaves by $signal" => sub {
        my $upstream = RateLimit::Upstream->start_new;
        my $nginx = start_nginx("location / { redis_rate_limit $fixed limit=1000 cost=10 final_cost=4; proxy_pass ${\$upstream->url}; }",
            timeout => '100ms');
        $upstream->hold;
        my $asked = $nginx->get_later("/?key=$signal");
        ok($upstream->wait_for(1), 'is under way');
        my ($worker) = $nginx->workers;
        my %old = map { $_->{id} => 1 } $redis->nginx_clients;
        kill $signal => $nginx->pid;
        ok(wait_until(sub { (($nginx->leaving_workers)[0] // 0) == $worker && !grep { $old{ $_->{id} } } $redis->nginx_clients }),
            'while its worker needs no Redis');
        sleep 0.5; # several timeouts
        $upstream->answer;
        is($asked->()->{status}, 200, 'is answered');
        is_charged($signal, 4, 'and settled');
        $nginx->stop;
    };
}

subtest 'a cluster' => sub {
    my $cluster  = RateLimit::Cluster->start_new(replicas => 0);
    my $upstream = RateLimit::Upstream->start_new;
    my $nginx    = start_nginx("location / { redis_rate_limit $fixed limit=1000 cost=10 final_cost=\$arg_final; proxy_pass ${\$upstream->url}; }",
        servers => $cluster->servers, backend => 'mode cluster;');
    my $counter   = sub ($key) { "rl:{z:$key}:fixed_window:3600000" };
    my $charged   = sub ($key) { (unpack 'dd', $cluster->master_of($counter->($key))->client->get($counter->($key)) // "\0" x 16)[1] };
    my $is_charged = sub ($key, $units, $name) { ok(wait_until(sub { $charged->($key) == $units }, 20), $name) or diag($charged->($key)) };
    $nginx->get("/?key=c$_&final=$_") for 1 .. 20;
    $is_charged->("c$_", $_, "a key, $_") for 1 .. 20;

    $upstream->hold;
    my @asked = map { $nginx->get_later("/?key=moved&final=$_") } 3, 15;
    ok($upstream->wait_for(2), 'requests are under way');
    my $from = $cluster->master_of($counter->('moved'));
    my ($to) = grep { $_ != $from } $cluster->masters;
    my $move = $cluster->begin_move($cluster->slot_of($counter->('moved')), $to);
    $cluster->move_keys($move);
    my $asking = $nginx->get_later('/?key=moved&final=7');
    ok($upstream->wait_for(3), 'while their hash slot moves');
    $upstream->answer;
    $_->() for @asked, $asking;
    $cluster->end_move($move);
    $is_charged->('moved', 25, 'and are settled where the key is (ASK)');

    $upstream->hold;
    my $last = $nginx->get_later('/?key=moved&final=5');
    $upstream->wait_for(1);
    $move = $cluster->begin_move($cluster->slot_of($counter->('moved')), $from);
    $cluster->move_keys($move);
    $cluster->end_move($move);
    $upstream->answer;
    $last->();
    $is_charged->('moved', 30, 'also if it has moved (MOVED)');

    my $down = $cluster->master_of($counter->('moved'));
    $upstream->hold;
    $last = $nginx->get_later('/?key=moved&final=4');
    $upstream->wait_for(1);
    $down->freeze;
    $upstream->answer;
    $last->();
    $down->thaw;
    $is_charged->('moved', 34, 'and when its node answers again');
    like(settlements($nginx), qr/ 0$/, 'none is lost');
    $nginx->stop;
};

subtest 'settings that make no sense' => sub {
    my %refused = (
        'algorithm=concurrency limit=1 final_cost=2' => qr/invalid parameter final_cost with algorithm "concurrency", expected /,
        'algorithm=fixed_window limit=1 window=1 final_cost=-2' => qr/invalid final_cost "-2", expected a whole number from 0 to 1000000000/,
        'algorithm=fixed_window limit=1 window=1 final_cost=' => qr/invalid final_cost "", expected /,
    );
    for my $rule (sort keys %refused) {
        my $nginx = RateLimit::Nginx->new("redis_rate_limit_zone \$arg_key zone=z:1m;\nserver { listen %PORT%; location / { redis_rate_limit zone=z $rule; } }\n");
        my ($said) = $nginx->test_configuration;
        like($said, $refused{$rule}, $rule);
    }
};

done_testing;
