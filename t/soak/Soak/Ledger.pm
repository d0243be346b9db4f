package Soak::Ledger;

# What Redis granted of the rules that are judged, as it wrote it to its append-only file, and where
# that is more than they allow.

use v5.36;
use Soak::Rules qw(%judged $limit $window $capacity);
use Soak::Tail;
use Time::HiRes qw(time);

my $length   = 1_000_000 * $window;
my $interval = $length / $limit;

my %judge = (
    first   => \&judge_window,
    aligned => \&judge_window,
    log     => \&judge_log,
    sliding => \&judge_sliding,
    map { $_ => \&judge_bucket } qw(tokens gcra leaky),
);

sub new ($class, $redis) {
    my $self = bless { redis => $redis, granted => 0, faults => [], read_at => time }, $class;
    $self->forget;
    return $self;
}

# Redis begins anew, in another file.
sub forget ($self) { $self->@{qw(tail rest keys)} = (undef, '', {}) }

# Judges what has been written since the last reading.
sub read_on ($self) {
    my $began = $self->{read_at};
    $self->{read_at} = time;
    my ($path) = glob $self->{redis}->tmpdir . '/{*.aof,*/*.incr.aof}';
    $self->{tail} //= Soak::Tail->new($path) if defined $path;
    my $bytes = $self->{rest} . ($self->{tail} ? $self->{tail}->read_on : '');
    pos($bytes) = 0;
    while (my @words = next_command(\$bytes)) {
        $self->take(@words);
    }
    $self->{rest} = substr $bytes, pos $bytes;
    $self->judge_pace(time - $began);
}

# What was found since the last asking.
sub faults ($self) { return splice $self->{faults}->@* }

# Units, since the last asking.
sub granted ($self) { my $granted = $self->{granted}; $self->{granted} = 0; return $granted }

# The words of a command, from the position in the text on; none where it has not all been written.
sub next_command ($text) {
    my $begin = pos $$text;
    $$text =~ /\G\*(\d+)\r\n/gc or return;
    my @words;
    for (1 .. $1) {
        if ($$text !~ /\G\$(\d+)\r\n/gc || length $$text < pos($$text) + $1 + 2) {
            pos($$text) = $begin;
            return;
        }
        push @words, substr $$text, pos($$text), $1;
        pos($$text) += $1 + 2;
    }
    return @words;
}

sub take ($self, $command, $key = '', @arguments) {
    if ($command eq 'FLUSHALL') {
        $self->{keys} = {};
    } elsif (my ($name) = $key =~ /^rl:\{a:.*\}:\w+:\d+:(\w+)$/) {
        return if $command !~ /^(?:RPUSH|SET|SETRANGE)$/ || !$judge{$name};
        my $known = $self->{keys}{$key} //= { name => $name, granted => 0 };
        ++$known->{granted};
        ++$self->{granted};
        my $fault = $judge{$name}->($known, $command eq 'RPUSH' ? @arguments : state_after($known, $command, @arguments));
        push $self->{faults}->@*, "$key: $fault" if $fault;
    }
}

# The numbers that are kept after a write: of all of them, or of some from an offset on.
sub state_after ($known, $command, @arguments) {
    my ($offset, $bytes) = $command eq 'SETRANGE' ? @arguments : (0, @arguments);
    $known->{state} = '' if $command eq 'SET';
    substr $known->{state}, $offset, length $bytes, $bytes;
    return unpack 'd*', $known->{state};
}

# --- what each algorithm promises; `$known` is what is known of the key, the rest what a grant wrote

sub judge_log ($known, $time) {
    my $times = $known->{times} //= [];
    push @$times, $time;
    my $first = @$times > $limit ? shift @$times : -'inf';
    return $time - $first < $length && "$limit units and one more in less than a window";
}

# The end of an aligned window has a mark added to it, which ends with a half.
sub judge_window ($known, $end, $taken) {
    $end = int($end / $length) * $length if $end != int $end;
    my ($last_end, $last) = $known->@{qw(end taken)};
    $known->@{qw(end taken)} = ($end, $taken);
    return "$taken units in a window" if $taken > $limit;
    return 'a window in another one' if defined $last && $end != $last_end && $end < $last_end + $length;
    return 'a unit that was not counted' if defined $last && $end == $last_end && $taken <= $last;
    return $known->{name} eq 'aligned' && $end % $length && 'a window that is not aligned';
}

# The fractions of the counts are their marks.
sub judge_sliding ($known, $start, $current, $previous) {
    ($current, $previous) = (int $current, int $previous);
    my ($last_start, $last) = $known->@{qw(start current)};
    $known->@{qw(start current)} = ($start, $current);
    return "$current and $previous units in two windows" if $current + $previous > 2 * $limit - 1;
    return 'a window before, forgotten' if defined $last && $start == $last_start + $length && $previous != $last;
    return defined $last && $start == $last_start && $current <= $last && 'a unit that was not counted';
}

sub judge_bucket ($known, $arrival, @) {
    my $last = $known->{arrival} // 0;
    $known->{arrival} = $arrival;
    return $arrival < $last + $interval && 'a unit for less than its time';
}

# Of buckets, also how much was taken between two readings.
sub judge_pace ($self, $seconds) {
    my $most = $capacity + 1 + 1_000_000 * $seconds / $interval;
    for my $key (sort keys $self->{keys}->%*) {
        my $known = $self->{keys}{$key};
        if (defined $known->{arrival} && $known->{granted} > $most) {
            push $self->{faults}->@*, "$key: $known->{granted} units in $seconds s";
        }
        $known->{granted} = 0;
    }
}

1;
