# Runs a program with a Redis on a clock that it moves: see t/model/redis.hpp.
#
#   run.pl PROGRAM [ARGUMENT ...]

use v5.36;
use lib 't/lib';
use RateLimit::Clock;
use RateLimit::Redis;

my $clock = RateLimit::Clock->new(1_700_000_000_000_000);
my $redis = RateLimit::Redis->start_new(clock => $clock);
my $status = do {
    local %ENV = (%ENV, $clock->environment, RATE_LIMIT_REDIS_PORT => $redis->conf->{port});
    delete local $ENV{LD_PRELOAD}; # the program's own clock goes on
    system @ARGV;
};
exit($status == 0 ? 0 : 1);
