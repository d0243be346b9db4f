# Binary upgrades under load: a new master beside the old one, whose zones' memory is its own, then
# the old one leaves; or the other way round, where the new one is not liked.

use v5.36;
use lib 't/lib';
use RateLimit::AccessLog qw($log_times count_statuses requests_of wait_for_requests);
use RateLimit::Load qw(start_load);
use RateLimit::Nginx;
use RateLimit::Processes qw(descriptors);
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $limit = 300;
my $redis = RateLimit::Redis->start_new;

sub start_nginx () {
    return RateLimit::Nginx->start_new(<<"END", workers => 2, daemon => 1, log_level => 'notice');
$log_times
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$uri zone=z:1m on_error=closed;
redis_rate_limit_zone \$uri zone=l:1m;
server {
    listen %PORT%;
    location / {
        redis_rate_limit zone=z algorithm=sliding_log limit=1000000 window=60;
        redis_rate_limit zone=l algorithm=gcra limit=1000000 window=60 burst=999999;
        empty_gif;
    }
    location /limited { redis_rate_limit zone=z algorithm=sliding_log limit=$limit window=60; empty_gif; }
}
END
}

sub connections ($count, $when) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $followers = $count / 2;
    ok(wait_until(sub { $redis->nginx_clients == $count && $redis->followers == $followers && $redis->clients_of_others == $count + $followers }),
        "$count connections to Redis $when, and those for live limits");
}

# Of each of the two workers, where both have as many but for the connection for live limits of one.
sub descriptors_of_each_worker ($nginx) {
    my @counts = sort { $a <=> $b } map { descriptors($_) } $nginx->workers;
    return @counts == 2 && $counts[1] == $counts[0] + 1 ? $counts[0] : undef;
}

# The steps under load on / and /limited, and what has to hold then.
sub survives ($what, $steps) {
    subtest $what => sub {
        $redis->client->flushall;
        my $nginx = start_nginx();
        connections(2, 'at first');
        my $descriptors = wait_until(sub { descriptors_of_each_worker($nginx) }); # without that of the first request
        my @load        = map { start_load($nginx->url($_), connections => 4, close => 1) } '/', '/limited';
        $steps->($nginx);
        my ($all, $limited) = map { $_->finish } @load;
        is("$all->{broken} $limited->{broken}", '0 0', "each of $all->{requests} and $limited->{requests} requests got an answer");
        is_deeply([ sort keys count_statuses(requests_of($nginx))->%* ], [ 200, 429 ], 'no 5xx');
        is($all->{refused}, 0, 'all passed that may');
        my $passed = grep { $_->{path} eq '/limited' && $_->{status} == 200 } requests_of($nginx);
        is($passed, $limit, "of the others as many as the limit, $limit");
        connections(2, 'afterwards');
        ok(wait_until(sub { (descriptors_of_each_worker($nginx) // 0) == $descriptors }), "the workers have as many descriptors: $descriptors");
        $nginx->stop;
        connections(0, 'at the end');
    };
}

survives '5 binary upgrades' => sub ($nginx) {
    for (1 .. 5) {
        wait_for_requests($nginx, 500);
        my $old = $nginx->pid;
        $nginx->start_successor;
        connections(4, 'of both masters');
        wait_for_requests($nginx, 500); # by both
        $nginx->retire;
        connections(2, 'of the new one');
        wait_for_requests($nginx, 500);
        $nginx->give_way;
        isnt($nginx->pid, $old, 'another master');
    }
};

survives 'an upgrade that is taken back' => sub ($nginx) {
    my $old = $nginx->pid;
    $nginx->start_successor;
    $nginx->retire;
    wait_for_requests($nginx, 500);
    $nginx->take_back;
    is($nginx->pid, $old, 'the same master');
    wait_for_requests($nginx, 500);
    $nginx->upgrade;
    isnt($nginx->pid, $old, 'and a second try');
    wait_for_requests($nginx, 500);
};

subtest 'local verdicts go on with new counters' => sub {
    my $gone  = RateLimit::Redis->start_new;
    my $nginx = RateLimit::Nginx->start_new(<<"END", workers => 2, daemon => 1);
redis_rate_limit_backend default { server ${\$gone->address}; }
redis_rate_limit_zone \$uri zone=z:1m;
server {
    listen %PORT%;
    location / { redis_rate_limit zone=z algorithm=sliding_log limit=5 window=600; empty_gif; }
}
END
    $gone->kill_now;
    my $once = join ' ', (200) x 5, (429) x 3;
    is($nginx->statuses('/', 8), $once, 'the limit holds');
    $nginx->upgrade;
    is($nginx->statuses('/', 8), $once, 'and holds for the new master, whose memory is its own');
    $nginx->stop;
};

done_testing;
