# What Redis denied is denied out of the zone's memory, to whom it concerns and nobody else.

use v5.36;
use lib 't/lib';
use List::Util qw(uniq zip);
use RateLimit::Client;
use RateLimit::DenyCache qw(calls configuration location start_nginx told);
use RateLimit::Metrics qw(metrics_of);
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Upstream;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis  = RateLimit::Redis->start_new;
my $client = $redis->client;

my @told    = qw(retry-after x-ratelimit-reset x-ratelimit-limit x-ratelimit-remaining ratelimit-policy ratelimit);
my $seconds = qr/(?:retry-after: |x-ratelimit-reset: |;t=)\K(\d+)/;

# What is told of a rejection, and the seconds in it.
sub headers ($response)  { return join "\n", map { "$_: $response->{headers}{$_}" } @told }
sub seconds ($response)  { return headers($response) =~ /$seconds/g }
sub timeless ($response) { return headers($response) =~ s/$seconds/.../gr }

my %rule = (
    fixed   => 'algorithm=fixed_window   limit=3 window=600',
    log     => 'algorithm=sliding_log    limit=3 window=600',
    sliding => 'algorithm=sliding_window limit=3 window=600',
    tokens  => 'algorithm=token_bucket   limit=3 window=600',
    gcra    => 'algorithm=gcra           limit=3 window=600 burst=2',
    leaky   => 'algorithm=leaky_bucket   limit=3 window=600 burst=2 delay=2',
);

subtest 'a client that was denied' => sub {
    my $nginx = start_nginx($redis, join '', map { location("/$_", "zone=z $rule{$_} name=$_ cost=2") . location("/$_/costs", "zone=z $rule{$_} name=$_-costs cost=\$cost") } keys %rule);
    for my $name (sort keys %rule) {
        subtest $rule{$name} => sub {
            my $path = "/$name?key=$name";
            is($nginx->get($path)->{status}, 200, 'passes');
            my $denied = $nginx->get($path);
            calls($redis);
            my $again = $nginx->get($path);
            is(calls($redis), 0, 'is denied without a call');
            is("$again->{status} $again->{headers}{'x-source'}", '429 deny_cache', 'status and source');
            is($denied->{headers}{'x-source'}, 'redis', 'as Redis did');
            like($denied->{headers}{'retry-after'}, qr/^[1-9]\d*$/, 'and with its headers');
            is(timeless($again), timeless($denied), 'all of them');
            my @passed = map { $_->[0] - $_->[1] } zip([seconds($denied)], [seconds($again)]);
            is(join(' ', grep { $_ != 0 && $_ != 1 } @passed), '', 'and of the seconds at most one has passed');
            is($again->{headers}{'x-ratelimit-remaining'}, 1, 'what is left');
            is(told($nginx, "/$name?key=other"), '200 redis', 'another client passes');

            my $costs = "/$name/costs?key=$name&cost";
            is(told($nginx, "$costs=2"), '200 redis', 'where requests say what they cost one passes');
            is(told($nginx, "$costs=2"), '429 redis', 'another one is denied, and asks again: a smaller one may pass') for 1 .. 2;
            is(told($nginx, "$costs=1"), '200 redis', 'it does');
            is(told($nginx, "$costs=$_->[0]"), "429 $_->[1]", "then nothing is left: a cost of $_->[0], $_->[1]") for [2, 'redis'], [2, 'deny_cache'], [3, 'redis'], [3, 'deny_cache'];
        };
    }
    is(scalar(() = $nginx->error_log =~ /limiting requests, rule/g), 8 * keys %rule, 'the log tells of each rejection');
    $nginx->stop;
};

subtest 'all workers of the host know' => sub {
    my $nginx = start_nginx($redis, location('/', 'zone=z algorithm=gcra limit=1 window=600'), workers => 3);
    my $first = $nginx->get('/?key=shared');
    is($first->{status}, 200, 'passes');
    my $asking = $nginx->get('/?key=shared')->{headers};
    is($asking->{'x-source'}, 'redis', 'is denied');
    calls($redis);
    my %seen;
    ok(wait_until(sub {
        my $headers = $nginx->get('/?key=shared')->{headers};
        ++$seen{"$headers->{'x-worker'} $headers->{'x-source'}"};
        return keys %seen == 3;
    }), 'each worker was asked');
    is(join(' ', uniq map { s/\d+ //r } keys %seen), 'deny_cache', 'and each knows');
    is(calls($redis), 0, 'nobody asked Redis');
    $nginx->stop;
};

subtest 'reloads' => sub {
    my $rule  = 'zone=z algorithm=sliding_log window=600';
    my $nginx = start_nginx($redis, location('/', "$rule limit=1"));
    my $after = sub ($limit, %options) {
        $nginx->configure(configuration($redis, location('/', "$rule limit=$limit"), %options));
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
    my @other = (z => 'zone=z:2m', server => $other->address);
    is($after->(1, @other), '200 redis', 'another Redis: it is asked');
    is(told($nginx, '/?key=reload'), '429 redis', 'and denies, too');
    is($after->(1, @other, backend => 'database 1;'), '200 redis', 'another database');
    is($after->(1, @other), '429 deny_cache', 'each is known apart');
    $nginx->stop;
};

subtest 'never known' => sub {
    my $upstream = RateLimit::Upstream->start_new;
    my $nginx    = start_nginx($redis, join '',
        location('/dry',   'zone=z algorithm=gcra limit=1 window=600 name=dry dry_run'),
        location('/never', 'zone=z algorithm=gcra limit=1 window=600 name=never cost=2'),
        location('/zero',  'zone=z algorithm=gcra limit=0 window=600 name=zero burst=0'),
        "location /permits { redis_rate_limit zone=z algorithm=concurrency limit=1; proxy_pass ${\$upstream->url}; }",
    );
    is(told($nginx, '/dry?key=k'), '200 redis', 'a dry run') for 1 .. 3;
    is(told($nginx, '/never?key=k'), '429 redis', 'more than there can be') for 1 .. 2;
    is($nginx->get('/never?key=k')->{headers}{'retry-after'}, undef, 'has no Retry-After');
    is(told($nginx, '/zero?key=k'), '429 none', 'a limit of 0 takes nobody to know it') for 1 .. 2;
    $upstream->hold;
    my $held = $nginx->get_later('/permits?key=k');
    $upstream->wait_for(1);
    is(told($nginx, '/permits?key=k'), '429 redis', 'a permit may come back') for 1 .. 2;
    $upstream->answer;
    is($held->()->{status}, 200, 'it does');
    ok(wait_until(sub { told($nginx, '/permits?key=k') eq '200 redis' }), 'and is given again');
    $nginx->stop;
};

subtest 'several rules' => sub {
    my $nginx = start_nginx($redis, join '',
        location('/', 'zone=z algorithm=gcra limit=1 window=600 name=own', 'zone=b algorithm=sliding_log limit=9 window=600 name=b'),
        location('/both', 'zone=z algorithm=gcra limit=1 window=600 name=own', 'zone=b algorithm=gcra limit=1 window=900 name=longer'),
        location('/limit', 'zone=z algorithm=sliding_log limit=$arg_limit window=600'),
        location('/window', 'zone=z algorithm=fixed_window limit=$arg_limit window=600 name=window'),
    );
    is(told($nginx, '/?key=several&b=b'), $_, $_) for '200 redis', '429 redis';
    calls($redis);
    my $denied = $nginx->get('/?key=several&b=b');
    is("$denied->{status} $denied->{headers}{'x-source'}", '429 deny_cache', 'one of them is known to deny');
    is($denied->{headers}{'ratelimit-policy'}, '"own";q=1;w=600', 'the other one has no headers');
    like($denied->{headers}{ratelimit}, qr/^"own";r=0;t=\d+$/, 'nor a state');
    is(told($nginx, '/?key=several&b=new'), '429 deny_cache', 'whatever its key');
    is(calls($redis), 0, 'nobody asked Redis');
    is($redis->taken('rl:{b:b}:sliding_log:600000:b'), 1, 'and it was not charged');

    is(told($nginx, '/both?key=none&b=c'), '200 redis', 'another client');
    is(told($nginx, '/both?key=none&b=c'), '429 redis', 'is denied by both');
    my $both = $nginx->get('/both?key=none&b=c')->{headers};
    is($both->{'ratelimit-policy'}, '"own";q=1;w=600, "longer";q=1;w=900', 'which are both known to');
    cmp_ok($both->{'retry-after'}, '>', 600, 'the one that denies for longer counts');

    is(told($nginx, '/limit?key=v&limit=1'), $_, "a limit of 1: $_") for '200 redis', '429 redis', '429 redis';
    is(told($nginx, '/limit?key=v&limit=2'), $_, "passes by a limit of 2: $_") for '200 redis', '429 redis', '429 redis';
    is(told($nginx, '/window?key=v&limit=1'), $_, "what a window denies holds until its end: $_") for '200 redis', '429 redis', '429 deny_cache';
    is(told($nginx, '/window?key=v&limit=2'), $_, "a limit of 2: $_") for '200 redis', '429 redis', '429 deny_cache';
    $nginx->stop;
};

# What the one grants is given back when the other denies: for a moment its counter stands too high.
subtest 'rules of two backends' => sub {
    my $other = RateLimit::Redis->start_new;
    my $own   = 'zone=z algorithm=gcra limit=1 window=600 name=own';
    my $nginx = start_nginx($redis, join('',
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

subtest 'a client that does not wait for its denial' => sub {
    my $relay = RateLimit::Relay->start_new($redis->conf->{port});
    my $rule  = location('/', 'zone=z algorithm=gcra limit=1 window=600');
    my $json  = 'location = /json { redis_rate_limit_metrics json; }';
    my $nginx = start_nginx($redis, $rule . $json, server => '127.0.0.1:' . $relay->port);
    is(told($nginx, '/?key=hasty'), '200 redis', 'passes once');
    $relay->hold;
    my $hasty = RateLimit::Client->new($nginx);
    $hasty->send("GET /?key=hasty HTTP/1.1\r\nHost: a\r\n\r\n");
    my $pending = sub { metrics_of($nginx)->{backends}{default}{pending} };
    ok(wait_until(sub { $pending->() == 1 }), 'asks again');
    $hasty->reset;
    ok(wait_until(sub { $nginx->access_log =~ / 499 / }), 'and leaves');
    $relay->release;
    ok(wait_until(sub { $pending->() == 0 }), 'Redis denies');
    calls($redis);
    is(told($nginx, '/?key=hasty'), '429 deny_cache', 'which is known');
    is(calls($redis), 0, 'without another call');
    $nginx->stop;
};

subtest 'Redis is gone' => sub {
    my $nginx = start_nginx($redis, location('/', 'zone=z algorithm=gcra limit=1 window=600'));
    is(told($nginx, '/?key=gone'), $_, $_) for '200 redis', '429 redis';
    $redis->kill_now;
    is(told($nginx, '/?key=gone'), '429 deny_cache', 'who was denied is denied');
    is($nginx->get('/?key=new')->{status}, 503, 'who was not gets no verdict');
    $nginx->stop;
};

done_testing;
