# on_error=local, the default: while Redis gives no verdict each host enforces the limits by itself,
# over its workers, and knows what Redis had granted.

use v5.36;
use lib 't/lib';
use RateLimit::Client;
use RateLimit::Load qw(start_requests);
use RateLimit::Metrics qw(metrics_of outcomes pending);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Upstream;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis    = RateLimit::Redis->start_new;
my $other    = RateLimit::Redis->start_new;
my $upstream = RateLimit::Upstream->start_new;

my %rule = (
    fixed   => 'algorithm=fixed_window   limit=5 window=600',
    aligned => 'algorithm=fixed_window   limit=5 window=366d aligned',
    log     => 'algorithm=sliding_log    limit=5 window=600',
    sliding => 'algorithm=sliding_window limit=5 window=366d',
    tokens  => 'algorithm=token_bucket   limit=5 window=600',
    gcra    => 'algorithm=gcra           limit=5 window=600 burst=4',
    leaky   => 'algorithm=leaky_bucket   limit=5 window=600 burst=4 delay=4',
);
my @names = sort keys %rule;

sub start_nginx (%options) {
    return RateLimit::Nginx->start_new(<<"END", workers => 2, %options);
redis_rate_limit_backend default { server ${\$redis->address}; }
redis_rate_limit_backend other   { server ${\$other->address}; }
redis_rate_limit_backend patient { server ${\$redis->address}; timeout 1s; }
redis_rate_limit_zone \$arg_key zone=z:1m;
redis_rate_limit_zone \$arg_key zone=p:1m backend=patient;
redis_rate_limit_zone \$arg_key zone=half:1m on_error=local local_limit=50%;
redis_rate_limit_zone \$arg_key zone=part:1m local_limit=1%;
redis_rate_limit_zone \$arg_key zone=open:1m on_error=open;
redis_rate_limit_zone \$arg_key zone=closed:1m on_error=closed;
redis_rate_limit_zone \$arg_key zone=o:1m backend=other;
add_header X-Source \$redis_rate_limit_source always;
add_header X-Status \$redis_rate_limit_status always;
redis_rate_limit_log_level info;
server {
    listen %PORT% reuseport;
    location /json { redis_rate_limit_metrics json; }
    @{[ map { "location /$_ { redis_rate_limit zone=z $rule{$_} name=$_; empty_gif; }" } @names ]}
    location /half   { redis_rate_limit zone=half algorithm=sliding_log limit=5 window=600; empty_gif; }
    location /years  { redis_rate_limit zone=part algorithm=token_bucket limit=100 window=366d burst=900 cost=900 name=years; empty_gif; }
    location /all    { redis_rate_limit zone=z algorithm=fixed_window limit=1000 window=600 name=all; empty_gif; }
    location /two {
        redis_rate_limit zone=z    algorithm=fixed_window limit=3 window=600 name=two-3;
        redis_rate_limit zone=half algorithm=sliding_log  limit=4 window=600 name=two-2;
        redis_rate_limit zone=z    algorithm=gcra         limit=1 window=600 name=trial dry_run;
        empty_gif;
    }
    location /closed {
        redis_rate_limit zone=z      algorithm=fixed_window limit=3 window=600 name=beside;
        redis_rate_limit zone=closed algorithm=fixed_window limit=3 window=600;
        empty_gif;
    }
    location /beside { redis_rate_limit zone=z algorithm=fixed_window limit=3 window=600 name=beside; empty_gif; }
    location /open {
        redis_rate_limit zone=z    algorithm=fixed_window limit=3 window=600 name=open;
        redis_rate_limit zone=open algorithm=fixed_window limit=1 window=600;
        empty_gif;
    }
    location /backends {
        redis_rate_limit zone=z algorithm=fixed_window limit=2 window=600 name=backends;
        redis_rate_limit zone=o algorithm=fixed_window limit=5 window=600;
        empty_gif;
    }
    location /given-back {
        redis_rate_limit zone=z algorithm=token_bucket limit=5 window=600 name=given-back;
        redis_rate_limit zone=o algorithm=fixed_window limit=1 window=600 name=once;
        empty_gif;
    }
    location /bucket { redis_rate_limit zone=z algorithm=token_bucket limit=5 window=600 name=given-back; empty_gif; }
    location /permit   { redis_rate_limit zone=p algorithm=concurrency limit=1; empty_gif; }
    location /hasty    { redis_rate_limit zone=p algorithm=sliding_log limit=5 window=600 name=hasty; empty_gif; }
    location /permits  { redis_rate_limit zone=z algorithm=concurrency limit=3; proxy_pass ${\$upstream->url}; }
    location /paced  { redis_rate_limit zone=z algorithm=leaky_bucket limit=2 window=1 burst=5; empty_gif; }
}
END
}

my @told = qw(x-source x-ratelimit-remaining);

# `200 redis 4`
sub told ($nginx, $path) {
    my $response = $nginx->get($path);
    return join ' ', $response->{status}, map { $response->{headers}{$_} // '-' } @told;
}

sub told_all ($nginx, $path, $count) {
    return join ', ', map { told($nginx, $path) } 1 .. $count;
}

my $nginx = start_nginx();
ok(wait_until(sub { $redis->nginx_clients == 4 && $other->nginx_clients == 2 }), 'Redis is there');
for my $name (@names) {
    is(told_all($nginx, "/$name?key=known", 2), '200 redis 4, 200 redis 3', "$name: Redis grants");
}
is(told($nginx, '/half?key=known'), '200 redis 4', 'half: Redis grants one of 5');
is($nginx->statuses('/given-back?key=given', 2), '200 429', 'a charge is given back where the other backend denies');

# Whether clients wait for their verdicts or not.
$redis->freeze;
my @hasty = map { RateLimit::Client->new($nginx)->send("GET /hasty?key=hasty HTTP/1.1\r\nHost: a\r\n\r\n") } 1 .. 2;
ok(wait_until(sub { pending($nginx, 'patient') == 2 }), 'two checks are on their way');
$_->reset for @hasty;
ok(wait_until(sub { 2 == (() = $nginx->access_log =~ /key=hasty HTTP\S*" 499 /g) }), 'their clients leave');
$redis->thaw;
ok(wait_until(sub { pending($nginx, 'patient') == 0 }), 'Redis grants');

subtest 'a client that left' => sub {
    $redis->freeze;
    my $client = RateLimit::Client->new($nginx)->send("GET /permit?key=left HTTP/1.1\r\nHost: a\r\n\r\n");
    ok(wait_until(sub { pending($nginx, 'patient') == 1 }), 'its check is on its way');
    $client->reset;
    ok(wait_until(sub { $nginx->access_log =~ /key=left HTTP\S*" 499 / }), 'it leaves');
    ok(wait_until(sub { pending($nginx, 'patient') == 0 }), 'the check gets no answer');
    is(outcomes(metrics_of($nginx), 'p', 'p/concurrency')->{local_passed}, 1, 'this host grants it');
    like(told($nginx, '/permit?key=left'), qr/^200 local/, 'but keeps no permit for it');
    $redis->thaw;
    ok(wait_until(sub { told($nginx, '/log?key=thawed' . rand) =~ /redis/ }), 'Redis decides again');
};

$redis->kill_now;
is(told($nginx, '/hasty?key=hasty'), '200 local 2', 'what Redis granted to clients that had left is known');
for my $name (@names) {
    subtest "$name without Redis" => sub {
        is(told_all($nginx, "/$name?key=new", 5), join(', ', map { "200 local $_" } 4, 3, 2, 1, 0), 'the limit holds on this host');
        my $denied = $nginx->get("/$name?key=new");
        is($denied->{status}, 429, 'and is enforced');
        is($denied->{headers}{'x-source'}, 'local', 'by itself');
        is($denied->{headers}{'x-status'}, 'REJECTED', 'as a rejection');
        cmp_ok($denied->{headers}{'retry-after'}, '>', 100, 'with its time');
        like($denied->{headers}{'ratelimit-policy'}, qr/^"$name";q=5;w=\d+$/, 'its policy');
        like($denied->{headers}{ratelimit}, qr/^"$name";r=0;t=\d+$/, 'and its state');
        is(told_all($nginx, "/$name?key=known", 3), '200 local 2, 200 local 1, 200 local 0', 'what Redis granted is known');
        like(told($nginx, "/$name?key=known"), qr/^429 local 0$/, 'nobody gets a fresh quota');
    };
}

is(told($nginx, '/bucket?key=given'), '200 local 3', 'what Redis granted and got back is not taken');

subtest 'both workers count together' => sub {
    my $result = start_requests($nginx->url('/all?key=workers'), 1500, connections => 32)->finish;
    is("$result->{passed} $result->{refused} $result->{broken}", '1000 500 0', 'of 1500 requests 1000 pass');
};

subtest 'a part of the limit' => sub {
    is(told_all($nginx, '/half?key=new', 3), '200 local 1, 200 local 0, 429 local 0', 'half of 5, rounded down');
    is($nginx->get('/half?key=new')->{headers}{'x-ratelimit-limit'}, 2, 'is told');
    is(told_all($nginx, '/half?key=known', 2), '200 local 0, 429 local 0', 'half of what Redis granted, rounded up, is known');
};

# A part of the limit alone would take 900 years to fill it.
subtest 'a bucket that takes years to fill' => sub {
    is(told_all($nginx, '/years?key=new', 3), '200 local 0, 429 local 0, 429 local 0', 'is emptied once');
};

subtest 'several rules' => sub {
    is(told($nginx, '/two?key=two'), $_, $_) for '200 local 1', '200 local 0';
    my $denied = $nginx->get('/two?key=two');
    is("$denied->{status} $denied->{headers}{ratelimit}", '429 "two-3";r=1;t=' . ($denied->{headers}{ratelimit} =~ /t=(\d+)/)[0] . ', "two-2";r=0;t=' . ($denied->{headers}{ratelimit} =~ /.*t=(\d+)/)[0], 'one denies, the other is not charged');
    $nginx->get('/two?key=two') for 1 .. 3;
    like($nginx->get('/two?key=two')->{headers}{ratelimit}, qr/^"two-3";r=1;/, 'nor later');
    like($nginx->error_log, qr/limiting requests, rule "trial", key "two".*, dry run/, 'a dry run is tried');
};

subtest 'beside other policies' => sub {
    is(told_all($nginx, '/closed?key=c', 4), join(', ', ('503 local 3') x 4), 'closed rejects');
    is(told($nginx, '/beside?key=c'), '200 local 2', 'and the local rule was not charged');
    is(told_all($nginx, '/open?key=o', 4), '200 local 2, 200 local 1, 200 local 0, 429 local 0', 'open leaves it to the local rule');
};

subtest 'beside another backend' => sub {
    is(told_all($nginx, '/backends?key=b', 3), '200 local 1, 200 local 0, 429 local 0', 'the one that has no Redis denies');
    is($other->client->keys('rl:{o:b}*'), 1, 'the other Redis was asked');
    my ($key) = $other->keys;
    is($nginx->get('/backends?key=b')->{status}, 429, 'again');
    like($nginx->get('/backends?key=b')->{headers}{ratelimit}, qr/"o\/600s";r=3/, 'what it had granted was given back');
};

subtest 'requests in flight' => sub {
    $upstream->hold;
    my @held = map {
        my $one = RateLimit::Client->new($nginx)->send("GET /permits?key=s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        $upstream->wait_for($_) or die 'the request does not reach the upstream';
        $one;
    } 1 .. 3;
    is(told($nginx, '/permits?key=s'), '429 local 0', 'as many as the limit');
    $upstream->answer;
    is(join(' ', map { $_->response->{status} } @held), '200 200 200', 'end');
    ok(wait_until(sub { told($nginx, '/permits?key=s') =~ /^200 local/ }), 'and give their permits back');
};

subtest 'a pace' => sub {
    is(join(' ', map { $nginx->get('/paced?key=p')->{headers}{'x-status'} } 1, 2), 'PASSED DELAYED', 'is kept by delays');
};

subtest 'reload' => sub {
    is(told($nginx, '/log?key=reload'), '200 local 4', 'before');
    $nginx->reload;
    is(told($nginx, '/log?key=reload'), '200 local 3', 'what was granted is known after it');
};

subtest 'Redis comes back' => sub {
    $redis->restart;
    ok(wait_until(sub { $redis->nginx_clients == 4 && !grep { !/redis/ } map { told($nginx, "/log?key=back$_") } 1 .. 16 }), 'and is asked');
    is(told_all($nginx, '/log?key=again', 10) =~ s/ \d+(?=,|$)//gr, join(', ', ('200 redis') x 5, '429 redis', ('429 deny_cache') x 4), 'local verdicts end');
};

$nginx->stop;
done_testing;
