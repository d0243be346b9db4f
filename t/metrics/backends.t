# What is told of backends: their states, and what came of the checks.

use v5.36;
use lib 't/lib';
use List::Util qw(sum0);
use RateLimit::Client;
use RateLimit::Metrics qw(metrics_of pending request);
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis = RateLimit::Redis->start_new;
my ($held, $lost) = map { RateLimit::Relay->start_new($redis->conf->{port}) } 1 .. 2;

subtest 'backends' => sub {
    my %of = (
        default => 'server ' . $redis->address . '; connect_timeout 5s; timeout 5s;',
        nobody  => 'server 127.0.0.1:' . empty_port . ';',
        slow    => 'server 127.0.0.1:' . $held->port . '; connect_timeout 5s; timeout 50ms; breaker failures=2 cooldown=1h;',
        full    => 'server 127.0.0.1:' . $lost->port . '; connect_timeout 5s; timeout 30s; max_pending 1;',
    );
    my $http = join '', map { "redis_rate_limit_backend $_ { $of{$_} } redis_rate_limit_zone \$arg_key zone=$_:1m backend=$_ on_error=open;\n" } sort keys %of;
    my $locations = join '', map { "location /$_ { redis_rate_limit zone=$_ algorithm=sliding_log limit=100 window=60; empty_gif; }\n" } sort keys %of;
    my $nginx = RateLimit::Nginx->start_new(<<"END");
$http
redis_rate_limit_backend unused { server ${\$redis->address}; }
redis_rate_limit_backend far { mode sentinel; server 127.0.0.1; server [::1]:1234; sentinel_master m; }
server { listen %PORT%; location /json { redis_rate_limit_metrics json; } location /metrics { redis_rate_limit_metrics; } $locations }
END
    my $told   = sub ($name) { metrics_of($nginx)->{backends}{$name} };
    my $errors = sub ($name) { my $errors = $told->($name)->{errors}; return { map { $_ => $errors->{$_} } grep { $errors->{$_} } keys %$errors } };
    my $states = sub () { my $backends = metrics_of($nginx)->{backends}; join ' ', map { "$_=$backends->{$_}{state}" } sort keys %$backends };
    ok(wait_until(sub { $states->() eq 'default=up far=idle full=up nobody=down slow=up unused=idle' }), 'states') or diag $states->();

    is_deeply($told->('default')->{servers}, [ $redis->address ], 'the server');
    is_deeply($told->('far')->{servers}, [ '127.0.0.1:26379', '[::1]:1234' ], 'servers with the ports that nobody gave');

    request($nginx, '/default?key=1', 3);
    $redis->client->set('rl:{default:bad}:sliding_log:60000', 'text');
    request($nginx, '/default?key=bad', 2);
    is_deeply($errors->('default'), { reply => 2 }, 'errors of Redis');
    request($nginx, '/nobody?key=1', 4);
    my $refused = $errors->('nobody');
    is(sum0(values %$refused), 4, 'without a connection: ' . join ' ', %$refused);
    $held->hold;
    request($nginx, '/slow?key=1', 5);
    $held->release;
    is_deeply($errors->('slow'), { timeout => 2, breaker => 3 }, 'no answer in time, then the breaker');
    $lost->hold;
    my $first = RateLimit::Client->new($nginx)->send("GET /full?key=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    ok(wait_until(sub { pending($nginx, 'full') == 1 }), 'one is pending');
    request($nginx, '/full?key=1');
    is_deeply($errors->('full'), { overload => 1 }, 'where there is room for one');
    $lost->release;
    $first->response;
    is_deeply([ map { $told->($_)->{checks} } qw(default nobody slow full unused) ], [ 5, 4, 5, 2, 0 ], 'all checks');

    my $latency = $told->('slow')->{latency_seconds};
    # nginx's timers go by whole milliseconds of a clock that it reads once a turn
    cmp_ok($latency->{p50}, '>=', 0.045, "what waited has taken its time: p50 $latency->{p50}");
    cmp_ok($latency->{max}, '>=', $latency->{p99}, "max $latency->{max}");
    my $text = $nginx->get('/metrics')->{content};
    my %count = map { $_ => $text =~ /check_duration_seconds_count\{backend="$_"\} (\d+)/ } sort keys %of;
    delete $count{nobody}; # which may have waited for the first attempt
    is_deeply(\%count, { default => 5, slow => 2, full => 1 }, 'times of what was asked');

    is($told->('default')->{script_reloads}, 0, 'no script is forgotten yet');
    $redis->client->script_flush;
    request($nginx, '/default?key=1');
    is($told->('default')->{script_reloads}, 1, 'then one');
    is($told->('default')->{reconnects}, 0, 'no reconnect yet');
    $redis->client->client_kill('TYPE', 'normal');
    ok(wait_until(sub { my $now = $told->('default'); $now->{reconnects} == 1 && $now->{state} eq 'up' }), 'then one');
    like($text, qr/backend_up\{backend="default"\} 1\n/, 'a backend that is up');
    like($text, qr/backend_up\{backend="nobody"\} 0\n/, 'and one that is not');
    $redis->stop;
    ok(wait_until(sub { $told->('default')->{state} eq 'down' }), 'it goes down');
    $nginx->stop;
};

done_testing;
