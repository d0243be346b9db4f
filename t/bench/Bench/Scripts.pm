package Bench::Scripts;

# The module's scripts as benchmarks run them on a Redis: their sources, their words, and what their
# keys hold before.

use v5.36;
use Exporter 'import';

our @EXPORT_OK = qw(source arguments wire ask $fill);

# Of a check by rules of these algorithms; `run` before them for the script of many checks at once,
# `refund` for the one that gives a charge back.
sub source (@words) {
    my $source = qx{build/cmake/print_script @words};
    die "build/cmake/print_script @words\n" if $? || !$source;
    return $source;
}

# ARGV with limits that no run reaches; %d is the check's number.
my $hour      = 3_600_000_000;
my %arguments = (
    'fixed_window'   => [1_000_000, 1, $hour, 3_605_001, 'first'],
    'sliding_window' => [1_000_000, 1, $hour, 7_205_001],
    'sliding_log'    => [1_000_000, 1, $hour, 4_055_001],
    'gcra'           => [3600, 0, $hour, 0, 8_590_934_592, 3_605_001],
    'concurrency'    => [1_000_000, 1, $hour, 3_605_001, '0123456789abcdef01234567-%d 1'],
    'sorted set'     => [1_000_000, 1, $hour, 3_605_001],
);

sub arguments ($rule, $check) { return map { s/%d/$check/r } $arguments{$rule}->@* }

# KEYS[1] gets so many entries of the last second, one a microsecond, or slots.
our $fill = <<'END';
local time = redis.call('TIME')
local first = time[1] * 1000000 + time[2] - 1000000
for i = 1, ARGV[1] do
    local moment = string.format('%d', first + i)
    if ARGV[2] == 'sliding_log' then
        redis.call('RPUSH', KEYS[1], moment)
    elseif ARGV[2] == 'concurrency' then
        redis.call('ZADD', KEYS[1], -i, '', string.format('%d', first + i + 3600000000), 'slot-' .. i .. ' 1')
    else
        redis.call('ZADD', KEYS[1], moment, moment)
    end
end
END

sub wire (@words) { return join '', '*' . @words . "\r\n", map { '$' . length($_) . "\r\n$_\r\n" } @words }

# Sends so many commands in one write, and reads their replies, which all have the first one's size.
sub ask ($socket, $write, $count) {
    $socket->syswrite($write);
    my ($replies, $size) = ('', 0);
    while (!$size || length $replies < $count * $size) {
        $socket->sysread($replies, 65536, length $replies) or die 'Redis has closed the connection';
        die $replies if $replies =~ /^-/;
        $size ||= $replies =~ /^(?::|\$-).*\n/ ? length $& : $replies =~ /^\$(\d+)\r\n/ ? length($&) + $1 + 2 : 0;
    }
}

1;
