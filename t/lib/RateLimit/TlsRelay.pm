package RateLimit::TlsRelay;

# TLS in front of a plain port, for one connection for checks at a time. That for live limits, which begins
# as RateLimit::Relay says, is closed. Its sessions outlive its certificates,
# as with servers that share the keys of their session tickets.

use v5.36;
use IO::Select;
use IO::Socket::INET;
use Net::SSLeay;
use RateLimit::Process;
use RateLimit::Relay;

# `to` is the port. The names are those of certificates that were issued: each connection is shown
# another one, until the last one is left.
sub start_new ($class, $to, $certificates, @names) {
    my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 5) or die "listen: $!";
    my $process  = RateLimit::Process->run(sub {
        local $SIG{PIPE} = 'IGNORE';
        my $context = Net::SSLeay::CTX_new or die 'no TLS context';
        while (my $client = $listener->accept) {
            my $name = @names > 1 ? shift @names : $names[0];
            show($context, $certificates->certificate($name), $certificates->key($name));
            my $server = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $to) or die "connect: $!";
            my $tls    = Net::SSLeay::new($context);
            Net::SSLeay::set_fd($tls, fileno $client);
            pass($tls, $client, $server) if Net::SSLeay::accept($tls) == 1;
            Net::SSLeay::free($tls);
        }
    });
    return bless { port => $listener->sockport, process => $process }, $class;
}

# In this order: the key would have to match the certificate before.
sub show ($context, $certificate, $key) {
    my $pem = Net::SSLeay::FILETYPE_PEM();
    Net::SSLeay::CTX_use_certificate_file($context, $certificate, $pem) == 1 or die $certificate;
    Net::SSLeay::CTX_use_PrivateKey_file($context, $key, $pem) == 1          or die $key;
}

# Until one of the two leaves.
sub pass ($tls, $client, $server) {
    my $select = IO::Select->new($client, $server);
    while (1) {
        my ($from) = Net::SSLeay::pending($tls) ? $client : $select->can_read;
        if ($from == $client) {
            my $bytes = Net::SSLeay::read($tls);
            return if !length($bytes // '') || RateLimit::Relay::is_control($bytes);
            syswrite $server, $bytes or return;
        } else {
            sysread $server, my $bytes, 65536 or return;
            Net::SSLeay::write($tls, $bytes) > 0 or return;
        }
    }
}

# For a backend's block.
sub server ($self) { return "server 127.0.0.1:$self->{port};" }

1;
