package RateLimit::Processes;

# What processes have taken of the machine, and how one is made to stand still.

use v5.36;
use Exporter 'import';
use RateLimit::Nginx;
use RateLimit::Wait qw(wait_until);

our @EXPORT_OK = qw(descriptors freeze private_memory);

# How many are open.
sub descriptors ($pid) {
    opendir my $directory, "/proc/$pid/fd" or return 0;
    return scalar grep { /^\d+$/ } readdir $directory;
}

# In bytes, what is in memory of its own: no file, nothing that nginx's processes share.
sub private_memory ($pid) {
    my ($kilobytes) = RateLimit::Nginx::slurp("/proc/$pid/status") =~ /^RssAnon:\s+(\d+) kB/m;
    return 1024 * ($kilobytes // die "no process $pid\n");
}

# Returns when it does stand still, until SIGCONT.
sub freeze ($pid) {
    kill STOP => $pid;
    wait_until(sub { RateLimit::Nginx::slurp("/proc/$pid/stat") =~ /\) T / }) or die "process $pid does not stop";
}

1;
