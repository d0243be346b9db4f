# What comes to a worker all at once, for it stood still meanwhile, or was in the middle of a turn of
# its event loop: an answer that is there counts, though its time is over, and is nobody else's.

use v5.36;
use lib 't/lib';
use Fcntl qw(O_NONBLOCK O_RDWR);
use File::Temp qw(tempdir);
use POSIX qw(SIGCONT mkfifo);
use RateLimit::Client;
use RateLimit::Nginx;
use RateLimit::Processes qw(freeze);
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep);

my $timeout = 1;
my $redis   = RateLimit::Redis->start_new;
my $relay   = RateLimit::Relay->start_new($redis->conf->{port});

# Whose requests for /late end late: what they log goes into a pipe that nobody reads.
my $pipe = tempdir(CLEANUP => 1) . '/pipe';
mkfifo($pipe, 0666) or die "mkfifo: $!";
sysopen my $log, $pipe, O_RDWR | O_NONBLOCK or die "open: $!";

my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server 127.0.0.1:${\$relay->port}; connect_timeout 10s; timeout ${timeout}s; breaker off; }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed deny_cache=off;
keepalive_timeout 60s;
server {
    listen %PORT%;
    location /one  { redis_rate_limit zone=z algorithm=sliding_log limit=10000 window=1h; empty_gif; }
    location /late { access_log $pipe; empty_gif; }
}
END
my ($worker) = $nginx->workers;

sub ask ($client, $path) { return $client->send("GET $path HTTP/1.1\r\nHost: localhost\r\n\r\n") }

# A client whose connection nginx knows.
sub new_client () {
    my $client = RateLimit::Client->new($nginx);
    wait_until(sub { ask($client, '/one?key=before')->response->{status} == 200 }) or die 'no verdict';
    return $client;
}

# Redis has answered, and the worker is still to learn that.
sub await_answer () { wait_until(sub { $relay->counts->{held} > 0 }) or die 'Redis does not answer' }

# All that happens meanwhile comes to the worker at once.
sub while_it_stands_still ($happens) {
    freeze($worker);
    $happens->();
    kill SIGCONT, $worker;
}

subtest 'an answer that comes in time, but is seen after that' => sub {
    my $client = new_client;
    $relay->hold;
    ask($client, '/one?key=late');
    await_answer;
    while_it_stands_still(sub { $relay->release; sleep 1.3 * $timeout });
    is($client->response->{status}, 200, 'counts');
};

# Of lua/sliding_log.lua, which denies for an hour.
my $numbers = pack 'q<5', 1_700_000_000_000_000, -1, (3_600_000_000) x 3;
my $denial  = '$' . length($numbers) . "\r\n$numbers\r\n";

subtest 'what nobody has asked for' => sub {
    for my $round (1 .. 10) {
        my $client      = new_client;
        my $connections = $relay->counts->{accepted};
        while_it_stands_still(sub { $relay->inject($denial); ask($client, "/one?key=own-$round") });
        isnt($client->response->{status}, 429, "round $round: is no verdict");
        ok(wait_until(sub { $relay->counts->{accepted} > $connections }), 'and such a connection is not trusted');
    }
};

# The worker stands still where it has read what is to be asked, and is to send it.
subtest 'an answer, and a reset, before more is asked' => sub {
    for my $round (1 .. 5) {
        my ($first, $second, $late) = map { new_client } 1 .. 3;
        $relay->hold;
        ask($first, "/one?key=first-$round");
        await_answer;
        1 while syswrite $log, 'full';
        while_it_stands_still(sub { ask($second, "/one?key=second-$round"); ask($late, '/late') });
        is($late->response->{status}, 200, "round $round: answered, but not logged");
        $relay->release;
        $relay->reset_all;
        1 while sysread $log, my $bytes, 65536;
        is($first->response->{status}, 200, 'the answer counts');
        isnt($second->response->{status}, 429, 'and is nobody else\'s');
    }
};

$nginx->stop;
done_testing;
