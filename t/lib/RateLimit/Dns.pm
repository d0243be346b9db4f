package RateLimit::Dns;

# A name server of a test's own, whose answers the test changes.

use v5.36;
use File::Temp qw(tempdir);
use Net::DNS::Nameserver;
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Process;
use Time::HiRes qw(sleep);

# Of the names of a test, which are valid for a second; all others do not exist. Each answer takes
# `delay` seconds.
sub start_new ($class, %addresses) {
    my $delay = delete $addresses{delay} // 0;
    my $self = bless { dir => tempdir('dns-XXXXXXXX', TMPDIR => 1, CLEANUP => 1), port => empty_port('127.0.0.1', 'udp') }, $class;
    $self->answer(%addresses);
    my $file   = "$self->{dir}/names";
    my $answer = sub ($name, $class, $type, @) {
        sleep $delay;
        my %address = map { split / / } split /\n/, RateLimit::Nginx::slurp($file);
        my $found = $address{$name} // return 'NXDOMAIN', [], [], [];
        my $is_of_type = ($type eq 'AAAA') == ($found =~ /:/);
        return 'NOERROR', [$is_of_type ? Net::DNS::RR->new("$name 1 IN $type $found") : ()], [], [];
    };
    my $server = Net::DNS::Nameserver->new(LocalAddr => '127.0.0.1', LocalPort => $self->{port}, ReplyHandler => $answer)
        or die 'no name server';
    $self->{process} = RateLimit::Process->run(sub { $server->main_loop });
    return $self;
}

sub answer ($self, %addresses) {
    RateLimit::Nginx::write_file("$self->{dir}/new", join '', map { "$_ $addresses{$_}\n" } sort keys %addresses);
    rename "$self->{dir}/new", "$self->{dir}/names" or die "rename: $!";
}

# For nginx's configuration.
sub resolver ($self) { return "resolver 127.0.0.1:$self->{port} valid=1s;" }

1;
