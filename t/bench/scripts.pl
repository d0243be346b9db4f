# What a check costs Redis: CPU per pipelined EVALSHA, all granted. Each script beside one that is
# called with the same words and returns a number; the logs beside the sorted-set log of the
# textbooks, with few and with many live entries; several rules in one check beside one rule.

use v5.36;
use lib qw(t/lib t/bench);
use Bench::Scripts qw(arguments ask source wire $fill);
use List::Util qw(sum);
use RateLimit::Measure qw(cpu_ns median print_table);
use RateLimit::Redis;

my $rounds = $ENV{ROUNDS} // 25;
my $checks = 2_000; # of one round
my $redis  = RateLimit::Redis->start_new(unix => 1);
my $client = $redis->client;
my $socket = IO::Socket::UNIX->new($redis->conf->{unixsocket}) // die "unix socket: $!";

# With the ARGV of a sliding log.
my $sorted_set = <<'END';
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - ARGV[3])
local count = redis.call('ZCARD', KEYS[1])
if count >= tonumber(ARGV[1]) then return { 0, 0 } end
redis.call('ZADD', KEYS[1], now, now .. '-' .. count)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
END

# Rules, their keys, how many of them, with so many entries each.
sub case ($rules, %options) {
    my $textbook = "@$rules" eq 'sorted set';
    return { rules => $rules, keys => 20, entries => 0, %options,
        sha => $client->script_load($textbook ? $sorted_set : source(@$rules)) };
}
my $nothing = $client->script_load('return 1');

my ($fixed, $sliding, $gcra, $concurrency) = (
    case(['fixed_window'], bound => 2.5),
    case(['sliding_window'], bound => 3.5),
    case(['gcra'], bound => 3.5, label => 'gcra, token_bucket, leaky_bucket'),
    case(['concurrency'], entries => 100),
);
my @logs  = map { case(['sliding_log'], entries => $_->[0], keys => $_->[1]) } [100, 20], [100_000, 1];
my @sets  = map { case(['sorted set'],  entries => $_->{entries}, keys => $_->{keys}) } @logs;
my @three = (case([qw(gcra sliding_log fixed_window)], entries => 100), case([qw(gcra gcra gcra)]));
my @cases = ($fixed, $sliding, $gcra, $concurrency, (map { ($logs[$_], $sets[$_]) } 0 .. 1), @three);

sub key ($rule, $number) { return sprintf 'rl:{zone:203.0.113.%d}:%s', $number, $rule }

# The commands of one round, 100 to a write. The first rule's key is that of an address, those of
# the others are of a user.
sub commands ($case, $sha) {
    my @rules = $case->{rules}->@*;
    my @writes;
    for my $check (1 .. $checks) {
        my $number    = $check % $case->{keys};
        my @keys      = map { key("$rules[$_]:$_", $_ ? $number * 7 % $case->{keys} : $number) } 0 .. $#rules;
        my @arguments = map { arguments($_, $check) } @rules;
        $writes[($check - 1) / 100] .= wire('EVALSHA', $sha, scalar @keys, @keys, @arguments);
    }
    return \@writes;
}

# CPU microseconds a check.
sub measure ($case, $sha) {
    $client->flushall;
    my @rules = $case->{rules}->@*;
    for my $rule (grep { $rules[$_] =~ /log|set|concurrency/ } 0 .. $#rules) {
        $client->eval($fill, 1, key("$rules[$rule]:$rule", $_), $case->{entries}, $rules[$rule]) for 0 .. $case->{keys} - 1;
    }
    my $commands = $case->{commands}{$sha} //= commands($case, $sha);
    my $before   = cpu_ns($redis->pid);
    ask($socket, $_, 100) for @$commands;
    return (cpu_ns($redis->pid) - $before) / $checks / 1000;
}

for my $round (0 .. $rounds) { # the first one warms up
    for my $case (@cases) {
        my %cpu = (nothing => measure($case, $nothing), own => measure($case, $case->{sha}));
        next if !$round;
        push $case->{$_}->@*, $cpu{$_} for keys %cpu;
    }
}

# The median of what a case took, by the round, over what others took on average.
sub ratio ($took, @of) {
    return median(map { my $round = $_; $took->[$round] * @of / sum(map { $_->[$round] } @of) } 0 .. $rounds - 1);
}

my @rows = (['script', 'live entries', 'Redis CPU us', 'to', 'ratio', 'bound']);
sub row ($case, $to, $bound, @of) {
    my ($label, $entries) = ($case->{label} // join(' + ', $case->{rules}->@*), $case->{entries} || '-');
    push @rows, [$label, $entries, sprintf('%.2f', median($case->{own}->@*)), $to, sprintf('%.2f', ratio($case->{own}, @of)), $bound];
}
row($_, 'nothing', $_->{bound} // '-', $_->{nothing}) for $fixed, $sliding, $gcra, $concurrency, @logs, @sets;
row($logs[$_], 'sorted set', 0.8, $sets[$_]{own}) for 0 .. 1;
row($three[0], 'one of them', 2.2, map { $_->{own} } $gcra, $logs[0], $fixed);
row($three[1], 'one of them', 2.2, $gcra->{own});
print_table(@rows);

$client->flushall;
$client->eval($fill, 1, 'key', 100_000, 'sliding_log');
printf "\nMemory of a sliding log of 100,000 entries: %.1f bytes an entry\n", $client->memory('usage', 'key') / 100_000;
