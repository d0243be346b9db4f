package RateLimit::Client;

# A client's connection in the raw: what to send, and when, is the test's business.

use v5.36;
use IO::Select;
use IO::Socket::INET;
use IO::Socket::SSL;
use Socket qw(SHUT_WR SOL_SOCKET SO_LINGER);

# `from` is an address of this host that is the client's.
sub new ($class, $nginx, $host = '127.0.0.1', %options) {
    my @from   = defined $options{from} ? (LocalAddr => $options{from}) : ();
    my $socket = IO::Socket::INET->new(PeerAddr => $host, PeerPort => $nginx->port, @from) or die "connect: $@";
    return bless { socket => $socket, input => '' }, $class;
}

sub send ($self, @bytes) {
    local $SIG{PIPE} = 'IGNORE';
    my $bytes = join '', @bytes;
    while (length $bytes) {
        my $sent = syswrite $self->{socket}, $bytes;
        die "send: $!" if !defined $sent;
        substr $bytes, 0, $sent, '';
    }
    return $self;
}

# Reads until the condition on the input holds. False: nginx closed the connection before, or sent
# nothing for 10 s.
sub read_until ($self, $condition) {
    my $select = IO::Select->new($self->{socket});
    until ($condition->()) {
        $select->can_read(10) or return 0;
        sysread($self->{socket}, $self->{input}, 65536, length $self->{input}) or return 0;
    }
    return 1;
}

# Whether something has come, or the connection was closed.
sub has_input ($self) { return $self->{input} ne '' || !!IO::Select->new($self->{socket})->can_read(0) }

# The next so many bytes, or undef.
sub read_bytes ($self, $size) {
    $self->read_until(sub { length $self->{input} >= $size }) or return undef;
    return substr $self->{input}, 0, $size, '';
}

# The next HTTP/1.1 response, of a Content-Length or without a body: status, headers (names in
# lower case) and body. The status is 0 where there is none.
sub response ($self, $method = 'GET') {
    my $none = { status => 0, headers => {}, body => '' };
    $self->read_until(sub { $self->{input} =~ /\r\n\r\n/ }) or return $none;
    $self->{input} =~ s/^HTTP\/1\.1 (\d+).*?\r\n(.*?\r\n)??\r\n//s or return $none;
    my ($status, $lines) = ($1, $2 // '');
    my %headers = map { /^(.*?): *(.*)$/ ? (lc $1 => $2) : () } split /\r\n/, $lines;
    my $has_no_body = $method eq 'HEAD' || $status =~ /^(?:1..|204|304)$/;
    my $body = $self->read_bytes($has_no_body ? 0 : $headers{'content-length'} // 0);
    return defined $body ? { status => $status, headers => \%headers, body => $body } : $none;
}

# From here on over TLS. Nobody asks who the server is.
sub start_tls ($self) {
    IO::Socket::SSL->start_SSL($self->{socket}, SSL_verify_mode => SSL_VERIFY_NONE) or die "TLS: $SSL_ERROR";
    return $self;
}

# Nothing more is sent, but answers are read: a FIN, and over TLS perhaps a close_notify before it.
sub end_sending ($self) {
    shutdown $self->{socket}, SHUT_WR or die "shutdown: $!";
    return $self;
}

sub notify_of_close ($self) {
    Net::SSLeay::shutdown($self->{socket}->_get_ssl_object);
    return $self;
}

# To nginx this looks like end_sending(), until it answers.
sub close ($self) { CORE::close $self->{socket} }

# Leaves, and nginx is told so.
sub reset ($self) {
    setsockopt $self->{socket}, SOL_SOCKET, SO_LINGER, pack 'ii', 1, 0 or die "setsockopt: $!";
    CORE::close $self->{socket};
}

1;
