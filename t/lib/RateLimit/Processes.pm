package RateLimit::Processes;

# What processes have taken of the machine.

use v5.36;
use Exporter 'import';
use RateLimit::Nginx;

our @EXPORT_OK = qw(descriptors private_memory);

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

1;
