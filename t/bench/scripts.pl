# What a check costs Redis: CPU per pipelined EVALSHA, all granted, beside a script that takes the
# same and does nothing; the logs also beside the sorted-set log of the textbooks, with few and with
# many live entries.

use v5.36;
use lib 't/lib';
use RateLimit::Measure qw(cpu_ns median print_table);
use RateLimit::Nginx;
use RateLimit::Redis;

my $rounds = $ENV{ROUNDS} // 9;
my $redis  = RateLimit::Redis->start_new;
my $client = $redis->client;

my %source = (
    'nothing'     => 'return 1',
    (map { $_ => RateLimit::Nginx::slurp("lua/$_.lua") } qw(fixed_window sliding_log sliding_window gcra)),
    'sorted set'  => <<'END',
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - ARGV[2])
local count = redis.call('ZCARD', KEYS[1])
if count >= tonumber(ARGV[1]) then return { 0, 0 } end
redis.call('ZADD', KEYS[1], now, now .. '-' .. count)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return { 1, ARGV[1] - count - 1 }
END
);
my %sha = map { $_ => $client->script_load($source{$_}) } keys %source;

# Limits that no run reaches.
my $log       = '1000000 3600000000 3605000';
my %arguments = (
    'nothing'        => $log,
    'sorted set'     => $log,
    'sliding_log'    => $log,
    'fixed_window'   => "$log first",
    'sliding_window' => $log,
    'gcra'           => '3600 0 3600000000 0 1 3605000',
);

# Entries of the last second, one a microsecond.
my $fill = <<'END';
local time = redis.call('TIME')
local first = time[1] * 1000000 + time[2] - 1000000
for i = 1, ARGV[1] do
    local moment = string.format('%d', first + i)
    if ARGV[2] == 'sorted set' then
        redis.call('ZADD', KEYS[1], moment, moment)
    else
        redis.call('RPUSH', KEYS[1], moment)
    end
end
END

# CPU microseconds a check, over so many keys that hold so many entries each.
sub measure ($script, $entries, $keys) {
    my $checks = 2_000;
    $client->flushall;
    if ($entries) {
        $client->eval($fill, 1, sprintf('key:%012d', $_), $entries, $script) for 0 .. $keys - 1;
    }
    my $before = cpu_ns($redis->pid);
    system("redis-benchmark -p ${\ $redis->conf->{port} } -c 1 -P 100 -n $checks -r $keys -q evalsha $sha{$script}"
        . " 1 key:__rand_int__ $arguments{$script} >/dev/null") == 0 or die 'redis-benchmark';
    return (cpu_ns($redis->pid) - $before) / $checks / 1000;
}

my @cases = (
    ['nothing',        0,       20],
    ['fixed_window',   0,       20],
    ['sliding_window', 0,       20],
    ['gcra',           0,       20],
    ['sliding_log',    100,     20],
    ['sorted set',     100,     20],
    ['sliding_log',    100_000, 1],
    ['sorted set',     100_000, 1],
);
my %figures;
for my $round (0 .. $rounds) {
    for my $case (@cases) {
        my $cpu = measure(@$case);
        push $figures{"@$case"}->@*, $cpu if $round;
    }
}

my @rows = (['script', 'live entries', 'Redis CPU us', 'to nothing']);
my $nothing = median($figures{"@{$cases[0]}"}->@*);
for my $case (@cases) {
    my $cpu = median($figures{"@$case"}->@*);
    push @rows, [$case->[0], $case->[1] || '-', sprintf('%.2f', $cpu), sprintf('%.2f', $cpu / $nothing)];
}
print_table(@rows);

$client->flushall;
$client->eval($fill, 1, 'key', 100_000, 'sliding_log');
printf "\nMemory of a sliding log of 100,000 entries: %.1f bytes an entry\n", $client->memory('usage', 'key') / 100_000;
