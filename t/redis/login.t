# How a connection begins: AUTH, SELECT, a unix socket; and that no secret gets into a log.

use v5.36;
use lib 't/lib';
use List::Util qw(min);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep time);

my $secret = 'correct-horse';
my $server = RateLimit::Redis->start_new(requirepass => $secret);
my $redis  = $server->client(password => $secret);
$redis->acl('setuser', 'limiter', 'on', '>battery-staple', '~rl:*', '+@all');

sub start_nginx ($backend) {
    return RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { $backend }
redis_rate_limit_zone \$arg_key zone=open:1m   on_error=open;
redis_rate_limit_zone \$arg_key zone=closed:1m on_error=closed;
redis_rate_limit_log_level info;
server {
    listen %PORT%;
    location /open {
        redis_rate_limit zone=open algorithm=sliding_log limit=2 window=60;
        empty_gif;
    }
    location /closed {
        redis_rate_limit zone=closed algorithm=sliding_log limit=2 window=60;
        empty_gif;
    }
}
END
}

sub limits ($name, $backend) {
    state $number = 0;
    my $key   = 'k' . ++$number;
    my $nginx = start_nginx("$backend connect_timeout 5s; timeout 5s;");
    is($nginx->statuses("/closed?key=$key", 3), '200 200 429', "$name: the limit holds");
    unlike($nginx->error_log, qr/fails/, "$name: from the first request on");
    $nginx->stop;
    return $key;
}

sub refuses ($name, $backend, $said) {
    my $nginx = start_nginx($backend);
    is($nginx->statuses('/open?key=a',   3), '200 200 200', "$name: open passes");
    is($nginx->statuses('/closed?key=a', 3), '503 503 503', "$name: closed does not");
    my $connections = sub { $redis->info('stats')->{total_connections_received} };
    my $before      = $connections->();
    sleep 2;
    cmp_ok($connections->() - $before, '<=', 2 * 7, "$name: no loop of attempts");
    my $log = $nginx->error_log;
    like($log, $said, "$name: the log tells why");
    is(scalar(() = $log =~ / fails: /g), 1, "$name: once");
    unlike($log, qr/horse|staple/, "$name: without the password");
    $nginx->stop;
}

my $address = "server ${\$server->address};";

subtest 'what is right' => sub {
    limits('password',              "$address password $secret;");
    limits('username and password', "$address username limiter; password battery-staple;");

    my $file = $server->tmpdir . '/password';
    RateLimit::Nginx::write_file($file, "$secret\nanother line\n");
    limits('password_file', "$address password_file $file;");

    my $key = limits('database and prefix', "$address password $secret; database 3; prefix test/;");
    $redis->select(3);
    is($redis->llen("test/{closed:$key}:sliding_log:60000"), 2, 'the key is where it was asked for');
    $redis->select(0);

};

subtest 'a unix socket' => sub {
    plan skip_all => 'workers have no way from the root' if !((stat '/')[2] & 0001);
    my $local = RateLimit::Redis->start_new(unix => 1);
    limits('unix socket', "server ${\$local->address};");
};

# Of a worker that Redis does not let in, in so many seconds, where each wait is as short as it may
# be: half of 50 ms, doubled up to 10 s. It has two connections, one for checks and one for live limits.
sub most_attempts ($seconds) {
    my ($attempts, $wait) = (1, 0.025);
    while (($seconds -= $wait) > 0) {
        ++$attempts;
        $wait = min(2 * $wait, 5);
    }
    return 2 * $attempts;
}

subtest 'what is wrong' => sub {
    my $patient  = RateLimit::Redis->start_new(requirepass => $secret);
    my $attempts = sub { $patient->client(password => $secret)->info('stats')->{total_connections_received} };
    my $began    = time;
    my $outside  = start_nginx("server ${\$patient->address}; password wrong-horse;");
    refuses('wrong password',  "$address password wrong-horse;",                    qr/fails: AUTH: WRONGPASS/);
    refuses('no password',     $address,                                            qr/fails: .*NOAUTH/);
    refuses('wrong user',      "$address username nobody; password wrong-staple;",  qr/fails: AUTH: WRONGPASS/);
    refuses('no such database', "$address password $secret; database 99;",          qr/fails: SELECT: ERR DB index/);
    my $open = RateLimit::Redis->start_new;
    refuses('a password for a Redis that has none', "server ${\$open->address}; password wrong-horse;", qr/fails: AUTH: ERR/);

    my $count = $attempts->() - 2; # the test's own
    my $lasts = time - $began;
    cmp_ok($lasts, '>', 8, 'after so long that a second between attempts would show');
    cmp_ok($count, '<=', most_attempts($lasts), sprintf 'few attempts in %.1f s: %d', $lasts, $count);
    $outside->stop;
};

subtest 'a Redis that knows no AUTH and repeats what it was told' => sub {
    my $nameless = RateLimit::Redis->start_new('rename-command' => 'AUTH ""');
    my $nginx    = start_nginx("server ${\$nameless->address}; password $secret;");
    ok($nginx->wait_for_log(qr/fails: AUTH: ERR,/), 'the log tells why');
    unlike($nginx->error_log, qr/horse/, 'without the password');
    $nginx->stop;
};

subtest 'a password that changes' => sub {
    my $nginx = start_nginx("$address password $secret;");
    is($nginx->get('/closed?key=change')->{status}, 200, 'a verdict');
    $redis->config_set('requirepass', 'another');
    $redis->client('kill', 'type', 'normal', 'skipme', 'yes');
    ok(wait_until(sub { $nginx->get('/closed?key=change')->{status} == 503 }), 'none with the old password');
    $redis->config_set('requirepass', $secret);
    ok(wait_until(sub { $nginx->get('/closed?key=' . rand)->{status} == 200 }), 'verdicts when it is right again');
    unlike($nginx->error_log, qr/horse/, 'the log is silent about both');
    $nginx->stop;
};

done_testing;
