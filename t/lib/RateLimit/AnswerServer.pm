package RateLimit::AnswerServer;

# A server that answers as model APIs do, with the files of t/answers: /NAME is one of them. It takes its
# time, as those do, so that what it streams comes in parts. Arguments of a request:
#
# - by=part: each event, line or 20 bytes on its own, in chunks; else all at once
# - hold=N: no more than N parts, until the client leaves
# - break=N: the connection is closed after N parts
# - type=, encoding=, status=: the header fields and the status
# - trailer=: a field X-Tokens behind the body
#
# A file's words `TOKENS` are the argument tokens=.

use v5.36;
use parent 'RateLimit::Server';
use IO::Select;
use List::Util qw(max min);
use RateLimit::Nginx;
use Time::HiRes qw(time);

my %type_of = (json => 'application/json', sse => 'text/event-stream; charset=utf-8', ndjson => 'application/x-ndjson');

# Parts come so many `seconds` (0.002) after one another. `answers` has more of them: name => body.
sub start_new ($class, %options) {
    my %answers = (%{ $options{answers} // {} }, map { m{([^/]+)$} ? ($1 => RateLimit::Nginx::slurp($_)) : () } glob 't/answers/*');
    return $class->start(sub ($listener, $control) {
        my $server = {
            listener => $listener, control => $control, select => IO::Select->new($listener, $control),
            seconds => $options{seconds} // 0.002, answers => \%answers, connections => {}, requests => 0, left => 0,
        };
        1 while turn($server);
    });
}

# requests: so many were answered; left: so many clients left before all was sent.
sub counts ($self) { return $self->command('counts') }

sub url ($self) { return 'http://' . $self->address }

sub turn ($server) {
    my $now  = time;
    my @due  = map { $_->{due} // () } values $server->{connections}->%*;
    for my $socket ($server->{select}->can_read(@due ? max(0, min(@due) - $now) : undef)) {
        if ($socket == $server->{listener}) {
            my $client = $socket->accept or next;
            $client->blocking(0);
            $server->{select}->add($client);
            $server->{connections}{$client} = { socket => $client, input => '', parts => [] };
        } elsif ($socket == $server->{control}) {
            defined readline $socket or return 0;
            syswrite $socket, "requests=$server->{requests} left=$server->{left}\n";
        } else {
            take_bytes($server, $server->{connections}{$socket});
        }
    }
    $now = time;
    send_part($server, $_) for grep { defined $_->{due} && $_->{due} <= $now } values $server->{connections}->%*;
    return 1;
}

sub finish ($server, $connection) {
    $server->{select}->remove($connection->{socket});
    delete $server->{connections}{ $connection->{socket} };
    close $connection->{socket};
}

sub take_bytes ($server, $connection) {
    my $read = sysread $connection->{socket}, $connection->{input}, 65536, length $connection->{input};
    if (!$read) {
        ++$server->{left} if $connection->{is_answering};
        return finish($server, $connection);
    }
    begin_answer($server, $connection) if $connection->{input} =~ /\r\n\r\n/ && !$connection->{is_answering};
}

sub begin_answer ($server, $connection) {
    my ($method, $name, $arguments) = $connection->{input} =~ m{^(\w+) /(?:[^/ ?]+/)*([^/ ?]*)\??(\S*)};
    my %ask  = $arguments =~ /(\w+)=([^&]*)/g;
    s/%([0-9a-fA-F]{2})/chr hex $1/ge for values %ask;
    my $body = $server->{answers}{$name} // '';
    $body =~ s/TOKENS/$ask{tokens}/g if defined $ask{tokens};
    my $suffix = $name =~ s/.*\.//r;
    my @parts = ($ask{by} // '') ne 'part' ? $body : $suffix eq 'sse' ? $body =~ /.+?(?:\r?\n){2}/gs : $suffix eq 'ndjson' ? $body =~ /.+\n/g : $body =~ /.{1,20}/gs;
    @parts = @parts[ 0 .. min($#parts, $ask{hold} - 1) ]  if defined $ask{hold};
    @parts = @parts[ 0 .. min($#parts, $ask{break} - 1) ] if defined $ask{break};
    my $is_cut   = defined $ask{hold} || defined $ask{break};
    my $type     = $ask{type} // $type_of{$suffix} // 'text/plain';
    my $is_whole = !$is_cut && @parts == 1 && !defined $ask{trailer};
    my $head = 'HTTP/1.1 ' . ($ask{status} // '200 OK') . "\r\nContent-Type: $type\r\nConnection: close\r\n";
    $head .= "Content-Encoding: $ask{encoding}\r\n" if defined $ask{encoding};
    $head .= "ETag: \"1\"\r\nCache-Control: max-age=600\r\n";
    $head .= $is_whole ? 'Content-Length: ' . length($parts[0]) . "\r\n\r\n" : "Transfer-Encoding: chunked\r\n\r\n";
    $connection->{is_answering} = 1;
    $connection->{holds} = defined $ask{hold};
    @parts = () if $method eq 'HEAD';
    @parts = map { sprintf "%x\r\n%s\r\n", length $_, $_ } @parts if !$is_whole;
    push @parts, "0\r\n" . (defined $ask{trailer} ? "X-Tokens: $ask{trailer}\r\n" : '') . "\r\n" if !$is_whole && !$is_cut;
    $connection->{parts} = [ $head . (shift(@parts) // ''), @parts ];
    ++$server->{requests};
    send_part($server, $connection);
}

# All of a part goes into the socket's buffer: parts are small.
sub send_part ($server, $connection) {
    my $part = shift $connection->{parts}->@*;
    syswrite $connection->{socket}, $part;
    $connection->{due} = $connection->{parts}->@* ? time + $server->{seconds} : undef;
    finish($server, $connection) if !$connection->{parts}->@* && !$connection->{holds};
}

1;
