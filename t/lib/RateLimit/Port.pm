package RateLimit::Port;

# Ports for servers of the tests. They lie below those that the kernel gives to clients
# (ip_local_port_range begins at 32768), so that no connection takes one before its server does, or
# while its server is down; and whoever runs tests beside these gets others.

use v5.36;
use Exporter 'import';
use IO::Socket::UNIX;
use Net::EmptyPort qw(can_bind);
use Socket qw(SOCK_DGRAM);

our @EXPORT_OK = qw(empty_port);

my @held;

# Of this process until it ends, as is the one 10,000 above, where nodes of a cluster talk.
sub empty_port ($address = '127.0.0.1', $protocol = 'tcp') {
    while (1) {
        my $port = 10_000 + int rand 10_000;
        # A name that only one process can have, and that goes with it: see unix(7), abstract sockets.
        my $name = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => "\0redis_rate_limit port $port") or next;
        next if grep { !can_bind($address, $_, $protocol) } $port, $port + 10_000;
        push @held, $name;
        return $port;
    }
}

1;
