package Bench::Machine;

# Where and with what it was measured: lines of name and value.

use v5.36;
use Exporter 'import';
use POSIX qw(strftime);
use RateLimit::Nginx;

our @EXPORT_OK = qw(cores machine);

sub first_match ($file, $pattern) { return RateLimit::Nginx::slurp($file) =~ $pattern ? $1 : 'unknown' }

sub version ($command, $pattern) { return qx{$command 2>&1} =~ $pattern ? $1 : 'unknown' }

sub cores () {
    return scalar(() = RateLimit::Nginx::slurp('/proc/cpuinfo') =~ /^processor\s*:/mg);
}

sub machine () {
    my $gigabyte = first_match('/proc/meminfo', qr/^MemTotal:\s+(\d+)/m) / 1024 / 1024;
    return [
        ['CPU',          first_match('/proc/cpuinfo', qr/^model name\s*:\s*(.+)/m) . ', ' . cores . ' cores'],
        ['memory',       sprintf '%.0f GB', $gigabyte],
        ['kernel',       version('uname -sr', qr/(.+)/)],
        ['Debian',       first_match('/etc/debian_version', qr/(.+)/)],
        ['nginx',        version(RateLimit::Nginx::binary . ' -v', qr{nginx/(\S+)})],
        ['Redis',        version('redis-server --version', qr/v=(\S+)/)],
        ['wrk',          version('wrk -v', qr{^wrk (?:debian/)?(\S+)})],
        ['commit',       version('git rev-parse --short=12 HEAD', qr/^([0-9a-f]+)$/m)],
        ['load average', first_match('/proc/loadavg', qr/^([\d.]+)/) . ' in the minute before'],
        ['date',         strftime('%Y-%m-%d %H:%M UTC', gmtime)],
    ];
}

1;
