# The debug lines at the turning points of a request and of a connection, as docs/operating.md shows them.

use v5.36;
use lib 't/lib';
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

if (qx(@{[ RateLimit::Nginx::binary ]} -V 2>&1) !~ /--with-debug/) {
    plan skip_all => 'this nginx was built without --with-debug';
}

my $redis = RateLimit::Redis->start_new;
my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$arg_key zone=z:1m;
server {
    listen %PORT%;
    error_log %DIR%/debug.log debug;
    location / {
        redis_rate_limit zone=z algorithm=sliding_log limit=1 window=60;
        empty_gif;
    }
    location /slow {
        redis_rate_limit zone=z algorithm=leaky_bucket limit=100 burst=10 window=1 name=slow;
        empty_gif;
    }
}
END

my $read = 0;

# What the module has said since the last time, numbers as N.
sub said () {
    my $log = RateLimit::Nginx::slurp($nginx->dir . '/debug.log');
    my @lines = substr($log, $read) =~ /\[debug\] [\d#]+: (?:\*\d+ )?redis_rate_limit (.*)/g;
    $read = length $log;
    return map { s/\d+/N/gr } @lines;
}

sub lines_of ($path) {
    said();
    $nginx->get($path);
    return [said()];
}

# The trace in the documentation, of a request that passes.
my ($trace) = RateLimit::Nginx::slurp('docs/operating.md') =~ /^```text\n(.*?redis_rate_limit applies.*?)^```$/ms
    or die 'docs/operating.md shows no trace';
my @shown = map { s/\d+/N/gr } $trace =~ /redis_rate_limit (.*)/g;

is_deeply(lines_of('/?key=a'), \@shown, 'a request that passes, as the documentation has it');
is_deeply(
    lines_of('/?key=a'),
    [ 'applies N rules', 'asks Redis by N checks', 'waits', 'has its answers after N us', 'rejects, by a verdict: N' ],
    'one that Redis denies'
);
is_deeply(
    lines_of('/?key=a'),
    [ 'applies N rules', 'knows denials of N rules', 'rejects, by a verdict: N' ],
    'one that the deny cache denies'
);
is_deeply(lines_of('/?key='), [], 'one that no rule applies to');
$nginx->get('/slow?key=a');
is_deeply(
    lines_of('/slow?key=a'),
    [ 'applies N rules', 'asks Redis by N checks', 'waits', 'has its answers after N us', 'delays', 'waits', 'ends the delay' ],
    'one that is held back'
);
$nginx->stop;

my $verbose = RateLimit::Nginx->start_new(<<"END", log_level => 'debug');
redis_rate_limit_backend default { server ${\$redis->address}; }
redis_rate_limit_zone \$arg_key zone=z:1m;
server { listen %PORT%; location / { redis_rate_limit zone=z algorithm=sliding_log limit=1 window=60; empty_gif; } }
END
ok($verbose->wait_for_log(qr/redis_rate_limit connects to \Q@{[ $redis->address ]}\E/), 'a connection begins');
ok($verbose->wait_for_log(qr/redis_rate_limit is connected and logged in/),             'and is there');
$redis->stop;
ok($verbose->wait_for_log(qr/redis_rate_limit has lost a connection with 0 checks/), 'and lost');
$verbose->stop;
done_testing;
