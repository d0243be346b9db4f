# Leases: busy keys are granted out of units that were taken in advance, and never more than the rule.

use v5.36;
use lib 't/lib';
use IO::Socket::INET;
use List::Util qw(sum0);
use RateLimit::Client;
use RateLimit::DenyCache qw(calls location told);
use RateLimit::Metrics qw(metrics_of);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(time);

my $redis  = RateLimit::Redis->start_new;
my $client = $redis->client;

sub configuration ($locations, %options) {
    my $server = $options{server} // $redis->address;
    return <<"END";
redis_rate_limit_backend default { server $server; connect_timeout 10s; timeout 10s; @{[ $options{backend} // '' ]} }
redis_rate_limit_zone \$arg_key zone=z:1m @{[ $options{zone} // 'on_error=closed' ]};
redis_rate_limit_zone \$arg_b   zone=b:1m on_error=closed;
add_header X-Source \$redis_rate_limit_source always;
add_header X-Status \$redis_rate_limit_status always;
add_header X-Worker \$pid always;
keepalive_requests 1000000;
server {
    listen %PORT%;
    location = /json { redis_rate_limit_metrics json; }
    $locations
}
END
}

sub start_nginx ($locations, %options) {
    return RateLimit::Nginx->start_new(configuration($locations, %options), workers => $options{workers} // 1, daemon => $options{daemon} // 0);
}

my $fixed = 'zone=z algorithm=fixed_window window=1h';

# Asks so often, over one connection, for all at once; returns how often each `status source` came.
sub flood ($nginx, $path, $count) {
    my $connection = RateLimit::Client->new($nginx);
    $connection->send(map { "GET $path HTTP/1.1\r\nHost: a\r\n\r\n" } 1 .. $count);
    my %told;
    for (1 .. $count) {
        my $response = $connection->response;
        ++$told{"$response->{status} $response->{headers}{'x-source'}"};
    }
    return \%told;
}

# The units that Redis has charged to a key of $fixed.
sub charged ($key, $name = '') {
    my $state = $client->get("rl:{z:$key}:fixed_window:3600000" . ($name ? ":$name" : '')) // return 0;
    return (unpack 'dd', $state)[1];
}

sub leases ($nginx, $rule = 'z/3600s') { return metrics_of($nginx)->{zones}{z}{rules}{$rule}{leases} }

subtest 'a busy key' => sub {
    my $nginx = start_nginx(location('/', "$fixed limit=100000 lease=10s"));
    calls($redis);
    my $told = flood($nginx, '/?key=busy', 2000);
    is(sum0(values %$told), 2000, 'all pass');
    cmp_ok($told->{'200 lease'}, '>', 1900, "$told->{'200 lease'} by leases");
    my $calls = calls($redis);
    cmp_ok($calls, '<', 100, "$calls calls of Redis");
    my $leases = leases($nginx);
    is($leases->{requests}, $told->{'200 lease'}, 'so many are counted');
    is($leases->{used}, $told->{'200 lease'}, 'and so many units');
    is(charged('busy'), $leases->{units} + $told->{'200 redis'}, 'Redis has charged all leased units');
    my $response = $nginx->get('/?key=busy');
    my $left = $response->{headers}{'x-ratelimit-remaining'};
    ok(100_000 - 2001 <= $left && $left <= 100_000 - 2001 + $told->{'200 redis'}, "headers tell what is left in all: $left");
    is($response->{headers}{'x-status'}, 'PASSED', 'status');
    $nginx->stop;
    is(charged('busy'), 2001, 'a stop gives back what was not used');
};

subtest 'a cold key' => sub {
    my $nginx = start_nginx(location('/', "$fixed limit=100000 lease=1ms"));
    is(told($nginx, '/?key=cold'), '200 redis', 'asks Redis') for 1 .. 10;
    is_deeply(leases($nginx), { map { $_ => 0 } qw(taken units used returned expired requests) }, 'and leases nothing');
    $nginx->stop;
};

subtest 'never more than the limit, and no less' => sub {
    for my $workers (1, 2) {
        my $nginx = start_nginx(location('/', "$fixed limit=1000 lease=50ms"), workers => $workers);
        my $key   = "limit$workers";
        my %told;
        my $passed = 0;
        wait_until(
            sub {
                my $told = flood($nginx, "/?key=$key", 500);
                $told{$_} += $told->{$_} for keys %$told;
                $passed = sum0 map { $told{$_} } grep { /^200/ } keys %told;
                return $passed >= 1000;
            }
        );
        is($passed, 1000, "$workers workers: all units are granted");
        cmp_ok($told{'200 lease'}, '>', 300, "$told{'200 lease'} by leases");
        my $more = flood($nginx, "/?key=$key", 200);
        is(sum0(map { $more->{$_} } grep { /^429/ } keys %$more), 200, 'and no more');
        $nginx->stop;
        is(charged($key), 1000, 'as Redis has counted them');
    }
};

subtest 'what is not used comes back at the end of the lease' => sub {
    my $nginx = start_nginx(location('/', "$fixed limit=100000 lease=100ms"), workers => 2);
    flood($nginx, '/?key=rest', 300);
    ok(wait_until(sub { charged('rest') == 300 }), 'without a request');
    my $leases;
    ok(wait_until(sub { $leases = leases($nginx); $leases->{units} == $leases->{used} + $leases->{returned} }),
        'all units are accounted for when Redis has said so') or diag explain $leases;
    $nginx->stop;
};

subtest 'a Redis that is 20 ms away' => sub {
    my $relay = RateLimit::Relay->start_new($redis->conf->{port});
    $relay->delay(0.01);
    my $nginx = start_nginx(location('/', "$fixed limit=10000000 lease=100ms"), server => $relay->address);

    # How many leases are taken in a second, and how many requests have none and wait for Redis.
    my $second = sub {
        my ($before, $until, $waiting) = (leases($nginx)->{taken}, time + 1, 0);
        $waiting += flood($nginx, '/?key=far', 20)->{'200 redis'} // 0 while time < $until;
        return (leases($nginx)->{taken} - $before, $waiting);
    };
    my (undef, $first) = $second->();
    cmp_ok($first, '>', 0, 'the first requests of a key wait for it');
    my ($taken, $waiting);
    wait_until(sub { ($taken, $waiting) = $second->(); $taken > 7 && $waiting < $taken / 2 }, 60); # on a busy machine more do
    cmp_ok($waiting, '<', $taken / 2, "the $taken leases of a second follow each other");
    $nginx->stop;
};

subtest 'a reload keeps leases' => sub {
    my $nginx = start_nginx(location('/', "$fixed limit=100000 lease=10s"));
    flood($nginx, '/?key=reload', 100);
    calls($redis);
    $nginx->reload;
    is(told($nginx, '/?key=reload'), '200 lease', 'they are used by the next worker');
    is(calls($redis), 0, 'without a call');
    $nginx->stop;
    is(charged('reload'), 101, 'what is left goes back in the end');
};

# The units of leases go back when these end, by the workers that fetched them.
subtest 'a reload with leases that nobody uses any more' => sub {
    my %rules = (
        'another limit'    => location('/', "$fixed limit=90000 lease=3s"),
        'the same limit'   => location('/', "$fixed limit=100000 lease=3s"),
        'no lease'         => location('/', "$fixed limit=100000"),
        'no rule'          => 'location / { empty_gif; }',
        'no zone'          => undef,
    );
    for my $what (sort keys %rules) {
        my $nginx = start_nginx(location('/', "$fixed limit=100000 lease=3s"), workers => 2);
        my $key   = $what =~ tr/ /_/r;
        flood($nginx, "/?key=$key", 300);
        cmp_ok(charged($key), '>', 300, "$what: more is leased than used");
        my @old = $nginx->workers;
        $nginx->configure($rules{$what} ? configuration($rules{$what}) : "server { listen %PORT%; location / { empty_gif; } }");
        $nginx->reload;
        ok(wait_until(sub { charged($key) == 300 }), "$what: all of that goes back") or diag(charged($key));
        ok(wait_until(sub { !$nginx->leaving_workers }), "$what: and the old workers leave");
        if ($rules{$what} && $rules{$what} =~ /redis_rate_limit/) {
            my $leases = leases($nginx);
            is($leases->{units}, $leases->{used} + $leases->{returned}, "$what: all units are accounted for");
        }
        $nginx->stop;
    }
};

subtest 'a reload while Redis is gone' => sub {
    my $relay = RateLimit::Relay->start_new($redis->conf->{port});
    my $nginx = start_nginx(location('/', "$fixed limit=100000 lease=2s"), server => $relay->address);
    flood($nginx, '/?key=gone', 300);
    $nginx->configure(configuration(location('/', "$fixed limit=90000 lease=2s"), server => $relay->address));
    $nginx->reload;
    $relay->reset_all;
    ok(wait_until(sub { charged('gone') == 300 }), 'an old worker connects again, to give its leases back') or diag(charged('gone'));
    $nginx->stop(expect => qr/redis_rate_limit/);
};

subtest 'the end' => sub {
    my $nginx = start_nginx(location('/', "$fixed limit=100000 lease=10s"), workers => 2);
    flood($nginx, '/?key=end', 300);
    my $began = time;
    $nginx->stop;
    cmp_ok(time - $began, '<', 5, 'does not wait for leases to end');
    is(charged('end'), 300, 'and what is left of them goes back');

    $nginx = start_nginx(location('/', "$fixed limit=100000 lease=10s"), workers => 2);
    flood($nginx, '/?key=ended', 300);
    $nginx->reload;
    $nginx->stop(signal => 'TERM');
    is(charged('ended'), 300, 'also by workers that were there before a reload');
};

subtest 'a binary upgrade' => sub {
    my $nginx = start_nginx(location('/', "$fixed limit=100000 lease=10s"), workers => 2, daemon => 1);
    flood($nginx, '/?key=upgrade', 300);
    $nginx->start_successor;
    $nginx->retire;
    is(charged('upgrade'), 300, 'the new workers know nothing of the leases of the old ones, and these give them back');
    $nginx->give_way;
    $nginx->stop;
};

subtest 'a reload that fails' => sub {
    my $taken = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1) or die "listen: $!";
    my $rules = location('/', "$fixed limit=100000 lease=10s");
    my $nginx = start_nginx($rules);
    flood($nginx, '/?key=failed', 100);
    $nginx->configure(configuration($rules . ' listen 127.0.0.1:' . $taken->sockport . ';'));
    kill HUP => $nginx->pid;
    $nginx->wait_for_log(qr/still could not bind/);
    $nginx->stop(expect => qr/\[emerg\].*(?:bind|listen)/);
    is(charged('failed'), 100, 'leaves the workers that go on with their leases, and they give them back');
};

subtest 'a limit that changes' => sub {
    my $nginx = start_nginx(location('/', "$fixed limit=100000 lease=10s"));
    flood($nginx, '/?key=changed', 100);
    is(told($nginx, '/?key=changed'), '200 lease', 'there is a lease');
    $nginx->configure(configuration(location('/', "$fixed limit=50 lease=10s")));
    $nginx->reload;
    is(told($nginx, '/?key=changed'), '429 redis', 'that another limit does not use');
    $nginx->stop;
};

subtest 'several rules' => sub {
    my $nginx = start_nginx(
        location('/both', "$fixed limit=100000 lease=10s", "$fixed limit=100 name=strict")
        . location('/two', "$fixed limit=100000 lease=10s name=one", 'zone=z algorithm=gcra limit=100000 burst=1000 window=1h lease=1s name=other')
        . location('/dry', "$fixed limit=100000 lease=10s name=real", "$fixed limit=100 name=dry dry_run lease=10s"),
    );
    my $told = flood($nginx, '/both?key=both', 300);
    is($told->{'200 redis'}, 100, 'a rule without leases decides each request');
    ok(!$told->{'200 lease'}, 'the tightest one tells the source');
    my $leases = leases($nginx);
    cmp_ok($leases->{requests}, '>', 50, "$leases->{requests} requests took units of a lease for the other one");
    is($leases->{units} - $leases->{used}, charged('both') - 100, 'those of rejected requests went back to the lease');

    $told = flood($nginx, '/two?key=two', 500);
    cmp_ok($told->{'200 lease'}, '>', 400, "two rules with leases: $told->{'200 lease'} of 500 requests ask nobody");

    $told = flood($nginx, '/dry?key=dry', 300);
    is(sum0(map { $told->{$_} } grep { /^200/ } keys %$told), 300, 'a dry run denies nothing');
    my $dry = metrics_of($nginx)->{zones}{z}{rules}{dry};
    is($dry->{passed} + $dry->{dry_run_rejected}, 300, 'and counts each request');
    is($dry->{passed}, 100, 'by its limit');
    $nginx->stop;
};

subtest 'costs' => sub {
    my $nginx = start_nginx(location('/', "$fixed limit=10000 cost=\$arg_cost lease=10s"));
    flood($nginx, '/?key=costs&cost=3', 200);
    cmp_ok(leases($nginx)->{used}, '>', 400, 'are taken from leases');
    is(told($nginx, '/?key=costs&cost=5000'), '200 redis', 'one that no lease has is asked for');
    is(told($nginx, '/?key=costs&cost=0'), '200 redis', 'so is one of nothing');
    is(told($nginx, '/?key=costs&cost=10001'), '429 redis', 'and one that is never granted');
    $nginx->stop;
    is(charged('costs'), 5600, 'each was charged once');
};

subtest 'a client that leaves' => sub {
    my $relay = RateLimit::Relay->start_new($redis->conf->{port});
    my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_backend held { server 127.0.0.1:${\$relay->port}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed;
redis_rate_limit_zone \$arg_key zone=held:1m on_error=closed backend=held;
log_format times '\$request_uri \$status';
keepalive_requests 1000000;
server {
    listen %PORT%;
    access_log access.log times;
    location = /json { redis_rate_limit_metrics json; }
    location /lease { redis_rate_limit $fixed limit=100000 lease=10s; empty_gif; }
    location /both  { redis_rate_limit $fixed limit=100000 lease=10s; redis_rate_limit zone=held algorithm=fixed_window window=1h limit=1000; empty_gif; }
}
END
    $nginx->get('/both?key=left');
    flood_of_statuses($nginx, '/lease?key=left', 200);
    $relay->hold;
    my $used   = leases($nginx)->{used};
    my $leaver = RateLimit::Client->new($nginx)->send("GET /both?key=left HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until(sub { metrics_of($nginx)->{backends}{held}{pending} == 1 }) or die 'it is not asked';
    $leaver->reset;
    ok(wait_until(sub { metrics_of($nginx)->{zones}{z}{rules}{'z/3600s'}{uncharged} == 1 }), 'it is counted as not charged');
    is(leases($nginx)->{used}, $used, 'and its unit is in the lease again');
    $relay->release;
    ok(wait_until(sub { metrics_of($nginx)->{backends}{held}{pending} == 0 }), 'the other rule hears of its answer');
    $nginx->stop;
    is(charged('left'), 201, 'so it comes back to Redis in the end');
};

sub flood_of_statuses ($nginx, $path, $count) {
    my $connection = RateLimit::Client->new($nginx);
    $connection->send(map { "GET $path HTTP/1.1\r\nHost: a\r\n\r\n" } 1 .. $count);
    return map { $connection->response->{status} } 1 .. $count;
}

# All leases have ended once the zone has no valid entries.
sub no_lease_holds ($nginx) { return metrics_of($nginx)->{zones}{z}{entries} == 0 }

subtest 'a lease that has ended when its request is rejected' => sub {
    my $relay = RateLimit::Relay->start_new($redis->conf->{port});
    my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_backend held { server 127.0.0.1:${\$relay->port}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed;
redis_rate_limit_zone \$arg_key zone=held:1m on_error=closed backend=held deny_cache=off;
server {
    listen %PORT%;
    location = /json { redis_rate_limit_metrics json; }
    location /lease { redis_rate_limit $fixed limit=100000 lease=1s; empty_gif; }
    location /both  { redis_rate_limit $fixed limit=100000 lease=1s; redis_rate_limit zone=held algorithm=fixed_window window=1h limit=1 name=held; empty_gif; }
}
END
    $nginx->get('/both?key=late');
    flood_of_statuses($nginx, '/lease?key=late', 50);
    $relay->hold;
    my $late = $nginx->get_later('/both?key=late');
    wait_until(sub { metrics_of($nginx)->{backends}{held}{pending} == 1 }) or die 'it is not asked';
    wait_until(sub { no_lease_holds($nginx) }) or die 'the lease does not end';
    $relay->release;
    my $response = $late->();
    is($response->{status}, 429, 'the other rule rejects it');
    like($response->{headers}{ratelimit}, qr{"z/3600s";r=999\d\d;t=}, 'headers tell what is left of the leased rule');
    ok(wait_until(sub { charged('late') == 51 }), 'its unit goes back to Redis');
    $nginx->stop;
};

subtest 'a lease whose place is taken by the next one' => sub {
    my $relay  = RateLimit::Relay->start_new($redis->conf->{port});
    my $server = '127.0.0.1:' . $relay->port;
    my $nginx  = start_nginx(location('/', "$fixed limit=100000 lease=3s"), server => $server);
    flood($nginx, '/?key=place', 100);
    my ($worker) = $nginx->workers; # nobody waits for the end of its lease after it was killed
    kill KILL => $worker;
    wait_until(sub { my @workers = $nginx->workers; @workers && $workers[0] != $worker }) or die 'no new worker';
    told($nginx, '/?key=place');
    my $count = 101;
    my @later; # where the lease has ended by now, they wait for Redis themselves
    $relay->hold;
    my $is_asked = sub {
        return 1 if metrics_of($nginx)->{backends}{default}{pending} > 0;
        push @later, $nginx->get_later('/?key=place');
        ++$count;
        return 0;
    };
    wait_until($is_asked) or die 'it is not asked';
    wait_until(sub { no_lease_holds($nginx) }) or die 'the lease does not end';
    $relay->release;
    ok(wait_until(sub { charged('place') == $count }), 'gives back what is left of it');
    $nginx->stop(expect => RateLimit::Nginx::ends_of_killed($worker));
};

subtest 'headers of a bucket' => sub {
    my $nginx = start_nginx(location('/', 'zone=z algorithm=token_bucket limit=1000 window=1s burst=40000 lease=10s'));
    flood($nginx, '/?key=bucket', 20);
    my $headers = $nginx->get('/?key=bucket')->{headers};
    is($headers->{'x-source'}, 'lease', 'by a lease');
    # Redis has charged its units as if at its end, in ten seconds
    my ($left, $next) = $headers->{ratelimit} =~ /r=(\d+);t=(\d+)/ or diag $headers->{ratelimit};
    cmp_ok($left, '<', 31_000, "no more is left than Redis has: $left");
    cmp_ok($left, '>', 29_000, 'and no less');
    is($next, 1, 'the next unit is on its way');
    $nginx->stop;
};

subtest 'an outage' => sub {
    my $own   = RateLimit::Redis->start_new;
    my $nginx = start_nginx(location('/', "$fixed limit=1000 lease=1s"), server => $own->address, zone => '');
    my $told  = flood($nginx, '/?key=k', 500);
    $own->kill_now;
    $told = flood($nginx, '/?key=k', 600);
    cmp_ok($told->{'200 lease'}, '>', 0, "$told->{'200 lease'} more by leases that hold on");
    my $passed = 500 + sum0 map { $told->{$_} } grep { /^200/ } keys %$told;
    cmp_ok($passed, '<=', 1000, "$passed of 1000 in all: this host begins where the leases ended");
    cmp_ok($passed, '>', 800, 'and not far below');
    $nginx->stop;
};

done_testing;
