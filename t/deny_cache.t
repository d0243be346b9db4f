# What Redis denied until some time is denied out of the zone's memory until then, and not longer.

use v5.36;
use lib 't/lib';
use List::Util qw(uniq);
use RateLimit::Client;
use RateLimit::Load qw(start_load);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Upstream;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep time);

my $redis  = RateLimit::Redis->start_new;
my $client = $redis->client;

# The source of the verdict, and the worker, are told to the client. Options of zones by their
# names: z is the usual one.
sub start_nginx ($locations, %options) {
    return RateLimit::Nginx->start_new(configuration($locations, %options), workers => $options{workers} // 1);
}

sub configuration ($locations, %options) {
    my $server = $options{redis} // $redis->address;
    my $z      = $options{z}     // 'zone=z:1m';
    return <<"END";
redis_rate_limit_backend default { server $server; connect_timeout 10s; timeout 10s; @{[ $options{backend} // '' ]} }
redis_rate_limit_zone \$arg_key $z      on_error=closed;
redis_rate_limit_zone \$arg_b   zone=b:1m on_error=closed;
redis_rate_limit_zone \$arg_key zone=off:1m   on_error=closed deny_cache=off;
redis_rate_limit_zone \$arg_key zone=short:1m on_error=closed deny_cache=200ms;
@{[ $options{http} // '' ]}
map \$arg_cost  \$cost  { default \$arg_cost;  '' 1; }
add_header X-Source \$redis_rate_limit_source always;
add_header X-Worker \$pid always;
keepalive_requests 1000000;
server {
    listen %PORT% reuseport;
    $locations
}
END
}

sub location ($path, @rules) {
    return "location $path { @{[ map { \"redis_rate_limit $_;\" } @rules ]} empty_gif; }";
}

# Status and source: `429 deny_cache`.
sub told ($nginx, $path) {
    my $response = $nginx->get($path);
    return "$response->{status} $response->{headers}{'x-source'}";
}

# So many scripts were called since the last time.
sub calls () {
    state $before = 0;
    my $stats = $client->info('commandstats');
    my $now   = 0;
    $now += /calls=(\d+)/ ? $1 : 0 for map { $stats->{"cmdstat_$_"} // '' } qw(eval evalsha);
    my $calls = $now - $before;
    $before = $now;
    return $calls;
}

my @told = qw(retry-after x-ratelimit-reset x-ratelimit-limit x-ratelimit-remaining ratelimit-policy ratelimit);

my %rule = (
    fixed   => 'algorithm=fixed_window   limit=3 window=600',
    log     => 'algorithm=sliding_log    limit=3 window=600',
    sliding => 'algorithm=sliding_window limit=3 window=600',
    tokens  => 'algorithm=token_bucket   limit=3 window=600',
    gcra    => 'algorithm=gcra           limit=3 window=600 burst=2',
    leaky   => 'algorithm=leaky_bucket   limit=3 window=600 burst=2 delay=2',
);

subtest 'a client that was denied' => sub {
    my $nginx = start_nginx(join '', map { location("/$_", "zone=z $rule{$_} name=$_ cost=\$cost") } keys %rule);
    for my $name (sort keys %rule) {
        subtest $rule{$name} => sub {
            my $path = "/$name?key=$name&cost=2";
            is($nginx->get($path)->{status}, 200, 'passes');
            my $denied = $nginx->get($path);
            calls();
            my $again = $nginx->get($path);
            is(calls(), 0, 'is denied without a call');
            is("$again->{status} $again->{headers}{'x-source'}", '429 deny_cache', 'status and source');
            is($denied->{headers}{'x-source'}, 'redis', 'as Redis did');
            like($denied->{headers}{'retry-after'}, qr/^[1-9]\d*$/, 'and with its headers');
            my $headers = sub ($response) { join "\n", map { "$_: $response->{headers}{$_}" } @told };
            is($headers->($again), $headers->($denied), 'all of them') or diag 'a second may have passed';
            is($again->{headers}{'x-ratelimit-remaining'}, 1, 'what is left');
            is(told($nginx, "/$name?key=$name&cost=1"), '200 redis', 'a smaller cost passes');
            is(told($nginx, "/$name?key=other&cost=1"), '200 redis', 'so does another client');
            is(told($nginx, "/$name?key=$name&cost=3"), '429 redis', 'a larger cost asks');
            is(told($nginx, "/$name?key=$name&cost=3"), '429 deny_cache', 'once');
        };
    }
    is(scalar(() = $nginx->error_log =~ /limiting requests, rule/g), 4 * keys %rule, 'the log tells of each rejection');
    $nginx->stop;
};

subtest 'counted down to the end' => sub {
    my $nginx = start_nginx(location('/', 'zone=z algorithm=fixed_window limit=1 window=3s'));
    is(told($nginx, '/?key=down'), '200 redis', 'passes');
    is(told($nginx, '/?key=down'), '429 redis', 'is denied');
    my $ends = time + $client->pttl('rl:{z:down}:fixed_window:3000') / 1000 - 5; # its margin
    calls();
    my (@seen, $response);
    wait_until(sub {
        my $sent = time;
        $response = $nginx->get('/?key=down');
        my $headers = $response->{headers};
        push @seen, {
            source => $headers->{'x-source'},
            wait   => $headers->{'retry-after'},
            same   => $headers->{'x-ratelimit-reset'} eq $headers->{'retry-after'} && $headers->{ratelimit} =~ /;r=0;t=$headers->{'retry-after'}$/,
            # Rounded up, between the sending and the answer.
            right => $headers->{'retry-after'} >= $ends - time - 0.01 && $headers->{'retry-after'} <= $ends - $sent + 1.01,
        } if $response->{status} == 429;
        return $response->{status} == 200;
    });
    is(join(' ', uniq map { $_->{wait} } @seen), '3 2 1', 'Retry-After');
    is(scalar(grep { !$_->{same} } @seen), 0, 'X-RateLimit-Reset and RateLimit, too');
    is(scalar(grep { !$_->{right} } @seen), 0, 'by the clock');
    # A thousandth before the end the cache leaves to Redis, for the clocks' sake.
    cmp_ok(calls(), '<', @seen / 8, 'Redis was asked at the end only, of ' . @seen . ' times');

    is(told($nginx, '/?key=down'), '429 redis', 'is denied');
    my $wait = $nginx->get('/?key=down')->{headers}{'retry-after'};
    sleep $wait;
    is(told($nginx, '/?key=down'), '200 redis', "waiting Retry-After, $wait s, gets through");
    $nginx->stop;
};

subtest 'counted from the sending' => sub {
    my $relay = RateLimit::Relay->start_new($redis->conf->{port});
    my $nginx = start_nginx(location('/', 'zone=z algorithm=fixed_window limit=1 window=2s'), redis => "127.0.0.1:${\$relay->port}");
    is(told($nginx, '/?key=late'), '200 redis', 'passes');
    my $left = sub { $client->pttl('rl:{z:late}:fixed_window:2000') / 1000 - 5 };
    $relay->hold;
    my $denied = $nginx->get_later('/?key=late');
    ok(wait_until(sub { $relay->counts->{held} > 0 }), 'is denied');
    wait_until(sub { $left->() < 0.5 });
    $relay->release;
    is($denied->()->{status}, 429, 'and learns it late');
    is(told($nginx, '/?key=late'), '429 deny_cache', 'is known');
    wait_until(sub { $left->() < -0.001 });
    is(told($nginx, '/?key=late'), '200 redis', 'until the time that Redis gave');
    $nginx->stop;
};

subtest 'told from the answer on' => sub {
    my $nginx = start_nginx(location('/', 'zone=z algorithm=fixed_window limit=1 window=8s'));
    is(told($nginx, '/?key=way'), '200 redis', 'passes');
    $redis->freeze;
    my $denied = $nginx->get_later('/?key=way');
    my $frozen = time;
    wait_until(sub { time > $frozen + 0.6 });
    $redis->thaw;
    is($denied->()->{status}, 429, 'is denied by a check that was long on its way');
    my $end = time + $client->pttl('rl:{z:way}:fixed_window:8000') / 1000 - 5;
    my @early;
    for (1 .. 40) {
        my $response = $nginx->get('/?key=way');
        my $lack     = $end - time - $response->{headers}{'retry-after'};
        push @early, $lack if $lack > 0.01;
        is($response->{headers}{'x-source'}, 'deny_cache', 'is known') if $_ == 1;
        sleep 0.05; # through two seconds, which are rounded differently
    }
    is("@early", '', 'Retry-After is long enough');
    $nginx->stop;
};

# Before each request a second nginx without the cache reads what is left: if that is enough then
# the request has to pass, for nobody else takes any.
subtest 'no verdict changes' => sub {
    my %rule = (
        fixed   => 'algorithm=fixed_window   limit=4 window=150ms',
        aligned => 'algorithm=fixed_window   limit=4 window=150ms aligned',
        log     => 'algorithm=sliding_log    limit=4 window=150ms',
        sliding => 'algorithm=sliding_window limit=4 window=150ms',
        tokens  => 'algorithm=token_bucket   limit=4 window=150ms',
        gcra    => 'algorithm=gcra           limit=7 window=150ms burst=3',
    );
    my $locations = join '', map { location("/$_", "zone=z $rule{$_} name=$_ cost=\$cost") } keys %rule;
    my ($nginx, $asking) = map { start_nginx($locations, z => "zone=z:1m deny_cache=$_", workers => 2) } qw(on off);
    my @cached = map { RateLimit::Client->new($nginx) } 1 .. 8;
    my $peek   = RateLimit::Client->new($asking);
    my $ask    = sub ($connection, $path) {
        $connection->send("GET $path HTTP/1.1\r\nHost: localhost\r\n\r\n");
        return $connection->response;
    };
    my (%count, @wrong);
    my $seed = srand;
    my $end  = time + 6;
    while (time < $end) {
        my ($name, $cost) = ((keys %rule)[rand 6], 1 + int rand 3);
        my $path = "/$name?key=random";
        # Now as fast as can be, around the time at which one more passes, now slowly.
        for (1 .. 1 + rand 100) {
            my $left     = $ask->($peek, "$path&cost=0")->{headers}{'x-ratelimit-remaining'};
            my $response = $ask->($cached[rand @cached], "$path&cost=$cost");
            my $told     = "$response->{status} $response->{headers}{'x-source'}";
            ++$count{$told};
            push @wrong, "$name: $told for $cost, $left left" if $left >= $cost && $response->{status} != 200;
        }
        sleep rand 0.03;
    }
    is(join("\n", @wrong), '', "nobody is denied whom Redis would grant, seed $seed");
    is(join(' ', sort keys %count), '200 redis 429 deny_cache 429 redis', 'of all kinds: ' . join ' ', %count);
    cmp_ok($count{'429 deny_cache'} // 0, '>', 5 * $count{'429 redis'}, 'most denials are known');
    $_->stop for $nginx, $asking;
};

subtest 'all workers of the host know' => sub {
    my $nginx = start_nginx(location('/', 'zone=z algorithm=gcra limit=1 window=600'), workers => 3);
    my $first = $nginx->get('/?key=shared');
    is($first->{status}, 200, 'passes');
    my $asking = $nginx->get('/?key=shared')->{headers};
    is($asking->{'x-source'}, 'redis', 'is denied');
    calls();
    my %seen;
    ok(wait_until(sub {
        my $headers = $nginx->get('/?key=shared')->{headers};
        ++$seen{"$headers->{'x-worker'} $headers->{'x-source'}"};
        return keys %seen == 3;
    }), 'each worker was asked');
    is(join(' ', uniq map { s/\d+ //r } keys %seen), 'deny_cache', 'and each knows');
    is(calls(), 0, 'nobody asked Redis');
    $nginx->stop;
};

subtest 'reloads' => sub {
    my $rule  = 'zone=z algorithm=sliding_log window=600';
    my $nginx = start_nginx(location('/', "$rule limit=1"));
    my $after = sub ($limit, %options) {
        $nginx->configure(configuration(location('/', "$rule limit=$limit"), %options));
        $nginx->reload;
        return told($nginx, '/?key=reload');
    };
    is(told($nginx, '/?key=reload'), $_, $_) for '200 redis', '429 redis', '429 deny_cache';
    is($after->(1), '429 deny_cache', 'the same configuration: it is still known');
    is($after->(2), '200 redis',      'another limit: Redis is asked');
    is($after->(1), '429 deny_cache', 'the first one again: nothing has changed for it');
    is($after->(1, z => 'zone=z:2m'), '429 redis', 'another size: memory begins anew');
    is($after->(1, z => 'zone=z:2m'), '429 deny_cache', 'and then stays');
    is($client->del('rl:{z:reload}:sliding_log:600000'), 1, 'Redis forgets');
    is($after->(1, z => 'zone=z:2m deny_cache=1ms'), '200 redis', 'a shorter deny_cache holds for old denials, too');

    my $other = RateLimit::Redis->start_new(databases => 2);
    my @other = (z => 'zone=z:2m', redis => $other->address);
    is($after->(1, @other), '200 redis', 'another Redis: it is asked');
    is(told($nginx, '/?key=reload'), '429 redis', 'and denies, too');
    is($after->(1, @other, backend => 'database 1;'), '200 redis', 'another database');
    is($after->(1, @other), '429 deny_cache', 'each is known apart');
    $nginx->stop;
};

subtest 'deny_cache=off and a time' => sub {
    my $nginx = start_nginx(join '', map { location("/$_", "zone=$_ algorithm=gcra limit=1 window=600") } qw(z off short));
    is(told($nginx, "/$_?key=time"), '200 redis', "$_: passes") for qw(z off short);
    is(told($nginx, '/off?key=time'), '429 redis', 'off: Redis is asked') for 1 .. 3;

    my $asked = time; # it counts from when nginx asks, at the earliest now
    is(told($nginx, '/short?key=time'), '429 redis', '200 ms: is denied');
    my ($answered, $began) = (time);
    my ($times, $told) = 0;
    wait_until(sub { $began = time; $told = told($nginx, '/short?key=time'); ++$times; $told ne '429 deny_cache' });
    is($told, '429 redis', "asked again after $times times");
    cmp_ok($times, '>', 1, 'and not before');
    cmp_ok(time - $asked, '>=', 0.199, 'after 200 ms');
    cmp_ok($began - $answered, '<', 0.5, 'and soon');
    $client->del('rl:{short:time}:gcra:600000');
    is(told($nginx, '/short?key=time'), '429 deny_cache', 'a DEL has no effect yet');
    ok(wait_until(sub { told($nginx, '/short?key=time') eq '200 redis' }), 'but soon');

    is(told($nginx, '/z?key=time'), '429 redis', 'on: is denied');
    $client->del('rl:{z:time}:gcra:600000');
    is(told($nginx, '/z?key=time'), '429 deny_cache', 'on: known for longer');
    $nginx->stop;
};

subtest 'never known' => sub {
    my $upstream = RateLimit::Upstream->start_new;
    my $nginx    = start_nginx(join '',
        location('/dry',   'zone=z algorithm=gcra limit=1 window=600 name=dry dry_run'),
        location('/never', 'zone=z algorithm=gcra limit=1 window=600 name=never cost=2'),
        location('/zero',  'zone=z algorithm=gcra limit=0 window=600 name=zero burst=0'),
        "location /slots { redis_rate_limit zone=z algorithm=concurrency limit=1; proxy_pass ${\$upstream->url}; }",
    );
    is(told($nginx, '/dry?key=k'), '200 redis', 'a rule on trial') for 1 .. 3;
    is(told($nginx, '/never?key=k'), '429 redis', 'more than there can be') for 1 .. 2;
    is($nginx->get('/never?key=k')->{headers}{'retry-after'}, undef, 'has no Retry-After');
    is(told($nginx, '/zero?key=k'), '429 none', 'a limit of 0 takes nobody to know it') for 1 .. 2;
    $upstream->hold;
    my $held = $nginx->get_later('/slots?key=k');
    $upstream->wait_for(1);
    is(told($nginx, '/slots?key=k'), '429 redis', 'a slot may come back') for 1 .. 2;
    $upstream->answer;
    is($held->()->{status}, 200, 'it does');
    ok(wait_until(sub { told($nginx, '/slots?key=k') eq '200 redis' }), 'and is given again');
    $nginx->stop;
};

subtest 'several rules' => sub {
    my $nginx = start_nginx(join '',
        location('/', 'zone=z algorithm=gcra limit=1 window=600 name=own', 'zone=b algorithm=sliding_log limit=9 window=600 name=b'),
        location('/both', 'zone=z algorithm=gcra limit=1 window=600 name=own', 'zone=b algorithm=gcra limit=1 window=900 name=longer'),
        location('/limit', 'zone=z algorithm=sliding_log limit=$arg_limit window=600'),
    );
    is(told($nginx, '/?key=several&b=b'), $_, $_) for '200 redis', '429 redis';
    calls();
    my $denied = $nginx->get('/?key=several&b=b');
    is("$denied->{status} $denied->{headers}{'x-source'}", '429 deny_cache', 'one of them is known to deny');
    is($denied->{headers}{'ratelimit-policy'}, '"own";q=1;w=600', 'the other one has no headers');
    like($denied->{headers}{ratelimit}, qr/^"own";r=0;t=\d+$/, 'nor a state');
    is(told($nginx, '/?key=several&b=new'), '429 deny_cache', 'whatever its key');
    is(calls(), 0, 'nobody asked Redis');
    is($redis->taken('rl:{b:b}:sliding_log:600000:b'), 1, 'and it was not charged');

    is(told($nginx, '/both?key=none&b=c'), '200 redis', 'another client');
    is(told($nginx, '/both?key=none&b=c'), '429 redis', 'is denied by both');
    my $both = $nginx->get('/both?key=none&b=c')->{headers};
    is($both->{'ratelimit-policy'}, '"own";q=1;w=600, "longer";q=1;w=900', 'which are both known to');
    cmp_ok($both->{'retry-after'}, '>', 600, 'the one that denies for longer counts');

    is(told($nginx, '/limit?key=v&limit=1'), $_, "a limit of 1: $_") for '200 redis', '429 redis', '429 deny_cache';
    is(told($nginx, '/limit?key=v&limit=2'), $_, "a limit of 2: $_") for '200 redis', '429 redis', '429 deny_cache';
    $nginx->stop;
};

# So many of each status, of requests that are pipelined over 8 connections.
sub flood ($nginx, @paths) {
    my @connections = map { RateLimit::Client->new($nginx) } 1 .. 8;
    my %count;
    while (@paths) {
        my %asked;
        for my $connection (@connections) {
            my @some = splice @paths, 0, 500;
            $connection->send(map { "GET $_ HTTP/1.1\r\nHost: localhost\r\n\r\n" } @some);
            $asked{$connection} = @some;
        }
        for my $connection (@connections) {
            my @statuses;
            $connection->read_until(sub {
                @statuses = $connection->{input} =~ m{^HTTP/1\.1 (\d+) }mg;
                return @statuses == $asked{$connection};
            });
            $connection->{input} = '';
            ++$count{$_} for @statuses;
        }
    }
    return \%count;
}

my $quiet = 'access_log off; redis_rate_limit_log_level info; redis_rate_limit_headers off;';

# Denied from the start: its state is there. One unit each 600 s.
sub deny_from_the_start ($zone, $count) {
    $client->eval(<<'END', 0, $zone, $count);
local now = redis.call('TIME')[1] * 1000000
for i = 1, ARGV[2] do
    redis.call('SET', 'rl:{' .. ARGV[1] .. ':' .. i .. '}:gcra:600000', struct.pack('<dddd', now + 600000000, 0, 1, 0), 'PX', 600000)
end
END
}

# An nginx whose zone is that, and the paths of so many clients that are denied.
sub start_with_denied ($zone, $count) {
    my $nginx = start_nginx("$quiet error_log %DIR%/error.log notice;" . location('/', 'zone=z algorithm=gcra limit=1 window=600'), z => $zone);
    deny_from_the_start('z', $count);
    return ($nginx, map { "/?key=$_" } 1 .. $count);
}

# What the one grants is given back when the other denies: for a moment its counter stands too high.
subtest 'rules of two backends' => sub {
    my $other = RateLimit::Redis->start_new;
    my $own   = 'zone=z algorithm=gcra limit=1 window=600 name=own';
    my $nginx = start_nginx(join('',
        location('/mixed', $own, 'zone=o algorithm=sliding_log limit=9 window=600'),
        location('/own', $own),
        location('/another', 'zone=z algorithm=gcra limit=1 window=600 name=another'),
        location('/phases', 'zone=z algorithm=gcra limit=1 window=600 name=first', 'zone=o algorithm=sliding_log limit=9 window=600 phase=precontent'),
    ), http => <<"END");
redis_rate_limit_backend other { server ${\$other->address}; }
redis_rate_limit_zone \$arg_key zone=o:1m backend=other;
END
    is(told($nginx, '/mixed?key=mixed'), $_, "together: $_") for '200 redis', '429 redis', '429 redis';
    is(told($nginx, '/own?key=mixed'), '429 redis', 'nor is it known where that rule stands alone') for 1, 2;
    is(told($nginx, '/another?key=mixed'), $_, "another one of the zone: $_") for '200 redis', '429 redis', '429 deny_cache';
    is(told($nginx, '/phases?key=mixed'), $_, "in different phases: $_") for '200 redis', '429 redis', '429 deny_cache';
    $nginx->stop;
};

subtest '200,000 clients in a zone of 32m' => sub {
    my $count = 200_000;
    my ($nginx, @paths) = start_with_denied('zone=z:32m', $count);
    is_deeply(flood($nginx, @paths), { 429 => $count }, 'each is denied');
    calls();
    my $began = time;
    is_deeply(flood($nginx, @paths), { 429 => $count }, 'each is denied again');
    note sprintf 'in %.1f s', time - $began;
    cmp_ok(calls(), '<', $count / 1000, 'out of the cache');
    $nginx->stop;
};

subtest 'a full zone gives up old denials' => sub {
    my $count = 5000;
    my ($nginx, @paths) = start_with_denied('zone=z:32k', $count);
    is_deeply(flood($nginx, @paths), { 429 => $count }, 'each is denied');
    is(told($nginx, "/?key=$count"), '429 deny_cache', 'the last one is known');
    is(told($nginx, '/?key=1'), '429 redis', 'the first one no longer');
    $nginx->stop;
};

subtest 'workers are killed' => sub {
    my $nginx = start_nginx(<<'END' . location('/one', 'zone=z algorithm=gcra limit=1 window=600'), workers => 2);
location / {
    access_log off; redis_rate_limit_log_level info;
    redis_rate_limit zone=b algorithm=gcra limit=10 window=1;
    empty_gif;
}
END
    is(told($nginx, '/one?key=one'), $_, $_) for '200 redis', '429 redis';
    my $load = start_load($nginx->url('/?b=1'), connections => 16);
    my @killed;
    for (1 .. 10) {
        my ($victim) = $nginx->workers;
        push @killed, $victim;
        kill KILL => $victim;
        ok(wait_until(sub { my @now = $nginx->workers; @now == 2 && !grep { $_ == $victim } @now }), "$victim is replaced");
    }
    $load->finish;
    is(told($nginx, '/one?key=one'), '429 deny_cache', 'what was known is known') for 1 .. 4;
    is(told($nginx, '/one?key=two'), $_, "another one: $_") for '200 redis', '429 redis', '429 deny_cache';
    my $pattern = join '|', @killed;
    $nginx->stop(expect => qr/worker process (?:$pattern) exited on signal 9/);
};

subtest 'Redis is gone' => sub {
    my $nginx = start_nginx(location('/', 'zone=z algorithm=gcra limit=1 window=600'));
    is(told($nginx, '/?key=gone'), $_, $_) for '200 redis', '429 redis';
    $redis->kill_now;
    is(told($nginx, '/?key=gone'), '429 deny_cache', 'who was denied is denied');
    is($nginx->get('/?key=new')->{status}, 503, 'who was not gets no verdict');
    $nginx->stop;
};

done_testing;
