package RateLimit::Relay;

# A TCP proxy between nginx and a Redis, that does to the replies what a network or a bad peer would
# do. The connection by which a host follows live limits is passed on as it is, and counts for nothing,
# because it asks when it likes; a test that is about it calls include_control().

use v5.36;
use parent 'RateLimit::Server';
use IO::Select;
use IO::Socket::INET;
use Socket qw(IPPROTO_TCP SOL_SOCKET SO_LINGER TCP_NODELAY);
use Time::HiRes qw(clock_gettime sleep CLOCK_MONOTONIC);

# `to` is the port of a Redis.
sub start_new ($class, $to, @host) {
    return $class->start(sub ($listener, $control) {
        my $relay = {
            to => $to, listener => $listener, select => IO::Select->new($listener, $control), control => $control,
            pairs => {}, accepted => 0, reads => 0, requested => 0, replied => 0, hold => 0, split => 0, next => [],
            others => ['pass'], leave_after => 0, delay => 0, delayed => [], includes_control => 0,
        };
        1 while turn($relay);
    }, @host);
}

# --- the test's side

sub command ($self, $name, $argument = '') {
    return $self->SUPER::command("$name " . unpack 'H*', $argument);
}

# From now on, new connections for live limits and the API are treated like all others.
sub include_control ($self) { $self->command('include_control') }

# Replies wait here, until release().
sub hold ($self)    { $self->command('hold') }
sub release ($self) { $self->command('release') }

# Those that wait are passed on, and later ones still wait.
sub release_held ($self) { $self->command('release_held') }

# From now on, what comes from either side reaches the other one so many seconds later.
sub delay ($self, $seconds) { $self->command('delay', $seconds) }

# Replies are passed on byte for byte, in as many packets.
sub split_bytes ($self, $on) { $self->command('split', $on) }

# What becomes of the next reply: other bytes come in its place, none to drop it.
sub replace_next ($self, $bytes) { $self->command('replace', $bytes) }

# The same for each reply that comes after those; none to pass them on again.
sub replace_all ($self, $bytes) { $self->command('replace_all', $bytes) }

# Of the next reply only so many bytes come, then the connection closes.
sub cut_next ($self, $size) { $self->command('cut', $size) }

# Each connection closes when so many bytes of replies have passed; 0: none does.
sub leave_after ($self, $size) { $self->command('leave_after', $size) }

# Bytes that nothing asked for.
sub inject ($self, $bytes) { $self->command('inject', $bytes) }

# All connections end with a reset.
sub reset_all ($self) { $self->command('reset') }

# accepted: connections so far; open: those there are; requested: bytes that came from nginx, in
# so many `reads`; replied: bytes for nginx; held: those of them that wait.
sub counts ($self) { return $self->command('counts') }

# --- the relay's side

sub turn ($relay) {
    my @ready = $relay->{select}->can_read(pass_delayed($relay));
    for my $socket (@ready) {
        if ($socket == $relay->{control}) {
            my $line = readline $socket // return 0;
            my ($name, $argument) = $line =~ /^(\w+) (.*)$/;
            obey($relay, $name, pack 'H*', $argument);
            my $held = 0;
            $held += length $_->{held} for values $relay->{pairs}->%*;
            my $open = grep { !$_->{is_control} } values $relay->{pairs}->%*;
            syswrite $socket, "accepted=$relay->{accepted} open=" . $open / 2
                . " requested=$relay->{requested} replied=$relay->{replied} reads=$relay->{reads} held=$held\n";
        } elsif ($socket == $relay->{listener}) {
            accept_pair($relay);
        } elsif (my $pair = $relay->{pairs}{$socket}) {
            pass($relay, $pair, $socket);
        }
    }
    return 1;
}

sub accept_pair ($relay) {
    my $client = $relay->{listener}->accept or return;
    my $server = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $relay->{to});
    my $pair   = { client => $client, server => $server, held => '', replied => 0 };
    for (grep { defined } $client, $server) {
        setsockopt $_, IPPROTO_TCP, TCP_NODELAY, 1;
        $relay->{pairs}{$_} = $pair;
        $relay->{select}->add($_);
    }
}

sub close_pair ($relay, $pair) {
    for my $socket (grep { defined } $pair->@{qw(client server)}) {
        $relay->{select}->remove($socket);
        delete $relay->{pairs}{$socket};
        close $socket;
    }
}

sub pass ($relay, $pair, $from) {
    my $size = sysread $from, my $bytes, 65536;
    return close_pair($relay, $pair) if !$size;
    if (!defined $pair->{is_control}) {
        $pair->{is_control} = !$relay->{includes_control} && $from == $pair->{client} && is_control($bytes);
        ++$relay->{accepted} if !$pair->{is_control};
    }
    return close_pair($relay, $pair) if !$pair->{server}; # nobody is there
    return write_all($from == $pair->{client} ? $pair->{server} : $pair->{client}, $bytes) if $pair->{is_control};
    if ($from == $pair->{client}) {
        ++$relay->{reads};
        $relay->{requested} += $size;
        pass_on($relay, $pair->{server}, $bytes);
    } else {
        reply($relay, $pair, $bytes);
    }
}

# Whether a connection begins with these bytes that is for no checks, but for live limits: it loads no
# script.
sub is_control ($bytes) {
    return $bytes =~ /^\*\d\r\n\$\d\r\n(?:AUTH|ROLE|SELECT|TIME|ZCARD)\r\n/ && $bytes !~ /\r\n(?:SCRIPT|CLUSTER)\r\n/;
}

sub reply ($relay, $pair, $bytes) {
    my ($what, $argument) = (shift $relay->{next}->@* // $relay->{others})->@*;
    $bytes = $argument                    if $what eq 'replace';
    $bytes = substr $bytes, 0, $argument  if $what eq 'cut';
    $pair->{held} .= $bytes;
    $_->{replied} += length $bytes for $relay, $pair;
    send_held($relay, $pair)  if !$relay->{hold};
    my $is_enough = $relay->{leave_after} && $pair->{replied} >= $relay->{leave_after};
    close_pair($relay, $pair) if $what eq 'cut' || $is_enough;
}

sub send_held ($relay, $pair) {
    my @pieces = $relay->{split} ? split(//, $pair->{held}) : $pair->{held};
    $pair->{held} = '';
    for (@pieces) {
        pass_on($relay, $pair->{client}, $_);
        sleep 0.0003 if $relay->{split}; # else two of them could be read as one
    }
}

# What has no delay any more does not overtake what had one.
sub pass_on ($relay, $to, $bytes) {
    return write_all($to, $bytes) if !$relay->{delay} && !$relay->{delayed}->@*;
    push $relay->{delayed}->@*, [ clock_gettime(CLOCK_MONOTONIC) + $relay->{delay}, $to, $bytes ];
}

# Passes on what has been delayed for long enough. Returns the seconds until that is so for the next.
sub pass_delayed ($relay) {
    while (my $next = $relay->{delayed}[0]) {
        my ($due, $to, $bytes) = @$next;
        my $wait = $due - clock_gettime(CLOCK_MONOTONIC);
        return $wait if $wait > 0;
        shift $relay->{delayed}->@*;
        write_all($to, $bytes) if $relay->{pairs}{$to};
    }
    return undef;
}

sub write_all ($socket, $bytes) {
    while (length $bytes) {
        my $size = syswrite($socket, $bytes) // return; # the other end is gone: a read tells
        substr $bytes, 0, $size, '';
    }
}

sub obey ($relay, $name, $argument) {
    my %pairs = map { $_->{client} => $_ } grep { !$_->{is_control} } values $relay->{pairs}->%*;
    if ($name eq 'include_control') {
        $relay->{includes_control} = 1;
    } elsif ($name eq 'hold') {
        $relay->{hold} = 1;
    } elsif ($name eq 'release') {
        $relay->{hold} = 0;
        send_held($relay, $_) for values %pairs;
    } elsif ($name eq 'release_held') {
        send_held($relay, $_) for values %pairs;
    } elsif ($name eq 'delay') {
        $relay->{delay} = $argument;
    } elsif ($name eq 'split') {
        $relay->{split} = $argument;
    } elsif ($name eq 'leave_after') {
        $relay->{leave_after} = $argument;
    } elsif ($name eq 'replace' || $name eq 'cut') {
        push $relay->{next}->@*, [ $name, $argument ];
    } elsif ($name eq 'replace_all') {
        $relay->{others} = length $argument ? [ 'replace', $argument ] : ['pass'];
    } elsif ($name eq 'inject') {
        write_all($_->{client}, $argument) for values %pairs;
    } elsif ($name eq 'reset') {
        for (values %pairs) {
            setsockopt $_->{client}, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0);
            close_pair($relay, $_);
        }
    }
}

1;
