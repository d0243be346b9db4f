package RateLimit::Clock;

# A wall clock that the test moves, for a redis-server: see ../clock.c.

use v5.36;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Temp qw(tempdir);

my $source = abs_path(dirname(__FILE__) . '/../clock.c');

sub new ($class, $microseconds) {
    my $self = bless { dir => tempdir('clock-XXXXXXXX', TMPDIR => 1, CLEANUP => 1) }, $class;
    system('cc', '-O2', '-Wall', '-Wextra', '-Werror', '-shared', '-fPIC', '-o', "$self->{dir}/clock.so", $source) == 0
        or die "$source does not compile\n";
    open $self->{file}, '+>', "$self->{dir}/now" or die "$self->{dir}/now: $!";
    $self->set($microseconds);
    return $self;
}

# Eight bytes in one write: a reader sees the old time or the new one.
sub set ($self, $microseconds) {
    $self->{now} = $microseconds;
    sysseek $self->{file}, 0, 0;
    syswrite $self->{file}, pack('q', $microseconds);
}

sub move ($self, $by) { $self->set($self->{now} + $by) }
sub now ($self)       { return $self->{now} }

sub environment ($self) {
    return (LD_PRELOAD => "$self->{dir}/clock.so", RATE_LIMIT_CLOCK => "$self->{dir}/now");
}

1;
