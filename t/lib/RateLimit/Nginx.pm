package RateLimit::Nginx;

# An nginx of the test's own with the module, in a private directory, its workers unprivileged.
# When it stops, its error.log is judged: see stop().

use v5.36;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use HTTP::Tiny;
use IO::Socket::INET;
use Net::EmptyPort ();
use POSIX qw(_exit WNOHANG);
use RateLimit::Port qw(empty_port);
use RateLimit::Wait qw(wait_until);
use Test::More;

my $module = $ENV{RATE_LIMIT_MODULE} // 'build/ngx_http_redis_rate_limit_module.so';

# The file that is under test, or an empty text, where the module is a part of nginx.
sub module () { return $module }

# More of `http`, for an nginx that needs it, such as one with lua.
my $http_of_this_nginx = $ENV{RATE_LIMIT_HTTP} // '';

# What never may stand in error.log.
my $bad = qr/\[(?:alert|emerg)\]|AddressSanitizer|LeakSanitizer|runtime error:|exited on signal/;

# Not from the variable NGINX, in which nginx looks for sockets to inherit.
sub binary () { return $ENV{RATE_LIMIT_NGINX} // '/usr/sbin/nginx' }

# What is logged before the configuration is read; nginx before 1.19.5 has one place for it.
my @early_log = qx(@{[ binary ]} -h 2>&1) =~ /^ +-e /m ? qw(-e error.log) : ();

# A test that is interrupted ends what it has started, as one that is done does.
my $test = $$;
$SIG{$_} = sub { $$ == $test ? exit 130 : _exit(130) } for qw(INT TERM);

# A new master is started in an environment of only what `env` names.
my $as_daemon = join ' ', 'daemon on;', map { "env $_;" } qw(LD_PRELOAD ASAN_OPTIONS LSAN_OPTIONS);

# The configuration of `http` is a text in which %PORT% stands for this nginx's port, and %DIR%
# for its directory, in which it runs: relative, for its workers may have no way from the root to it. Options: workers (1), main and events (more text on those levels),
# connections (1024, of each worker), log_level (info), daemon (0; nginx can be upgraded only where it is
# one), module (the file, if it is not the one that was built), before (lines in front of the one that
# loads it), clock (a RateLimit::Clock that is its wall clock).
sub new ($class, $http, %options) {
    my $self = bless {
        dir     => tempdir('nginx-XXXXXXXX', TMPDIR => 1, CLEANUP => 1),
        port    => empty_port(),
        options => \%options,
        owner   => $$,
    }, $class;
    chmod 0755, $self->{dir};
    mkdir "$self->{dir}/logs" if !@early_log; # that one's usual place
    $self->configure($http);
    return $self;
}

sub start_new ($class, @arguments) {
    my $self = $class->new(@arguments);
    $self->start;
    return $self;
}

# Writes a new configuration, for the next start or reload.
sub configure ($self, $http) {
    my %options =
        (workers => 1, before => '', main => '', events => '', connections => 1024, log_level => 'info', daemon => 0, $self->{options}->%*);
    my $user    = $> == 0 ? 'user nobody nogroup;' : '';
    my $file    = $options{module} // $module;
    my $load    = $file eq '' ? '' : 'load_module ' . abs_path($file) . ';';
    my $daemon  = $options{daemon} ? $as_daemon : 'daemon off;';
    my $text    = <<"END";
$options{before}$load
$user
$daemon
worker_processes $options{workers};
pid %DIR%/nginx.pid;
error_log %DIR%/error.log $options{log_level};
$options{main}
events { worker_connections $options{connections}; $options{events} }
http {
    access_log %DIR%/access.log;
    client_body_temp_path %DIR%/body;
    proxy_temp_path %DIR%/proxy;
    fastcgi_temp_path %DIR%/fastcgi;
    scgi_temp_path %DIR%/scgi;
    uwsgi_temp_path %DIR%/uwsgi;
    $http_of_this_nginx
    $http
}
END
    $text =~ s/%PORT%/$self->{port}/g;
    $text =~ s/%DIR%/./g;
    write_file("$self->{dir}/nginx.conf", $text);
}

# To be run in its directory.
sub command ($self, @more) { return (binary, qw(-p ./), @early_log, qw(-c nginx.conf), @more) }

# The runtime of a sanitizer that the module was built with comes before nginx.
sub preload () { return $ENV{RATE_LIMIT_PRELOAD} // '' }

# Turns a child into nginx.
sub become ($self, @more) {
    my $clock = $self->{options}{clock};
    my %of_clock = $clock ? $clock->environment : ();
    $ENV{LD_PRELOAD} = join ' ', grep { length } preload, delete $of_clock{LD_PRELOAD} // '';
    %ENV = (%ENV, %of_clock);
    chdir $self->{dir} or _exit(127);
    exec $self->command(@more) or _exit(127);
}

# What `nginx -t` says, and whether it is content.
sub test_configuration ($self) {
    my $pid = open(my $out, '-|') // die "fork: $!";
    if ($pid == 0) {
        open STDERR, '>&', \*STDOUT or _exit(127);
        $self->become('-t');
    }
    my $said = do { local $/; <$out> };
    close $out;
    return ($said, $? == 0);
}

sub start ($self) {
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        open STDOUT, '>>', "$self->{dir}/stderr.log" or _exit(127);
        open STDERR, '>&', \*STDOUT or _exit(127);
        $self->become;
    }
    if ($self->{options}{daemon}) {
        waitpid $pid, 0;
        $pid = $? == 0 && wait_until(sub { $self->pid_in_file }) or die "nginx does not start:\n", $self->error_log;
    }
    $self->{pid} = $pid;
    wait_until(sub { is_gone($pid) || ($self->accepts && $self->workers == $self->worker_count) })
        && !is_gone($pid)
        or die "nginx does not start:\n", $self->error_log, slurp("$self->{dir}/stderr.log");
}

sub worker_count ($self) { return $self->{options}{workers} // 1 }

sub pid_in_file ($self) { return slurp("$self->{dir}/nginx.pid") =~ /^(\d+)$/ ? $1 : 0 }

# Of a master, which is no child of the test where it is a daemon.
sub is_gone ($pid) {
    local $?;
    waitpid $pid, WNOHANG;
    return slurp("/proc/$pid/stat") !~ /\) [^Z]/; # a zombie has ended
}

sub accepts ($self) {
    return Net::EmptyPort::check_port({ host => '127.0.0.1', port => $self->{port} });
}

sub pid ($self)  { return $self->{pid} }
sub port ($self) { return $self->{port} }
sub dir ($self)  { return $self->{dir} }

# The processes that serve now, without those that are leaving.
sub workers ($self, $master = $self->{pid}) { return children_of($master, qr/worker process(?! is)/) }

sub leaving_workers ($self, $master = $self->{pid}) { return children_of($master, qr/worker process is/) }

sub children_of ($pid, $pattern) { return grep { slurp("/proc/$_/cmdline") =~ $pattern } children($pid) }

# The kernel's own list, /proc/PID/task/PID/children, may lack some while others of them end.
sub children ($parent) {
    return grep { slurp("/proc/$_/stat") =~ /\) \S $parent / } map { m{(\d+)\z} } glob '/proc/[0-9]*';
}

# Returns when new workers serve; the old ones may still be leaving.
sub reload ($self) {
    my %old = map { $_ => 1 } $self->workers;
    kill HUP => $self->{pid};
    wait_until(sub { my @now = $self->workers; @now && !grep { $old{$_} } @now })
        or die "no new workers\n", $self->error_log;
}

# The steps of a binary upgrade, see https://nginx.org/en/docs/control.html#upgrade. First a new
# master serves beside this one.
sub start_successor ($self) {
    my $old = $self->{pid};
    kill USR2 => $old;
    my $new = wait_until(sub { my $pid = $self->pid_in_file; $pid != $old && $self->workers($pid) == $self->worker_count && $pid })
        or die "no new master\n", $self->error_log;
    return $self->{successor} = $new;
}

# Then this one's workers leave; it stays, so that it could go on.
sub retire ($self) {
    kill WINCH => $self->{pid};
    wait_until(sub { !$self->workers && !$self->leaving_workers }) or die "workers do not leave\n", $self->error_log;
}

# In the end it leaves, too.
sub give_way ($self) {
    my $old = $self->{pid};
    $self->{pid} = delete $self->{successor};
    kill QUIT => $old;
    wait_until(sub { is_gone($old) }) or die "the old master does not leave\n", $self->error_log;
}

# Or this one goes on, and the new one leaves.
sub take_back ($self) {
    kill HUP => $self->{pid};
    wait_until(sub { $self->workers == $self->worker_count }) or die "no workers\n", $self->error_log;
    my $new = delete $self->{successor};
    kill QUIT => $new;
    wait_until(sub { is_gone($new) && $self->pid_in_file == $self->{pid} }) or die "the new master does not leave\n", $self->error_log;
}

sub upgrade ($self) {
    $self->start_successor;
    $self->retire;
    $self->give_way;
}

# Ends nginx, gracefully or with TERM, and fails the test where error.log tells of a crash, an
# alert or a sanitizer. `expect` is a pattern of lines that are no fault.
sub stop ($self, %options) {
    my @masters = grep { defined } delete $self->@{qw(pid successor)} or return;
    kill $options{signal} // 'QUIT', @masters;
    my $ended = wait_until(sub { !grep { !is_gone($_) } @masters }, $options{seconds} // 20);
    if (!$ended) {
        kill KILL => (map { ($self->workers($_), $self->leaving_workers($_)) } @masters), @masters;
        wait_until(sub { !grep { !is_gone($_) } @masters });
    }
    my @faults = grep { /$bad/ } split /\n/, $self->error_log . slurp("$self->{dir}/stderr.log");
    @faults = grep { !/$options{expect}/ } @faults if $options{expect};
    push @faults, 'nginx did not leave' if !$ended;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is(join("\n", @faults), '', 'no crash, alert or sanitizer report');
}

# Lines that error.log has of workers that the test killed.
sub ends_of_killed (@pids) {
    my $killed = join '|', @pids;
    return qr/worker process (?:$killed) exited on signal 9|shared memory zone "\S+" was locked by (?:$killed)$/;
}

sub DESTROY ($self) {
    $self->stop if $self->{pid} && $self->{owner} == $$;
}

# Each host of 127.0.0.0/8 leads here, so a `server_name` may be one.
sub url ($self, $path = '/', $host = '127.0.0.1') { return "http://$host:$self->{port}$path" }

# HTTP::Tiny's response. Options are those of its request(), method and host.
sub get ($self, $path = '/', %options) {
    my $method = delete $options{method} // 'GET';
    my $host   = delete $options{host}   // '127.0.0.1';
    my $http   = HTTP::Tiny->new(max_redirect => 0, timeout => 20);
    return $http->request($method, $self->url($path, $host), \%options);
}

# Sends a request now; the code returned waits for its response: { status, headers }, and status 0
# where the connection ends without one.
sub get_later ($self, $path) {
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $self->{port}) or die "connect: $!";
    syswrite $socket, "GET $path HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    return sub {
        my $response = do { local $/; <$socket> } // '';
        my ($head)   = split /\r\n\r\n/, $response;
        my ($status) = ($head // '') =~ m{^HTTP/1.1 (\d+)};
        return { status => $status // 0, headers => { map { /^([^:]+): (.*)/ ? (lc $1, $2) : () } split /\r\n/, $head // '' } };
    };
}

# The statuses of so many requests, one after another.
sub statuses ($self, $path, $count) {
    my $http = HTTP::Tiny->new(max_redirect => 0, timeout => 20);
    return join ' ', map { $http->get($self->url($path))->{status} } 1 .. $count;
}

sub error_log ($self)  { return slurp("$self->{dir}/error.log") }
sub access_log ($self) { return slurp("$self->{dir}/access.log") }

# A file that nginx serves under that path unless it is told of another root.
sub add_page ($self, $path, $text) {
    my $file = "$self->{dir}/html/$path";
    make_path(dirname($file));
    write_file($file, $text);
}

sub wait_for_log ($self, $pattern, $seconds = 10) {
    return wait_until(sub { $self->error_log =~ $pattern }, $seconds);
}

sub slurp ($path) {
    open my $file, '<', $path or return '';
    local $/;
    return <$file> // '';
}

sub write_file ($path, $text) {
    open my $file, '>', $path or die "$path: $!";
    print $file $text;
    close $file or die "$path: $!";
}

1;
