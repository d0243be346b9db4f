# Budgets that many requests use up in parallel, at two instances that are disturbed all the time: never
# more is used than the budget and what requests cost beyond their reservations, and in the end each
# counter is the sum of what was used, exactly.
#
# Environment: SECONDS (6) of load.

use v5.36;
use lib 't/lib';
use List::Util qw(max sum0);
use RateLimit::Client;
use RateLimit::Nginx;
use RateLimit::Process;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep time);

my $seconds  = $ENV{SECONDS} // 6;
my $budget   = 10_000;
my $reserved = 500;
my $redis    = RateLimit::Redis->start_new;
my $client   = $redis->client;

my $rule  = "redis_rate_limit zone=z algorithm=fixed_window limit=$budget window=1h cost=$reserved final_cost=\$arg_final";
my @nginx = map { RateLimit::Nginx->start_new(<<"END", workers => 2) } 1, 2;
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed deny_cache=off;
log_format used '\$arg_key \$arg_final \$redis_rate_limit_status';
access_log %DIR%/used.log used;
keepalive_requests 1000000;
server {
    listen %PORT%;
    root %DIR%/html;
    location /direct { $rule; empty_gif; }
    location /redirected { $rule; error_page 404 = \@again; try_files /none =404; }
    location \@again { $rule; empty_gif; }
    location /named { $rule; try_files /none \@named; }
    location \@named { $rule; return 204; }
    location /slow { $rule; limit_rate 20k; }
    location /held { $rule; limit_rate 1k; }
    location = /json { redis_rate_limit_metrics json; }
}
END
for my $nginx (@nginx) {
    $nginx->add_page('slow/page', 'x' x 4000); # 0.2 s
    $nginx->add_page('held/page', 'x' x 9000);
}

# Asks until it is stopped; leaves some requests before they are answered.
sub ask ($nginx, $seed) {
    srand $seed;
    my $stopped = 0;
    local $SIG{TERM} = sub { $stopped = 1 };
    local $SIG{PIPE} = 'IGNORE';
    my $connection;
    while (!$stopped) {
        $connection //= eval { RateLimit::Client->new($nginx) } or next;
        my $path = (qw(direct redirected named slow/page))[ rand 4 ];
        my ($key, $final) = ('k' . int rand 40, 100 + int rand 801);
        my $is_left = rand() < 0.1;
        my $sent    = eval { $connection->send("GET /$path?key=$key&final=$final HTTP/1.1\r\nHost: a\r\n\r\n"); 1 };
        if ($is_left) {
            sleep rand 0.1;
            eval { $connection->reset };
        }
        my $response = !$sent || $is_left ? undef : eval { $connection->response };
        undef $connection if !$response || ($response->{headers}{connection} // '') eq 'close';
    }
}

my @clients = map { my $number = $_; RateLimit::Process->run(sub { ask($nginx[ $number % 2 ], $number) }) } 1 .. 8;
my $until = time + $seconds;
while (time < $until) {
    $_->reload for @nginx;
    sleep 0.5;
    $client->script('flush');
    sleep 0.5;
}
$_->signal('TERM')   for @clients;
$_->wait_for_end(30) for @clients;
$_->stop             for @nginx; # after the last settlement

# What was used of each key. Of a client that left while Redis was asked the log has no verdict.
my (%used, %unreserved, %unknown);
my %count = (granted => 0, denied => 0);
for my $nginx (@nginx) {
    for (split /\n/, RateLimit::Nginx::slurp($nginx->dir . '/used.log')) {
        my ($key, $final, $verdict) = split / /;
        if ($verdict eq 'PASSED') {
            ++$count{granted};
            $used{$key} += $final;
            $unreserved{$key} += max($final - $reserved, 0);
        } elsif ($verdict eq 'REJECTED') {
            ++$count{denied};
        } else {
            push $unknown{$key}->@*, $final;
        }
    }
}
note join ', ', map { "$count{$_} $_" } sort keys %count;
cmp_ok($count{$_}, '>', 5, "requests: $_") for sort keys %count;

# Whether some of the numbers have that sum.
sub is_sum_of ($sum, @numbers) {
    my %sums = (0 => 1);
    for my $number (@numbers) {
        $sums{ $_ + $number } = 1 for keys %sums;
    }
    return $sums{$sum};
}

for my $key (sort keys %used) {
    my $state   = $client->get("rl:{z:$key}:fixed_window:3600000") // '';
    my $counted = length $state ? (unpack 'dd', $state)[1] : 0;
    ok(is_sum_of($counted - $used{$key}, ($unknown{$key} // [])->@*), "$key: what was used is counted, exactly")
        or diag("$counted, used $used{$key}, unknown: ", join ' ', ($unknown{$key} // [])->@*);
    my $beyond = $unreserved{$key} + sum0(map { max($_ - $reserved, 0) } ($unknown{$key} // [])->@*);
    cmp_ok($used{$key}, '<=', $budget + $beyond, "$key: and never more than the budget and what was not reserved");
}

subtest 'workers that are killed' => sub {
    my $nginx = $nginx[0];
    $nginx->start;
    my @asked = map { $nginx->get_later("/held/page?key=killed&final=$_") } 600, 700, 800;
    my $charged = sub { (unpack 'dd', $client->get('rl:{z:killed}:fixed_window:3600000') // "\0" x 16)[1] };
    ok(wait_until(sub { $charged->() == 3 * $reserved }), 'requests are under way');
    my @workers = $nginx->workers;
    kill KILL => @workers;
    $_->() for @asked;
    is($charged->(), 3 * $reserved, 'what they have reserved is left, and no more');
    $nginx->stop(expect => RateLimit::Nginx::ends_of_killed(@workers));
};

done_testing;
