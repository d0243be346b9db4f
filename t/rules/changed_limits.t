# A bucket whose limit changes, by the operator's API, by an override and by a reload: units taken stay
# units taken, so that a brake works at once, and a raise, too. Where rules of different limits share a
# bucket, none refills it for the others.

use v5.36;
use lib 't/lib';
use RateLimit::Api qw(api);
use RateLimit::Client;
use RateLimit::Metrics qw(metrics_of);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Upstream;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep);

my $redis    = RateLimit::Redis->start_new;
my $upstream = RateLimit::Upstream->start_new;

# Rules of the same limit: a bucket of 100 that gets so many a minute.
sub configuration ($limit) {
    return <<"END";
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed;
server {
    listen %PORT%;
    location / { redis_rate_limit zone=z algorithm=token_bucket limit=$limit burst=100 window=1m cost=\$arg_cost; empty_gif; }
    location /held/ {
        redis_rate_limit zone=z algorithm=token_bucket limit=$limit burst=100 window=1m cost=\$arg_cost final_cost=\$arg_final;
        proxy_pass ${\$upstream->url};
    }
    location = /plan {
        redis_rate_limit zone=z algorithm=token_bucket limit=\$arg_plan window=1m cost=\$arg_cost name=plan;
        empty_gif;
    }
    location /plan/ {
        redis_rate_limit zone=z algorithm=token_bucket limit=\$arg_plan window=1m cost=\$arg_cost final_cost=\$arg_final name=plan;
        proxy_pass ${\$upstream->url};
    }
    location /shared/ { redis_rate_limit zone=z algorithm=gcra limit=4 burst=3 window=1m name=shared; empty_gif; }
    location /shared/fast/ {
        redis_rate_limit zone=z algorithm=gcra limit=400 burst=999 window=1m name=shared;
        empty_gif;
    }
    location = /json { redis_rate_limit_metrics json; }
    location /api/ { redis_rate_limit_api write; }
}
END
}
my $nginx = RateLimit::Nginx->start_new(configuration(400), workers => 2);

# The status, and what is left.
sub told ($key, $cost = 0) {
    my $response = $nginx->get("/?key=$key&cost=$cost");
    return "$response->{status} $response->{headers}{'x-ratelimit-remaining'}";
}

# Waits until this host obeys: the bucket of a key takes so many seconds to fill.
sub wait_for_refill ($key, $seconds) {
    my $policy = qq{"z/60s";q=100;w=$seconds};
    return wait_until(sub { $nginx->get("/?key=$key&cost=0")->{headers}{'ratelimit-policy'} eq $policy });
}

# How many requests turned out to cost more than they had reserved.
sub told_settlements () { return metrics_of($nginx)->{zones}{z}{rules}{'z/60s'}{settlements}{charged} }

# What the API shows of it, which changes nothing.
sub shown ($key) { return api($nginx, "GET key?zone=z&key=$key")->{json}{rules}{'z/60s'} }

subtest 'an emergency brake' => sub {
    like(told('braked', 96), qr/^200 [45]$/, '96 of 100 are taken, at 400 a minute');
    is(api($nginx, 'PUT rule?zone=z&rule=z/60s', body => { limit => 4 })->{status}, 200, 'the limit becomes 4');
    ok(wait_for_refill('other', 1500), 'this host obeys');
    # at 400 a minute some have come back meanwhile, at 4 none does
    my $left = shown('braked')->{remaining};
    cmp_ok($left, '<', 40, "the API shows $left that are left");
    is((split ' ', told('braked', 0))[0], 200, 'a request finds it');
    ($left) = told('braked', 0) =~ / (\d+)$/;
    is(told('braked', $left), '200 0', "$left can be taken");
    my $response = $nginx->get('/?key=braked&cost=1');
    is($response->{status}, 429, 'and no more');
    cmp_ok($response->{headers}{'x-ratelimit-reset'}, '>', 1400, 'the last of them comes back 25 minutes later');
    my ($key) = grep { /braked/ } $redis->client->keys('*');
    cmp_ok($redis->client->pttl($key), '>', 1_400_000, 'Redis keeps it as long');
};

subtest 'a raise' => sub {
    is(told('raised', 100), '200 0', 'all are taken, at 4 a minute');
    is(api($nginx, 'PUT rule?zone=z&rule=z/60s', body => { limit => 4000 })->{status}, 200, 'the limit becomes 4000');
    ok(wait_for_refill('other', 2), 'this host obeys');
    my $response = $nginx->get('/?key=raised&cost=100');
    cmp_ok($response->{headers}{'retry-after'} // 0, '<=', 2, 'a client waits for 1.5 s at most');
    ok(wait_until(sub { told('raised', 100) eq '200 0' }), 'and has all of them again');
    is(api($nginx, 'DELETE rule?zone=z&rule=z/60s')->{status}, 200, 'the configured limit holds again');
    ok(wait_for_refill('other', 15), 'this host obeys');
};

subtest 'a debt of a request that was charged before' => sub {
    $upstream->hold;
    my $held = $nginx->get_later('/held/?key=debtor&cost=50&final=51');
    ok($upstream->wait_for(1), 'a request is under way, at 400 a minute');
    is(api($nginx, 'PUT rule?zone=z&rule=z/60s', body => { limit => 4 })->{status}, 200, 'the limit becomes 4');
    ok(wait_for_refill('other', 1500), 'this host obeys');
    my ($left) = told('debtor') =~ / (\d+)$/;
    $upstream->answer;
    is($held->()->{status}, 200, 'the request ends');
    ok(wait_until(sub { told_settlements() == 1 }), 'and its debt is charged');
    sleep 1; # 6 units at 400 a minute
    cmp_ok(shown('debtor')->{remaining}, '<=', $left, 'which does not bring the old limit back');
    is(api($nginx, 'DELETE rule?zone=z&rule=z/60s')->{status}, 200, 'the configured limit holds again');
    ok(wait_for_refill('other', 15), 'this host obeys');
};

# The bucket counts in time before and after.
subtest 'an override of a rule that has its limit of a variable' => sub {
    my $told = sub ($cost) { $nginx->get("/plan?key=planned&plan=10&cost=$cost")->{headers}{'x-ratelimit-remaining'} };
    is($told->(1), 9, 'a request');
    $upstream->hold;
    my $held = $nginx->get_later('/plan/?key=planned&plan=10&cost=1&final=2');
    ok($upstream->wait_for(1), 'one that is under way');
    is(api($nginx, 'PUT rule?zone=z&rule=plan', body => { limit => 1000 })->{status}, 200, 'the limit becomes 1000');
    ok(wait_until(sub { $told->(0) > 900 }), 'this host obeys');
    cmp_ok($told->(900), '<=', 998 - 900 + 60, 'most units are taken');
    $upstream->answer;
    is($held->()->{status}, 200, 'the request ends');
    my $charged = sub { metrics_of($nginx)->{zones}{z}{rules}{plan}{settlements}{charged} };
    ok(wait_until(sub { $charged->() == 1 }), 'and its debt is charged');
    cmp_ok($told->(0), '<', 900, 'which brings no unit back');
    is(api($nginx, 'DELETE rule?zone=z&rule=plan')->{status}, 200, 'the limit becomes 10 again');
    ok(wait_until(sub { $nginx->get('/plan?key=other&plan=10&cost=0')->{headers}{'x-ratelimit-limit'} == 10 }), 'this host obeys');
    is($told->(0), 0, 'and the units stay taken');
};

subtest 'an override of a client' => sub {
    told('client', 90);
    is(api($nginx, 'PUT override?zone=z&key=client', body => { limit => 1 })->{status}, 200, 'the limit becomes 1');
    ok(wait_for_refill('client', 6000), 'this host obeys');
    my ($left) = told('client') =~ / (\d+)$/;
    cmp_ok($left, '<', 50, "$left are left");
    cmp_ok($nginx->get('/?key=client&cost=0')->{headers}{'x-ratelimit-reset'}, '>', 60 * 49, 'and come back one a minute');
};

subtest 'a reload with another limit' => sub {
    for my $limit (4, 4000) {
        told("reload$limit", 100);
        $nginx->configure(configuration($limit));
        $nginx->reload;
        my $reset = $nginx->get("/?key=reload$limit&cost=0")->{headers}{'x-ratelimit-reset'};
        cmp_ok($reset, $limit == 4 ? '>' : '<=', $limit == 4 ? 60 * 10 : 2, "at $limit a minute they come back in $reset s");
    }
};

subtest 'rules of different limits' => sub {
    is($nginx->get("/shared/?key=k")->{status}, 200, "the slow one grants request $_") for 1 .. 4;
    is($nginx->get("/shared/fast/?key=k")->{status}, 200, 'so does the fast one');
    sleep 0.75;
    is($nginx->get("/shared/?key=k")->{status}, 429, 'which refills nothing for the slow one') for 1 .. 2;
    is($nginx->get("/shared/fast/?key=k")->{status}, 200, 'and goes on');
    cmp_ok($nginx->get("/shared/?key=k")->{headers}{'retry-after'}, '>=', 14, 'a unit comes 15 s later');
};

$nginx->stop;
done_testing;
