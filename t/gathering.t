# Where more than a few checks are pending at a Redis on the same host, what is asked waits for the
# answer to what is under way, or for a millisecond: nobody waits for a Redis that stands still. Who
# leaves meanwhile is not charged, who leaves after that has been.

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

# How many of the clients are never charged who ask all within a millisecond, mostly, of a Redis that
# stands still, and leave `when` it says.
sub not_charged ($redis, $when, %options) {
    my $nginx       = start_nginx($redis, %options);
    my $now         = sub { 0 + $nginx->get('/now')->{content} };
    my $not_charged = 0;
    is($nginx->get('/many?key=first')->{status}, 200, 'a verdict');
    for my $round (1 .. 50) {
        my @clients     = 1 .. 5 + $round % 4; # four are asked for at once
        my @connections = map { RateLimit::Client->new($nginx) } @clients;
        $redis->freeze;
        for my $client (@clients) {
            $connections[$client - 1]->send("GET /many?key=$round-$client HTTP/1.1\r\nHost: localhost\r\n\r\n");
        }
        $when->($now);
        $_->reset for reverse @connections; # first those that may not have been sent
        wait_until(sub { @clients == (() = $nginx->access_log =~ /key=$round-\d+ HTTP\S*" 499 /g) }) or die 'they have not left';
        $redis->thaw;
        is($nginx->get("/many?key=$round-last")->{status}, 200, "round $round: a verdict after those of theirs");
        $not_charged += grep { !$redis->taken("rl:{z:$round-$_}:sliding_log:60000") } @clients;
    }
    $nginx->stop;
    return $not_charged;
}

sub at_once ($now) { return }

sub after_some_milliseconds ($now) {
    my $asked = $now->();
    wait_until(sub { $now->() > $asked + 0.005 }) or die 'nginx has no clock';
}

subtest 'a check waits for the answer to others' => sub {
    cmp_ok(not_charged(RateLimit::Redis->start_new, \&at_once), '>', 0, 'who leaves meanwhile is not asked for');
};

subtest 'but not for long' => sub {
    is(not_charged(RateLimit::Redis->start_new, \&after_some_milliseconds), 0, 'all have been asked for');
};

# Then no millisecond ends before the clock ticks.
subtest 'nor at all with timer_resolution' => sub {
    is(not_charged(RateLimit::Redis->start_new, \&at_once, main => 'timer_resolution 500ms;'), 0, 'all have been asked for');
};

# Who connects to this address has another one, as with another host.
subtest 'nor for an answer from elsewhere' => sub {
    is(not_charged(RateLimit::Redis->start_new(bind => '127.0.0.2'), \&at_once), 0, 'all have been asked for');
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
