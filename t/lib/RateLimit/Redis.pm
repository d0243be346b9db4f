package RateLimit::Redis;

# A redis-server of the test's own, on a free port or a unix socket in a private directory.

use v5.36;
use parent 'Test::RedisServer';
use POSIX qw(SIGKILL SIGCONT SIGTERM WNOHANG);
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Processes;
use RateLimit::Wait qw(wait_until);
use Redis;

# Settings are those of redis.conf; `unix => 1` stands for a unix socket and no port, and `clock`
# for a RateLimit::Clock that it goes by.
sub start_new ($class, %settings) {
    my $unix  = delete $settings{unix};
    my $clock = delete $settings{clock};
    my $self  = $class->new(
        auto_start => 0,
        timeout    => 10,
        conf       => {
            save       => '""',
            appendonly => 'no',
            ($unix ? (unixsocketperm => 777) : (bind => '127.0.0.1', port => empty_port())),
            %settings,
        },
    );
    chmod 0755, $self->tmpdir; # nginx's workers are nobody
    local %ENV = (%ENV, $clock ? $clock->environment : ());
    $self->start;
    return $self;
}

sub major_version () { return qx{redis-server --version} =~ /v=(\d+)/ ? $1 : die 'no redis-server' }

# As nginx's configuration names it: a socket by a way from the directory in which nginx runs, which is
# beside its own, see RateLimit::Nginx.
sub address ($self) {
    my $conf = $self->conf;
    return $conf->{port} ? "$conf->{bind}:$conf->{port}" : $conf->{unixsocket} =~ s{.*/(.*/)}{unix:/proc/self/cwd/../$1}r;
}

# A new connection, for the test's own questions.
sub client ($self, %options) {
    my $password = $self->conf->{requirepass};
    return Redis->new($self->connect_info, ($password ? (password => $password) : ()), %options);
}

sub end ($self, $signal) {
    my $pid = $self->pid or return;
    local $?;
    kill $signal, $pid;
    kill SIGCONT, $pid;
    if (!wait_until(sub { waitpid($pid, WNOHANG) != 0 })) { # as with a script that does not end
        kill SIGKILL, $pid;
        waitpid $pid, 0;
    }
    $self->pid(undef);
}

# Test::RedisServer's own asks Redis first, which one with a password refuses.
sub stop ($self, @) { $self->end(SIGTERM) }

sub kill_now ($self) { $self->end(SIGKILL) }

# On the same port; nothing is remembered.
sub restart ($self) {
    $self->kill_now;
    truncate $self->tmpdir . '/redis-server.log', 0; # where start() looks for readiness
    $self->start;
}

# All that was ever written, by single commands: only with `appendonly => 'yes'`.
sub written ($self) {
    return join '', map { RateLimit::Nginx::slurp($_) } glob $self->tmpdir . '/{*.aof,*/*.incr.aof}';
}

# The times of a sliding log's grants, microseconds, as its script wrote them.
sub grants ($self, $key) {
    return $self->written =~ /RPUSH\r\n\$\d+\r\n\Q$key\E\r\n\$\d+\r\n(\d+)\r\n/g;
}

# The states to which grants by the scripts of the other algorithms led, the numbers of each.
sub states ($self, $key) {
    my $written = $self->written;
    my @states;
    while ($written =~ /(?:SET|SETRANGE)\r\n\$\d+\r\n\Q$key\E\r\n(?:\$1\r\n(\d)\r\n)?\$(\d+)\r\n/g) {
        my ($offset, $size) = ($1, $2);
        my $state = defined $offset ? $states[-1] : '';
        substr $state, $offset // 0, $size, substr $written, pos $written, $size;
        push @states, $state;
    }
    return map { [ map { $_ == int ? sprintf '%d', $_ : $_ } unpack 'd*', $_ ] } @states;
}

# Lines of CLIENT LIST as hashes, of connections whose last command was such a one.
sub clients_that ($self, $commands) {
    my $client  = $self->conf->{requirepass} ? $self->client : $self->_redis;
    my @clients = map { +{ map { split /=/, $_, 2 } split ' ' } } split /\n/, $client->client('list');
    return grep { $_->{cmd} =~ /^(?:$commands)/ } @clients;
}

# The connections of nginx's workers for checks. Those for live limits send their scripts in full.
sub nginx_clients ($self) { return $self->clients_that(qr/evalsha|script/) }

# The connections over which hosts ask for what operators have changed.
sub followers ($self) { return $self->clients_that(qr/(?:get|time|hset)\b/) }

# All connections, without the one over which the test asks. Redis takes a while to forget one that is
# closed.
sub clients_of_others ($self) { return $self->_redis->info('clients')->{connected_clients} - 1 }

# How often scripts were called so far, by command: { eval => 1, evalsha => 2 }. The script with which a
# host registers its rules, now and then, does not count: each of its calls scans a hash once.
sub script_calls ($self) {
    my $stats = $self->client->info('commandstats');
    my %calls = map { $_ => ($stats->{"cmdstat_$_"} // '') =~ /calls=(\d+)/ ? $1 : 0 } qw(eval evalsha hscan);
    return { eval => $calls{eval} - $calls{hscan}, evalsha => $calls{evalsha} };
}

# How often scripts have read counters of fixed_window, gcra and its kin: once for each check, each
# lease and each return, whatever they share a call with.
sub counter_reads ($self) { return ($self->client->info('commandstats')->{cmdstat_get} // '') =~ /calls=(\d+)/ ? $1 : 0 }

# The units that a sliding log holds under this key.
sub taken ($self, $key) { return $self->client->llen($key) }

# Those of counters. Hosts also register their rules, in a key of the store of live limits.
sub keys ($self) { return sort grep { !/\{live\}:/ } $self->client->keys('*') }

sub freeze ($self) { RateLimit::Processes::freeze($self->pid) }
sub thaw ($self)   { kill SIGCONT, $self->pid }

1;
