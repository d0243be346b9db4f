package RateLimit::Grants;

# Clients that ask one after another and note between which instants each was granted, and how many
# grants lie surely within some time.

use v5.36;
use Exporter 'import';
use RateLimit::Client;
use RateLimit::Process;
use Time::HiRes qw(time);

our @EXPORT_OK = qw(most_within per_window start_clients);

# One client of each nginx, until it is stopped. Each asks a path of them in turn, again and again.
sub start_clients ($directory, $count, $paths, @nginx) {
    my @clients;
    for my $nginx (@nginx) {
        for my $number (1 .. $count) {
            my $file = "$directory/grants." . scalar @clients;
            push @clients, { file => $file, process => RateLimit::Process->run(sub { ask($nginx, $paths, $file) }) };
        }
    }
    return bless { clients => \@clients }, __PACKAGE__;
}

sub ask ($nginx, $paths, $file) {
    my $stopped = 0;
    local $SIG{TERM} = sub { $stopped = 1 };
    local $SIG{PIPE} = 'IGNORE';
    open my $out, '>', $file or die "$file: $!";
    my $client;
    while (!$stopped) {
        for my $path (@$paths) {
            $client //= eval { RateLimit::Client->new($nginx) } or next; # nginx may be between two binaries
            my $sent     = time;
            my $response = eval { $client->send("GET $path HTTP/1.1\r\nHost: a\r\n\r\n")->response } // { status => 0 };
            my $received = time;
            my $source   = $response->{headers}{'x-source'} // '';
            print $out "$path $response->{status} $sent $received $source\n";
            undef $client if !$response->{status} || ($response->{headers}{connection} // '') eq 'close';
        }
    }
    close $out or die "$file: $!";
}

# What was granted of each path: [ sent, received, source ], seconds; and how many requests there were.
sub finish ($self) {
    $_->{process}->signal('TERM')   for $self->{clients}->@*;
    $_->{process}->wait_for_end(30) for $self->{clients}->@*;
    my (%grants, %asked);
    for my $client ($self->{clients}->@*) {
        open my $in, '<', $client->{file} or die "$client->{file}: $!";
        while (<$in>) {
            my ($path, $status, $sent, $received, $source) = split /[ \n]/;
            ++$asked{$path};
            push $grants{$path}->@*, [ $sent, $received, $source ] if $status == 200;
        }
    }
    return (\%grants, \%asked);
}

# The most grants that lie surely within any time so long: asked for after its begin, and answered
# before its end.
sub most_within ($seconds, @grants) {
    my @sent     = sort { $a <=> $b } map { $_->[0] } @grants;
    my @received = sort { $a <=> $b } map { $_->[1] } @grants;
    my ($most, $ended) = (0, 0);
    for my $before (0 .. $#sent) { # so many were asked for before this window
        ++$ended while $ended < @received && $received[$ended] <= $sent[$before] + $seconds;
        $most = $ended - $before if $ended - $before > $most;
    }
    return $most;
}

# The most grants that lie surely within one window that begins at a multiple of its length.
sub per_window ($seconds, @grants) {
    my %count;
    for my $grant (@grants) {
        my ($first, $last) = map { int($_ / $seconds) } @$grant[ 0, 1 ];
        ++$count{$first} if $first == $last;
    }
    my ($most) = sort { $b <=> $a } values %count, 0;
    return $most;
}

1;
