# The replay decides on each request as nginx did: of a log that says when nginx decided, and of one
# that has whole milliseconds, from requests that came one by one.

use v5.36;
use lib 't/lib';
use IO::Socket::INET;
use List::Util qw(sum0);
use RateLimit::Clock;
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $seed = $ENV{RATE_LIMIT_SEED} // int rand 1e9;
srand $seed;
note "RATE_LIMIT_SEED=$seed";
my $print_verdicts = 'build/cmake/print_verdicts';

# Requests of one counter are alike: in which order Redis decided on two of one microsecond does not
# matter then. The phases decide at times of their own, of which the log has one.
my $rules = <<'END';
redis_rate_limit_zone $arg_key zone=z:10m;
redis_rate_limit_zone $request_method-$arg_key zone=method:10m;
map $arg_key $limit { 0 40; default 8; }
map $arg_key $cost { 0 0; 1 1; 2 5; default 3; }
server {
    listen %PORT%;
    location /log/     { redis_rate_limit zone=z algorithm=sliding_log limit=10 window=1s name=log; empty_gif; }
    location /fixed/   { redis_rate_limit zone=z algorithm=fixed_window limit=12 window=1s name=fixed; empty_gif; }
    location /aligned/ { redis_rate_limit zone=z algorithm=fixed_window limit=12 window=1s aligned name=aligned; empty_gif; }
    location /window/  { redis_rate_limit zone=z algorithm=sliding_window limit=12 window=1s name=window; empty_gif; }
    location /gcra/    { redis_rate_limit zone=z algorithm=gcra limit=7 window=1s name=gcra burst=5; empty_gif; }
    location /bucket/  { redis_rate_limit zone=z algorithm=token_bucket limit=30 window=1s name=bucket burst=20 cost=$cost; empty_gif; }
    location /leaky/   { redis_rate_limit zone=z algorithm=leaky_bucket limit=9 window=1s name=leaky burst=4 delay=4; empty_gif; }
    location /tier/    { redis_rate_limit zone=z algorithm=sliding_log limit=$limit window=1s name=tier; empty_gif; }
    location /block/   { redis_rate_limit zone=z algorithm=fixed_window limit=20 window=2s name=block block=1s; empty_gif; }
    location /final/   { redis_rate_limit zone=z algorithm=token_bucket limit=20 window=1s burst=10 cost=3 final_cost=$arg_cost name=final; empty_gif; }
    location /several/ {
        redis_rate_limit zone=z algorithm=gcra limit=20 window=1s burst=9 name=several_gcra;
        redis_rate_limit zone=method algorithm=fixed_window limit=15 window=1s;
        redis_rate_limit zone=z algorithm=sliding_log limit=2 window=1s name=trial dry_run;
        empty_gif;
        location = /several/none { redis_rate_limit off; empty_gif; }
    }
    location /phases/ {
        redis_rate_limit zone=z algorithm=gcra limit=20 window=1s burst=9 name=early;
        redis_rate_limit zone=z algorithm=sliding_log limit=11 window=1s name=late phase=precontent;
        empty_gif;
    }
    location /settled/ {
        redis_rate_limit zone=z algorithm=token_bucket limit=20 window=1s burst=10 cost=3 final_cost=$arg_cost name=settled;
        redis_rate_limit zone=z algorithm=sliding_log limit=4 window=1s name=after phase=precontent;
        empty_gif;
    }
    location /flight/ { redis_rate_limit zone=z algorithm=concurrency limit=1 name=flight; empty_gif; }
    location /free/ { empty_gif; }
}
END

my @places = map { "/$_/" } qw(log fixed aligned window gcra bucket leaky tier block several free);

sub random_uri ($keys, @of) {
    return '/several/none' if rand() < 0.01;
    return $of[rand @of] . '?key=' . int(rand $keys) . '&cost=' . int(rand 6);
}

# Requests on some connections, a few at once on each.
sub send_many ($port, $count) {
    my @sockets = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) // die "connect: $!" } 1 .. 16;
    for (1 .. $count / @sockets / 10) {
        for (@sockets) {
            $_->syswrite(join '', map { "GET @{[random_uri(4, @places)]} HTTP/1.1\r\nHost: localhost\r\n\r\n" } 1 .. 10);
        }
        for my $socket (@sockets) {
            my ($text, @answers) = '';
            while (@answers < 10) {
                $socket->sysread($text, 65536, length $text) or die 'nginx has closed the connection';
                @answers = $text =~ m{HTTP/1\.1 (\d+) }g;
            }
        }
    }
}

# What the replay says of each line, in its order: verdict and line.
sub verdicts_of ($rules_file, $format, $log) {
    my @lines = qx{$print_verdicts $rules_file '$format' $log};
    is($?, 0, 'all lines are replayed');
    return map { /^(\S+) (.*)$/ ? [$1, $2] : die $_ } @lines;
}

sub start ($format, %options) {
    my @clock = $options{clock} ? (clock => $options{clock}) : ();
    my $redis = RateLimit::Redis->start_new(@clock);
    my $http  = <<"END";
redis_rate_limit_backend default { server ${\$redis->address}; timeout 10s; connect_timeout 10s; }
keepalive_requests 1000000;
log_format replayed '$format';
access_log %DIR%/replayed.log replayed;
$options{rules}
END
    my $nginx = RateLimit::Nginx->start_new($http, workers => $options{workers}, log_level => 'error', @clock);
    RateLimit::Nginx::write_file($nginx->dir . '/rules.conf', $options{rules} =~ s/%PORT%/1/r);
    return ($nginx, $redis);
}

sub wait_for_lines ($nginx, $count) {
    my $log = $nginx->dir . '/replayed.log';
    wait_until(sub { (() = RateLimit::Nginx::slurp($log) =~ /\n/g) >= $count }) or die "fewer than $count lines\n";
    return $log;
}

sub script_calls ($redis) { return sum0(values $redis->script_calls->%*) }

subtest 'four workers, by the time of the decision' => sub {
    my $format = '$redis_rate_limit_decided $msec $status "$request"';
    my ($nginx, $redis) = start($format, workers => 4, rules => $rules);
    send_many($nginx->port, 20_000);
    my $log = wait_for_lines($nginx, 20_000);
    my (%counts, %differences);
    my @verdicts = verdicts_of($nginx->dir . '/rules.conf', $format, $log);
    my $decided_lines = () = RateLimit::Nginx::slurp($log) =~ /^\d/mg;
    is(scalar @verdicts, $decided_lines, 'a verdict on each request on which nginx decided');
    cmp_ok($decided_lines, '<', 20_000, 'and on no other');
    for (@verdicts) {
        my ($verdict, $line) = @$_;
        my ($decided, undef, $status, $path, $key) = split /[ "?&]+/, $line =~ s/"GET //r;
        ++$counts{"$path $verdict"};
        # of one microsecond and key, only how many were rejected
        $differences{"$decided $path $key"} += ($verdict eq '429') - ($status eq '429');
        $differences{"$decided $path $key"} += 1000 if $verdict eq '-';
    }
    my @wrong = grep { $differences{$_} } sort keys %differences;
    is(scalar @wrong, 0, "the same verdicts, RATE_LIMIT_SEED=$seed") or diag(join "\n", @wrong[0 .. ($#wrong < 20 ? $#wrong : 20)]);
    for my $place (grep { $_ ne '/free/' } @places) {
        cmp_ok($counts{"$place$_"} // 0, '>', 20, "$place: $_") for ' 200', ' 429';
    }
    $nginx->stop;
};

subtest 'one by one, by whole milliseconds' => sub {
    my $clock  = RateLimit::Clock->new(1_700_000_000_123_000);
    my $format = '$msec $request_time $status "$request"';
    my ($nginx, $redis) = start($format, workers => 1, clock => $clock, rules => $rules =~ s/:10m;/:10m deny_cache=off;/gr);
    for (1 .. 4000) {
        $clock->move(1000 * int rand(rand() < 0.01 ? 1000 : 4));
        my $uri    = random_uri(1, @places, '/phases/', '/flight/', ('/final/', '/settled/') x 4);
        my $before = script_calls($redis);
        my $status = $nginx->get($uri)->{status};
        my ($place) = $uri =~ m{^/(flight|(?:final|settled)(?=/.*cost=[^3]))/};
        my $is_settled = $place && $status == 200;
        my $checks     = ($place // '') eq 'settled' ? 2 : 1;
        wait_until(sub { script_calls($redis) == $before + $checks + 1 }) or die "$uri is not settled\n" if $is_settled;
    }
    my $log = wait_for_lines($nginx, 4000);
    my @wrong;
    my %counts;
    for (verdicts_of($nginx->dir . '/rules.conf', $format, $log)) {
        my ($verdict, $line) = @$_;
        my ($status) = $line =~ /^\S+ \S+ (\d+) /;
        my $expected = $line =~ m{ /(?:free/|several/none)} ? '-' : $status;
        push @wrong, "$verdict: $line" if $verdict ne $expected;
        ++$counts{"$1 $verdict"} if $line =~ m{ (/\w+/)\?};
    }
    is(scalar @wrong, 0, "the same verdicts, RATE_LIMIT_SEED=$seed") or diag(join "\n", @wrong[0 .. ($#wrong < 20 ? $#wrong : 20)]);
    for my $place (qw(/log/ /gcra/ /phases/ /final/ /settled/)) { # few of some by chance
        cmp_ok($counts{"$place $_"} // 0, '>', 0, "$place: $_") for 200, 429;
    }
    $nginx->stop;
};

done_testing;
