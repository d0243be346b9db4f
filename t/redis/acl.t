# The user of Redis that docs/redis.md recommends: it may do all that the module does, and nothing that
# the module does not.

use v5.36;
use lib 't/lib';
use RateLimit::LiveStore;
use RateLimit::Load qw(start_requests);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep);

my ($line) = RateLimit::Nginx::slurp('docs/redis.md') =~ /^ACL (SETUSER limiter on >secret .+)$/m;
my @words  = split ' ', $line;
my %redis  = map { $_ => RateLimit::Redis->start_new } qw(a b);
my %client = map { $_ => $redis{$_}->client } keys %redis;
$_->acl(@words) for values %client;

my @algorithms = qw(fixed_window sliding_log sliding_window token_bucket gcra leaky_bucket concurrency);
my $locations  = join '', map { <<"END" } @algorithms;
    location /$_ { redis_rate_limit zone=a algorithm=$_ limit=2 window=1 name=$_; empty_gif; }
    location /refund-$_ {
        redis_rate_limit zone=a algorithm=$_ limit=2 window=1 name=$_;
        redis_rate_limit zone=b algorithm=sliding_log limit=1 window=60 cost=2 name=never;
        empty_gif;
    }
    @{[ $_ eq 'concurrency' ? '' : "location /settle-$_ { redis_rate_limit zone=a algorithm=$_ limit=2 window=60 name=$_ final_cost=\$arg_final; empty_gif; }" ]}
    location /run-$_ { redis_rate_limit zone=a algorithm=$_ limit=1000 window=60 name=$_; empty_gif; }
END
my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend a { server ${\$redis{a}->address}; username limiter; password secret; connect_timeout 5s; timeout 5s; }
redis_rate_limit_backend b { server ${\$redis{b}->address}; username limiter; password secret; connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$arg_key zone=a:1m backend=a on_error=closed deny_cache=off;
redis_rate_limit_zone \$arg_key zone=b:1m backend=b on_error=closed deny_cache=off;
server {
    listen %PORT%;
    root %DIR%/html;
    $locations
    location /long { redis_rate_limit zone=a algorithm=concurrency limit=5 window=1; limit_rate 1k; }
}
END
$nginx->add_page('long', 'x' x 2500);

for my $algorithm (@algorithms) {
    unlike($nginx->statuses("/$algorithm?key=a", 3), qr/503/, "$algorithm: decides");
    is($nginx->statuses("/refund-$algorithm?key=b", 2), '429 429', "$algorithm: gives back");
    sleep 0.6;
    unlike($nginx->statuses("/$algorithm?key=a", 1), qr/503/, "$algorithm: goes on");
    my $result = start_requests($nginx->url("/run-$algorithm?key=r"), 200)->finish;
    is($result->{faults}, 0, "$algorithm: many at once");
    next if $algorithm eq 'concurrency';
    is($nginx->get("/settle-$algorithm?key=s$_&final=$_")->{status}, 200, "$algorithm: settles") for 0, 5;
}
my @long = map { $nginx->get_later('/long?key=l') } 1, 2;
is($_->()->{status}, 200, 'a permit that is held for longer than a window') for @long;

# Each second one finds what has expired: all of the log, or a part.
is($nginx->get('/sliding_log?key=log')->{status}, 200, 'a log');
sleep 1.1;
is($nginx->get('/sliding_log?key=log')->{status}, 200, 'that has expired');
sleep 0.6;
is($nginx->get('/sliding_log?key=log')->{status}, 200, 'goes on');
sleep 0.6;
is($nginx->get('/sliding_log?key=log')->{status}, 200, 'and has expired in part');

my $permits = 'rl:{a:dead}:concurrency:1000';
my $dead  = $nginx->get_later('/long?key=dead');
ok(wait_until(sub { $client{a}->exists($permits) }), 'a permit');
kill KILL => $nginx->workers;
ok(wait_until(sub { ($nginx->get('/long?key=other')->{status} // 0) == 200 }), 'of a worker that is killed');
sleep 1;
is($nginx->get('/long?key=dead')->{status}, 200, 'is taken back');

# What the API does: an override that is deleted and purged, a lost head, a look-up, a list of rules and a
# reset of a client.
my $limiter = $redis{a}->client;
$limiter->auth('limiter', 'secret');
my $store = RateLimit::LiveStore->new($limiter);
$store->put(zone => 'a', key => 'k', ban => 1, expires_in => 0.001);
$store->remove(zone => 'a', key => 'k');
$limiter->del('rl:{live}:head');
$store->remove(zone => 'a', key => 'none');
$store->put(zone => 'a', key => 'l', ban => 1, expires_in => 0.001);
sleep 0.01;
$store->put(zone => 'a', key => 'm', ban => 1);
ok($store->run('records', 1, 'rl:{live}:data', 'K a m')->[1], 'an override is found');
$client{a}->hset('rl:{live}:rules', 'a fixed_window:1 1', 0);
ok(scalar $store->run('rules', 1, 'rl:{live}:rules', 'a', 0, 0, 100)->@*, 'rules are registered');
ok($limiter->unlink('rl:{a:s5}:gcra:60000:gcra'), 'a counter is deleted');
ok(wait_until(sub { $nginx->get('/gcra?key=m')->{status} == 429 && $client{a}->exists('rl:{live}:head') }), 'nginx follows');
$nginx->stop(expect => qr/exited on signal 9/);

my %allowed = map { s/^\+// ? (s/\|/ /r => 1) : () } map { "$_" } @words;
my $stats   = $client{a}->info('commandstats');
for my $command (grep { $_ ne 'script load' } sort keys %allowed) {
    ok($stats->{"cmdstat_$command"}, "$command is needed");
}
is_deeply([$client{$_}->acl('log')], [], "$_: nothing was denied") for sort keys %client;

done_testing;
