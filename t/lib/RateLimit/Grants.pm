package RateLimit::Grants;

# Clients that ask one after another and note when each request was granted, by
# $redis_rate_limit_decided, and how many grants lie within some time.

use v5.36;
use Exporter 'import';
use RateLimit::Client;
use RateLimit::Process;

our @EXPORT_OK = qw(most_above_bucket most_within per_window start_clients);

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
            my $response = eval { $client->send("GET $path HTTP/1.1\r\nHost: a\r\n\r\n")->response } // { status => 0 };
            my ($decided, $source) = map { $_ // '' } $response->{headers}->@{qw(x-decided x-source)};
            print $out "$path $response->{status} $decided $source\n";
            undef $client if !$response->{status} || ($response->{headers}{connection} // '') eq 'close';
        }
    }
    close $out or die "$file: $!";
}

# What was granted of each path: [ instant in microseconds, source ], the earliest first; and how many
# requests there were.
sub finish ($self) {
    $_->{process}->signal('TERM')   for $self->{clients}->@*;
    $_->{process}->wait_for_end(30) for $self->{clients}->@*;
    my (%grants, %asked);
    for my $client ($self->{clients}->@*) {
        open my $in, '<', $client->{file} or die "$client->{file}: $!";
        while (<$in>) {
            my ($path, $status, $decided, $source) = split /[ \n]/;
            ++$asked{$path};
            push $grants{$path}->@*, [ $decided =~ s/\.//r, $source ] if $status == 200;
        }
    }
    @$_ = sort { $a->[0] <=> $b->[0] } @$_ for values %grants;
    return (\%grants, \%asked);
}

# The most grants in any half-open window so long.
sub most_within ($window_us, @grants) {
    my ($most, $first) = (0, 0);
    for my $last (0 .. $#grants) {
        ++$first while $grants[$first][0] <= $grants[$last][0] - $window_us;
        $most = $last - $first + 1 if $last - $first + 1 > $most;
    }
    return $most;
}

# The most grants in one window that begins at a multiple of its length.
sub per_window ($window_us, @grants) {
    my %count;
    ++$count{ int($_->[0] / $window_us) } for @grants;
    my ($most) = sort { $b <=> $a } values %count, 0;
    return $most;
}

# By how many units the grants ever exceed a bucket that is full at first: within any time there may be
# as many of them as the capacity and the units that come back meanwhile.
sub most_above_bucket ($capacity, $interval_us, @grants) {
    my ($full_at, $most) = (0, 0);
    for my $now (map { $_->[0] } @grants) {
        $full_at = $now if $full_at < $now;
        $full_at += $interval_us;
        my $above = ($full_at - $now) / $interval_us - $capacity;
        $most = $above if $above > $most;
    }
    return $most;
}

1;
