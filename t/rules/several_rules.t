# Several rules of one location hold together: one check for all, charged all or none.

use v5.36;
use lib 't/lib';
use RateLimit::Load qw(start_requests);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep);

my $redis  = RateLimit::Redis->start_new;
my $client = $redis->client;

sub rule (@words) { return "redis_rate_limit @words;" }

my @algorithms = qw(fixed_window sliding_log sliding_window token_bucket gcra leaky_bucket concurrency);
my $each = join "\n", map { rule("zone=a algorithm=$_ limit=1000 window=60 name=$_", /gcra|leaky/ ? 'burst=999' : '', /leaky/ ? 'delay=999' : '') } @algorithms;
my $twelve = join "\n", map { rule("zone=a algorithm=gcra limit=1 window=60 burst=$_ name=n$_") } 3 .. 14;

my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$arg_a zone=a:1m on_error=closed;
redis_rate_limit_zone \$arg_b zone=b:1m on_error=closed;
server {
    listen %PORT%;
    ${\rule('zone=a algorithm=sliding_log limit=4 window=60 name=outer')}
    ${\rule('zone=b algorithm=sliding_log limit=2 window=60 name=outer-b')}

    location /three {
        ${\rule('zone=a algorithm=sliding_log limit=3 window=60 name=log')}
        ${\rule('zone=b algorithm=fixed_window limit=2 window=1h')}
        ${\rule('zone=a algorithm=token_bucket limit=6 window=60 burst=5 name=bucket')}
        empty_gif;
    }
    location /longest {
        ${\rule('zone=a algorithm=fixed_window limit=1 window=30 name=30')}
        ${\rule('zone=a algorithm=fixed_window limit=1 window=90 name=90')}
        ${\rule('zone=a algorithm=fixed_window limit=1 window=60 name=60')}
        empty_gif;
    }
    location /never {
        ${\rule('zone=a algorithm=sliding_log limit=1 window=60')}
        ${\rule('zone=b algorithm=sliding_log limit=1 window=60 cost=2')}
        empty_gif;
    }
    location /none {
        ${\rule('zone=a algorithm=sliding_log limit=1 window=60')}
        ${\rule('zone=b algorithm=sliding_log limit=0 window=60')}
        empty_gif;
    }
    location /subset {
        ${\rule('zone=a algorithm=gcra limit=5 window=60 burst=4 name=subset')}
        ${\rule('zone=b algorithm=fixed_window limit=5 window=60 name=subset-b')}
        ${\rule('zone=a algorithm=concurrency limit=5')}
        empty_gif;
    }
    location /each { $each ${\rule('zone=b algorithm=sliding_log limit=0 window=60 name=denies dry_run')} ${\rule('zone=b algorithm=sliding_log limit=1 window=60')} empty_gif; }
    location /twelve { $twelve empty_gif; }
    location /load { $each empty_gif; }

    location /inherits { empty_gif; }
    location /replaces { ${\rule('zone=a algorithm=sliding_log limit=9 window=60 name=inner')} empty_gif; }
    location /redirects {
        ${\rule('zone=a algorithm=sliding_log limit=4 window=60 name=outer')}
        ${\rule('zone=a algorithm=sliding_log limit=4 window=60 name=first')}
        try_files /none /inherits?\$args;
    }
}
END

sub told ($path) {
    my $response = $nginx->get($path);
    my $headers  = $response->{headers};
    return join ' ', $response->{status}, map { defined $headers->{$_} ? "$_=$headers->{$_}" : () } qw(retry-after x-ratelimit-limit x-ratelimit-remaining);
}

# All keys that hold the client's key, and what they hold.
sub state_of ($key) {
    return { map { $_ => $client->dump($_) } grep { /:\Q$key\E\}/ } $redis->keys };
}

# So many commands of these names were run since the last call.
sub calls (@names) {
    state %before;
    my %now   = $redis->script_calls->%*;
    my @calls = map { $now{$_} - ($before{$_} // 0) } @names;
    %before = %now;
    return "@calls";
}

subtest 'one check' => sub {
    calls();
    is(told('/three?a=one&b=other'), '200 x-ratelimit-limit=2 x-ratelimit-remaining=1', 'x headers show the tightest rule');
    is(calls(qw(evalsha eval)), '1 0', 'one EVALSHA for three rules and two keys');
    my $headers = $nginx->get('/three?a=one&b=other')->{headers};
    is($headers->{'ratelimit-policy'}, '"log";q=3;w=60, "b/3600s";q=2;w=3600, "bucket";q=5;w=50', 'RateLimit-Policy shows all');
    is($headers->{ratelimit}, '"log";r=1;t=60, "b/3600s";r=0;t=3600, "bucket";r=3;t=10', 'so does RateLimit');
    my $before = state_of('one');
    is(scalar keys %$before, 2, 'each rule has its key');
    is(told('/three?a=one&b=other'), '429 retry-after=3600 x-ratelimit-limit=2 x-ratelimit-remaining=0', 'one denies');
    is_deeply(state_of('one'), $before, 'and none is charged');
    is(told('/three?a=one&b=third'), '200 x-ratelimit-limit=3 x-ratelimit-remaining=0', 'another key of that one passes');
    my $denied = $nginx->get('/three?a=one&b=third');
    is($denied->{status}, 429, 'until another rule denies');
    is($denied->{headers}{'retry-after'}, 60, 'for as long as that says');
    like($denied->{headers}{ratelimit}, qr/"b\/3600s";r=1;t=60,/, 'no t is later than Retry-After');
};

subtest 'denials' => sub {
    is(told('/longest?a=long'), '200 x-ratelimit-limit=1 x-ratelimit-remaining=0', 'three of one algorithm');
    is(told('/longest?a=long'), '429 retry-after=90 x-ratelimit-limit=1 x-ratelimit-remaining=0', 'the longest wait of three that deny');
    is(told('/never?a=never&b=never'), '429 x-ratelimit-limit=1 x-ratelimit-remaining=1', 'a cost that never passes');
    is(told('/none?a=never&b=never'),  '429 x-ratelimit-limit=0 x-ratelimit-remaining=0', 'a limit of 0');
    is_deeply(state_of('never'), {}, 'charge nobody');
};

# What is denied leaves each algorithm's state as it is.
subtest 'every algorithm beside one that denies' => sub {
    is($nginx->get('/each?a=each&b=each')->{status}, 200, 'charged');
    my $freed = sub { !$client->exists('rl:{a:each}:concurrency:60000:concurrency') };
    ok(wait_until($freed), 'the slot is free again');
    my $before = state_of('each');
    is(scalar keys %$before, 7, 'six states are left, and that of the rule that denies');
    is($nginx->statuses('/each?a=each&b=each', 3), '429 429 429', 'denied');
    is_deeply(state_of('each'), $before, 'nothing has changed');
    is($nginx->statuses('/each?a=untouched&b=each', 3), '429 429 429', 'denied at first');
    is_deeply(state_of('untouched'), {}, 'makes no key');
};

subtest 'rules that do not apply' => sub {
    calls();
    is($nginx->get('/subset?a=some')->{headers}{'ratelimit-policy'} =~ tr/,//, 1, 'an empty key leaves its rule out');
    my $freed = sub { !$client->exists('rl:{a:some}:concurrency:60000') };
    ok(wait_until($freed), 'the slot is given back');
    is(calls(qw(evalsha eval)), '2 1', 'EVALSHA, EVAL, and EVALSHA for the slot');
    is($nginx->get('/subset?a=some')->{status}, 200, 'the same again');
    ok(wait_until($freed), 'the slot is given back');
    is(calls(qw(evalsha eval)), '2 0', 'EVALSHA twice');
    my $keys = join ' ', map { s/.*\}://r } keys state_of('some')->%*;
    is($keys, 'gcra:60000:subset', 'and the other rules are charged');
    is($nginx->get('/subset')->{headers}{ratelimit}, undef, 'without any key no rule applies');
    is(calls(qw(evalsha eval)), '0 0', 'and nobody is asked');
};

subtest 'twelve rules' => sub {
    calls();
    is($nginx->statuses('/twelve?a=twelve', 4), '200 200 200 200', 'as many as the tightest allows');
    my $denied = $nginx->get('/twelve?a=twelve');
    is($denied->{status}, 429, 'which decides');
    is(calls(qw(evalsha eval)), '5 0', 'in one check each');
    is($denied->{headers}{'ratelimit-policy'} =~ tr/,//, 11, 'twelve in the headers');
    is(scalar keys state_of('twelve')->%*, 12, 'twelve keys');
};

subtest 'inheritance' => sub {
    is($nginx->statuses('/inherits?a=in&b=in', 3), '200 200 429', 'all rules of the outer level');
    is($nginx->statuses('/replaces?a=in&b=in', 3), '200 200 200', 'or none');
    is($redis->taken('rl:{a:in}:sliding_log:60000:outer'), 2, 'what was charged');
    is($redis->taken('rl:{a:in}:sliding_log:60000:inner'), 3, 'by whom');
};

subtest 'redirects' => sub {
    calls();
    is($nginx->get('/redirects?a=re&b=re')->{status}, 200, 'two checks');
    is(calls(qw(evalsha eval)), '2 0', 'the second of the rule that is not checked yet');
    is($redis->taken("rl:{a:re}:sliding_log:60000:$_"), 1, "$_: charged once") for qw(outer first);
    is($redis->taken('rl:{b:re}:sliding_log:60000:outer-b'), 1, 'outer-b: charged once');
    is($nginx->statuses('/redirects?a=re&b=re', 2), '200 429', 'the second location denies');
    is($redis->taken("rl:{a:re}:sliding_log:60000:$_"), 3, "$_: stays charged") for qw(outer first);
};

subtest 'scripts forgotten under load' => sub {
    my $load    = start_requests($nginx->url('/load?a=load'), 3000, connections => 16, rate => 2000);
    my $flushes = 0;
    while ($load->is_running) {
        $client->script_flush;
        ++$flushes;
        sleep 0.01;
    }
    my $result = $load->finish;
    is($result->{faults} + $result->{broken}, 0, "no error through $flushes times");
    is($result->{passed}, 1000, 'the limit of six rules passes');
    is($redis->taken('rl:{a:load}:sliding_log:60000:sliding_log'), 1000, 'each was charged once');
    is(unpack('x8 d', $client->get('rl:{a:load}:fixed_window:60000:fixed_window')), 1000, 'by every rule');
    ok(wait_until(sub { !$client->exists('rl:{a:load}:concurrency:60000:concurrency') }), 'and each slot given back');
};

$nginx->stop;
done_testing;
