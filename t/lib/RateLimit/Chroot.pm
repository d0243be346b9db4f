package RateLimit::Chroot;

# A Debian in a directory, in which packages are installed, and its own nginx as a service.

use v5.36;
use HTTP::Tiny;
use JSON::PP qw(decode_json);
use RateLimit::Nginx;
use RateLimit::Wait qw(wait_until);

sub new ($class, $root, $port) { return bless { root => $root, port => $port }, $class }

# What a line of shell says there, and whether it succeeds.
sub run ($self, $line) {
    my $pid = open(my $out, '-|') // die "fork: $!";
    if ($pid == 0) {
        open STDERR, '>&', \*STDOUT or die "dup: $!";
        local %ENV = (HOME => '/root', PATH => '/usr/sbin:/usr/bin:/sbin:/bin', LANG => 'C.UTF-8', DEBIAN_FRONTEND => 'noninteractive');
        exec 'chroot', $self->{root}, 'sh', '-c', $line or die "chroot: $!";
    }
    my $said = do { local $/; <$out> };
    local $?;
    close $out;
    return ($said, $? == 0);
}

sub path ($self, $file) { return "$self->{root}$file" }

sub slurp ($self, $file) { return RateLimit::Nginx::slurp($self->path($file)) }

sub write_file ($self, $file, $text) { RateLimit::Nginx::write_file($self->path($file), $text) }

# Whether installed packages may start and reload services. Without a policy invoke-rc.d does neither where
# no init runs.
sub set_policy ($self, $code) {
    $self->write_file('/usr/sbin/policy-rc.d', "#!/bin/sh\nexit $code\n");
    chmod 0755, $self->path('/usr/sbin/policy-rc.d');
}

# As while nginx would listen on a port that somebody else has.
sub forbid_services ($self) { $self->set_policy(101) }

sub allow_services ($self) { $self->set_policy(0) }

sub master ($self) { return $self->slurp('/run/nginx.pid') =~ /^(\d+)$/ ? $1 : 0 }

sub workers ($self) {
    my $master = $self->master or return;
    return RateLimit::Nginx::children_of($master, qr/worker process(?! is)/);
}

# Returns when others serve than these.
sub wait_for_others ($self, @workers) {
    my %old = map { $_ => 1 } @workers;
    return wait_until(sub { my @now = $self->workers; @now && !grep { $old{$_} } @now }, 20);
}

sub url ($self, $path) { return "http://127.0.0.1:$self->{port}$path" }

sub get ($self, $path) { return HTTP::Tiny->new(timeout => 10)->get($self->url($path)) }

sub statuses ($self, $path, $count) { return join ' ', map { $self->get($path)->{status} } 1 .. $count }

# Of the dashboard in /limits/.
sub status ($self) {
    my $response = $self->get('/limits/status.json');
    return $response->{success} ? decode_json($response->{content}) : {};
}

1;
