# The users of Sentinels and of the Redis that they watch, as docs/redis.md recommends them: they may do all that
# the module does, and each right is needed.

use v5.36;
use lib 't/lib';
use RateLimit::Nginx;
use RateLimit::Sentinels;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $docs = RateLimit::Nginx::slurp('docs/redis.md');
my ($of_redis)     = $docs =~ /^ACL (SETUSER limiter on >secret ~rl:.+)$/m;
my ($of_sentinels) = $docs =~ /^ACL (SETUSER limiter on >secret resetchannels .+)$/m;
my $sentinels      = RateLimit::Sentinels->start_new;

sub on_sentinels (@words) { $sentinels->client($_)->acl(@words) for 0 .. 2 }

sub denied () {
    return join "\n", map { map { my %entry = @$_; "$entry{username}: $entry{object}" } $_->acl('log')->@* }
        (map { $sentinels->client($_) } 0 .. 2), (map { $sentinels->redis($_)->client } 0, 1);
}

sub start_nginx () {
    return RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default {
    mode sentinel; sentinel_master limits; sentinel_username limiter; sentinel_password secret; ${\$sentinels->servers}
    username limiter; password secret; connect_timeout 5s; timeout 5s;
}
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed;
server { listen %PORT%; location / { redis_rate_limit zone=z algorithm=sliding_log limit=2 window=60; empty_gif; } }
END
}

sub works ($nginx) { return wait_until(sub { $nginx->get('/?key=' . rand)->{status} == 200 }, 20) }

on_sentinels(split ' ', $of_sentinels);
$sentinels->redis($_)->client->acl(split(' ', $of_redis), '+role') for 0, 1;

subtest 'all rights' => sub {
    my $nginx = start_nginx;
    ok(works($nginx), 'verdicts');
    my $old = $sentinels->master;
    $sentinels->ask(0, 'failover', 'limits');
    ok(wait_until(sub { my $new = $sentinels->master; $new && $new != $old }, 20), 'another master');
    ok(works($nginx), 'has them');
    is(denied, '', 'nothing was denied');
    $nginx->stop;
};

subtest 'a Redis that may not tell its role' => sub {
    $sentinels->redis($_)->client->acl('SETUSER', 'limiter', '-role') for 0, 1;
    my $nginx = start_nginx;
    ok($nginx->wait_for_log(qr/fails: ROLE: NOPERM/), 'is told of');
    is($nginx->get('/?key=role')->{status}, 503, 'and has no verdicts');
    $sentinels->redis($_)->client->acl('SETUSER', 'limiter', '+role') for 0, 1;
    $nginx->stop;
};

for my $right ('sentinel|get-master-addr-by-name', 'subscribe', 'channel') {
    subtest "Sentinels without the right: $right" => sub {
        on_sentinels('SETUSER', 'limiter', $right eq 'channel' ? 'resetchannels' : "-$right");
        my $nginx = start_nginx;
        ok($nginx->wait_for_log(qr/fails: no Sentinel tells where the master is: NOPERM /), 'are told of');
        is($nginx->get('/?key=none')->{status}, 503, 'no verdicts');
        on_sentinels(split ' ', $of_sentinels);
        ok(works($nginx), 'with it they come');
        $nginx->stop;
    };
}

done_testing;
