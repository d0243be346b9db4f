package Bench::Figures;

# What requests.pl has measured: of each cell the figures of all rounds.

use v5.36;
use JSON::PP;
use RateLimit::Measure qw(median);
use RateLimit::Nginx;

sub load ($class, $file) { return bless JSON::PP->new->decode(RateLimit::Nginx::slurp($file)), $class }

sub has ($self, @cells) { return !grep { !$self->{cells}{$_} } @cells }

sub of ($self, $cell, $figure) { return $self->{cells}{$cell}{$figure}->@* }

sub median_of ($self, $cell, $figure) { return median($self->of($cell, $figure)) }

# The median of what the rounds say: what disturbs the machine for longer disturbs both.
sub ratio ($self, $cell, $to, $figure) {
    my @of = $self->of($cell, $figure);
    my @to = $self->of($to, $figure);
    return median(map { $of[$_] / ($to[$_] || 1) } 0 .. $#of);
}

# What a cell's p50 lies above another's, in round trips of a PING, `free` or `held` as they are.
sub pings_added ($self, $placed, $cell, $to) {
    my @of = $self->of($cell, 'p50');
    my @to = $self->of($to, 'p50');
    return median(map { ($of[$_] - $to[$_]) / $self->{ping}{$placed}[$_] } 0 .. $#of);
}

sub ping ($self, $placed) { return median($self->{ping}{$placed}->@*) }

1;
