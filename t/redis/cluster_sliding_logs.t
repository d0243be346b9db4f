# The lists of sliding logs in a hash slot that moves to another node. A list without entries is no key,
# and one that was away for a moment would have to be made at the other node: so new entries come before
# old ones go.

use v5.36;
use lib 't/lib';
use RateLimit::Cluster;
use RateLimit::Nginx;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $cluster = RateLimit::Cluster->start_new(replicas => 0);
my $nginx   = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { mode cluster; ${\$cluster->servers} connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed deny_cache=off;
server {
    listen %PORT%;
    location /check { redis_rate_limit zone=z algorithm=sliding_log limit=2 window=1; empty_gif; }
    location /debt  { redis_rate_limit zone=z algorithm=sliding_log limit=4 window=1 cost=0 final_cost=3; empty_gif; }
}
END

my $key  = 'rl:{z:back}:sliding_log:1000';
my $from = $cluster->master_of($key);
my ($to) = grep { $_ != $from } $cluster->masters;

sub entries () { return $from->client->lrange($key, 0, -1)->@* }

# The client comes back after its window, before the key expires.
sub wait_until_none_counts () {
    return wait_until(sub {
        my ($seconds, $microseconds) = $from->client->time;
        return $seconds * 1e6 + $microseconds > (entries())[-1] + 1e6;
    });
}

is($nginx->get('/check?key=back')->{status}, 200, 'a client has a log');
my $move = $cluster->begin_move($cluster->slot_of($key), $to);

ok(wait_until_none_counts(), 'whose slot moves when none of its entries counts');
is($nginx->statuses('/check?key=back', 3), '200 200 429', 'its checks are decided');
is(scalar(entries()), 2, 'where its log is, by what counts');

ok(wait_until_none_counts(), 'again');
is($nginx->get('/debt?key=back')->{status}, 200, 'it is charged when its request ends');
ok(wait_until(sub { entries() == 3 }), 'in the same log');

ok(wait_until_none_counts(), 'again');
my $lease = qx{build/cmake/print_script lease sliding_log};
my ($limit, $cost, $window, $time_to_live, $longest, $wanted) = (100, 0, 1_000_000, 6_125, 100_000, 5);
ok($from->client->eval($lease, 1, $key, $limit, $cost, $window, $time_to_live, $longest, $wanted), 'units are leased');
is(scalar(entries()), 5, 'in the same log');

unlike($nginx->error_log, qr/fails/, 'no fault');
$cluster->move_keys($move);
$cluster->end_move($move);
is($to->client->llen($key), 5, 'the log has moved');
$nginx->stop;

done_testing;
