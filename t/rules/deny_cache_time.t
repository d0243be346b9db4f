# What Redis denied until some time is denied out of the zone's memory until then, and not longer.

use v5.36;
use lib 't/lib';
use List::Util qw(uniq);
use RateLimit::Client;
use RateLimit::DenyCache qw(calls location start_nginx told);
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep time);

my $redis  = RateLimit::Redis->start_new;
my $client = $redis->client;

subtest 'counted down to the end' => sub {
    my $nginx = start_nginx($redis, location('/', 'zone=z algorithm=fixed_window limit=1 window=3s'));
    is(told($nginx, '/?key=down'), '200 redis', 'passes');
    is(told($nginx, '/?key=down'), '429 redis', 'is denied');
    my $ends = time + $client->pttl('rl:{z:down}:fixed_window:3000') / 1000 - 5; # its margin
    calls($redis);
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
    cmp_ok(calls($redis), '<', @seen / 8, 'Redis was asked at the end only, of ' . @seen . ' times');

    is(told($nginx, '/?key=down'), '429 redis', 'is denied');
    my $wait = $nginx->get('/?key=down')->{headers}{'retry-after'};
    sleep $wait;
    is(told($nginx, '/?key=down'), '200 redis', "waiting Retry-After, $wait s, gets through");
    $nginx->stop;
};

subtest 'counted from the sending' => sub {
    my $relay = RateLimit::Relay->start_new($redis->conf->{port});
    my $nginx = start_nginx($redis, location('/', 'zone=z algorithm=fixed_window limit=1 window=2s'), server => "127.0.0.1:${\$relay->port}");
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
    my $nginx = start_nginx($redis, location('/', 'zone=z algorithm=fixed_window limit=1 window=8s'));
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
    my $locations = join '', map {
        my ($name, $rule) = ($_, $rule{$_});
        location("/$name", "zone=z $rule name=$name cost=\$cost"), # one may pass for less
            map { location("/$name/$_", "zone=z $rule name=$name$_ cost=$_"), location("/peek/$name/$_", "zone=z $rule name=$name$_ cost=0") } 1 .. 3;
    } keys %rule;
    my ($nginx, $asking) = map { start_nginx($redis, $locations, z => "zone=z:1m deny_cache=$_", workers => 2) } qw(on off);
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
        my ($path, $look) = rand > 0.2 ? ("/$name/$cost?key=random", "/peek/$name/$cost?key=random") : ("/$name?key=random&cost=$cost", "/$name?key=random&cost=0");
        # Now as fast as can be, around the time at which one more passes, now slowly.
        for (1 .. 1 + rand 100) {
            my $left     = $ask->($peek, $look)->{headers}{'x-ratelimit-remaining'};
            my $response = $ask->($cached[rand @cached], $path);
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

subtest 'deny_cache=off and a time' => sub {
    my $nginx = start_nginx($redis, join '', map { location("/$_", "zone=$_ algorithm=gcra limit=1 window=600") } qw(z off short));
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

done_testing;
