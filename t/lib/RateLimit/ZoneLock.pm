package RateLimit::ZoneLock;

# The lock of a zone's shared memory, seen and set from outside: what a worker leaves behind that is
# killed while it holds it cannot be had by killing workers at random, and a test would not know.
#
# nginx's slab pool begins with it (ngx_shmtx_sh_t): two words, the process that holds it and how
# many wait for it.

use v5.36;
no warnings 'portable'; # addresses have 64 bits
use Fcntl qw(SEEK_SET);
use RateLimit::Nginx;

# Of the zone that has this size, in bytes, alone. Undef where one process may not look into the
# memory of another.
sub new ($class, $nginx, $size) {
    my $maps = RateLimit::Nginx::slurp("/proc/${\$nginx->pid}/maps");
    my @zones;
    while ($maps =~ m{^([0-9a-f]+)-([0-9a-f]+) rw-s .*/dev/zero}mg) {
        push @zones, hex $1 if hex($2) - hex($1) == $size;
    }
    die scalar(@zones) . " zones of $size bytes\n" if @zones != 1;
    open my $memory, '+<:raw', "/proc/${\$nginx->pid}/mem" or return undef;
    return bless { memory => $memory, address => $zones[0] }, $class;
}

# As if that process held it.
sub take_for ($self, $pid) {
    sysseek $self->{memory}, $self->{address}, SEEK_SET;
    syswrite($self->{memory}, pack 'Q', $pid) == 8 or die "write: $!";
}

sub waiting ($self) {
    sysseek $self->{memory}, $self->{address} + 8, SEEK_SET;
    sysread($self->{memory}, my $word, 8) == 8 or die "read: $!";
    return unpack 'Q', $word;
}

1;
