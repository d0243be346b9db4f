# Who comes from limit_req finds the same: gcra and leaky_bucket beside it, under the same requests,
# answer the same and hold requests back for as long.

use v5.36;
use lib 't/lib';
use List::Util qw(max);
use RateLimit::Client;
use RateLimit::Measure qw(median);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep time);

my $redis = RateLimit::Redis->start_new;

my %pairs = (
    nodelay => [ 'burst=5 nodelay', 'algorithm=gcra burst=5' ],
    delayed => [ 'burst=5',         'algorithm=leaky_bucket burst=5' ],
    partly  => [ 'burst=5 delay=2', 'algorithm=leaky_bucket burst=5 delay=2' ],
);

sub start_nginx (%options) {
    my $locations = join '', map { <<"END" } sort keys %pairs;
    location = /theirs/$_ { limit_req zone=$_ $pairs{$_}[0]; }
    location = /ours/$_ { redis_rate_limit zone=ours $pairs{$_}[1] limit=10 window=1 name=$_; }
END
    my $nginx = RateLimit::Nginx->start_new(<<"END", %options);
log_format held '\$uri \$arg_key \$arg_n \$status \$request_time \$redis_rate_limit_status \$msec';
access_log %DIR%/held.log held;
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$arg_key zone=ours:1m on_error=closed;
${\join '', map { "limit_req_zone \$arg_key zone=$_:1m rate=10r/s;\n" } keys %pairs}
limit_req_status 429;
server {
    listen %PORT%;
    $locations
    location = /slow { redis_rate_limit zone=ours algorithm=leaky_bucket limit=1 window=5 burst=5 name=slow; }
    location = /info { redis_rate_limit zone=ours algorithm=leaky_bucket limit=100 window=1 burst=5 name=info; redis_rate_limit_log_level info; }
    location = /notice { redis_rate_limit zone=ours algorithm=leaky_bucket limit=100 window=1 burst=5 name=notice; redis_rate_limit_log_level notice; }
    location = /two {
        redis_rate_limit zone=ours algorithm=leaky_bucket limit=10 window=1 burst=5 name=shorter;
        redis_rate_limit zone=ours algorithm=leaky_bucket limit=4 window=1 burst=5 name=longer;
    }
    location = /short { redis_rate_limit zone=ours algorithm=leaky_bucket limit=10 window=19ms burst=1 cost=2 name=short; }
    location = /body {
        redis_rate_limit zone=ours algorithm=leaky_bucket limit=20 window=1 burst=9 name=body;
        proxy_pass http://unix:%DIR%/upstream.sock;
    }
    location = /connections { stub_status; }
}
server {
    listen unix:%DIR%/upstream.sock;
    access_log off;
    location / { return 200 "\$request_method \$arg_n"; }
}
END
    $nginx->add_page($_, '') for qw(slow info notice two short);
    for my $side (qw(theirs ours)) {
        mkdir $nginx->dir . "/html/$side";
        $nginx->add_page("$side/$_", "held\n") for keys %pairs;
    }
    return $nginx;
}

sub message ($target) { return "GET $target HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" }

# What the access log tells of a location and key: lists of status, seconds, our status, and when it ended.
sub logged ($nginx, $path, $key) {
    my @logged;
    for (split /\n/, RateLimit::Nginx::slurp($nginx->dir . '/held.log')) {
        my ($its_path, $its_key, $n, @rest) = split ' ';
        $logged[$n] = \@rest if $its_path eq $path && $its_key eq $key;
    }
    return @logged;
}

my $nginx = start_nginx();
is($nginx->get('/ours/nodelay?key=warm&n=0')->{status}, 200, 'works');

# Whether each request came, and was decided where it was not held, within 25 ms of its time.
sub is_on_schedule ($began, $schedule, @logged) {
    for my $n (0 .. $#$schedule) {
        my ($status, $seconds, $of_rule, $ended) = $logged[$n]->@*;
        return 0 if abs($ended - $seconds - $began - $schedule->[$n]) > 0.025;
        return 0 if $of_rule ne 'DELAYED' && $of_rule ne '-' && $seconds > 0.025;
    }
    return 1;
}

subtest 'the same requests, side by side' => sub {
    # Seconds from the start, of each request. Between a batch and the limits lies half a unit, 50 ms.
    my @schedule = ((0) x 8, (0.25) x 4, (0.5) x 2, 0.9);
    my @targets  = map { ("/theirs/$_", "/ours/$_") } sort keys %pairs;
    my @rounds; # in which the machine had time for each request
    for my $key (1 .. 30) {
        last if @rounds == 5;
        my @clients = map { [ map { RateLimit::Client->new($nginx) } @targets ] } @schedule;
        my $began   = time;
        for my $n (0 .. $#schedule) {
            my $wait = $began + $schedule[$n] - time;
            sleep $wait if $wait > 0; # the schedule itself
            $clients[$n][$_]->send(message("$targets[$_]?key=$key&n=$n")) for 0 .. $#targets;
        }
        $_->response for map { @$_ } @clients;
        wait_until(sub { !grep { @schedule != grep { defined } logged($nginx, $_, $key) } @targets });
        push @rounds, $key if !grep { !is_on_schedule($began, \@schedule, logged($nginx, $_, $key)) } @targets;
    }
    is(scalar @rounds, 5, "@rounds are the rounds to judge");
    for my $name (sort keys %pairs) {
        my (@differences, @longest);
        for my $key (@rounds) {
            my @theirs = logged($nginx, "/theirs/$name", $key);
            my @ours   = logged($nginx, "/ours/$name",   $key);
            is(join(' ', map { $_->[0] } @ours), join(' ', map { $_->[0] } @theirs), "$name: the same statuses");
            push $differences[$_]->@*, abs $ours[$_][1] - $theirs[$_][1] for 0 .. $#schedule;
            push @longest, max map { $_->[1] } @ours;
            my $delayed = grep { $_->[0] == 200 && $_->[2] eq 'DELAYED' } @ours;
            my $passed  = grep { $_->[0] == 200 && $_->[2] eq 'PASSED' } @ours;
            my $refused = grep { $_->[0] == 429 && $_->[2] eq 'REJECTED' } @ours;
            is($delayed + $passed + $refused, @schedule, "$name: $passed pass, $delayed are delayed, $refused are refused");
            cmp_ok($refused, '>', 3, 'a test that refuses');
            $name eq 'nodelay' ? is($delayed, 0, 'and delays nobody') : cmp_ok($delayed, '>', 3, 'and delays');
        }
        my $worst = max map { median(@$_) } @differences;
        cmp_ok($worst, '<=', 0.05, sprintf '%s: within %.0f ms of each other, up to %.0f ms', $name, $worst * 1000, median(@longest) * 1000);
        cmp_ok(median(@longest), '>', 0.25, 'which is some time') if $name ne 'nodelay';
    }
};

subtest 'the longest of several delays' => sub {
    $_->() for map { $nginx->get_later("/two?key=two&n=$_") } 0 .. 2;
    my @logged = logged($nginx, '/two', 'two');
    cmp_ok($logged[2][1], '>=', 0.4, "the third was held for $logged[2][1] s");
    like($nginx->error_log, qr/\[warn\] .*delaying request, rule "longer", key "two", by 0\.[45]\d\ds, client/, 'and is logged');
    unlike($nginx->error_log, qr/delaying request, rule "shorter"/, 'once');
};

# Each is held back for 1.9 ms. nginx sleeps for whole milliseconds, 2 here, unless something else
# wakes it meanwhile: its clock may have been up to a millisecond late when the timer was set.
subtest 'a delay that is no whole number of milliseconds' => sub {
    my $count  = 200;
    my $client = RateLimit::Client->new($nginx);
    for my $n (0 .. $count - 1) {
        $client->send("GET /short?key=short-$n&n=$n HTTP/1.1\r\nHost: a\r\n\r\n")->response->{status} == 200 or die 'not served';
    }
    my @logged = map { (logged($nginx, '/short', "short-$_"))[$_] } 0 .. $count - 1;
    is(scalar(grep { $_->[2] eq 'DELAYED' } @logged), $count, 'each request is delayed');
    my $too_short = grep { $_->[1] < 0.002 } @logged;
    cmp_ok($too_short, '<=', $count / 10, "for no less than that, but $too_short");
};

subtest 'log levels' => sub {
    for ([ info => 'info' ], [ notice => 'info' ]) {
        my ($path, $level) = @$_;
        $_->() for map { $nginx->get_later("/$path?key=level&n=$_") } 0 .. 2;
        like($nginx->error_log, qr/\[$level\] .*delaying request, rule "$path", key "level", by 0\.0\d\ds, client/, "$path: delays at $level");
    }
};

subtest 'bodies, and requests that follow' => sub {
    my $client = RateLimit::Client->new($nginx);
    my $body   = 'x' x 300_000;
    for my $n (1 .. 3) {
        $client->send("POST /body?key=body&n=$n HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n$body");
    }
    $client->send("GET /body?key=body&n=$_ HTTP/1.1\r\nHost: a\r\n\r\n") for 4 .. 6;
    is(join(' ', map { $client->response->{body} } 1 .. 6), 'POST 1 POST 2 POST 3 GET 4 GET 5 GET 6', 'a connection stays in step');
    my @logged = logged($nginx, '/body', 'body');
    # where the machine takes longer for one than its interval, the next need not wait
    cmp_ok(scalar(grep { $_->[2] eq 'DELAYED' } @logged[1 .. 6]), '>=', 3, 'while its requests are held back');
};

subtest 'a client that leaves while it is held' => sub {
    my @clients = map { RateLimit::Client->new($nginx)->send(message("/slow?key=leave&n=$_")) } 0 .. 4;
    is($clients[0]->response->{status}, 200, 'the first is not held');
    ok(wait_until(sub { 4 == (() = $nginx->error_log =~ /delaying request, rule "slow"/g) }), 'the others are');
    $_->close for @clients;
    ok(wait_until(sub { 4 == grep { $_ && $_->[0] == 499 } logged($nginx, '/slow', 'leave') }), 'all end as 499');
    ok(wait_until(sub { $nginx->get('/connections')->{content} =~ /Active connections: 1 / }), 'no connection is left');
    my $began = time;
    $nginx->stop;
    cmp_ok(time - $began, '<', 4, 'nor a timer that would keep the worker');
};

subtest 'a reload while requests are held' => sub {
    $nginx = start_nginx();
    my @answers = map { $nginx->get_later("/ours/delayed?key=reload&n=$_") } 0 .. 5;
    ok(wait_until(sub { 5 == (() = $nginx->error_log =~ /delaying request, rule "delayed"/g) }), 'five are held');
    $nginx->reload;
    is(scalar $nginx->leaving_workers, 1, 'their worker stays');
    is(join(' ', map { $_->()->{status} } @answers), '200 200 200 200 200 200', 'all pass');
    my @seconds = sort { $a <=> $b } map { $_->[1] } logged($nginx, '/ours/delayed', 'reload');
    cmp_ok($seconds[5], '>=', 0.45, "the last was held for $seconds[5] s");
    ok(wait_until(sub { !$nginx->leaving_workers }), 'then it leaves');
    $nginx->stop;
};

subtest 'worker_shutdown_timeout' => sub {
    $nginx = start_nginx(main => 'worker_shutdown_timeout 100ms;');
    my @clients = map { RateLimit::Client->new($nginx)->send(message("/slow?key=cut&n=$_")) } 0 .. 2;
    ok(wait_until(sub { 2 == (() = $nginx->error_log =~ /delaying request, rule "slow"/g) }), 'two are held');
    my $began = time;
    $nginx->stop;
    cmp_ok(time - $began, '<', 4, 'and do not keep the worker');
};

done_testing;
