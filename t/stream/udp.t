# Sessions of UDP: the first datagram of each is the one that is counted.

use v5.36;
use lib 't/lib';
use IO::Select;
use IO::Socket::INET;
use RateLimit::Metrics qw(pending);
use RateLimit::Port qw(empty_port);
use RateLimit::Process;
use RateLimit::Redis;
use RateLimit::Stream qw(new_statuses new_stream udp_answer);
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis = RateLimit::Redis->start_new;

# Sends each datagram back.
my $echo = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Proto => 'udp') or die "udp: $!";
my $port = $echo->sockport;
my $process = RateLimit::Process->run(sub {
    while (my $from = $echo->recv(my $text, 1000)) {
        $echo->send($text, 0, $from);
    }
});

# With reuseport all datagrams of a client come to one worker; else each may take some of them for a session.
my %port  = map { $_ => empty_port() } qw(sliding_log gcra concurrency);
my $nginx = new_stream(<<"END", workers => 2);
%STREAM_LOG%
redis_rate_limit_backend default { server ${\$redis->address}; timeout 5s; connect_timeout 5s; }
redis_rate_limit_zone \$remote_addr zone=z:1m;
server { listen 127.0.0.1:$port{sliding_log} udp; proxy_responses 1; redis_rate_limit zone=z algorithm=sliding_log limit=3 window=1h; proxy_pass 127.0.0.1:$port; }
server { listen 127.0.0.1:$port{gcra} udp; proxy_responses 1; redis_rate_limit zone=z algorithm=gcra limit=3 window=1h burst=2 name=gcra; proxy_pass 127.0.0.1:$port; }
server { listen 127.0.0.1:$port{concurrency} udp reuseport; proxy_timeout 1s; redis_rate_limit zone=z algorithm=concurrency limit=2 name=concurrency; proxy_pass 127.0.0.1:$port; }
END
$nginx->start;

for my $algorithm (qw(sliding_log gcra)) {
    is(udp_answer($port{$algorithm}, "query $_"), "query $_", "$algorithm: session $_") for 1 .. 3;
    is(udp_answer($port{$algorithm}, 'query 4', 0.5), undef, "$algorithm: the next one is not answered");
}
is(new_statuses($nginx, 8), join(', ', ('200 PASSED') x 6, ('503 REJECTED') x 2), 'statuses');

subtest 'concurrency' => sub {
    is(udp_answer($port{concurrency}, "open $_"), "open $_", "session $_") for 1 .. 2;
    is(udp_answer($port{concurrency}, 'open 3', 0.3), undef, 'a third one is not answered');
    ok(wait_until(sub { !grep { /concurrency/ && $redis->client->zcard($_) } $redis->keys }), 'permits end with proxy_timeout');
    is(udp_answer($port{concurrency}, 'open 4'), 'open 4', 'and others get them');
};

subtest 'datagrams that follow while the check is in flight' => sub {
    $redis->freeze;
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port{concurrency}, Proto => 'udp') or die "udp: $!";
    $socket->send("datagram $_") for 1 .. 3;
    ok(!IO::Select->new($socket)->can_read(0.3), 'nothing is answered');
    $redis->thaw;
    IO::Select->new($socket)->can_read(10);
    $socket->recv(my $answer, 1000);
    is($answer, 'datagram 1', 'the first one reaches the upstream');
    ok(!IO::Select->new($socket)->can_read(0.3), 'the others are lost');
};

# nginx closes sockets of UDP when a worker leaves, and their numbers may soon be those of other ones.
subtest 'a worker that leaves while the check is in flight' => sub {
    my $at     = empty_port();
    my $leaver = new_stream(<<"END");
%STREAM_LOG%
redis_rate_limit_backend default { server ${\$redis->address}; timeout 10s; connect_timeout 10s; }
redis_rate_limit_zone \$remote_addr zone=z:1m;
server { listen 127.0.0.1:$at udp; redis_rate_limit zone=z algorithm=sliding_log limit=3 window=1h name=leaving; return answer; }
END
    $leaver->start;
    is(udp_answer($at, 'query'), 'answer', 'a session');
    is(new_statuses($leaver, 1), '200 PASSED', 'passes');
    $redis->freeze;
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $at, Proto => 'udp') or die "udp: $!";
    $socket->send('query');
    wait_until(sub { pending($leaver, 'stream:default') == 1 }) or die 'nothing is asked';
    $leaver->reload;
    $redis->thaw;
    ok(wait_until(sub { !$leaver->leaving_workers }), 'it leaves');
    is(new_statuses($leaver, 1), '200 -', 'the session ends without an answer');
    $leaver->stop;
};

$nginx->stop;
$process = undef;

done_testing;
