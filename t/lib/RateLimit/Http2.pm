package RateLimit::Http2;

# A client's connection of HTTP/2 without TLS, frame by frame: how much it lets nginx send is the test's
# business. See RFC 9113; header fields are sent as literals (RFC 7541), for there are few.

use v5.36;
use RateLimit::Client;
use Socket qw(IPPROTO_TCP TCP_NODELAY);

my %type  = (data => 0, headers => 1, reset => 3, settings => 4, window => 8);
my %flag  = (ack => 1, end_stream => 1, end_headers => 4);
my $cancel = 8; # an error code

# `host` is one where nginx listens with http2. `window` is what nginx may send of each response before
# the first grant().
sub new ($class, $nginx, $host, %options) {
    my $self = bless { client => RateLimit::Client->new($nginx, $host), last => -1, content => {}, ended => {} }, $class;
    setsockopt $self->{client}{socket}, IPPROTO_TCP, TCP_NODELAY, 1 or die "setsockopt: $!"; # frames are small
    $self->{client}->send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    my $initial_window_size = 4;
    $self->frame('settings', 0, 0, defined $options{window} ? pack 'nN', $initial_window_size, $options{window} : '');
    return $self;
}

sub frame ($self, $name, $flags, $stream, $payload) {
    $self->{client}->send(substr(pack('N', length $payload), 1) . pack('CCN', $type{$name}, $flags, $stream) . $payload);
}

# Sends a request, and returns the number of its stream. Options: method, body, which is JSON, and
# fields, names and values in turn.
sub request ($self, $path, %options) {
    my $stream = $self->{last} += 2;
    my $body   = $options{body};
    my $field  = sub ($name, $value) { pack 'C C/a', $name, $value }; # of the static table, up to 14
    my $head   = $field->(2, $options{method} // 'GET') . "\x86" . $field->(1, 'a') . $field->(4, $path);
    $head .= "\x0f\x10" . pack 'C/a', 'application/json' if defined $body;
    my @fields = ($options{fields} // [])->@*;
    $head .= "\0" . pack 'C/a C/a', splice @fields, 0, 2 while @fields;
    $self->frame('headers', $flag{end_headers} | (defined $body ? 0 : $flag{end_stream}), $stream, $head);
    $self->frame('data', $flag{end_stream}, $stream, $body) if defined $body;
    return $stream;
}

# Lets nginx send so many bytes more of a response.
sub grant ($self, $stream, $bytes) { $self->frame('window', 0, $stream, pack 'N', $bytes) }

sub cancel ($self, $stream) { $self->frame('reset', 0, $stream, pack 'N', $cancel) }

# Takes one frame. False: there is none, for nginx has closed the connection or sends nothing more.
sub take ($self) {
    my $head = $self->{client}->read_bytes(9) // return 0;
    my ($high, $low, $type, $flags, $stream) = unpack 'CnCCN', $head;
    my $payload = $self->{client}->read_bytes(($high << 16) + $low) // return 0;
    if ($type == $type{settings} && !($flags & $flag{ack})) {
        $self->frame('settings', $flag{ack}, 0, '');
    } elsif ($type == $type{headers}) {
        $self->{content}{$stream} = '';
    } elsif ($type == $type{data}) {
        $self->{content}{$stream} .= $payload;
        $self->frame('window', 0, 0, pack 'N', length $payload) if length $payload; # of the connection
    }
    $self->{ended}{$stream} = 1 if ($type == $type{data} || $type == $type{headers}) && $flags & $flag{end_stream};
    return 1;
}

# Waits for the header fields of a response.
sub wait_for_head ($self, $stream) {
    until (defined $self->{content}{$stream}) { $self->take or return 0 }
    return 1;
}

# The content of a response, of which it lets nginx send so many bytes at a time; undef where it does not
# come to its end.
sub content ($self, $stream, $step = 1 << 20) {
    my $granted = 0;
    until ($self->{ended}{$stream}) {
        if (length($self->{content}{$stream} // '') == $granted) {
            $self->grant($stream, $step);
            $granted += $step;
        }
        $self->take or return undef;
    }
    return $self->{content}{$stream};
}

# Leaves, and nginx is told so.
sub reset ($self) { $self->{client}->reset }

1;
