# Where more than a few checks are pending at a Redis on the same host, what is asked waits for the
# answer to what is under way, or for a millisecond: nobody waits for a Redis that stands still. What
# still waits when the connection breaks is asked on the next one; what was sent gets no answer.

use v5.36;
use lib 't/lib';
use POSIX qw(SIGCONT);
use RateLimit::Client;
use RateLimit::Nginx;
use RateLimit::Processes;
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Wait qw(wait_until);
use Test::More;

sub start_nginx ($server, %options) {
    return RateLimit::Nginx->start_new(<<"END", %options);
redis_rate_limit_backend default { server ${\$server->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed deny_cache=off;
server {
    listen %PORT%;
    location /many { redis_rate_limit zone=z algorithm=sliding_log limit=1000 window=60; empty_gif; }
    location /now  { return 200 \$msec; }
}
END
}

# How many checks have not been sent, of clients that ask all within a millisecond, mostly, of a
# Redis that does not answer, when the connection breaks, which it does `when` that says. Each round
# has an nginx of its own: a connection that breaks again and again is not replaced at once.
sub not_sent ($when, $host = '127.0.0.1', %options) {
    my $redis    = RateLimit::Redis->start_new;
    my $relay    = RateLimit::Relay->start_new($redis->conf->{port}, $host);
    my $not_sent = 0;
    for my $round (1 .. 20) {
        my $nginx = start_nginx($relay, %options);
        my $asker = RateLimit::Client->new($nginx);
        my $now   = sub { 0 + $asker->send("GET /now HTTP/1.1\r\nHost: localhost\r\n\r\n")->response->{body} };
        is($nginx->get('/many?key=first')->{status}, 200, "round $round: a verdict");
        my @clients = map { RateLimit::Client->new($nginx) } 1 .. 5 + $round % 4; # four are asked for at once
        $relay->hold;
        $now->(); # nginx knows the clients' connections
        $_->send("GET /many?key=many HTTP/1.1\r\nHost: localhost\r\n\r\n") for @clients;
        $when->($now);
        $relay->reset_all;
        $relay->release;
        my %statuses;
        ++$statuses{ $_->response->{status} } for @clients;
        is(($statuses{200} // 0) + ($statuses{503} // 0), @clients, 'all are answered');
        $not_sent += $statuses{200} // 0;
        $nginx->stop;
    }
    return $not_sent;
}

# But all of them have asked.
sub at_once ($now) { $now->() }

sub after_some_milliseconds ($now) {
    my $asked = $now->();
    wait_until(sub { $now->() > $asked + 0.005 }) or die 'nginx has no clock';
}

subtest 'a check waits for the answer to others' => sub {
    cmp_ok(not_sent(\&at_once), '>', 0, 'and is not sent meanwhile');
};

subtest 'but not for long' => sub {
    is(not_sent(\&after_some_milliseconds), 0, 'all have been sent');
};

# Then no millisecond ends before the clock ticks.
subtest 'nor at all with timer_resolution' => sub {
    is(not_sent(\&at_once, '127.0.0.1', main => 'timer_resolution 500ms;'), 0, 'all have been sent');
};

# Who connects to this address has another one, as with another host.
subtest 'nor for an answer from elsewhere' => sub {
    is(not_sent(\&at_once, '127.0.0.2'), 0, 'all have been sent');
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
