package RateLimit::Liar;

# A peer that says one thing to whoever connects, once it was asked something, in a process of its
# own.

use v5.36;
use IO::Socket::INET;
use RateLimit::Process;

# It stays, or closes the connection where it `leaves`.
sub start_new ($class, $says, %options) {
    my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 5) or die "listen: $!";
    my $process  = RateLimit::Process->run(sub {
        my @open;
        while (my $client = $listener->accept) {
            sysread $client, my $asked, 4096;
            syswrite $client, $says;
            push @open, $client if !$options{leaves};
        }
    });
    return bless { port => $listener->sockport, process => $process }, $class;
}

sub port ($self) { return $self->{port} }

# For a backend's block.
sub server ($self) { return "server 127.0.0.1:$self->{port};" }

1;
