# A Redis Cluster under load: 10,000 clients, while 1000 hash slots move and a master dies. Only the
# keys of the one that died go without verdicts, until its replica serves, and the others are never
# granted more than the limit.

use v5.36;
use lib 't/lib';
use List::Util qw(max sum0);
use RateLimit::Cluster;
use RateLimit::Load qw(start_load);
use RateLimit::Nginx;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(time);

my $clients = 10_000;
my $limit   = 5;
my $cluster = RateLimit::Cluster->start_new;
my $nginx   = RateLimit::Nginx->start_new(<<"END", workers => 2);
log_format keys '\$msec \$status \$arg_key \$redis_rate_limit_source';
redis_rate_limit_backend default { mode cluster; timeout 1s; connect_timeout 1s; ${\$cluster->servers} }
redis_rate_limit_zone \$arg_key zone=z:8m on_error=open deny_cache=off;
redis_rate_limit_log_level info;
server {
    listen %PORT%;
    access_log %DIR%/keys.log keys;
    location / { redis_rate_limit zone=z algorithm=fixed_window limit=$limit window=600; empty_gif; }
}
END

sub wait_for ($seconds) { my $end = time + $seconds; wait_until(sub { time >= $end }, $seconds + 1) }

my $load  = start_load($nginx->url('/?key='), connections => 64, script => ['t/bench/keys.lua', $clients, 'run']);
my $began = time;
wait_for(3);

my ($from, $to, $dying) = $cluster->masters;
$cluster->move_slots(1000, $from, $to);
my $moved = time;

# Its keys, before it is gone.
my %is_lost = map { ($_ => 1) } grep { $cluster->master_of("rl:{z:$_}:") == $dying } map { sprintf 'run-%06d', $_ } 1 .. 300;
$dying->kill_now;
my $killed = time;
ok(wait_until(sub { 3 == grep { $_->pid } $cluster->masters }, 30), 'a replica takes over');
my $taken_over = time;
wait_for(6);
my $result = $load->finish;

# By seconds: verdicts, and requests without one.
my (%passed, %verdicts, %open, $faults);
for (split /\n/, RateLimit::Nginx::slurp($nginx->dir . '/keys.log')) {
    my ($time, $status, $key, $source) = split / /;
    ++$faults if $status >= 500;
    ++($source eq 'redis' ? $verdicts{ int $time } : $open{ int $time });
    ++$passed{$key} if $status == 200 && $source eq 'redis';
}
my @before = sort { $a <=> $b } map { $verdicts{$_} } grep { $_ > $began && $_ < $moved - 1 } keys %verdicts;
my $usual  = $before[$#before / 2];
my $after  = max(map { $verdicts{$_} // 0 } map { int($taken_over) + $_ } 1 .. 5);
diag(sprintf '%d verdicts a second, %d after the failover, which took %.1f s', $usual, $after, $taken_over - $killed);

is($result->{broken}, 0, "each of $result->{requests} requests was answered");
is($faults, undef, 'none with an error');
is(sum0(map { $open{$_} } grep { $_ < $killed - 1 } keys %open), 0, 'each got a verdict while keys moved');
my @masters_before = ($from, $to);
is(join(' ', grep { !$is_lost{$_} && $passed{$_} != $limit } map { sprintf 'run-%06d', $_ } 1 .. 300), '',
    'keys of masters that live got what the limit allows, no more and no less');
cmp_ok($after, '>=', 0.9 * $usual, 'as many verdicts as before within 5 s');
my @at_others = grep { !/ at ${\$cluster->address_of($dying)} / } $nginx->error_log =~ /backend "default".* fails:.*/g;
is("@at_others", '', 'only the one that died has failed');
$nginx->stop;

done_testing;
