package RateLimit::Process;

# A child process of a test that ends with its object, by its id: a load generator, a relay.

use v5.36;
use POSIX qw(_exit WNOHANG);
use RateLimit::Wait qw(wait_until);

# Runs the code in a child. The child ends with the code, and runs none of the test's destructors.
sub run ($class, $code) {
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        eval { $code->(); 1 } or print STDERR "child: $@";
        _exit(0);
    }
    return bless { pid => $pid, owner => $$ }, $class;
}

# A program; what it prints goes to a file.
sub execute ($class, $output, @command) {
    return $class->run(sub {
        open STDOUT, '>',  $output  or die "$output: $!";
        open STDERR, '>&', \*STDOUT or die "dup: $!";
        exec @command               or die "$command[0]: $!";
    });
}

sub pid ($self) { return $self->{pid} }

sub is_running ($self) {
    return 0 if !$self->{pid};
    return 1 if waitpid($self->{pid}, WNOHANG) == 0;
    $self->{pid} = undef;
    return 0;
}

sub signal ($self, $name) { kill $name, $self->{pid} if $self->is_running }

# False where it had to be killed.
sub wait_for_end ($self, $seconds = 60) {
    local $?;
    return 1 if wait_until(sub { !$self->is_running }, $seconds);
    kill KILL => $self->{pid};
    waitpid $self->{pid}, 0;
    $self->{pid} = undef;
    return 0;
}

sub DESTROY ($self) {
    return if !$self->{pid} || $self->{owner} != $$;
    local $?;
    $self->signal('KILL');
    $self->wait_for_end;
}

1;
