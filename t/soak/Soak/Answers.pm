package Soak::Answers;

# What clients were told, as nginx logged it.

use v5.36;
use Soak::Rules qw(%judged $limit $window $capacity);

# Lines of soak.log.
sub new ($class, $text) {
    my $self = bless { statuses => {}, sources => {}, local => {}, by_redis => 0, local_permits => 0 }, $class;
    for (split /\n/, $text) {
        my ($time, $status, $source, $path, $key) = split ' ';
        ++$self->{statuses}{$status};
        ++$self->{sources}{$source};
        ++$self->{local_permits} if $path eq '/permits' && $source eq 'local';
        next if $status != 200 || !$judged{ substr $path, 1 };
        ++$self->{by_redis} if $source eq 'redis';
        push $self->{local}{ substr $path, 1 }{$key}->@*, $time if $source eq 'local';
    }
    return $self;
}

sub faults ($self) { return map { "$self->{statuses}{$_} times $_" } grep { /^5/ } sort keys $self->{statuses}->%* }

sub count ($self, $source) { return $self->{sources}{$source} // 0 }

# Requests that passed rules that are judged, with Redis's consent.
sub granted_by_redis ($self) { return $self->{by_redis} }

sub has_local_permits ($self) { return $self->{local_permits} > 0 }

# Where this host granted more than a rule allows it by itself, `memories` of zones beside each other.
# A request is logged a little before or after it was counted, so a window is taken to be so much
# shorter.
sub local_faults ($self, $memories) {
    my $shorter = 0.5;
    my @faults;
    for my $name (sort keys $self->{local}->%*) {
        my $most = $memories * most_in_a_window($name);
        for my $key (sort keys $self->{local}{$name}->%*) {
            my $granted = most_within($window - $shorter, $self->{local}{$name}{$key}->@*);
            push @faults, "$name, $key: $granted in a window by this host" if $granted > $most;
        }
    }
    return @faults;
}

# Any window, wherever it begins.
sub most_in_a_window ($name) {
    return $name eq 'log' ? $limit : $judged{$name} =~ /window/ ? 2 * $limit : $capacity + $limit;
}

sub most_within ($seconds, @times) {
    @times = sort { $a <=> $b } @times;
    my ($first, $most) = (0, 0);
    for my $last (0 .. $#times) {
        ++$first while $times[$first] <= $times[$last] - $seconds;
        $most = $last - $first + 1 if $last - $first + 1 > $most;
    }
    return $most;
}

1;
