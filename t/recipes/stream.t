# docs/stream.md: each recipe keeps the promise that stands below it, against clients who open connections and
# leave them in all ways, and send datagrams from one port and from many.

use v5.36;
use lib 't/lib';
use IO::Select;
use IO::Socket::INET;
use List::Util qw(max);
use RateLimit::Attack qw(breaches change scale_numbers);
use RateLimit::Documentation qw(stream_level);
use RateLimit::Process;
use RateLimit::Server;
use RateLimit::Stream qw(client_hello new_stream open_session reset_session take_line);
use Test::More;
use Time::HiRes qw(time);

my $page = RateLimit::Attack->new('docs/stream.md');

# Sends back what has come, up to an end that has come with it: a connection that has ended is not open.
sub goes_on ($socket, $served) {
    my $length;
    while ($length = sysread $socket, my $text, 65536) {
        --$$served if $text =~ /innocent/;
        syswrite $socket, $text;
    }
    return !defined $length && $!{EAGAIN};
}

# Counts connections, and the most that were open at a time. All are the attacker's, but those with a line that
# names the innocent. It sends each line back, over UDP each datagram but those that would take long.
sub counting_server () {
    return RateLimit::Server->start(sub ($listener, $control) {
        my $udp    = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $listener->sockport, Proto => 'udp') or die "udp: $!";
        my $select = IO::Select->new($listener, $control, $udp);
        my ($served, $open, $most) = (0, 0, 0);
        while (1) {
            for my $socket (sort { ($a == $listener) <=> ($b == $listener) } $select->can_read) { # those that end, before who comes
                if ($socket == $control) {
                    defined readline $socket or return;
                    syswrite $socket, "requests.address.attacker=$served requests.owner.attacker=$served open.address.attacker=$most open.owner.attacker=$most\n";
                } elsif ($socket == $udp) {
                    my $from = $udp->recv(my $datagram, 1000) or next;
                    ++$served if $datagram !~ /innocent/;
                    $udp->send($datagram, 0, $from) if $datagram !~ /slow/;
                } elsif ($socket == $listener) {
                    my $client = $listener->accept or next;
                    $client->blocking(0);
                    $select->add($client);
                    ++$served;
                    $most = max($most, ++$open);
                } elsif (!goes_on($socket, \$served)) {
                    --$open;
                    $select->remove($socket);
                    close $socket;
                }
            }
        }
    });
}

# The recipe with these words, and pairs of a text and another one for it. The attack is given its port. Returns
# the promises that were broken, in words.
sub attack ($recipe, $changes, $scale, $attack, $innocent) {
    my $server = counting_server();
    my $text   = scale_numbers(change($recipe->{text}, @$changes), $scale);
    $text =~ s/(proxy_pass )[^;]+/$1${\$server->address}/;
    $page->{redis}->client->flushall;
    my ($stream, %port) = stream_level($text);
    my $nginx = new_stream("redis_rate_limit_backend default { server ${\$page->{redis}->address}; connect_timeout 5s; timeout 5s; }\n$stream");
    $nginx->start;
    my ($port) = values %port;
    my $begin  = time;
    my @open   = $attack->($port);
    my ($breaches, $served) = breaches($recipe, $server->command('counts'), time - $begin, $scale);
    my $is_served = $innocent->($port);
    @open = ();
    $nginx->stop;
    return ([ @$breaches, $is_served ? () : 'somebody else is rejected' ], $served);
}

sub holds ($words, $changes, $scale, $attack, $innocent) {
    my $recipe = $page->recipe($words);
    subtest "$recipe->{place}: $words" => sub {
        ok(scalar $recipe->{promises}->@*, 'says what it promises') or return;
        my ($breaches, $served) = attack($recipe, $changes, $scale, $attack, $innocent);
        is(join('; ', @$breaches), '', 'keeps its promise');
        cmp_ok($served, '>', 0, 'the attacker was served');
    };
}

sub finds ($words, $fault, $changes, $scale, $attack, $innocent) {
    my $recipe = $page->recipe($words);
    subtest "$recipe->{place}: $fault" => sub {
        my ($breaches) = attack($recipe, $changes, $scale, $attack, $innocent);
        isnt(join('; ', @$breaches), '', 'is found') and note(join '; ', @$breaches);
    };
}

# Connections that begin with such a text: of each kind some that wait for an answer and stay, end at once, end
# their sending side, are reset, and say nothing. Returns those that are open.
sub connections ($first, @from) {
    return sub ($port) {
        my @open;
        local $SIG{PIPE} = 'IGNORE'; # a session may be rejected by then
        for (1 .. 3) {
            my @sessions = map { open_session($port, @from) } 1 .. 15;
            my $speaks = sub ($session) { syswrite $session, $first->() };
            $speaks->($_) for @sessions;
            take_line($_) for @sessions;
            push @open, @sessions[ 0 .. 2 ];
            shutdown $_, 1 for @sessions[ 3 .. 5 ];
            reset_session($_) for @sessions[ 6 .. 14 ];
            my @gone = map { open_session($port, @from) } 1 .. 10;
            $speaks->($_) for @gone;
            reset_session($_) for @gone;
            push @open, map { open_session($port, @from) } 1 .. 5; # which say nothing
        }
        take_line($_, 0.05) for @open;
        return @open;
    };
}

sub is_answered ($port, $text, @from) {
    my $session = open_session($port, @from);
    local $SIG{PIPE} = 'IGNORE';
    syswrite $session, $text;
    return length(take_line($session) // '');
}

my $attacker  = connections(sub { "attacker\n" });
my $somebody  = sub ($port) { is_answered($port, "innocent\n", LocalAddr => '127.0.0.2') };
holds('zone=per_client:10m', [], { 100 => 10 }, $attacker, $somebody);
holds('zone=connections:10m', [], { 60 => 20, 20 => 6 }, $attacker, $somebody);
holds('zone=connections:10m', [], { 60 => 9, 20 => 6 }, $attacker, $somebody);
finds('zone=connections:10m', 'none of those at a time', [ 'redis_rate_limit zone=connections algorithm=concurrency' => '#' ], { 60 => 20, 20 => 6 }, $attacker, $somebody);
holds('zone=bytes:10m', [ 'proxy_download_rate 1m' => 'proxy_download_rate 10m' ], { 10 => 4 }, $attacker, $somebody);

my $number = 0;
my @names  = ('made-up.example', '', 'red.example.com.', 'RED-example.com', '_');
my $anybody = connections(sub { client_hello($number++ < 30 ? $names[ $number % @names ] : "made-up-$number.example") });
my $tenant  = sub ($port) { is_answered($port, client_hello('red.example.com')) };
holds('$ssl_preread_server_name $tenant', [], { 500 => 6 }, $anybody, $tenant);
finds('$ssl_preread_server_name $tenant', 'the name itself is the key', [ 'redis_rate_limit_zone $tenant' => 'redis_rate_limit_zone $ssl_preread_server_name' ], { 500 => 6 }, $anybody, $tenant);

my @balancer = ('10.0.0.0/8' => '127.0.0.9');
my $forged   = connections(sub { "PROXY TCP4 192.0.2." . (++$number % 250) . " 192.0.2.99 1024 1883\r\nattacker\n" });
my $device   = sub ($port) { is_answered($port, "PROXY TCP4 203.0.113.1 192.0.2.99 1024 1883\r\ninnocent\n", LocalAddr => '127.0.0.9') };
holds('set_real_ip_from', \@balancer, { 10 => 5 }, $forged, $device);
finds('set_real_ip_from', 'everybody is believed', [ '10.0.0.0/8' => '0.0.0.0/0' ], { 10 => 5 }, $forged, $device);

# --- datagrams

# From one port, and from many; no answer is waited for, and the first ones of a port have none. At the end
# one comes from a port of its own: when it is answered or lost, all before it have been taken.
sub queries ($port) {
    my @sockets = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Proto => 'udp') // die "udp: $!" } 1 .. 20;
    for my $round (1 .. 10) {
        $sockets[0]->send("attacker $round $_ slow") for 1 .. 20;
        $_->send("attacker $round") for @sockets[ 1 .. $#sockets ];
        IO::Select->new(@sockets)->can_read(0.02);
    }
    my $last = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Proto => 'udp') // die "udp: $!";
    $last->send('attacker');
    IO::Select->new($last)->can_read(0.3);
    return @sockets;
}

sub is_query_answered ($port) {
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, LocalAddr => '127.0.0.2', Proto => 'udp') or die "udp: $!";
    $socket->send('innocent');
    return !!IO::Select->new($socket)->can_read(10);
}

holds('zone=queries:10m', [], { 200 => 20, 50 => 5 }, \&queries, \&is_query_answered);
finds('zone=queries:10m', 'a session is a port', [ 'proxy_requests 1;' => '' ], { 200 => 20, 50 => 5 }, \&queries, \&is_query_answered);

$page->all_attacked;
done_testing;
