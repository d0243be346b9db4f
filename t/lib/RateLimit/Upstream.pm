package RateLimit::Upstream;

# A server that nginx passes requests on to: it keeps them for as long as the test wants, and knows
# how many it has at once.

use v5.36;
use parent 'RateLimit::Server';
use IO::Select;
use List::Util qw(max min);
use RateLimit::Wait qw(wait_until);
use Time::HiRes qw(time);

# Each request is answered after so many `seconds` (0).
sub start_new ($class, %options) {
    return $class->start(sub ($listener, $control) {
        my $upstream = {
            listener => $listener, control => $control, select => IO::Select->new($listener, $control),
            seconds => $options{seconds} // 0, hold => 0, requests => [], most => 0, accepted => 0,
        };
        1 while turn($upstream);
    });
}

sub url ($self) { return "http://127.0.0.1:$self->{port}" }

# --- the test's side

# Requests stay here, until they are answered, or dropped without an answer.
sub hold ($self)   { $self->command('hold') }
sub answer ($self) { $self->command('answer') }
sub drop ($self)   { $self->command('drop') }

# open: requests that are here; most: so many were at a time; accepted: so many so far.
sub counts ($self) { return $self->command('counts') }

# `most`, which then begins anew.
sub take_most ($self) { return $self->command('most')->{most} }

sub wait_for ($self, $count) { return wait_until(sub { $self->counts->{open} == $count }) }

# --- the upstream's side

# Connections that end are seen before those that come: nobody is counted beside its successor.
sub turn ($upstream) {
    my $next  = min(map { $_->{due} // () } $upstream->{hold} ? () : $upstream->{requests}->@*);
    my @ready = $upstream->{select}->can_read(defined $next ? max($next - time, 0) : undef);
    for my $socket (grep { $_ != $upstream->{listener} && $_ != $upstream->{control} } @ready) {
        take_bytes($upstream, $socket);
    }
    if (grep { $_ == $upstream->{listener} } @ready) {
        my $socket = $upstream->{listener}->accept or return 1;
        $upstream->{select}->add($socket);
        push $upstream->{requests}->@*, { socket => $socket };
        ++$upstream->{accepted};
        my $open = $upstream->{requests}->@*;
        $upstream->{most} = $open if $open > $upstream->{most};
    }
    if (grep { $_ == $upstream->{control} } @ready) {
        my $line = readline $upstream->{control} // return 0;
        obey($upstream, $line =~ /(\w+)/);
    }
    reply_to_those_due($upstream, time) if !$upstream->{hold};
    return 1;
}

# Requests are small: all of one comes at once, and perhaps its end with it.
sub take_bytes ($upstream, $socket) {
    my ($request) = grep { $_->{socket} == $socket } $upstream->{requests}->@*;
    my $select    = IO::Select->new($socket);
    do {
        sysread $socket, my $bytes, 65536 or return finish($upstream, $socket);
        $request->{due} //= time + $upstream->{seconds};
    } while ($select->can_read(0));
}

sub reply_to_those_due ($upstream, $time) {
    my @due = grep { defined $_->{due} && $_->{due} <= $time } $upstream->{requests}->@*;
    reply($upstream, $_) for @due;
}

sub reply ($upstream, $request) {
    syswrite $request->{socket}, "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nok\n";
    finish($upstream, $request->{socket});
}

sub finish ($upstream, $socket) {
    $upstream->{requests} = [ grep { $_->{socket} != $socket } $upstream->{requests}->@* ];
    $upstream->{select}->remove($socket);
    close $socket;
}

sub obey ($upstream, $name) {
    if ($name eq 'hold') {
        $upstream->{hold} = 1;
    } elsif ($name eq 'answer') {
        $upstream->{hold} = 0;
        reply_to_those_due($upstream, 'inf');
    } elsif ($name eq 'drop') {
        finish($upstream, $_->{socket}) for $upstream->{requests}->@*;
    }
    my $open = $upstream->{requests}->@*;
    syswrite $upstream->{control}, "open=$open most=$upstream->{most} accepted=$upstream->{accepted}\n";
    $upstream->{most} = $open if $name eq 'most';
}

1;
