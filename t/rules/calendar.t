# Windows of calendars through nginx: the clock of Redis and those of the hosts are the test's. All zones and
# windows are in t/model/calendars.t, and what is granted in each in t/model/calendars_test.cpp.

use v5.36;
use lib 't/lib';
use File::Copy qw(copy);
use File::Temp qw(tempdir);
use RateLimit::Api qw(api);
use RateLimit::Clock;
use RateLimit::Metrics qw(metrics_of outcomes);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::Local qw(timegm);

my $second = 1_000_000;
my $hour   = 3600;
my $day    = 24 * $hour;

# UTC, in seconds.
sub at ($year, $month, $day_of_month, $hours = 0, $minutes = 0, $seconds = 0) {
    return timegm($seconds, $minutes, $hours, $day_of_month, $month - 1, $year);
}

my $has_zones = do {
    my $nginx = RateLimit::Nginx->new('redis_rate_limit_zone $arg_key zone=z:1m; server { listen %PORT%; redis_rate_limit zone=z algorithm=fixed_window limit=1 window=day timezone=Europe/Berlin; }');
    my ($said) = $nginx->test_configuration;
    $said !~ /built without/;
};

my $redis_clock = RateLimit::Clock->new(at(2026, 7, 1, 12) * $second);
my $redis       = RateLimit::Redis->start_new(clock => $redis_clock);

my %rule = (
    day     => 'window=day limit=3',
    week    => 'window=week limit=3',
    month   => 'window=month limit=3',
    quarter => 'window=quarter starts=15 limit=3',
    year    => 'window=year limit=3',
    $has_zones
    ? (
        berlin => 'window=day timezone=Europe/Berlin limit=3',
        period => 'window=month starts=15 timezone=Europe/Berlin limit=3',
      )
    : (),
    costs   => 'window=month limit=100 cost=10 final_cost=$arg_final',
    shards  => 'window=month limit=64 shards=4',
    blocks  => 'window=day limit=1 block=3h',
    leases  => 'window=month limit=100000 lease=2s',
    aligned => 'window=1h aligned limit=1000',
);

# Options: clock, and on_error of the zone.
sub start_host (%options) {
    my $on_error = $options{on_error} // 'closed';
    return RateLimit::Nginx->start_new(<<"END", clock => $options{clock});
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; breaker failures=2 cooldown=60s; }
redis_rate_limit_zone \$arg_key zone=plan:1m on_error=$on_error deny_cache=off;
add_header X-Source \$redis_rate_limit_source always;
add_header X-Rule   \$redis_rate_limit_rule always;
server {
    listen %PORT%;
    location = /json { redis_rate_limit_metrics json; }
    location /api/   { redis_rate_limit_api write; }
    @{[ map { "location = /$_ { redis_rate_limit zone=plan algorithm=fixed_window $rule{$_} name=$_; empty_gif; }" } sort keys %rule ]}
    location = /default { redis_rate_limit zone=plan algorithm=fixed_window window=month limit=3; empty_gif; }
    location = /blocking {
        redis_rate_limit zone=plan algorithm=fixed_window limit=1 window=1h block=1h name=blocking;
        redis_rate_limit zone=plan algorithm=fixed_window $rule{month} name=month;
        empty_gif;
    }
    location = /two {
        redis_rate_limit zone=plan algorithm=fixed_window $rule{aligned} name=aligned;
        redis_rate_limit zone=plan algorithm=fixed_window $rule{month} name=month;
        empty_gif;
    }
}
END
}

my $host_clock = RateLimit::Clock->new($redis_clock->now);
my $nginx      = start_host(clock => $host_clock);

# Both clocks at so many seconds.
sub set_clocks ($seconds) {
    $_->set(int($seconds * $second)) for $redis_clock, $host_clock;
}

# Status, what is left, seconds until the end and of the window: `200 2 3600 86400`.
sub told ($path, $host = $nginx) {
    my $response = $host->get($path);
    my $headers  = $response->{headers};
    my ($window) = ($headers->{'ratelimit-policy'} // '') =~ /;w=(\d+)/;
    return join ' ', $response->{status}, (map { $_ // '-' } $headers->@{qw(x-ratelimit-remaining x-ratelimit-reset)}), $window // '-';
}

# The units that Redis holds of a calendar's counter.
sub taken ($key) { return (unpack 'ddd', $redis->client->get($key) // return 0)[1] }

# --- windows

subtest 'each unit' => sub {
    my $now = at(2028, 2, 29, 13);
    set_clocks($now);
    is(told('/day?key=a'),     "200 2 ${\(11 * $hour)} $day", 'a day');
    is(told('/week?key=a'),    "200 2 ${\(at(2028, 3, 6) - $now)} ${\(7 * $day)}", 'a week begins on Monday');
    is(told('/month?key=a'),   "200 2 ${\(11 * $hour)} ${\(29 * $day)}", 'a month');
    is(told('/quarter?key=a'), "200 2 ${\(at(2028, 4, 15) - $now)} ${\(91 * $day)}", 'a quarter that starts on another day');
    is(told('/year?key=a'),    "200 2 ${\(at(2029, 1, 1) - $now)} ${\(366 * $day)}", 'a year');
    my $response = $nginx->get('/default?key=a');
    is($response->{headers}{'x-rule'}, 'plan/month', 'the default name');
    is($response->{headers}{'ratelimit-policy'}, '"plan/month";q=3;w=' . 29 * $day, 'stands in the policy');
    is($response->{headers}{ratelimit}, '"plan/month";r=2;t=' . 11 * $hour, 'and the next unit comes with the next window');
    my $begin = 'rl:{plan:a}:fixed_window:';
    is(join(' ', $redis->keys), join(' ', map { "$begin$_" } qw(day:day month month:month quarter-15:quarter week:week year:year)), 'the keys in Redis');
    my $life = $redis->client->pttl("${begin}month") - 11 * $hour * 1000;
    cmp_ok(abs($life - 5000), '<=', 2, 'live 5 s longer than the window');
};

subtest 'a boundary' => sub {
    set_clocks(at(2026, 3, 31, 23, 59, 59) + 0.999999);
    is(told('/month?key=b'), "200 2 1 ${\(31 * $day)}", 'the last microsecond');
    $nginx->get('/month?key=b') for 1, 2;
    my $denied = $nginx->get('/month?key=b');
    is("$denied->{status} $denied->{headers}{'retry-after'}", '429 1', 'is full');
    set_clocks(at(2026, 4, 1));
    is(told('/month?key=b'), "200 2 ${\(30 * $day)} ${\(30 * $day)}", 'the next one begins');
    $nginx->get('/month?key=b') for 1, 2;
    $denied = $nginx->get('/month?key=b');
    is("$denied->{status} $denied->{headers}{'retry-after'}", "429 ${\(30 * $day)}", 'and has a limit of its own');
};

subtest 'time zones' => sub {
    plan skip_all => 'built without cctz' if !$has_zones;
    set_clocks(at(2026, 3, 28, 22, 59, 59));
    is(told('/berlin?key=c'), "200 2 1 $day", 'before the day on which summer time begins');
    set_clocks(at(2026, 3, 28, 23));
    is(told('/berlin?key=c'), "200 2 ${\(23 * $hour)} ${\(23 * $hour)}", 'which has 23 hours');
    set_clocks(at(2026, 10, 24, 22));
    is(told('/berlin?key=c'), "200 2 ${\(25 * $hour)} ${\(25 * $hour)}", 'and the one on which it ends has 25');
    set_clocks(at(2026, 10, 20));
    is(told('/period?key=c'), "200 2 ${\(at(2026, 11, 14, 23) - at(2026, 10, 20))} ${\(31 * $day + $hour)}", 'a billing period over that');
    is(scalar(grep { $_ eq 'rl:{plan:c}:fixed_window:month-15@Europe/Berlin:period' } $redis->keys), 1, 'its key');
};

# --- clocks

subtest 'two hosts around a boundary' => sub {
    my $midnight = at(2026, 8, 1);
    my @clocks   = map { RateLimit::Clock->new($midnight * $second) } 1, 2;
    my @hosts    = map { start_host(clock => $_) } @clocks;
    my $statuses = sub ($time) {
        $redis_clock->set($time * $second);
        $clocks[0]->set(($time + 420) * $second); # seven minutes ahead
        $clocks[1]->set(($time - 420) * $second); # and behind
        return join ' ', map { $_->get('/month?key=two')->{status} } @hosts, @hosts;
    };
    is($statuses->($midnight - 300), '200 200 200 429', 'they share the window by the clock of Redis');
    is($statuses->($midnight - 1), '429 429 429 429', 'to its end');
    is($statuses->($midnight), '200 200 200 429', 'and begin the next one together');
    is($statuses->($midnight + 300), '429 429 429 429', 'which goes on');
    $_->stop for @hosts;
};

# In its data Berlin has the time of UTC, so that the day ends there two hours later than it does.
subtest 'a host with older tz data' => sub {
    plan skip_all => 'this module knows UTC alone' if !$has_zones;
    my $zones = tempdir(CLEANUP => 1);
    mkdir "$zones/Europe" or die "mkdir: $!";
    copy('/usr/share/zoneinfo/Etc/UTC', "$zones/Europe/Berlin") or die "copy: $!";
    set_clocks(at(2026, 7, 31, 22, 30));
    my $older = do {
        local $ENV{TZDIR} = $zones;
        start_host(clock => $host_clock);
    };
    my $answer = sub ($host, $key) {
        my $response = $host->get("/berlin?key=$key");
        return "$response->{status} $response->{headers}{'x-ratelimit-reset'}";
    };
    is($answer->($older, 'older'), '200 5400', 'ends its day with that of UTC');
    is($answer->($nginx, 'older'), '200 5400', 'for other hosts, too, which charge to what has begun');
    is($answer->($nginx, 'newer'), '200 84600', 'where another one has begun the day of Berlin');
    is($answer->($older, 'newer'), '200 84600', 'no counter goes back');
    is($older->statuses("/berlin?key=$_", 2), '200 429', 'three pass') for qw(older newer);
    $older->stop;
};

subtest "Redis's clock steps over a boundary" => sub {
    my $midnight = at(2026, 9, 1);
    set_clocks($midnight + 60);
    is($nginx->statuses('/month?key=step', 4), '200 200 200 429', 'the window is full');
    $redis_clock->set(($midnight - 60) * $second);
    my $denied = $nginx->get('/month?key=step');
    is("$denied->{status} $denied->{headers}{'retry-after'}", "429 ${\(30 * $day + 60)}", 'stepped back it still is, and the way back counts');
    $redis_clock->set(($midnight + 120) * $second);
    is($nginx->get('/month?key=step')->{status}, 429, 'and forward again');
};

subtest 'a host whose clock is a year off' => sub {
    set_clocks(at(2026, 7, 1, 12));
    my $wrong = RateLimit::Clock->new(at(2027, 7, 1, 12) * $second);
    my $host  = start_host(clock => $wrong);
    is($host->statuses('/day?key=off', 5), '503 503 503 503 503', 'its checks have no verdict');
    is($host->get('/aligned?key=off')->{status}, 200, 'those without a calendar have one: the breaker is closed');
    is($host->get('/two?key=off')->{status}, 503, 'a check is whole');
    is(join(' ', grep { /\{plan:off\}/ } $redis->keys), 'rl:{plan:off}:fixed_window:3600000:aligned', 'and charges nothing');
    is(taken('rl:{plan:off}:fixed_window:3600000:aligned'), 1, 'of any rule');
    is($_->get('/blocking?key=off')->{status}, $_ == $host ? 503 : 200, 'where another rule denies') for $nginx, $host;
    is(join(' ', grep { /#block/ } $redis->keys), '', 'it blocks nobody');
    is($nginx->get('/day?key=off')->{status}, 200, 'another host is not disturbed');
    my $errors = metrics_of($host)->{backends}{default}{errors};
    is("$errors->{reply} $errors->{breaker}", '7 0', 'the class is reply');
    my @lines = grep { /\[error\].* fails: / } split /\n/, $host->error_log;
    is(scalar @lines, 1, 'one line');
    like($lines[0], qr/its clock is in no calendar window near this host's, it says: 2026-07-01T12:00:00Z, that of this host says 2027-07-01T12:00:00Z/, 'names both clocks');
    $host->stop;

    $host = start_host(clock => $wrong, on_error => 'local');
    is(join(' ', map { my $r = $host->get('/day?key=off2'); "$r->{status}/$r->{headers}{'x-source'}" } 1 .. 4), '200/local 200/local 200/local 429/local', 'on_error decides');
    $host->stop;
};

# --- what a rule has

subtest 'what requests turned out to cost' => sub {
    set_clocks(at(2026, 7, 1, 12));
    my $key = 'rl:{plan:cost}:fixed_window:month:costs';
    $nginx->get('/costs?key=cost&final=4');
    ok(wait_until(sub { taken($key) == 4 }), 'less is given back') or diag(taken($key));
    $nginx->get('/costs?key=cost&final=95');
    ok(wait_until(sub { taken($key) == 99 }), 'more is charged') or diag(taken($key));
    is($nginx->get('/costs?key=cost')->{status}, 429, 'and counts');
};

subtest 'shards' => sub {
    my $granted = grep { $nginx->get('/shards?key=s')->{status} == 200 } 1 .. 90;
    cmp_ok($granted, '<=', 64, 'grant at most the limit together');
    cmp_ok($granted, '>',  32, 'and most of it');
};

subtest 'a block' => sub {
    set_clocks(at(2026, 7, 1, 23));
    is($nginx->statuses('/blocks?key=k', 2), '200 429', 'is set by a denial');
    set_clocks(at(2026, 7, 2, 1, 59));
    is($nginx->get('/blocks?key=k')->{status}, 429, 'outlives the window');
    set_clocks(at(2026, 7, 2, 2));
    is($nginx->get('/blocks?key=k')->{status}, 200, 'and ends');
};

subtest 'leases' => sub {
    my $now = at(2026, 7, 1, 12);
    set_clocks($now);
    my $response;
    ok(wait_until(sub { $response = $nginx->get('/leases?key=l'); $response->{headers}{'x-source'} eq 'lease' }), 'a busy key is leased');
    is($response->{headers}{'ratelimit-policy'}, qq{"leases";q=100000;w=${\(31 * $day)}}, 'its window is that of the calendar');
    my $rules;
    my $is_over = sub {
        $rules = metrics_of($nginx)->{zones}{plan}{rules}{leases};
        my $of = $rules->{leases};
        return $of->{units} == $of->{used} + $of->{returned} + $of->{expired};
    };
    ok(wait_until($is_over), 'what is left goes back');
    is($rules->{leases}{expired}, 0, 'all of it');
    is(taken('rl:{plan:l}:fixed_window:month:leases'), $rules->{passed}, 'so that each request is counted once');
};

subtest 'the local fallback' => sub {
    my $clock = RateLimit::Clock->new((at(2026, 8, 1) - 2) * $second);
    my $host  = start_host(clock => $clock, on_error => 'local');
    $redis->kill_now;
    is($host->statuses('/month?key=f', 4), '200 200 200 429', 'has the limit');
    my $denied = $host->get('/month?key=f');
    is("$denied->{headers}{'x-source'} $denied->{headers}{'ratelimit-policy'}", qq{local "month";q=3;w=${\(31 * $day)}}, 'of the window by the clock of the host');
    cmp_ok($denied->{headers}{'retry-after'}, '<=', 2, 'which ends soon');
    $clock->set(at(2026, 8, 1) * $second);
    ok(wait_until(sub { $host->get('/month?key=f')->{status} == 200 }), 'and then another one begins');
    $host->stop;
    local %ENV = (%ENV, $redis_clock->environment);
    $redis->restart;
    ok(wait_until(sub { $nginx->get('/aligned?key=f')->{status} == 200 }), 'Redis is there again');
};

# --- pages

subtest 'JSON' => sub {
    set_clocks(at(2026, 2, 10));
    my $rules = metrics_of($nginx)->{zones}{plan}{rules};
    is_deeply([ $rules->{month}->@{qw(calendar timezone starts window_seconds)} ], [ 'month', 'UTC', 1, 28 * $day ], 'a month');
    is_deeply([ $rules->{quarter}->@{qw(calendar starts)} ], [ 'quarter', 15 ], 'a quarter');
    is_deeply([ $rules->{aligned}->@{qw(calendar window_seconds)} ], [ undef, $hour ], 'no calendar');
    my $zones = api($nginx, 'GET zones')->{json}{zones}{plan}{rules};
    is_deeply([ $zones->{month}->@{qw(calendar window_seconds window)} ], [ 'month', 28 * $day, 28 * $day ], 'the API');
    my $key = api($nginx, 'GET key?zone=plan&key=json')->{json}{rules};
    is_deeply([ $key->{month}->@{qw(calendar window_seconds remaining)} ], [ 'month', 28 * $day, 3 ], 'a key');
};

subtest 'live limits' => sub {
    my $put = sub ($limit) { api($nginx, 'PUT override?zone=plan&key=v&rule=month', body => { limit => $limit })->{status} };
    ok(wait_until(sub { $put->(5) == 200 }), 'an override');
    ok(wait_until(sub { $nginx->get('/month?key=v')->{headers}{'x-ratelimit-limit'} == 5 }), 'is obeyed');
    $nginx->get('/month?key=v') for 1 .. 9;
    is($nginx->get('/month?key=v')->{status}, 429, 'the limit is that one');
    is(api($nginx, 'GET key?zone=plan&key=v')->{json}{rules}{month}{remaining}, 0, 'which the API knows');
    is(api($nginx, 'DELETE key?zone=plan&key=v')->{json}{deleted}, 1, 'a reset deletes the counter');
    my ($first) = told('/month?key=v') =~ /^(\d+ \d+)/;
    is($first, '200 4', 'and the client has its full limit');
};

# What a host of version 0.2 cannot read of the registry that it knows, it deletes.
subtest 'a registry of their own' => sub {
    my $client = $redis->client;
    ok(wait_until(sub { $client->exists('rl:{live}:calendar_rules') && $client->exists('rl:{live}:rules') }, 90), 'there are two');
    is(join(' ', grep { !/^plan \w+:\d+/ } $client->hkeys('rl:{live}:rules')), '', 'that of versions before has windows of seconds alone');
    ok((grep { $_ eq 'plan fixed_window:quarter-15:quarter 1' } $client->hkeys('rl:{live}:calendar_rules')), 'the other one those of calendars');
};

$nginx->stop;
done_testing;
