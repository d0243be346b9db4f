package RateLimit::CountingUpstream;

# An upstream that knows whom it has served how much. It reads credentials as upstreams do: blanks and tabs
# around a value are cut, and what else trim() or strip() of a language takes for blank, schemes are compared
# without case, of a field that comes twice the first counts, and where the usual field has no key, others may
# have it. Bodies may be compressed. It counts when a request comes, for a client that leaves then has been
# served all the same.
#
# What a request asks for stands in its field X-Ask, in words with commas between:
#
# - wait=S: the answer begins after S seconds
# - status=N: the answer has that status, costs nothing, and tells no usage
# - silent: the answer tells no usage
# - stream: an answer in events, the first one at once, the last one with the usage after `wait` seconds
# - break: the connection is closed without an answer

use v5.36;
use parent 'RateLimit::Server';
use IO::Select;
use IO::Uncompress::Gunzip qw(gunzip);
use JSON::PP ();
use List::Util qw(max min);
use MIME::Base64 qw(decode_base64);
use Time::HiRes qw(time);

my $usual_tokens = 1000; # of an answer to a request that does not bound them
my @other_fields = qw(authorization x-api-key x-goog-api-key api-key);

# keys: key => owner. field: where a key usually stands, in lower case; none: nobody needs one. Requests
# without a key that it knows are served if `serves_anybody`. No other place of a key is looked at if `only_field`.
sub start_new ($class, %options) {
    return $class->start(sub ($listener, $control) {
        my $upstream = {
            %options, listener => $listener, control => $control, select => IO::Select->new($listener, $control),
            connections => {}, served => {}, open => {}, most => {}, asked => 0,
        };
        1 while turn($upstream);
    });
}

sub url ($self) { return 'http://' . $self->address }

# Units by `UNIT.address.ACTOR`, `UNIT.owner.OWNER`, and `UNIT.anonymous.ACTOR` of those without a key, where UNIT is requests, tokens, tokens_of_MODEL, attempts and failures (of logins),
# calls_of_TOOL, or `open` for the most that was open at a time; and `asked`, all requests that came.
sub counts ($self) { return $self->command('counts') }

# From now on all is counted anew.
sub forget ($self) { return $self->command('forget') }

# --- the upstream's side

sub turn ($upstream) {
    my $now = time;
    my @due = map { $_->{due} // () } values $upstream->{connections}->%*;
    my @ready = $upstream->{select}->can_read(@due ? max(0, min(@due) - $now) : undef);
    for my $socket (sort { ($a == $upstream->{listener}) <=> ($b == $upstream->{listener}) } @ready) { # those that end, before who comes
        if ($socket == $upstream->{listener}) {
            my $client = $socket->accept or next;
            $client->blocking(0);
            $upstream->{select}->add($client);
            $upstream->{connections}{$client} = { socket => $client, input => '', parts => [], principals => [] };
        } elsif ($socket == $upstream->{control}) {
            my $line = readline $socket // return 0;
            obey($upstream, $line =~ /(\w+)/);
        } else {
            take_bytes($upstream, $upstream->{connections}{$socket});
        }
    }
    $now = time;
    send_part($upstream, $_) for grep { defined $_->{due} && $_->{due} <= $now } values $upstream->{connections}->%*;
    return 1;
}

sub obey ($upstream, $name) {
    my %counts = (asked => $upstream->{asked}, $upstream->{served}->%*, map { ("open.$_" => $upstream->{most}{$_}) } keys $upstream->{most}->%*);
    syswrite $upstream->{control}, join(' ', map { "$_=$counts{$_}" } sort keys %counts) . "\n";
    $upstream->@{qw(asked served most)} = (0, {}, {}) if $name eq 'forget';
}

sub take_bytes ($upstream, $connection) {
    my $read = sysread $connection->{socket}, $connection->{input}, 65536, length $connection->{input};
    return finish($upstream, $connection) if !$read;
    return if $connection->{is_taken};
    my ($head, $body) = $connection->{input} =~ /\A(.*?\r\n)\r\n(.*)\z/s or return;
    my ($length) = $head =~ /^content-length: *(\d+)/mi;
    return if length $body < ($length // 0);
    $connection->{is_taken} = 1;
    serve($upstream, $connection, $head, $body);
}

sub finish ($upstream, $connection) {
    --$upstream->{open}{$_} for $connection->{principals}->@*;
    $upstream->{select}->remove($connection->{socket});
    delete $upstream->{connections}{ $connection->{socket} };
    close $connection->{socket};
}

# The values of a field, in their order, ends cut.
sub values_of ($head, $name) { return $head =~ /^\Q$name\E:[ \t]*(.*?)[ \t]*\r$/mgi }

# The key that a field's value has, or the user's name.
sub key_of ($field, $value) {
    return $value =~ s/\A[\s\x0b\x0c\x1c-\x1f\x85\xa0]+|[\s\x0b\x0c\x1c-\x1f\x85\xa0]+\z//gr if $field ne 'authorization';
    return decode_base64($1) =~ s/:.*//sr if $value =~ /^basic[ \t]+(.*)/i;
    return $value =~ /^bearer[ \t]+(.*)/i ? $1 : '';
}

# The first key that there is, in the usual field, another one, or the query.
sub credential ($upstream, $head) {
    for my $field ($upstream->{field}, $upstream->{only_field} ? () : @other_fields) {
        my ($value) = values_of($head, $field);
        my $key = defined $value ? key_of($field, $value) : '';
        return $key if length $key;
    }
    return $upstream->{only_field} ? '' : ($head =~ /\A\S+ \S*[?&]key=([^&\s]+)/)[0] // '';
}

# As frameworks read a path: without parameters, case, a suffix and a slash at its end.
sub is_login ($path) { return lc($path =~ s{;[^/]*}{}gr =~ s{\?.*}{}r =~ s{%([0-9a-f]{2})}{chr hex $1}geir =~ s{//+}{/}gr =~ s{(?:\.\w+)?/?\z}{}r) =~ m{/login\z} }

# At /auth it says only who asks.
sub serve ($upstream, $connection, $head, $body) {
    ++$upstream->{asked};
    my ($method, $path) = $head =~ /\A(\S+) (\S+)/;
    my ($ask) = values_of($head, 'x-ask');
    my %ask   = map { my ($word, $value) = split /=/; ($word => $value // 1) } split /,/, $ask // '';
    my $due   = time + ($ask{wait} // 0);
    my $has_body = $method !~ /^(?:GET|HEAD|OPTIONS)$/;
    if (my ($encoding) = values_of($head, 'content-encoding')) {
        gunzip(\(my $encoded = $body), \$body) if $encoding eq 'gzip';
    }
    my $json  = eval { JSON::PP->new->utf8->decode($body) };
    my @calls = ref $json eq 'ARRAY' ? grep { ref eq 'HASH' } @$json : {}; # of JSON-RPC
    my $asked = ref $json eq 'HASH' ? $json : {};
    @calls = $asked if ref $json eq 'HASH';
    my $tokens = $has_body ? ($asked->{max_completion_tokens} // $asked->{max_tokens} // $usual_tokens) * ($asked->{n} // 1) + int(length($body) / 4) : 0;
    my $is_attempt = $has_body && is_login($path);
    my $is_right   = $is_attempt && $body =~ /password=right/;

    my $key   = $upstream->{field} ? credential($upstream, $head) : '';
    my $owner = $upstream->{keys}{$key};
    return answer($upstream, $connection, $due, '401 Unauthorized', '') if $upstream->{field} && !defined $owner && !$upstream->{serves_anybody};
    return answer($upstream, $connection, $due, "$ask{status} Error", '{"error":{"message":"no"}}') if $ask{status};

    return answer($upstream, $connection, $due, '204 No Content', '', "X-User: $owner\r\nX-Team: $owner\r\n") if $path eq '/auth';

    my ($actor)    = values_of($head, 'x-actor');
    $actor //= 'nobody';
    my @principals = ("address.$actor", defined $owner ? "owner.$owner" : "anonymous.$actor");
    my %units = (requests => scalar @calls, tokens => $tokens, attempts => $is_attempt ? 1 : 0, failures => $is_attempt && !$is_right ? 1 : 0);
    $units{"tokens_of_$asked->{model}"} = $tokens if ($asked->{model} // '') =~ /^[\w-]+$/;
    ++$units{"calls_of_$_"} for grep { /^\w+$/ } map { ref $_->{params} eq 'HASH' ? $_->{params}{name} // () : () } @calls;
    for (@principals) {
        for my $unit (keys %units) { $upstream->{served}{"$unit.$_"} += $units{$unit} }
        $upstream->{most}{$_} = max($upstream->{most}{$_} // 0, ++$upstream->{open}{$_});
    }
    $connection->{principals} = \@principals;
    if ($ask{break}) {
        $connection->{parts} = [''];
        $connection->{due}   = $due;
        return;
    }
    if ($is_attempt) {
        return answer($upstream, $connection, $due, $is_right ? '204 No Content' : '401 Unauthorized', '');
    }
    my $usage = $ask{silent} || !$has_body ? '' : qq(,"usage":{"prompt_tokens":0,"completion_tokens":$tokens,"total_tokens":$tokens});
    if ($ask{stream}) {
        my $head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
        $connection->{parts} = [ qq($head data: {"choices":[{"index":0}]}\n\n), qq(data: {"choices":[]$usage}\n\ndata: [DONE]\n\n) ];
        $connection->{wait}  = $ask{wait} // 0;
        return send_part($upstream, $connection);
    }
    my $filling = "x" x ($ask{size} // 0);
    return answer($upstream, $connection, $due, "200 OK", qq({"id":"$filling"$usage}), "X-Tokens-Used: $tokens\r\n");
}

sub answer ($upstream, $connection, $due, $status, $body, $fields = '') {
    my $length = $status =~ /^204/ ? '' : 'Content-Length: ' . length($body) . "\r\n";
    $connection->{parts} = ["HTTP/1.1 $status\r\nContent-Type: application/json\r\n${length}${fields}Connection: close\r\n\r\n$body"];
    $connection->{due}   = $due;
}

# All of a part goes into the socket's buffer: parts are small.
sub send_part ($upstream, $connection) {
    syswrite $connection->{socket}, shift $connection->{parts}->@*;
    return finish($upstream, $connection) if !$connection->{parts}->@*;
    $connection->{due} = time + ($connection->{wait} // 0);
}

1;
