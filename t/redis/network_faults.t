# What a network or a peer can do to the connection: policy, a new connection where the old one
# cannot be trusted, and nobody gets another's verdict.

use v5.36;
use lib 't/lib';
use List::Util qw(max);
use RateLimit::Metrics qw(metrics_of);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(time);

my $server = RateLimit::Redis->start_new;
my $redis  = $server->client;

# An nginx of one worker whose locations /open and /closed are named after their zones' policy.
sub start_nginx ($backend, %options) {
    my $locations = join '', map { <<"END" } qw(open closed);
location /$_ {
    redis_rate_limit zone=$_ algorithm=sliding_log limit=3 window=60;
    empty_gif;
}
END
    return RateLimit::Nginx->start_new(<<"END", %options);
redis_rate_limit_backend default { $backend breaker off; }
redis_rate_limit_zone \$arg_key zone=open:1m   on_error=open;
redis_rate_limit_zone \$arg_key zone=closed:1m on_error=closed;
redis_rate_limit_log_level info;
server {
    listen %PORT%;
    location /json { redis_rate_limit_metrics json; }
    $locations
}
END
}

sub start_relayed (%more) {
    my %settings = (timeout => '200ms', connect_timeout => '300ms', %more);
    my $relay    = RateLimit::Relay->start_new($server->conf->{port});
    my $nginx    = start_nginx("server 127.0.0.1:${\$relay->port};" . join '', map { "$_ $settings{$_};" } sort keys %settings);
    works($nginx, 'at first');
    return ($relay, $nginx);
}

sub fresh_key () {
    state $number = 0;
    return 'k' . ++$number;
}

sub redis_key ($key, $zone = 'closed') { return "rl:{$zone:$key}:sliding_log:60000" }

# Checks get verdicts, perhaps only after a while.
sub works ($nginx, $when) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    ok(wait_until(sub { $nginx->get('/closed?key=' . fresh_key)->{status} == 200 }), "checks get verdicts $when");
}

sub rss ($nginx) {
    my ($kb) = RateLimit::Nginx::slurp('/proc/' . ($nginx->workers)[0] . '/status') =~ /^VmRSS:\s+(\d+)/m;
    return $kb;
}

subtest 'replies in single bytes' => sub {
    my ($relay, $nginx) = start_relayed;
    $relay->split_bytes(1);
    $relay->reset_all; # so that the login's replies come so, too
    works($nginx, 'after such a login');
    is($nginx->statuses('/closed?key=' . fresh_key, 4), '200 200 200 429', 'the limit holds') for 1 .. 5;
    $nginx->stop;
};

subtest 'a late reply is nobody else\'s' => sub {
    my ($relay, $nginx) = start_relayed;
    my ($early, $late) = (fresh_key, fresh_key);
    $nginx->statuses("/closed?key=$late", 2);
    $relay->hold;
    my $began = time;
    is($nginx->get("/closed?key=$early")->{status}, 503, 'the first check misses its deadline');
    cmp_ok(time - $began, '>=', 0.195, 'not before it');
    my $held   = $relay->counts->{held};
    my $answer = $nginx->get_later("/closed?key=$late");
    ok(wait_until(sub { $relay->counts->{held} > $held }), 'both replies are on their way');
    $relay->release;
    my $response = $answer->();
    is($response->{status},                         200, 'the second check');
    is($response->{headers}{'x-ratelimit-remaining'}, 0, 'has its own verdict');
    is($redis->llen(redis_key($early)), 1, 'the first was counted once');
    is($relay->counts->{accepted},      1, 'the connection is the same');
    $nginx->stop;
};

subtest 'a check without an answer is not sent again' => sub {
    my ($relay, $nginx) = start_relayed;
    my $key = fresh_key;
    $relay->replace_next('');
    is($nginx->get("/closed?key=$key")->{status}, 503, 'its reply is dropped');
    ok(wait_until(sub { $relay->counts->{accepted} == 2 }), 'the silent connection is given up');
    works($nginx, 'on the next one');
    is($redis->llen(redis_key($key)), 1, 'counted once');
    $nginx->stop;
};

subtest 'a reset with checks in flight' => sub {
    my ($relay, $nginx) = start_relayed;
    my @keys = map { fresh_key } 1 .. 8;
    $relay->hold;
    my @answers = map { $nginx->get_later("/closed?key=$_") } @keys;
    ok(wait_until(sub { 8 == grep { $redis->llen(redis_key($_)) } @keys }), 'all are counted');
    $relay->reset_all;
    $relay->release;
    is(join(' ', map { $_->()->{status} } @answers), join(' ', (503) x 8), 'each fails once');
    works($nginx, 'afterwards');
    is(join(' ', map { $redis->llen(redis_key($_)) } @keys), join(' ', (1) x 8), 'none was sent again');
    $nginx->stop;
};

# A reply of the check script: so many numbers of 8 bytes, the lowest first, in one string.
sub reply_of (@numbers) {
    my $bytes = pack 'q<*', @numbers;
    return '$' . length($bytes) . "\r\n$bytes\r\n";
}

# Of lua/sliding_log.lua: the time, units left, and times until one more is there, until all are,
# and until the check would be granted.
my @numbers = (1_700_000_000_000_000, 2, 60_000_000, 60_000_000, 0);
my $verdict = reply_of(@numbers);

sub numbers_but ($i, $number) { return reply_of(@numbers[ 0 .. $i - 1 ], $number, @numbers[ $i + 1 .. $#numbers ]) }

subtest 'replies that are none' => sub {
    my %replies = (
        'garbage'              => "hello\r\n",
        'HTTP'                 => "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        'a huge string'        => "\$536870912\r\n",
        'a long string'        => "\$536870912\r\n" . 'x' x 200_000,
        'a line without end'   => '+' . 'x' x 200_000,
        'a huge array'         => "*4294967295\r\n",
        'a large array'        => "*2147483647\r\n",
        'deep nesting'         => "*1\r\n" x 2000,
        'nil'                  => "\$-1\r\n",
        'a nil array'          => "*-1\r\n",
        'an empty array'       => "*0\r\n",
        'a status'             => "+OK\r\n",
        'a status as long'     => '+' . 'x' x 40 . "\r\n",
        'one number'           => ":0\r\n",
        'five numbers'         => "*5\r\n" . join('', map { ":$_\r\n" } @numbers),
        'texts'                => "*5\r\n" . "\$8\r\nxxxxxxxx\r\n" x 5,
        'a verdict in an array' => "*1\r\n$verdict",
        'an empty string'      => "\$0\r\n\r\n",
        'a number too few'     => reply_of(@numbers[ 0 .. 3 ]),
        'a number too many'    => reply_of(@numbers, 0),
        'a byte too few'       => "\$39\r\n" . 'x' x 39 . "\r\n",
        'a byte too many'      => "\$41\r\n" . 'x' x 41 . "\r\n",
        'text of that size'    => "\$40\r\n" . 'x' x 40 . "\r\n",
        'a check before 1970'  => numbers_but(0, -1),
        'a check at no time'   => numbers_but(0, ~0 >> 1),
        'two replies'          => "$verdict$verdict",
    );
    # No state leads to these numbers, so somebody else wrote the key: its own check fails, and no other.
    my %impossible = (
        'more than the limit'  => numbers_but(1, 3),
        'numbers beyond 2^53'  => numbers_but(1, -2**53 - 2),
        'the least number'     => numbers_but(1, -2**63),
        'times below 0'        => numbers_but(2, -1),
        'resets below 0'       => numbers_but(3, -1),
        'waits below 0'        => numbers_but(4, -1),
        'times beyond 2^53'    => numbers_but(4, 2**53 + 2),
    );
    my $recovers = sub ($place) {
        my ($said, $connections) = $place->@{qw(said connections)};
        works($place->{nginx}, "after $said");
        $place->{connections} = $place->{relay}->counts->{accepted};
        if ($impossible{$said}) {
            is($place->{connections}, $connections, "$said: the same connection");
        } else {
            cmp_ok($place->{connections}, '>', $connections, "$said: a new connection");
        }
        $place->{rss} //= rss($place->{nginx});
    };
    # While one waits before it connects again, others go on.
    my @places = map {
        my ($relay, $nginx) = start_relayed;
        +{ relay => $relay, nginx => $nginx, worker => ($nginx->workers)[0], connections => 1 }
    } 1 .. 6;
    for my $name (('garbage') x 6, sort keys(%replies), keys(%impossible)) {
        push @places, my $place = shift @places;
        $recovers->($place) if $place->{said};
        $place->{said} = $name;
        $place->{relay}->replace_next($replies{$name} // $impossible{$name});
        my $policy = $name eq 'two replies' ? 200 : 503; # the first of two is as good as any
        is($place->{nginx}->get('/closed?key=' . fresh_key)->{status}, $policy, "$name: $policy");
    }
    my $kept = RateLimit::Nginx::preload() ? 8192 : 1024; # a sanitizer keeps what is freed for a while
    for my $place (@places) {
        $recovers->($place);
        is(($place->{nginx}->workers)[0], $place->{worker}, 'the worker lives');
        cmp_ok(rss($place->{nginx}) - $place->{rss}, '<', $kept, 'and is no larger');
        $place->{nginx}->stop;
    }

    my ($relay, $nginx) = start_relayed;
    $relay->replace_next($replies{garbage});
    my $response = $nginx->get('/open?key=' . fresh_key);
    is($response->{status}, 200, 'on_error=open passes');
    is($response->{headers}{'x-ratelimit-limit'}, undef, 'without headers');
    $nginx->stop;
};

subtest 'a connection that ends within a reply, or says what nobody asked for' => sub {
    my ($relay, $nginx) = start_relayed;
    for my $size (0, 1, length($verdict) - 1) {
        $relay->cut_next($size);
        my $key = fresh_key;
        is($nginx->get("/closed?key=$key")->{status}, 503, "closed after $size bytes");
        works($nginx, 'afterwards');
        is($redis->llen(redis_key($key)), 1, 'counted once');
    }
    my $connections = $relay->counts->{accepted};
    $relay->inject($verdict);
    ok(wait_until(sub { $relay->counts->{accepted} > $connections }), 'an unasked reply: a new connection');
    works($nginx, 'on it');
    $nginx->stop;
};

# Where no connection comes about: the first check may wait for it, the others do not, and there is
# no loop of attempts. Backoff doubles from 50 ms to 1 s, shortened by up to a half, so there are 7
# attempts at most in these 2 s. `count` tells the attempts so far, where they show; `most` is more
# where those of the connection for live limits show, too.
sub fails_at_once ($nginx, $name, $count = undef, $most = 7) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is($nginx->get('/closed?key=' . fresh_key)->{status}, 503, "$name: closed does not pass");
    my $before = $count && $count->();
    my ($began, $longest, %statuses) = (time, 0);
    while (time < $began + 2) {
        my $asked = time;
        ++$statuses{ $nginx->get('/open?key=' . fresh_key)->{status} };
        $longest = max($longest, time - $asked);
    }
    is(join(' ', keys %statuses), 200, "$name: open passes");
    cmp_ok($longest, '<', 0.15, sprintf '%s: without waiting, the longest took %.0f ms', $name, $longest * 1000);
    return if !$count;
    my $attempts = $count->() - $before;
    cmp_ok($attempts, '<=', $most, "$name: $attempts attempts in 2 s");
    cmp_ok($attempts, '>=', 1, "$name: not given up");
}

subtest 'a peer that accepts and says nothing' => sub {
    my ($relay, $nginx) = start_relayed(timeout => '5s');
    $relay->hold;
    $relay->reset_all;
    fails_at_once($nginx, 'silence', sub { $relay->counts->{accepted} });
    like($nginx->error_log, qr/"default" at 127\.0\.0\.1:\d+ fails/, 'the log tells of it');
    cmp_ok($relay->counts->{open}, '<=', 1, 'no connection is left behind');
    $relay->reset_all;
    $relay->release;
    works($nginx, 'when it speaks again');
    $nginx->stop;
};

subtest 'a peer that speaks something else' => sub {
    my ($relay, $nginx) = start_relayed(timeout => '5s');
    $relay->replace_next("SSH-2.0-OpenSSH_9.2\r\n") for 1 .. 10;
    $relay->reset_all;
    fails_at_once($nginx, 'SSH', sub { $relay->counts->{accepted} });
    $nginx->stop;
};

# A connection that served for a while is replaced at once, but one like this may not be.
subtest 'a peer that leaves as soon as it has let us in' => sub {
    my $relay   = RateLimit::Relay->start_new($server->conf->{port});
    my $nginx   = start_nginx("server 127.0.0.1:${\$relay->port};");
    my $backend = sub { metrics_of($nginx)->{backends}{default} };
    ok(wait_until(sub { $backend->()->{state} eq 'up' }), 'connected');
    $relay->leave_after($relay->counts->{replied}); # nothing but the login
    $relay->reset_all;
    ok(wait_until(sub { $backend->()->{reconnects} > 0 }), 'it lets us in again');
    my $before = $relay->counts->{accepted};
    sleep 2;
    my $attempts = $relay->counts->{accepted} - $before;
    cmp_ok($attempts, '<=', 7, "$attempts attempts in 2 s, no loop");
    cmp_ok($attempts, '>=', 1, 'not given up');
    $relay->leave_after(0);
    works($nginx, 'when it stays');
    $nginx->stop;
};

subtest 'too many checks in flight' => sub {
    my ($relay, $nginx) = start_relayed(max_pending => 2, timeout => '10s');
    $relay->hold;
    my @suspended = map { $nginx->get_later('/closed?key=' . fresh_key) } 1 .. 2;
    my $key = fresh_key;
    ok(wait_until(sub { $nginx->get("/closed?key=$key")->{status} == 503 }), 'the third is refused at once');
    is($nginx->get('/open?key=' . fresh_key)->{status}, 200, 'or passes');
    is($redis->llen(redis_key($key)), 0, 'Redis was not asked');
    like($nginx->error_log, qr/fails: too many pending checks,/, 'the log tells why');
    $relay->release;
    is(join(' ', map { $_->()->{status} } @suspended), '200 200', 'the first two get their verdicts');
    is($nginx->statuses('/closed?key=' . fresh_key, 4), '200 200 200 429', 'then there is room again');
    $nginx->stop;
};

# Those of a real Redis: see redis_errors.t.
subtest 'errors of any kind' => sub {
    my ($relay, $nginx) = start_relayed;
    my $fails = sub ($name, $key = fresh_key) {
        is($nginx->get("/closed?key=$key")->{status}, 503, "$name: no verdict");
        my $response = $nginx->get("/open?key=$key");
        is($response->{status}, 200, "$name: never a denial");
        is($response->{headers}{'x-ratelimit-limit'}, undef, "$name: no headers");
    };
    for my $error ('UNHEARDOF words', '', 'x' x 5000) {
        $relay->replace_next("-$error\r\n") for 1 .. 2;
        $fails->(length $error ? substr $error, 0, 20 : 'an empty error');
    }
    $relay->replace_next("-NOSCRIPT No matching script\r\n") for 1 .. 4; # to EVALSHA and to EVAL
    $fails->('NOSCRIPT twice');

    my $key = fresh_key;
    $redis->set(redis_key($key, $_), 'text') for qw(open closed);
    $fails->('a key of another type', $key);
    is($nginx->get('/closed?key=' . fresh_key)->{status}, 200, 'another key is not concerned');
    $redis->del(redis_key($key));
    is($nginx->get("/closed?key=$key")->{status}, 200, 'nor this one, once deleted');
    is($relay->counts->{accepted}, 1, 'the connection is the same all the while');

    $relay->replace_next("-NOAUTH Authentication required.\r\n");
    is($nginx->get('/closed?key=' . fresh_key)->{status}, 503, 'a Redis that does not know us: no verdict');
    works($nginx, 'on a connection that has logged in');
    is($relay->counts->{accepted}, 2, 'the next one');
    $nginx->stop;
};

subtest 'no room for one more client' => sub {
    my $full = RateLimit::Redis->start_new(maxclients => 1); # Test::RedisServer's own connection
    my $nginx = start_nginx("server ${\$full->address};");
    my $rejected = sub { $full->_redis->info('stats')->{rejected_connections} };
    fails_at_once($nginx, 'maxclients 1', $rejected, 2 * 7);
    $full->_redis->config_set('maxclients', 100);
    works($nginx, 'when there is room');
    $nginx->stop;
};

subtest 'a connect that hangs' => sub {
    # A listener whose queue is full: the kernel drops what tries to connect.
    my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1) or die "listen: $!";
    listen $listener, 0; # which IO::Socket does not take for a number
    my @queued = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $listener->sockport, Blocking => 0) } 1 .. 4;
    my $nginx = start_nginx("server 127.0.0.1:${\$listener->sockport}; timeout 900ms; connect_timeout 600ms;");
    # The deadline of the first check falls into the second attempt.
    fails_at_once($nginx, 'a full queue');
    like($nginx->error_log, qr/fails: no connection in time: connecting,/, 'the log tells why');
    $nginx->stop;
};

done_testing;
