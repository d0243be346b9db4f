package Bench::PacedClient;

# Requests at a given rate, by ../paced_client.cpp.

use v5.36;
use Exporter 'import';
use File::Temp qw(tempdir);
use RateLimit::Process;

our @EXPORT_OK = qw(start_paced);

my $program = 'build/cmake/paced_client';

# So many a second to an nginx, for so many seconds, over so many connections; the paths take turns.
sub start_paced ($nginx, $rate, $seconds, $connections, @paths) {
    -x $program or die "$program: see the Makefile\n";
    my $output = tempdir('paced-XXXXXXXX', TMPDIR => 1, CLEANUP => 1) . '/output';
    return bless {
        output  => $output,
        seconds => $seconds,
        paths   => \@paths,
        process => RateLimit::Process->execute($output, $program, $nginx->port, $rate, $seconds, $connections, @paths),
    }, __PACKAGE__;
}

# Waits for the end, and calls the code for each answer: with the path, the status, and when the request
# was due, sent and answered, in seconds since the epoch.
sub each_answer ($self, $take) {
    $self->{process}->wait_for_end($self->{seconds} + 120) or die "$program did not end\n";
    open my $output, '<', $self->{output} or die "$self->{output}: $!";
    while (<$output>) {
        my ($path, $status, @times) = split ' ';
        @times == 3 or die "$program: $_\n";
        $take->($self->{paths}[$path], $status, map { $_ / 1e6 } @times);
    }
}

1;
