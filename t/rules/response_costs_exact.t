# Streamed answers at two instances that are reloaded, from an upstream of which one server is down: in the
# end Redis has counted what those have used that ended, and what those have reserved that left, exactly.
#
# Environment: ANSWERS (1000), so many of them.

use v5.36;
use lib 't/lib';
use List::Util qw(sum0);
use RateLimit::AnswerServer;
use RateLimit::Client;
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Process;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep);

my $answers  = $ENV{ANSWERS} // 1000;
my $clients  = 8;
my $reserved = 500;
my $input    = 25; # tokens, which the first event tells
my $redis    = RateLimit::Redis->start_new;
my $stream   = join '', map { "data: $_\n\n" } qq({"message":{"usage":{"input_tokens":$input,"output_tokens":1}}}),
    '{"delta":{"text":"Hello"}}', '{"delta":{"text":", world"},"usage":null}', '{"usage":{"output_tokens":TOKENS}}', '[DONE]';
my $model = RateLimit::AnswerServer->start_new(seconds => 0, answers => { 'stream.sse' => $stream });
my $down  = empty_port();

my @nginx = map { RateLimit::Nginx->start_new(<<"END", workers => 4) } 1, 2;
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 20s; timeout 20s; }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed deny_cache=off;
redis_rate_limit_response_value \$tokens usage.input_tokens+usage.output_tokens|message.usage.input_tokens+usage.output_tokens;
log_format used '\$arg_id \$redis_rate_limit_status [\$tokens] \$upstream_status';
access_log %DIR%/used.log used;
keepalive_requests 1000000;
upstream model {
    server ${\$model->address} max_fails=0;
    server 127.0.0.1:$down max_fails=0;
}
proxy_http_version 1.1;
proxy_connect_timeout 60s;
server {
    listen %PORT%;
    location / {
        redis_rate_limit zone=z algorithm=fixed_window limit=1000000000 window=100h cost=$reserved final_cost=\$tokens;
        proxy_buffering off;
        proxy_pass http://model;
    }
    location /buffered/ {
        redis_rate_limit zone=z algorithm=fixed_window limit=1000000000 window=100h cost=$reserved final_cost=\$tokens;
        proxy_pass http://model;
    }
}
END

# Asks for so many answers, and prints what became of each: its id, key, tokens, and how it ended. The
# upstream keeps the end from those that leave at the first event.
sub ask ($number, $count) {
    srand $number;
    my ($connection, $closed) = (undef, 0);
    for my $request (1 .. $count) {
        my ($id, $key, $tokens) = ("$number-$request", 'k' . int rand 20, int rand 2000);
        my $how  = rand() < 0.15 ? 'first' : rand() < 0.15 ? 'anywhere' : 'ended';
        my $path = ($how ne 'first' && rand() < 0.3 ? '/buffered' : '') . "/stream.sse?by=part&id=$id&key=$key&tokens=$tokens" . ($how eq 'first' ? '&hold=1' : '');
        $connection //= RateLimit::Client->new($nginx[ $number % 2 ]);
        my $is_sent = eval { $connection->send("GET $path HTTP/1.1\r\nHost: a\r\n\r\n"); 1 };
        if (!$is_sent || !$connection->read_until(sub { $connection->{input} =~ /data: / })) {
            die "no answer\n" if ++$closed > 100;
            undef $connection; # a reload has closed it
            redo;
        }
        if ($how eq 'ended') {
            $connection->read_until(sub { $connection->{input} =~ /\r\n0\r\n\r\n$/ }) or $how = 'broken';
            $connection->{input} = '';
        } else {
            sleep rand 0.004 if $how eq 'anywhere';
            $connection->reset;
        }
        undef $connection if $how ne 'ended';
        say join ' ', $id, $key, $tokens, $how;
    }
}

my @told = map { $nginx[0]->dir . "/asked-$_" } 1 .. $clients;
my @asking = map {
    my $number = $_;
    RateLimit::Process->run(sub {
        open STDOUT, '>', $told[ $number - 1 ] or die "asked: $!";
        STDOUT->autoflush(1);
        ask($number, $answers / $clients);
    });
} 1 .. $clients;
my $half = $answers / 2;
my $lines_of = sub (@files) { map { split /\n/, RateLimit::Nginx::slurp($_) } @files };
ok(wait_until(sub { $lines_of->(@told) >= $half }, 600), 'half of the answers have come');
$_->reload for @nginx;
is(join(' ', map { $_->wait_for_end(600) } @asking), join(' ', (1) x $clients), 'and all others');
$_->stop(seconds => 60) for @nginx; # after the last settlement

my %logged = map { /^(\S+) (.*)$/ ? ($1 => $2) : () } $lines_of->(map { $_->dir . '/used.log' } @nginx);
my (%expected, @wrong);
my %count = map { $_ => 0 } qw(ended first anywhere retried);
for my $line ($lines_of->(@told)) {
    my ($id, $key, $tokens, $how) = split / /, $line;
    my ($status, $told, $upstreams) = ($logged{$id} // 'none [] -') =~ /^(\S+) \[(.*)\] (.*)$/;
    my $used = $input + $tokens;
    ++$count{$how};
    ++$count{retried} if $upstreams =~ /, /;
    $expected{$key} += $how eq 'ended' || ($how eq 'anywhere' && $told ne '-') ? $used : $reserved;
    my $right = $how eq 'ended' ? $used : $how eq 'first' ? '-' : $told eq '-' ? '-' : $used;
    push @wrong, "$line, logged " . ($logged{$id} // 'nothing') if $status ne 'PASSED' || $told ne $right;
}
is(join("\n", splice @wrong, 0, 5), '', 'the log has what was used');
cmp_ok($count{$_}, '>', $answers / 100, "requests: $_ $count{$_}") for qw(ended first anywhere retried);

my $client = $redis->client;
for my $key (sort keys %expected) {
    my ($counted) = (unpack 'dd', $client->get("rl:{z:$key}:fixed_window:360000000") // "\0" x 16)[1];
    is($counted, $expected{$key}, "$key: what was used and what stays reserved is counted, exactly");
}
done_testing;
