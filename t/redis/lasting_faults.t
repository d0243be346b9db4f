# A fault that only some requests meet, and others between them do not: it is told when it begins and when
# it ends, and not before it is over. A worker that leaves meanwhile tells so, too.

use v5.36;
use lib 't/lib';
use RateLimit::Clock;
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep time);

my $second = 1_000_000;
my $day    = 24 * 3600 * $second;
my $clock  = RateLimit::Clock->new(int(time) * $second);
my $redis  = RateLimit::Redis->start_new(clock => $clock);
my $client = $redis->client;
my $nginx  = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 5s; breaker failures=1000; }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed deny_cache=off;
server {
    listen %PORT%;
    location /window { redis_rate_limit zone=z algorithm=fixed_window limit=1 window=1h; empty_gif; }
    location /day    { redis_rate_limit zone=z algorithm=fixed_window limit=1000 window=day; empty_gif; }
    location /year   { redis_rate_limit zone=z algorithm=fixed_window limit=1000 window=year; empty_gif; }
    location /both   {
        redis_rate_limit zone=z algorithm=fixed_window limit=1000 window=2h;
        redis_rate_limit zone=z algorithm=fixed_window limit=1000 window=3h;
        empty_gif;
    }
}
END

sub status ($path, $key) { return $nginx->get("/$path?key=$key")->{status} }

# A key that nobody has asked for.
sub fresh_key () {
    state $number = 0;
    return 'fresh-' . ++$number;
}

my $told = 0; # how much of the log is of the subtests before

sub log_since ()  { return join '', grep { /redis_rate_limit/ } split /^/, substr($nginx->error_log, $told) }
sub count ($said) { return scalar(() = log_since =~ /$said/g) }

# Whether others have verdicts for longer than it takes an outage to end.
sub is_answered_on ($other) {
    my $began = time;
    while (time < $began + 1.3) {
        $other->() or return 0;
        sleep 0.1;
    }
    return 1;
}

sub is_told_once ($fails, $other) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    for my $time (1 .. 3) {
        is($fails->(), 503, "no verdict, time $time");
        ok(is_answered_on($other), 'others have theirs');
    }
    is(count('fails:'), 1, 'one line tells of it') or diag(log_since);
    is(count('works again'), 0, 'none says that it is over');
}

sub end_is_told ($asks, $says) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    ok(wait_until(sub { $asks->() == 200 && count('works again') }), 'its end is told');
    is(count("$says, it failed for \\d+ ms, 3 checks got no verdict"), 1, "as: $says") or diag(log_since);
    is(count('fails:'), 1, 'and nothing else');
    $told = length $nginx->error_log;
}

ok(wait_until(sub { status('day', fresh_key) == 200 }), 'Redis decides');
$told = length $nginx->error_log;

subtest 'a key of another type' => sub {
    my $key = 'rl:{z:bad}:fixed_window:3600000';
    $client->hset($key, field => 'value');
    is_told_once(sub { status('window', 'bad') }, sub { status('window', fresh_key) == 200 });
    $client->del($key);
    end_is_told(sub { status('window', 'bad') }, 'works again for the keys that failed');
};

subtest 'two keys of one check' => sub {
    my @keys = map { "rl:{z:worse}:fixed_window:${_}000" } 7200, 10800;
    $client->hset($_, field => 'value') for @keys;
    is(status('both', 'worse'), 503, 'no verdict');
    $client->del($keys[0]);
    is(status('both', 'worse'), 503, 'nor where one is left');
    ok(is_answered_on(sub { status('both', fresh_key) == 200 }), 'others have theirs');
    is(count('works again'), 0, 'the log does not say that it is over');
    $client->del($keys[1]);
    ok(wait_until(sub { status('both', 'worse') == 200 && count('works again for the keys') }), 'before it is');
    $told = length $nginx->error_log;
};

subtest "Redis's clock is days off" => sub {
    $clock->move(10 * $day);
    is_told_once(sub { status('day', fresh_key) }, sub { status('year', fresh_key) == 200 && status('window', fresh_key) == 200 });
    $clock->move(-10 * $day);
    end_is_told(sub { status('day', fresh_key) }, 'works again for the calendars that failed');
};

# Who is denied writes nothing.
my %refusal = (
    OOM        => [ maxmemory               => 1 ],
    NOREPLICAS => [ 'min-replicas-to-write' => 1 ],
);
for my $word (sort keys %refusal) {
    subtest $word => sub {
        my ($setting, $value) = $refusal{$word}->@*;
        my $denied = fresh_key;
        status('window', $denied);
        is(status('window', $denied), 429, 'somebody is denied');
        $client->config_set($setting, $value);
        is_told_once(sub { status('window', fresh_key) }, sub { status('window', $denied) == 429 });
        $client->config_set($setting, 0);
        end_is_told(sub { status('window', fresh_key) }, 'works again');
    };
}

subtest 'a worker that leaves' => sub {
    $client->hset('rl:{z:bad}:fixed_window:3600000', field => 'value');
    is(status('window', 'bad'), 503, 'no verdict') for 1 .. 3;
    ok($nginx->wait_for_log(qr/WRONGTYPE/), 'which is told');
    $nginx->reload;
    ok(wait_until(sub { count('is no longer asked by this worker, it failed for \d+ ms, 3 checks got no verdict') }),
        'tells how many checks it was') or diag(log_since);
};

$nginx->stop;
done_testing;
