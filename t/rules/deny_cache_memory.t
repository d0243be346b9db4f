# The memory of denials: how many it holds, and that it outlives the workers.

use v5.36;
use lib 't/lib';
use List::Util qw(shuffle);
use RateLimit::Client;
use RateLimit::DenyCache qw(calls location start_nginx told);
use RateLimit::Load qw(start_load);
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(time);

my $redis  = RateLimit::Redis->start_new;
my $client = $redis->client;

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
    redis.call('SET', 'rl:{' .. ARGV[1] .. ':' .. i .. '}:gcra:600000', struct.pack('<ddddd', now + 600000000, 0, 1, 0, now + 600000000), 'PX', 600000)
end
END
}

# An nginx whose zone is that, and the paths of so many clients that are denied.
sub start_with_denied ($zone, $count) {
    my $nginx = start_nginx($redis, "$quiet error_log %DIR%/error.log notice;" . location('/', 'zone=z algorithm=gcra limit=1 window=600'), z => $zone);
    deny_from_the_start('z', $count);
    return ($nginx, map { "/?key=$_" } 1 .. $count);
}

subtest '200,000 clients in a zone of 48m' => sub {
    my $count = 200_000;
    my ($nginx, @paths) = start_with_denied('zone=z:48m', $count);
    is_deeply(flood($nginx, @paths), { 429 => $count }, 'each is denied');
    calls($redis);
    my $began = time;
    is_deeply(flood($nginx, shuffle @paths), { 429 => $count }, 'each is denied again');
    note sprintf 'in %.1f s', time - $began;
    # In the first flood's order a bucket with one client too many would have forgotten each just before it comes.
    cmp_ok(my $asked = calls($redis), '<', $count / 500, 'out of the cache');
    note "$asked were asked for";
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
    my $nginx = start_nginx($redis, <<'END' . location('/one', 'zone=z algorithm=gcra limit=1 window=600'), workers => 2);
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

done_testing;
