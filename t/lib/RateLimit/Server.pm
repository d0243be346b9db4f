package RateLimit::Server;

# A server on a free port of 127.0.0.1, or of another address of this host, in a process of its own, which a test commands. Each command
# has been obeyed when it returns.

use v5.36;
use IO::Socket::INET;
use RateLimit::Process;
use Socket qw(AF_UNIX PF_UNSPEC SOCK_STREAM SOMAXCONN);

# The code is given the listener and a socket: on that it reads commands, one a line, and answers
# each with a line of `name=value` words.
sub start ($class, $code, $host = '127.0.0.1') {
    my $listener = IO::Socket::INET->new(LocalAddr => $host, Listen => SOMAXCONN, ReuseAddr => 1)
        or die "listen: $!";
    my ($ours, $theirs) = IO::Socket->socketpair(AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die "socketpair: $!";
    my $self = bless { host => $host, port => $listener->sockport, control => $ours }, $class;
    $self->{process} = RateLimit::Process->run(sub {
        close $ours;
        local $SIG{PIPE} = 'IGNORE';
        $code->($listener, $theirs);
    });
    close $theirs;
    return $self;
}

sub port ($self)    { return $self->{port} }
sub address ($self) { return "$self->{host}:$self->{port}" }

# Returns what it answers.
sub command ($self, $line) {
    syswrite $self->{control}, "$line\n";
    my $answer = readline $self->{control} // die ref $self, " is gone\n";
    return { map { split /=/ } split ' ', $answer };
}

1;
