# A host learns of many overrides while it serves requests. RATE_LIMIT_OVERRIDES=100000 is the long form.

use v5.36;
use lib 't/lib';
use HTTP::Tiny;
use List::Util qw(max);
use RateLimit::LiveStore;
use RateLimit::Nginx;
use RateLimit::Processes qw(private_memory);
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep time);

my $count = $ENV{RATE_LIMIT_OVERRIDES} // 3000;
my $size  = 1 + int($count / 250); # MB; a zone promises room for 500 in each

my $redis = RateLimit::Redis->start_new;
my $store = RateLimit::LiveStore->new($redis->client);
$store->put_all(map { { zone => 'z', key => "client$_", limit => 1000 + $_ } } 1 .. $count);

my $nginx = RateLimit::Nginx->start_new(<<"END", workers => 1);
redis_rate_limit_backend default { server ${\$redis->address}; timeout 1s; }
redis_rate_limit_zone \$arg_key zone=z:${size}m;
server {
    listen %PORT%;
    add_header X-Limit \$redis_rate_limit_limit always;
    location / { redis_rate_limit zone=z algorithm=fixed_window limit=1000000 window=1h name=r; empty_gif; }
    location = /json { redis_rate_limit_metrics json; }
}
END

# Requests one after another until the condition holds, or for so long. Returns the times that they
# took, in order of size.
sub times_until ($condition, $seconds) {
    my $http  = HTTP::Tiny->new;
    my $began = time;
    my @times;
    while (time - $began < $seconds) {
        my $asked    = time;
        my $response = $http->get($nginx->url('/?key=x' . @times % 100));
        push @times, time - $asked;
        die $response->{status} if $response->{status} != 200;
        last if @times % 10 == 0 && $condition->();
    }
    return sort { $a <=> $b } @times;
}

sub shown (@times) { return sprintf '%d requests, p50 %.2f ms, p99 %.2f ms, the longest %.2f ms', scalar @times, map { 1000 * $_ } @times[$#times / 2, $#times * 0.99, -1] }

sub knows ($number) { return ($nginx->get("/?key=client$number")->{headers}{'x-limit'} // '') == 1000 + $number }

my $began  = time;
my @during = times_until(sub { knows($count) }, 60);
my $lasts  = time - $began;
ok(knows($count), 'the last one is known');
note sprintf '%d overrides in %.2f s, %.1f MB of the worker', $count, $lasts, private_memory(($nginx->workers)[0]) / 1e6;
note 'meanwhile ', shown(@during);
my @missing = grep { !knows($_) } map { 1 + int rand $count } 1 .. 200;
is("@missing", '', 'and so are the others');
my @calm = times_until(sub { 0 }, 2);
note 'afterwards ', shown(@calm);
cmp_ok($during[ $#during * 0.99 ], '<', 0.1, 'no request waits long meanwhile');

# One change does not bring all of them again.
my $bytes = sub { $redis->client->info('stats')->{total_net_output_bytes} };
sleep 1;
my $before = $bytes->();
$store->put(zone => 'z', key => 'client1', limit => 5000);
ok(wait_until(sub { $nginx->get('/?key=client1')->{headers}{'x-limit'} == 5000 }, 2), 'a change is known soon');
cmp_ok($bytes->() - $before, '<', 40_000, 'and costs little');
$nginx->stop;

done_testing;
