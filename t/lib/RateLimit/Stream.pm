package RateLimit::Stream;

# An nginx with stream's modules, and clients of its servers over TCP and UDP.

use v5.36;
use Cwd qw(abs_path);
use Exporter 'import';
use IO::Select;
use IO::Socket::INET;
use RateLimit::Nginx;
use RateLimit::Server;
use RateLimit::Wait qw(wait_until);
use Socket qw(SOL_SOCKET SO_LINGER);
use Test::More;

our @EXPORT_OK = qw(client_hello echo_server knows new_statuses new_stream no_permit_is_left open_session reset_session take_line udp_answer);

# Empty where the modules are a part of nginx.
my $modules  = '/usr/lib/nginx/modules';
my $module   = RateLimit::Nginx::module() =~ s/ngx_http_(?=redis)/ngx_stream_/r;
my $of_nginx = qx{@{[ RateLimit::Nginx::binary() ]} -V 2>&1} =~ /--with-stream=dynamic/ ? "load_module $modules/ngx_stream_module.so;" : '';

sub load_modules () { return $module eq '' ? '' : "$of_nginx load_module " . abs_path($module) . ';' }

# Its `http` has the pages beside what is given; `stream` is a text in which %STREAM_LOG% stands for its
# access log, of lines such as `200 PASSED`.
sub new_stream ($stream, %options) {
    my $http = delete $options{http} // '';
    my $main = delete $options{main} // '';
    $stream =~ s/%STREAM_LOG%/log_format verdict '\$status \$redis_rate_limit_status'; access_log %DIR%\/stream.log verdict;/;
    return RateLimit::Nginx->new(<<"END", before => load_modules, main => "$main stream { $stream }", %options);
server {
    listen 127.0.0.1:%PORT%;
    location = /json { redis_rate_limit_metrics json; }
    location /api/ { redis_rate_limit_api write; }
}
$http
END
}

# Whether this nginx knows the line in a server of stream. Its version does not tell: relatives count their own.
sub knows ($line) {
    my ($errors) = new_stream("server { listen 127.0.0.1:1; $line return a; }")->test_configuration;
    return $errors !~ /unknown directive|directive is not allowed here/;
}

sub open_session ($port, %options) {
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 10, %options)
        or die "connect: $!";
    $socket->autoflush(1);
    return $socket;
}

# The next line that comes; an empty text if the session ends without one, undef if nothing comes in time.
sub take_line ($socket, $seconds = 10) {
    my $select = IO::Select->new($socket);
    my $line   = '';
    while ($line !~ /\n\z/) {
        my $is_here = $socket->can('pending') && $socket->pending; # of TLS
        $is_here || $select->can_read($seconds) or return undef;
        sysread $socket, $line, 1, length $line or last;
    }
    return $line;
}

# Ends a session as a client does that crashed.
sub reset_session ($session) {
    setsockopt $session, SOL_SOCKET, SO_LINGER, pack 'II', 1, 0;
    CORE::close $session;
}

# What stream.log says of the sessions since the last call, in the order of the alphabet, once it has so many new lines.
sub new_statuses ($nginx, $count) {
    my $seen = $nginx->{seen_statuses} // 0;
    my @lines;
    wait_until(sub { @lines = split /\n/, RateLimit::Nginx::slurp($nginx->dir . '/stream.log'); @lines >= $seen + $count });
    $nginx->{seen_statuses} = @lines;
    return join ', ', sort @lines[$seen .. $#lines];
}

# Tests that no rule of concurrency has a key in Redis any more.
sub no_permit_is_left ($redis, @what) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    ok(wait_until(sub { !grep { /concurrency/ } $redis->keys }), join ': ', @what, 'no permit is left') or diag join ' ', $redis->keys;
}

# What comes back for one datagram, each sent from a port of its own; undef if nothing does.
sub udp_answer ($port, $text, $seconds = 10) {
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Proto => 'udp') or die "udp: $!";
    $socket->send($text);
    IO::Select->new($socket)->can_read($seconds) or return undef;
    my $answer;
    return defined $socket->recv($answer, 1000) ? $answer : undef;
}

# What a client of TLS 1.3 says first, as far as nginx reads it, and the end of a line.
sub client_hello ($name) {
    my $names      = pack 'n/a*', pack('C n/a*', 0, $name);
    my $extensions = $name eq '' ? '' : pack 'n n/a*', 0, $names;
    my $hello      = pack 'n a32 C/a* n/a* C/a* n/a*', 0x0303, 'random', '', pack('n', 0x1301), "\0", $extensions;
    my $handshake  = pack('C', 1) . substr(pack('N', length $hello), 1) . $hello;
    return pack('C n n/a*', 22, 0x0301, $handshake) . "\n";
}

# A server that sends back each line that it is sent, over TCP; the end of what a client sends ends the
# session, after a last line `bye`.
sub echo_server () {
    return RateLimit::Server->start(sub ($listener, $control) {
        my $select = IO::Select->new($listener, $control);
        while (1) {
            for my $socket ($select->can_read) {
                return if $socket == $control;
                if ($socket == $listener) {
                    my $client = $listener->accept or next;
                    $select->add($client);
                } elsif (sysread $socket, my $text, 65536) {
                    syswrite $socket, $text;
                } else {
                    syswrite $socket, "bye\n";
                    $select->remove($socket);
                    close $socket;
                }
            }
        }
    });
}

1;
