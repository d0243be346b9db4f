# Names of servers with a resolver: looked up by the workers, again for each connection; a name that
# nobody knows any more keeps its address.

use v5.36;
use lib 't/lib';
use RateLimit::Dns;
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(time);

my @redis = map { RateLimit::Redis->start_new(bind => "127.0.0.$_") } 1, 2;
my $port  = $redis[0]->conf->{port};
my $away  = RateLimit::Redis->start_new(bind => '127.0.0.3', port => $port);
$redis[1]->stop;
$redis[1] = RateLimit::Redis->start_new(bind => '127.0.0.2', port => $port);

sub start_nginx ($dns, $more = '') {
    return RateLimit::Nginx->start_new(<<"END");
${\$dns->resolver}
redis_rate_limit_backend default { server redis.test:$port; $more }
redis_rate_limit_zone \$arg_key zone=open:1m   on_error=open;
redis_rate_limit_zone \$arg_key zone=closed:1m on_error=closed;
server {
    listen %PORT%;
    location /open   { redis_rate_limit zone=open   algorithm=sliding_log limit=2 window=60; empty_gif; }
    location /closed { redis_rate_limit zone=closed algorithm=sliding_log limit=2 window=60; empty_gif; }
}
END
}

sub holds_key ($number, $key) {
    return Redis->new(server => '127.0.0.' . ($number + 1) . ":$port")->exists("rl:{closed:$key}:sliding_log:60000");
}

sub works ($nginx) { return wait_until(sub { $nginx->get('/closed?key=' . rand)->{status} == 200 }) }

subtest 'a name that comes to mean another address' => sub {
    my $dns   = RateLimit::Dns->start_new('redis.test' => '127.0.0.1');
    my $nginx = start_nginx($dns);
    ok(works($nginx), 'is looked up by the worker');
    is($nginx->statuses('/closed?key=first', 3), '200 200 429', 'the limit holds');
    ok(holds_key(0, 'first'), 'at that address');

    $dns->answer('redis.test' => '127.0.0.2');
    is($nginx->get('/closed?key=second')->{status}, 200, 'while it works it is not left');
    ok(holds_key(0, 'second'), 'for another');
    $redis[0]->kill_now;
    ok(works($nginx), 'then the name is looked up again');
    is($nginx->get('/closed?key=third')->{status}, 200, 'a verdict');
    ok(holds_key(1, 'third'), 'from the other address');
    $nginx->stop;
};

subtest 'a name that nobody knows any more' => sub {
    my $dns   = RateLimit::Dns->start_new('redis.test' => '127.0.0.2');
    my $nginx = start_nginx($dns);
    ok(works($nginx), 'verdicts');
    $dns->answer;
    $redis[1]->client->client('kill', 'type', 'normal', 'skipme', 'yes');
    ok(works($nginx), 'it keeps its address');
    undef $dns->{process};
    $redis[1]->client->client('kill', 'type', 'normal', 'skipme', 'yes');
    ok(works($nginx), 'also where the name server does not answer');
    $nginx->stop;
};

subtest 'a name that nobody ever knew' => sub {
    my $dns   = RateLimit::Dns->start_new;
    my $nginx = start_nginx($dns, 'connect_timeout 10s; timeout 10s;'); # or the log tells of a name server that is busy
    is($nginx->get('/open?key=a')->{status}, 200, 'open passes');
    ok(wait_until(sub { $nginx->get('/closed?key=a')->{status} == 503 }), 'closed does not');
    ok($nginx->wait_for_log(qr/backend "default" at redis\.test fails: its name cannot be resolved: Host not found,/), 'the log tells why');
    $dns->answer('redis.test' => '127.0.0.3');
    ok(works($nginx), 'verdicts once it is known');
    is(scalar(() = $nginx->error_log =~ / fails: /g), 1, 'one line for all of it');
    $nginx->stop;
};

subtest 'a name server that takes its time' => sub {
    my $dns   = RateLimit::Dns->start_new('redis.test' => '127.0.0.3', delay => 1);
    my $began = time;
    my $nginx = start_nginx($dns);
    ok(works($nginx), 'verdicts') or diag($nginx->error_log);
    cmp_ok(time - $began, '<', 6, sprintf 'after %.1f s', time - $began);
    $nginx->stop;
};

# Its addresses come in any order.
subtest 'a name of which one address is of no use' => sub {
    my $dns   = RateLimit::Dns->start_new('redis.test' => '127.0.0.4,127.0.0.3');
    my $nginx = start_nginx($dns, 'timeout 5s; connect_timeout 5s;');
    my @statuses;
    for my $worker (1 .. 8) {
        push @statuses, $nginx->get("/closed?key=worker$worker")->{status};
        $nginx->reload;
    }
    is("@statuses", join(' ', (200) x 8), 'each worker turns to the other one before it gives up');
    unlike($nginx->error_log, qr/ fails: /, 'which is no failure');
    $nginx->stop;
};

subtest 'addresses' => sub {
    my $both = RateLimit::Redis->start_new;
    $both->client->config_set('bind', '127.0.0.1 ::1');
    for my $server ("127.0.0.3:$port", "[::1]:${\$both->conf->{port}}") {
        my $nginx = RateLimit::Nginx->start_new(<<"END");
resolver 127.0.0.1:9;
redis_rate_limit_backend default { server $server; connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$arg_key zone=closed:1m on_error=closed;
server { listen %PORT%; location / { redis_rate_limit zone=closed algorithm=sliding_log limit=2 window=60; empty_gif; } }
END
        is($nginx->statuses('/?key=address', 3), '200 200 429', "$server is asked of nobody");
        $nginx->stop;
    }
};

done_testing;
