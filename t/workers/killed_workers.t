# Workers are killed a hundred times under load, also while they hold the lock of a zone: the others
# go on, limits hold, and nothing stays taken.

use v5.36;
use lib 't/lib';
use RateLimit::AccessLog qw($log_times count_statuses requests_of wait_for_requests);
use RateLimit::Load qw(start_load);
use RateLimit::Nginx;
use RateLimit::Processes qw(freeze);
use RateLimit::Redis;
use RateLimit::Upstream;
use RateLimit::Wait qw(wait_until);
use RateLimit::ZoneLock;
use Test::More;

my $limit = 2000;

sub start_nginx ($redis, $locations) {
    return RateLimit::Nginx->start_new(<<"END", workers => 2, log_level => 'notice');
$log_times
redis_rate_limit_backend default { server ${\$redis->address}; }
redis_rate_limit_zone \$uri zone=z:1m;
redis_rate_limit_zone \$uri zone=y:2m;
server {
    listen %PORT%;
    $locations
}
END
}

# One after another, of those that serve; all their ids.
sub kill_workers ($nginx, $count) {
    my @killed;
    for (1 .. $count) {
        my $victim = ($nginx->workers)[rand 2];
        kill KILL => $victim;
        wait_until(sub { my @now = $nginx->workers; @now == 2 && !grep { $_ == $victim } @now }) or die "$victim is not replaced\n";
        push @killed, $victim;
        wait_for_requests($nginx);
    }
    return @killed;
}

# A worker takes with it what its clients had asked for.
sub is_served ($count, @loads) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    for my $result (map { $_->finish } @loads) {
        cmp_ok($result->{requests}, '>',  10 * $count, "$result->{requests} requests have answers");
        cmp_ok($result->{broken},   '<=', 8 * $count,  "$result->{broken} have none");
    }
}

sub passed ($nginx, $path) { return scalar grep { $_->{path} eq $path && $_->{status} == 200 } requests_of($nginx) }

subtest 'while Redis decides' => sub {
    my $redis    = RateLimit::Redis->start_new;
    my $upstream = RateLimit::Upstream->start_new(seconds => 0.003);
    my $nginx    = start_nginx($redis, <<"END");
location /limited { redis_rate_limit zone=z algorithm=sliding_log limit=$limit window=600; empty_gif; }
location /permits   { redis_rate_limit zone=z algorithm=concurrency limit=5 window=2; proxy_pass ${\$upstream->url}; }
END
    ok(wait_until(sub { $redis->nginx_clients == 2 && $redis->followers == 1 }), 'each worker has its connection, and one asks for live limits');
    my $client = $redis->client;
    my @load    = map { start_load($nginx->url($_), connections => 8) } qw(/limited /permits);
    my @killed  = kill_workers($nginx, 100);
    is_served(100, @load);
    is_deeply([ sort keys count_statuses(requests_of($nginx))->%* ], [ 200, 429 ], 'no 5xx');
    is($client->llen('rl:{z:/limited}:sliding_log:600000'), $limit, 'Redis granted the limit');
    cmp_ok(passed($nginx, '/limited'), '<=', $limit, 'and no more passed');
    ok(wait_until(sub { !$client->exists('rl:{z:/permits}:concurrency:2000') || $nginx->get('/permits')->{status} == 200 }), 'permits of the dead are free after their window');
    ok(wait_until(sub { $redis->clients_of_others == 4 }), 'in the end Redis has these three connections, and one of the test');
    $nginx->stop(expect => RateLimit::Nginx::ends_of_killed(@killed));
};

subtest 'while this host decides' => sub {
    my $gone = RateLimit::Redis->start_new;
    my $nginx = start_nginx($gone, <<"END");
location /limited {
    redis_rate_limit zone=z algorithm=fixed_window limit=$limit  window=600;
    redis_rate_limit zone=y algorithm=gcra         limit=1000000 window=1;
    empty_gif;
}
END
    $gone->kill_now;
    my $load   = start_load($nginx->url('/limited'), connections => 8);
    my @killed = kill_workers($nginx, 100);
    is_served(100, $load);
    is_deeply([ sort keys count_statuses(requests_of($nginx))->%* ], [ 200, 429 ], 'no 5xx');
    # What was being written is then not known.
    my $torn   = () = $nginx->error_log =~ /was locked by/g;
    my $passed = passed($nginx, '/limited');
    cmp_ok($passed, '>',  $limit / 2,            "$passed passed");
    cmp_ok($passed, '<=', $limit * (1 + $torn), "as many as the limit or less, $torn died while they counted");
    $nginx->stop(expect => RateLimit::Nginx::ends_of_killed(@killed));
};

SKIP: {
    my $gone  = RateLimit::Redis->start_new;
    my $nginx = start_nginx($gone, 'location / { redis_rate_limit zone=z algorithm=fixed_window limit=1000 window=600; empty_gif; }');
    $gone->kill_now;
    my $lock = RateLimit::ZoneLock->new($nginx, 1024 * 1024) or skip 'one process may not look into the memory of another', 1;
    subtest 'while it holds the lock of a zone' => sub {
        is($nginx->statuses('/', 20), join(' ', (200) x 20), 'this host decides');
        my ($victim) = $nginx->workers;
        # It accepts nobody, else it could be the one that has all of the clients.
        freeze($victim);
        $lock->take_for($victim);
        my @answers = map { $nginx->get_later('/') } 1 .. 8;
        ok(wait_until(sub { $lock->waiting }), 'the other waits for it');
        kill KILL => $victim;
        is(join(' ', map { $_->()->{status} } @answers), join(' ', (200) x 8), 'and goes on when its holder is dead');
        is($nginx->statuses('/', 20), join(' ', (200) x 20), 'and both workers serve');
        like($nginx->error_log, qr/shared memory zone "redis_rate_limit:z" was locked by $victim/, 'nginx tells of it');
        $nginx->stop(expect => RateLimit::Nginx::ends_of_killed($victim));
    };
}

done_testing;
