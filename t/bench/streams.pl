# What redis_rate_limit_response_value costs a stream: nginx's CPU for one event that it passes on by
# itself, and for bodies that come in large parts, each with and without the directive. Prints the table.
#
# Environment: ROUNDS (9), EVENTS of one cell in one round (20000).

use v5.36;
use lib 't/lib';
use IO::Socket::INET;
use RateLimit::Measure qw(cpu_ns median print_table);
use RateLimit::Nginx;
use Socket qw(IPPROTO_TCP TCP_NODELAY);
use Test::More;

Test::More->builder->output(\*STDERR); # the table alone goes to where the report finds it

my ($rounds, $events) = ($ENV{ROUNDS} // 9, $ENV{EVENTS} // 20_000);

# The upstream is this process, too: it sends a part, waits until it has come through nginx, and sends
# the next. So nginx has no two of them at once.
my $upstream = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 8) or die "listen: $!";
my $nginx    = RateLimit::Nginx->start_new(<<"END", log_level => 'error');
access_log off;
proxy_buffering off;
proxy_buffer_size 128k;
proxy_buffers 8 128k;
server {
    listen %PORT%;
    location /without { proxy_pass http://127.0.0.1:${\$upstream->sockport}; }
    location /with {
        redis_rate_limit_response_value \$tokens usage.total_tokens|usage.input_tokens+usage.output_tokens|message.usage.input_tokens+usage.output_tokens;
        proxy_pass http://127.0.0.1:${\$upstream->sockport};
    }
}
END
my ($worker) = $nginx->workers;

# An event of a chat's stream of so many bytes.
sub event ($size) {
    my ($before, $behind) = ('data: {"id":"chatcmpl-7f3b","object":"chat.completion.chunk","created":1764150001,"model":"small-1","choices":[{"index":0,"delta":{"content":"', "\"}}],\"usage\":null}\n\n");
    return $before . substr('lorem ipsum dolor ' x ($size / 16), 0, $size - length "$before$behind") . $behind;
}

my @loads = (
    { label => 'events of 200 bytes, one by one', part => event(200),              count => $events },
    { label => '64 KB at once, events of 200 bytes', part => event(200) x 320,     count => $events / 50 },
    { label => '64 KB at once, one event',        part => event(64_000),           count => $events / 50 },
);

sub read_all ($socket, $size) {
    while ($size > 0) {
        my $read = sysread $socket, my $bytes, $size or die 'nginx has closed the connection';
        $size -= $read;
    }
}

# Microseconds of the worker for one part. HTTP/1.0 has no chunks, so that as many bytes arrive as are sent.
sub measure ($path, $load) {
    my $client = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $nginx->port) or die "connect: $!";
    syswrite $client, "GET $path HTTP/1.0\r\n\r\n";
    my $server = $upstream->accept or die "accept: $!";
    setsockopt $_, IPPROTO_TCP, TCP_NODELAY, 1 for $client, $server;
    sysread $server, my $request, 4096;
    syswrite $server, "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    my $head = '';
    sysread $client, $head, 4096, length $head or die 'no answer' while $head !~ /\r\n\r\n/;
    my $before = cpu_ns($worker);
    for (1 .. $load->{count}) {
        syswrite $server, $load->{part};
        read_all($client, length $load->{part});
    }
    return (cpu_ns($worker) - $before) / $load->{count} / 1000;
}

for my $round (0 .. $rounds) { # the first one warms up
    for my $load (@loads) {
        my %cpu = map { $_ => measure("/$_", $load) } $round % 2 ? qw(with without) : qw(without with);
        next if !$round;
        push $load->{$_}->@*, $cpu{$_} for keys %cpu;
        push $load->{ratio}->@*, $cpu{with} / $cpu{without};
    }
}

my @rows = (['an answer in', 'without us', 'with us', 'ratio', 'bound']);
for my $load (@loads) {
    push @rows, [ $load->{label}, map({ sprintf '%.2f', median($load->{$_}->@*) } qw(without with)), sprintf('%.3f', median($load->{ratio}->@*)), $load == $loads[0] ? '1.03' : '-' ];
}
print_table(@rows);
$nginx->stop;
done_testing;
