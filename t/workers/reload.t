# Workers come and go: reloads under load, a graceful stop, a crash; connections go with them.

use v5.36;
use lib 't/lib';
use RateLimit::AccessLog qw($log_times count_statuses requests_of wait_for_requests);
use RateLimit::Load qw(start_load);
use RateLimit::Nginx;
use RateLimit::Processes qw(descriptors);
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(time);

my $redis = RateLimit::Redis->start_new;

sub start_nginx (%options) {
    my $server = delete $options{server} // $redis->address;
    my $http   = delete $options{http}   // '';
    return RateLimit::Nginx->start_new(<<"END", %options);
$log_times
$http
redis_rate_limit_backend default { server $server; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$uri zone=z:1m on_error=closed;
server {
    listen %PORT%;
    location / {
        redis_rate_limit zone=z algorithm=sliding_log limit=1000000 window=1h;
        empty_gif;
    }
}
END
}

sub relayed () {
    my $relay = RateLimit::Relay->start_new($redis->conf->{port});
    return ($relay, "127.0.0.1:${\$relay->port}");
}

# One of each worker for checks, and one of all for live limits.
sub connections ($count, $when) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $followers = $count > 0 ? 1 : 0;
    ok(wait_until(sub { $redis->nginx_clients == $count && $redis->followers == $followers && $redis->clients_of_others == $count + $followers }),
        "$count connections $when, and the one for live limits");
}

subtest '100 reloads under load' => sub {
    my $nginx = start_nginx(workers => 2);
    connections(2, 'at first');
    my $key     = 'rl:{z:/}:sliding_log:3600000';
    my $load    = start_load($nginx->url, connections => 4, close => 1);
    my $descriptors = descriptors($nginx->pid);
    for (1 .. 100) {
        $nginx->reload;
        wait_for_requests($nginx);
    }
    ok($load->is_running, 'the load lasted all the while');
    my $result = $load->finish;
    cmp_ok($result->{requests}, '>', 500, "$result->{requests} requests");
    is($result->{broken},  0, 'each got an answer');
    is($result->{refused}, 0, 'each passed');
    ok(wait_until(sub { !$nginx->leaving_workers }), 'the old workers leave');
    ok(wait_until(sub { descriptors($nginx->pid) == $descriptors }), "the master has as many descriptors as at the start: $descriptors");
    connections(2, 'afterwards');

    # wrk ends with requests on their way: those were counted, too.
    is_deeply([ keys count_statuses(requests_of($nginx))->%* ], [200], 'no other status');
    my $counted = $redis->client->llen($key);
    cmp_ok($counted, '>=', $result->{requests}, 'each was counted');
    cmp_ok($counted, '<=', $result->{requests} + 4, 'once');
    $nginx->stop;
    connections(0, 'at the end');
};

# Rules of several zones, on a host that decides by itself: it locks the zones one after another, and
# so do workers from before a reload that their requests still keep. Those of /held come to it a
# while after they arrived.
subtest 'reloads that turn the zones round' => sub {
    my $gone = RateLimit::Redis->start_new;
    my $http = sub (@zones) {
        my $rules = join ' ', map { "redis_rate_limit zone=$_ algorithm=gcra limit=1000000000 window=1 phase=precontent;" } @zones;
        return <<"END";
$log_times
redis_rate_limit_backend default { server ${\$gone->address}; }
@{[ map { "redis_rate_limit_zone \$uri zone=$_:1m;" } @zones ]}
redis_rate_limit_zone \$request_id zone=each:1m;
server {
    listen %PORT%;
    location /now  { $rules empty_gif; }
    location /held {
        $rules
        redis_rate_limit zone=each algorithm=leaky_bucket limit=1 window=200ms burst=1 cost=2;
        empty_gif;
    }
}
END
    };
    my @zones = map { "z$_" } 1 .. 8;
    my $nginx = RateLimit::Nginx->start_new($http->(@zones), workers => 2);
    $gone->kill_now;
    my @load = map { start_load($nginx->url($_->[0]), connections => $_->[1], close => 1) } ['/now', 8], ['/held', 400];
    for (1 .. 10) {
        wait_for_requests($nginx, 1000);
        $nginx->configure($http->(@zones = reverse @zones));
        $nginx->reload;
    }
    ok(wait_until(sub { !$nginx->leaving_workers }), 'the old workers leave');
    is(join(' ', map { $_->finish->{broken} } @load), '0 0', 'each request got an answer');
    is_deeply([ keys count_statuses(requests_of($nginx))->%* ], [200], 'and passed');
    cmp_ok(scalar(grep { $_->{path} eq '/held' } requests_of($nginx)), '>', 2000, 'many were held back');
    is($nginx->statuses('/now', 20), join(' ', (200) x 20), 'nobody waits for a lock');
    $nginx->stop;
};

subtest 'a zone with another key' => sub {
    my $http = sub ($key) { <<"END" };
redis_rate_limit_backend default { server ${\$redis->address}; }
redis_rate_limit_zone $key zone=per_client:1m;
redis_rate_limit_zone \$uri zone=per_page:1m;
server {
    listen %PORT%;
    location / {
        redis_rate_limit zone=per_client algorithm=fixed_window limit=10 window=60;
        empty_gif;
    }
}
END
    my $nginx = RateLimit::Nginx->start_new($http->('$remote_addr'));
    $nginx->configure($http->('$remote_addr'));
    $nginx->reload;
    unlike($nginx->error_log, qr/the key "/, 'the same key needs no word');
    $nginx->configure($http->('$arg_key'));
    $nginx->reload;
    my @warnings = $nginx->error_log =~ /\[warn\].* (redis_rate_limit_zone: the key .* before this reload)/g;
    is_deeply(\@warnings, ['redis_rate_limit_zone: the key "$arg_key" of the zone "per_client" was "$remote_addr" before this reload'], 'another one does');
    $nginx->reload;
    is(() = $nginx->error_log =~ /before this reload/g, 1, 'once');
    $nginx->stop;
};

# The name of the rule says nothing of it, and its counters have another name.
subtest 'the calendar of a rule that has changed' => sub {
    my $http = sub ($window) {
        return <<"END";
redis_rate_limit_backend default { server ${\$redis->address}; }
redis_rate_limit_zone \$arg_key zone=plan:1m;
server {
    listen %PORT%;
    location / {
        redis_rate_limit zone=plan algorithm=fixed_window limit=10 window=$window;
        redis_rate_limit zone=plan algorithm=fixed_window limit=10 window=1m;
        empty_gif;
    }
}
END
    };
    my $nginx = RateLimit::Nginx->start_new($http->('month'));
    for my $same ('month', 'month timezone=UTC starts=1', 'year', 'month') {
        $nginx->configure($http->($same));
        $nginx->reload;
    }
    unlike($nginx->error_log, qr/before this reload/, 'the same calendar, or a rule of another name, needs no word');
    $nginx->configure($http->('month starts=15'));
    $nginx->reload;
    my @warnings = $nginx->error_log =~ /\[warn\].* (redis_rate_limit: the rule .*)/g;
    is_deeply(
        \@warnings,
        [
            'redis_rate_limit: the rule "plan/month" of the zone "plan" has window=month starts=15, and had window=month before this reload: '
                . 'it has other counters now, in which all clients begin a fresh month, expected the old one if what they have used is to count'
        ],
        'another one does'
    );
    $nginx->reload;
    is(() = $nginx->error_log =~ /before this reload/g, 1, 'once');
    $nginx->stop;
};

subtest 'a graceful stop lets suspended requests finish' => sub {
    my ($relay, $server) = relayed;
    my $nginx = start_nginx(server => $server);
    is($nginx->get('/')->{status}, 200, 'works');
    $relay->hold;
    my @answers = map { $nginx->get_later("/$_") } 1 .. 5;
    my $client  = $redis->client;
    ok(wait_until(sub { 5 == grep { $client->llen("rl:{z:/$_}:sliding_log:3600000") } 1 .. 5 }), 'five are suspended');
    kill QUIT => $nginx->pid;
    ok(wait_until(sub { $nginx->leaving_workers == 1 }), 'the worker is to leave');
    $relay->release;
    is(join(' ', map { $_->()->{status} } @answers), '200 200 200 200 200', 'all get their answers');
    $nginx->stop;
    ok(wait_until(sub { $relay->counts->{open} == 0 }), 'and the connection ends');
};

subtest 'a reload lets suspended requests finish' => sub {
    my ($relay, $server) = relayed;
    my $nginx = start_nginx(server => $server);
    is($nginx->get('/')->{status}, 200, 'works');
    my $client = $redis->client;
    $client->del('rl:{z:/held}:sliding_log:3600000');
    $relay->hold;
    my $answer = $nginx->get_later('/held');
    ok(wait_until(sub { $client->llen('rl:{z:/held}:sliding_log:3600000') }), 'one is suspended');
    $nginx->reload;
    is(scalar $nginx->leaving_workers, 1, 'its worker stays for it');
    $relay->release;
    is($answer->()->{status}, 200, 'it gets its answer');
    ok(wait_until(sub { !$nginx->leaving_workers }), 'then its worker leaves');
    ok(wait_until(sub { $relay->counts->{open} == 1 }), 'with its connection');
    $nginx->stop;
};

subtest 'worker_shutdown_timeout' => sub {
    my ($relay, $server) = relayed;
    my $nginx = start_nginx(server => $server, main => 'worker_shutdown_timeout 300ms;');
    is($nginx->get('/')->{status}, 200, 'works');
    my $client = $redis->client;
    $client->del('rl:{z:/held}:sliding_log:3600000');
    $relay->hold;
    my @answers = map { $nginx->get_later('/held') } 1 .. 3;
    ok(wait_until(sub { $client->llen('rl:{z:/held}:sliding_log:3600000') == 3 }), 'three are suspended');
    my $began = time;
    $nginx->stop(seconds => 8); # and judges the log
    cmp_ok(time - $began, '<', 5, 'it leaves without an answer from Redis');
    is(scalar(grep { $_->()->{status} == 200 } @answers), 0, 'whose clients get none either');
};

subtest 'a worker is killed' => sub {
    my $nginx = start_nginx(workers => 2);
    connections(2, 'at first');
    my %old = map { $_->{id} => 1 } $redis->nginx_clients;
    my ($victim) = $nginx->workers;
    kill KILL => $victim;
    ok(wait_until(sub { my @now = $nginx->workers; @now == 2 && !grep { $_ == $victim } @now }), 'it is replaced');
    ok(wait_until(sub { my @now = $redis->nginx_clients; @now == 2 && 1 == grep { !$old{ $_->{id} } } @now }), 'so is its connection');
    is($nginx->statuses('/', 20), join(' ', (200) x 20), 'both work');
    $nginx->stop(expect => qr/worker process $victim exited on signal 9/);
};

subtest 'cache manager and loader do not connect' => sub {
    my $connected = sub { $redis->_redis->info('stats')->{total_connections_received} };
    my $before    = $connected->();
    my $nginx     = start_nginx(http => 'proxy_cache_path %DIR%/cache keys_zone=cache:1m;', main => '');
    my $children  = sub { scalar(my @all = RateLimit::Nginx::children($nginx->pid)) };
    ok(wait_until(sub { $children->() >= 2 }), 'there is a cache manager');
    connections(1, 'of one worker');
    is($nginx->get('/')->{status}, 200, 'it serves');
    is($connected->() - $before, 2, 'nobody else has connected');
    $nginx->stop;
};

subtest 'a stop while Redis is not there' => sub {
    my $gone = RateLimit::Redis->start_new;
    $gone->kill_now;
    my $nginx = start_nginx(server => $gone->address, workers => 2);
    is($nginx->get('/')->{status}, 503, 'no verdict');
    $nginx->reload;
    ok(wait_until(sub { !$nginx->leaving_workers }), 'workers leave');
    my $began = time;
    $nginx->stop;
    cmp_ok(time - $began, '<', 5, 'and do not wait for it');
};

done_testing;
