package RateLimit::Load;

# Many requests at once, by h2load or wrk, while the test goes on.

use v5.36;
use Exporter 'import';
use File::Temp qw(tempdir);
use RateLimit::Nginx;
use RateLimit::Process;

our @EXPORT_OK = qw(start_requests start_load);

# So many requests, by h2load: for tests that count. Options: connections (64), rate, the most
# requests a second of all connections together, and streams, at once on each of them by HTTP/2.
sub start_requests ($url, $count, %options) {
    my $connections = $options{connections} // 64;
    my @rate        = $options{rate} ? ('--rps', $options{rate} / $connections) : ();
    my @protocol    = $options{streams} ? ('-m', $options{streams}) : '--h1';
    return start('h2load', @protocol, '-t', 1, '-c', $connections, '-n', $count, @rate, $url);
}

# Requests until finish(), by wrk: for tests that make faults meanwhile. Each has a connection of
# its own with `close`, so that a connection closed by nginx between two requests is no fault.
# `script` is one of wrk's with its arguments.
sub start_load ($url, %options) {
    my @close = $options{close} ? ('-H', 'Connection: close') : ();
    my ($script, @arguments) = ($options{script} // [])->@*;
    my @script = $script ? ('-s', $script) : ();
    return start('wrk', '-t', 1, '-c', $options{connections} // 16, '-d', 600, '--timeout', 10, @close, @script, $url,
        @arguments ? ('--', @arguments) : ());
}

sub start (@command) {
    my $output = tempdir('load-XXXXXXXX', TMPDIR => 1, CLEANUP => 1) . '/output';
    return bless {
        output  => $output,
        process => RateLimit::Process->execute($output, @command),
        is_wrk  => $command[0] eq 'wrk',
    }, __PACKAGE__;
}

sub is_running ($self) { return $self->{process}->is_running }

# Its connections end in the middle of what they do.
sub kill_now ($self) {
    $self->{process}->signal('KILL');
    $self->{process}->wait_for_end;
}

# Ends wrk, waits for h2load. The result: `requests` that were answered, those of them that were
# not 2xx or 3xx as `refused`, and `broken`, those that got no answer.
sub finish ($self) {
    $self->{process}->signal('INT') if $self->{is_wrk};
    $self->{process}->wait_for_end or die "$self->{output}: the load generator did not end\n";
    my $said = RateLimit::Nginx::slurp($self->{output});
    return $self->{is_wrk} ? wrk_summary($said) : h2load_summary($said);
}

sub h2load_summary ($said) {
    my ($total, $errored, $late) =
        $said =~ /^requests: (\d+) total,.* (\d+) errored, (\d+) timeout/m or die $said;
    my ($ok, $moved, $refused, $faults) =
        $said =~ /^status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx/m or die $said;
    return {
        requests => $ok + $moved + $refused + $faults,
        passed   => $ok + $moved,
        refused  => $refused + $faults,
        faults   => $faults,
        broken   => $total - $ok - $moved - $refused - $faults,
    };
}

sub wrk_summary ($said) {
    my ($requests) = $said =~ /^\s*(\d+) requests in/m or die $said;
    my ($refused)  = $said =~ /Non-2xx or 3xx responses: (\d+)/;
    my @errors     = $said =~ /Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/;
    my $broken     = 0;
    $broken += $_ for @errors;
    return { requests => $requests, passed => $requests - ($refused // 0), refused => $refused // 0, broken => $broken };
}

1;
