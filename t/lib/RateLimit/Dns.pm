package RateLimit::Dns;

# A name server of a test's own, whose answers the test changes.

use v5.36;
use File::Temp qw(tempdir);
use IO::Socket::INET;
use Net::DNS;
use POSIX qw(_exit);
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Process;
use Time::HiRes qw(sleep);

# Of the names of a test, which are valid for a second; all others do not exist. A name may have several
# addresses, with commas between them. Each answer takes `delay` seconds, and holds up no other one.
sub start_new ($class, %addresses) {
    my $delay = delete $addresses{delay} // 0;
    my $self = bless { dir => tempdir('dns-XXXXXXXX', TMPDIR => 1, CLEANUP => 1), port => empty_port('127.0.0.1', 'udp') }, $class;
    $self->answer(%addresses);
    my $file   = "$self->{dir}/names";
    my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $self->{port}, Proto => 'udp') or die "no name server: $@";
    $self->{process} = RateLimit::Process->run(sub {
        local $SIG{CHLD} = 'IGNORE';
        while (my $client = $socket->recv(my $query, 512)) {
            next if $delay && fork;
            sleep $delay;
            my %address = map { split / / } split /\n/, RateLimit::Nginx::slurp($file);
            $socket->send(reply($query, %address)->data, 0, $client);
            _exit(0) if $delay;
        }
    });
    return $self;
}

# Not by Net::DNS::Nameserver, whose interface is another one in each Debian.
sub reply ($query, %addresses) {
    my $reply      = Net::DNS::Packet->new(\$query)->reply;
    my ($question) = $reply->question;
    my $found      = $addresses{ $question->qname };
    $reply->header->rcode($found ? 'NOERROR' : 'NXDOMAIN');
    for my $address (grep { ($question->qtype eq 'AAAA') == /:/ } split /,/, $found // '') {
        $reply->push(answer => Net::DNS::RR->new(join ' ', $question->qname, 1, 'IN', $question->qtype, $address));
    }
    return $reply;
}

sub answer ($self, %addresses) {
    RateLimit::Nginx::write_file("$self->{dir}/new", join '', map { "$_ $addresses{$_}\n" } sort keys %addresses);
    rename "$self->{dir}/new", "$self->{dir}/names" or die "rename: $!";
}

# For nginx's configuration.
sub resolver ($self) { return "resolver 127.0.0.1:$self->{port} valid=1s;" }

1;
