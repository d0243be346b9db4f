# Redis dies, comes back, forgets its scripts, stops for a while or is not there: no client sees
# an error that on_error=open would not give, and counting is exact again afterwards.

use v5.36;
use lib 't/lib';
use IO::Socket::INET;
use RateLimit::AccessLog qw($log_times count_statuses percentile requests_of);
use RateLimit::Client;
use RateLimit::Load qw(start_load start_requests);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep time);

my $timeout = 0.1; # seconds, the default

# Two workers; /open and /closed are named after their zones' policy and far from their limit,
# /exact has a limit of 5.
sub start_nginx ($redis, %options) {
    my $nginx = RateLimit::Nginx->start_new(<<"END", workers => 2, %options);
$log_times
redis_rate_limit_backend default { server ${\$redis->address}; }
redis_rate_limit_zone \$uri     zone=open:1m   on_error=open;
redis_rate_limit_zone \$uri     zone=closed:1m on_error=closed;
redis_rate_limit_zone \$arg_key zone=exact:1m  on_error=closed;
redis_rate_limit_zone \$request_id zone=each:1m on_error=closed;
redis_rate_limit_log_level info;
server {
    listen %PORT%;
    location /open {
        redis_rate_limit zone=open algorithm=sliding_log limit=1000000 window=60;
        empty_gif;
    }
    location /closed {
        redis_rate_limit zone=closed algorithm=sliding_log limit=1000000 window=60;
        empty_gif;
    }
    location /exact {
        redis_rate_limit zone=exact algorithm=sliding_log limit=5 window=60;
        empty_gif;
    }
    location /each {
        redis_rate_limit zone=each algorithm=sliding_log limit=1 window=60;
        empty_gif;
    }
    location /page {
        redis_rate_limit zone=closed algorithm=sliding_log limit=1000000 window=60;
        error_page 503 =200 /sorry;
        empty_gif;
    }
    location /sorry { return 200 "sorry"; }
}
END
    return $nginx;
}

# Both workers are connected, there are no other connections, and each of them counts.
sub counts_exactly ($redis, $nginx) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    ok(wait_until(sub { $redis->nginx_clients == 2 }), 'each worker has its connection');
    state $number = 0;
    ++$number;
    # Of many connections, so of both workers.
    is(start_requests($nginx->url("/exact?key=k$number"), 200, connections => 20)->finish->{passed}, 5, 'counting is exact');
    is(scalar $redis->nginx_clients, 2, 'and no more connections');
}

sub works ($nginx) {
    return wait_until(sub { ($nginx->get('/exact?key=' . rand)->{status}) == 200 });
}

# A fault is told once by each worker, not by each request.
sub told_once ($nginx) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    ok(wait_until(sub { 2 == (() = $nginx->error_log =~ /works again/g) }), 'each worker tells of the end');
    my $log = $nginx->error_log;
    my ($begun, $ended) = map { scalar(() = $log =~ /\[error\] .*redis_rate_limit: backend "default" .*$_/g) } 'fails:', 'works again';
    is($begun, 2, 'one line a worker at the begin');
    is($ended, 2, 'one at the end');
}

my @load;

sub begin_load ($nginx, @paths) { @load = map { start_load($nginx->url($_), connections => 8) } @paths }

sub end_load () {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my @results = map { $_->finish } splice @load;
    is(scalar(grep { $_->{broken} } @results), 0, 'each request has an answer');
}

subtest 'killed and restarted' => sub {
    my $redis = RateLimit::Redis->start_new;
    my $nginx = start_nginx($redis);
    my @before = $nginx->workers;
    begin_load($nginx, '/open');
    wait_until(sub { requests_of($nginx) > 500 });
    $redis->kill_now;
    my $killed = requests_of($nginx);
    wait_until(sub { requests_of($nginx) > $killed + 500 });
    $redis->restart;
    ok(works($nginx), 'verdicts again');
    told_once($nginx);
    end_load;
    my @open = grep { $_->{path} eq '/open' } requests_of($nginx);
    is_deeply([ keys count_statuses(@open)->%* ], [200], 'no client noticed');
    is_deeply([ $nginx->workers ], \@before, 'no worker died');
    counts_exactly($redis, $nginx);
    $nginx->stop;
    ok(wait_until(sub { $redis->nginx_clients == 0 }), 'no connection is left');
};

subtest 'scripts forgotten every 10 ms' => sub {
    my $redis  = RateLimit::Redis->start_new;
    my $client = $redis->client;
    my $nginx  = start_nginx($redis);
    my $load   = start_requests($nginx->url('/closed'), 10_000, rate => 4000);
    my $flushes = 0;
    while ($load->is_running) {
        $client->script_flush;
        ++$flushes;
        sleep 0.01;
    }
    my $result = $load->finish;
    is($result->{passed}, 10_000, "all of 10000 pass through $flushes times");
    is($client->llen('rl:{closed:/closed}:sliding_log:60000'), 10_000, 'each was charged once');
    my $evals = $redis->script_calls->{eval};
    cmp_ok($evals, '>', 10, "the script was sent again $evals times");
    unlike($nginx->error_log, qr/fails/, 'none of it is a fault');
    $nginx->stop;
};

# Otherwise Redis frees the memory later, Redis 8 with SYNC, too, and has until then neither room nor a
# key to evict.
sub flush_at_once ($client) {
    $client->multi;
    $client->flushall('SYNC');
    $client->exec;
    return;
}

subtest 'keys are evicted, and flushed' => sub {
    my $redis  = RateLimit::Redis->start_new('maxmemory-policy' => 'allkeys-random');
    my $client = $redis->client;
    my $nginx  = start_nginx($redis);
    ok(works($nginx), 'connected');
    $client->config_set('maxmemory', $client->info('memory')->{used_memory} + 200_000);
    my $load = start_requests($nginx->url('/each'), 10_000, rate => 10_000);
    while ($load->is_running) {
        flush_at_once($client) if $client->info('stats')->{evicted_keys} > 1000;
        sleep 0.05;
    }
    is($load->finish->{passed}, 10_000, 'all of 10000 clients pass');
    my $evicted = $client->info('stats')->{evicted_keys};
    cmp_ok($evicted, '>', 1000, "of which $evicted were forgotten");
    unlike($nginx->error_log, qr/fails/, 'none of it is a fault');
    $client->config_set('maxmemory', 0);
    counts_exactly($redis, $nginx);
    $nginx->stop;
};

# Clients take each connection that the worker may have while Redis is away. nginx takes none back
# on which a request has begun.
subtest 'nginx has no connection for it' => sub {
    my $redis = RateLimit::Redis->start_new;
    my $nginx = start_nginx($redis, workers => 1, connections => 16);
    ok(works($nginx), 'connected');
    my $client = RateLimit::Client->new($nginx)->send("GET /closed HTTP/1.1\r\n");
    # Of the request that has begun; the next one begins with its end.
    my $status = sub ($next) { $client->send("Host: localhost\r\n\r\nGET $next HTTP/1.1\r\n")->response->{status} };
    is($status->('/open'), 200, 'a verdict');
    $redis->kill_now;
    my @others;
    local $SIG{PIPE} = 'IGNORE'; # nginx closes those for which it has no room
    ok(wait_until(sub {
        push @others, my $one = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $nginx->port);
        syswrite $one, "GET /open HTTP/1.1\r\n";
        return @others > 24 && $nginx->error_log =~ /worker_connections are not enough/;
    }), 'there is no connection left');
    $redis->restart;
    my $tried = length $nginx->error_log;
    ok(wait_until(sub { substr($nginx->error_log, $tried) =~ /worker_connections are not enough/ }), 'nor for Redis');
    is(join(' ', map { $status->('/closed') } 1, 2), '200 503', 'the policy holds');
    is(scalar $redis->nginx_clients, 0, 'without Redis');
    @others = ();
    ok(wait_until(sub { $status->('/closed') == 200 }), 'verdicts when clients leave');
    is(scalar(() = $nginx->error_log =~ /backend "default" .*fails:/g), 1, 'it is told once');
    $client->close;
    $nginx->stop(expect => qr/worker_connections are not enough/);
};

subtest 'stopped for two seconds' => sub {
    my $redis = RateLimit::Redis->start_new;
    my $nginx = start_nginx($redis);
    begin_load($nginx, '/open', '/closed');
    wait_until(sub { requests_of($nginx) > 500 });
    my $received = sub { $redis->_redis->info('stats')->{total_connections_received} };
    my $before   = $received->();

    my $began = time;
    $redis->freeze;
    sleep 2; # the fault itself
    my $ended = time;
    my $page  = $nginx->get('/page');
    $redis->thaw;

    is("$page->{status} $page->{content}", '200 sorry', 'error_page is honoured');
    ok(works($nginx), 'verdicts again');
    told_once($nginx);
    end_load;
    my @during = grep { $_->{time} < $ended } requests_of($nginx, $began + 2 * $timeout);
    my @open   = grep { $_->{path} eq '/open' } @during;
    my @closed = grep { $_->{path} eq '/closed' } @during;
    is_deeply([ keys count_statuses(@open)->%* ],   [200], 'open passes: ' . @open);
    is_deeply([ keys count_statuses(@closed)->%* ], [503], 'closed does not: ' . @closed);
    # Each is late by as much as the machine is busy.
    my @all = grep { $_->{path} ne '/page' } requests_of($nginx, $began);
    my $p99 = percentile(99, @all);
    cmp_ok($p99, '<=', $timeout + 0.02, sprintf 'p99 is %.0f ms, the longest %.0f ms', $p99 * 1000, 1000 * percentile(100, @all));
    cmp_ok(percentile(100, @all), '<=', 3 * $timeout, 'none is held for long');
    my @waited = grep { $_->{seconds} > $timeout / 2 } @during;
    note sprintf '%d of %d requests of the outage waited', scalar @waited, scalar @during;
    my $attempts = $received->() - $before;
    cmp_ok($attempts, '<=', 2 * 6, "$attempts connections by two workers, not a loop");
    counts_exactly($redis, $nginx);
    $nginx->stop;
};

subtest 'stalled for 150 ms' => sub {
    my $redis = RateLimit::Redis->start_new;
    my $nginx = start_nginx($redis);
    ok(works($nginx), 'connected');
    my $ids = join ' ', sort map { $_->{id} } $redis->nginx_clients;
    begin_load($nginx, '/closed');
    wait_until(sub { requests_of($nginx) > 500 });
    $redis->freeze;
    sleep 0.15; # the fault itself
    $redis->thaw;
    my $thawed = time;
    ok(works($nginx), 'verdicts again');
    wait_until(sub { time > $thawed + 0.5 });
    end_load;
    my $statuses = count_statuses(requests_of($nginx));
    cmp_ok($statuses->{503} // 0, '>=', 1, 'it cost some deadlines: ' . ($statuses->{503} // 0));
    is(count_statuses(requests_of($nginx, $thawed + 0.1))->{503} // 0, 0, 'but none afterwards');
    is(join(' ', sort map { $_->{id} } $redis->nginx_clients), $ids, 'the connections are the same');
    counts_exactly($redis, $nginx);
    $nginx->stop;
};

subtest 'one check without a verdict' => sub {
    my $redis = RateLimit::Redis->start_new;
    my $nginx = start_nginx($redis, workers => 1);
    ok(works($nginx), 'connected');
    $redis->freeze;
    is($nginx->get('/closed')->{status}, 503, 'a check that gets none');
    $redis->thaw;
    ok(works($nginx), 'verdicts again');
    ok($nginx->wait_for_log(qr/works again, .* [1-9]\d* checks got no verdict/), 'the end is told, though nobody asks any more');
    my $client = $redis->client;
    $client->set('rl:{exact:other}:sliding_log:60000', 'text');
    is($nginx->get('/exact?key=other')->{status}, 503, 'nor does one of a key of another type');
    $client->client('kill', 'type', 'normal', 'skipme', 'yes');
    ok(!$nginx->wait_for_log(qr/WRONGTYPE.* works again/s, 2.5), 'a new connection proves nothing of it');
    $client->del('rl:{exact:other}:sliding_log:60000');
    ok(wait_until(sub { $nginx->get('/exact?key=other')->{status} == 200 }), 'a verdict');
    ok($nginx->wait_for_log(qr/WRONGTYPE.* works again for the keys that failed/s), 'does');
    $nginx->stop;
};

subtest 'a check with a verdict between two without one' => sub {
    my $redis = RateLimit::Redis->start_new;
    my $nginx = start_nginx($redis, workers => 1);
    ok(works($nginx), 'connected');
    my $client   = $redis->client;
    my $statuses = '';
    for my $refuses (1, 0, 1) {
        $client->config('set', 'min-replicas-to-write', $refuses);
        $statuses .= $nginx->get('/closed')->{status} . ' ';
    }
    is($statuses, '503 200 503 ', 'Redis refuses, works, refuses');
    ok(!$nginx->wait_for_log(qr/works again/, 2.5), 'nobody says that it works');
    $client->config('set', 'min-replicas-to-write', 0);
    is($nginx->get('/closed')->{status}, 200, 'it does');
    ok($nginx->wait_for_log(qr/works again, .* 2 checks got no verdict/), 'the end is told');
    is(scalar(() = $nginx->error_log =~ / fails: /g), 1, 'of one outage');
    $nginx->stop;
};

subtest 'a key of another type' => sub {
    my $redis = RateLimit::Redis->start_new;
    my $nginx = start_nginx($redis, workers => 1);
    ok(works($nginx), 'connected');
    my $set = sub { $redis->client->set('rl:{exact:other}:sliding_log:60000', 'text') };
    $set->();
    my $fails = sub { $nginx->get('/exact?key=other')->{status} == 503 };
    ok($fails->(), 'gets no verdict');
    ok($nginx->wait_for_log(qr/ fails: error reply: .*WRONGTYPE/), 'which is told');
    $redis->kill_now;
    ok($nginx->wait_for_log(qr/ fails: (?!error)/), 'and hides no outage');
    $redis->restart;
    ok(works($nginx), 'Redis is back');
    $set->();
    my $lines = sub ($say) { scalar(() = $nginx->error_log =~ /$say/g) };
    my $over  = sub { $lines->('works again') == $lines->(' fails: ') - 1 };
    ok(wait_until(sub { $fails->() && works($nginx) && $over->() }), 'nor that it is over');
    $nginx->stop;
};

subtest 'a master that becomes a replica' => sub {
    my ($redis, $other) = map { RateLimit::Redis->start_new } 1 .. 2;
    my $client = $redis->client;
    my $nginx  = start_nginx($redis);
    ok(works($nginx), 'connected');
    my %old = map { $_->{id} => 1 } $redis->nginx_clients;
    $client->replicaof('127.0.0.1', $other->conf->{port});
    my $left = sub { $nginx->get('/closed'); return !grep { $old{ $_->{id} } } $redis->nginx_clients };
    ok(wait_until($left), 'is left, for what its address may then mean');
    is($nginx->get('/closed')->{status}, 503, 'and is no Redis for checks');
    $client->replicaof('no', 'one');
    ok(works($nginx), 'verdicts again when it is a master');
    $nginx->stop;
};

subtest 'a master that becomes a replica, and checks that only read' => sub {
    my ($redis, $other) = map { RateLimit::Redis->start_new } 1 .. 2;
    my $client = $redis->client;
    my $nginx  = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed;
server {
    listen %PORT%;
    location / {
        redis_rate_limit zone=z algorithm=fixed_window limit=1000000 window=60 cost=0 final_cost=\$body_bytes_sent;
        empty_gif;
    }
}
END
    ok(wait_until(sub { $nginx->get('/?key=k')->{status} == 200 && $client->keys('*') }), 'charged in the end');
    my %old = map { $_->{id} => 1 } $redis->nginx_clients;
    $client->replicaof('127.0.0.1', $other->conf->{port});
    my $left = sub { $nginx->get('/?key=k'); return !grep { $old{ $_->{id} } } $redis->nginx_clients };
    ok(wait_until($left), 'is left');
    ok($nginx->wait_for_log(qr/backend "default" .*fails: error reply: .*READONLY/), 'which is told');
    $nginx->stop;
};

subtest 'a Redis that closes connections nobody uses' => sub {
    my $redis = RateLimit::Redis->start_new(timeout => 2);
    my $nginx = start_nginx($redis);
    ok(wait_until(sub { $redis->nginx_clients == 2 }), 'connected');
    my $id = sub { join ' ', sort map { $_->{id} } $redis->nginx_clients };
    my $first = $id->();
    ok(wait_until(sub { $id->() ne $first && $redis->nginx_clients == 2 }, 20), 'they are replaced');
    is($nginx->get('/closed')->{status}, 200, 'checks get verdicts');
    unlike($nginx->error_log, qr/redis_rate_limit: backend/, 'and the log has nothing to tell');
    $nginx->stop;
};

subtest 'not there at first' => sub {
    my $redis = RateLimit::Redis->start_new;
    $redis->kill_now;
    my $nginx = start_nginx($redis);
    is($nginx->get('/open')->{status},   200, 'open passes');
    is($nginx->get('/closed')->{status}, 503, 'closed does not');
    is($nginx->get('/page')->{content}, 'sorry', 'error_page is honoured');
    my $began = time;
    is($nginx->statuses('/open', 100), join(' ', (200) x 100), 'a hundred pass');
    cmp_ok(time - $began, '<', 5, 'without waiting for their deadlines');
    $redis->restart;
    $began = time;
    ok(wait_until(sub { $redis->nginx_clients == 2 }), 'Redis comes');
    cmp_ok(time - $began, '<', 2.5, sprintf 'found after %.1f s', time - $began); # backoff is 1 s at most
    counts_exactly($redis, $nginx);
    told_once($nginx);
    $nginx->stop;
};

done_testing;
