# Where more than a few checks are pending, what is asked waits for the answer to what is under way,
# or for a millisecond: nobody waits for a Redis that stands still. Who leaves after that has been
# charged.

use v5.36;
use lib 't/lib';
use POSIX qw(SIGCONT);
use RateLimit::Client;
use RateLimit::Nginx;
use RateLimit::Processes;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

sub start_nginx ($redis, %options) {
    return RateLimit::Nginx->start_new(<<"END", %options);
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed deny_cache=off;
server {
    listen %PORT%;
    location /many { redis_rate_limit zone=z algorithm=sliding_log limit=1000 window=60; empty_gif; }
    location /now  { return 200 \$msec; }
}
END
}

# Clients ask all within a millisecond, mostly; `when` is when they leave.
sub charges_who_leaves ($when, %options) {
    my $redis = RateLimit::Redis->start_new;
    my $nginx = start_nginx($redis, %options);
    my $now   = sub { 0 + $nginx->get('/now')->{content} };
    is($nginx->get('/many?key=first')->{status}, 200, 'a verdict');
    for my $round (1 .. 50) {
        my @clients     = 1 .. 5 + $round % 4; # four are asked for at once
        my @connections = map { RateLimit::Client->new($nginx) } @clients;
        $redis->freeze;
        for my $client (@clients) {
            $connections[$client - 1]->send("GET /many?key=$round-$client HTTP/1.1\r\nHost: localhost\r\n\r\n");
        }
        $when->($now);
        $_->close for reverse @connections; # first those that may not have been sent
        wait_until(sub { @clients == (() = $nginx->access_log =~ /key=$round-\d+ HTTP\S*" 499 /g) }) or die 'they have not left';
        $redis->thaw;
        my $charged = sub { scalar grep { $redis->taken("rl:{z:$round-$_}:sliding_log:60000") } @clients };
        ok(wait_until(sub { $charged->() == @clients }), "round $round: each is charged") or diag $charged->();
    }
    $nginx->stop;
}

subtest 'no check waits for long for the answer to another' => sub {
    charges_who_leaves(sub ($now) {
        my $asked = $now->();
        wait_until(sub { $now->() > $asked + 0.005 }) or die 'nginx has no clock';
    });
};

# Then no millisecond ends before the clock ticks.
subtest 'nor at all with timer_resolution' => sub {
    charges_who_leaves(sub ($now) { $now->() for 1 .. 3 }, main => 'timer_resolution 500ms;');
};

# All that came while the worker was not running is of one turn.
subtest 'nor is asked on a connection that Redis has closed' => sub {
    my $redis      = RateLimit::Redis->start_new;
    my $nginx      = start_nginx($redis);
    my $client     = RateLimit::Client->new($nginx);
    my ($worker)   = $nginx->workers;
    my $status_for = sub ($key, $meanwhile) {
        RateLimit::Processes::freeze($worker);
        $meanwhile->();
        $client->send("GET /many?key=$key HTTP/1.1\r\nHost: localhost\r\n\r\n");
        kill SIGCONT, $worker;
        return $client->response->{status};
    };
    is($status_for->('first', sub { }), 200, 'a verdict');
    for my $round (1 .. 10) {
        my ($connection) = $redis->nginx_clients;
        my $kill = sub { $redis->client->client('kill', 'id', $connection->{id}) };
        is($status_for->("closed-$round", $kill), 200, "round $round: but on the next one");
        ok(wait_until(sub { $redis->nginx_clients == 1 }), 'of which Redis knows');
    }
    $nginx->stop;
};

done_testing;
