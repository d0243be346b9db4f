package RateLimit::Sentinels;

# A master called `limits`, its replicas, and three Sentinels that watch them, all of the test's own.

use v5.36;
use File::Temp qw(tempdir);
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Process;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Redis;

# Options: replicas, how many (1), password, that of Redis, sentinel_password, and tls, a RateLimit::Certificates with one
# that is called `redis`: then all talk to each other by TLS, and to the test not.
sub start_new ($class, %options) {
    my $self = bless { dir => tempdir('sentinels-XXXXXXXX', TMPDIR => 1, CLEANUP => 1), sentinels => [], options => \%options }, $class;
    my $master = $self->start_redis;
    my @replicas = map { $self->start_redis(replicaof => '127.0.0.1 ' . $self->port_of($master)) } 1 .. $options{replicas} // 1;
    $self->{redis} = [$master, @replicas];
    $self->start_sentinel($_) for 1 .. 3;
    wait_until(sub { $self->is_settled }, 20) or die "the Sentinels do not find each other:\n", map { RateLimit::Nginx::slurp($_) } glob "$self->{dir}/*/output";
    return $self;
}

sub port_of ($self, $redis) { return $redis->conf->{ $self->{options}{tls} ? 'tls-port' : 'port' } }

# Settings by which a server shows its certificate, to those of its kind, too.
sub tls ($self) {
    my $certificates = $self->{options}{tls} // return ();
    return ($certificates->redis_settings('redis', empty_port(), 'tls-replication' => 'yes'));
}

sub start_redis ($self, %settings) {
    my $password = $self->{options}{password};
    my @password = $password ? (requirepass => $password, masterauth => $password) : ();
    return RateLimit::Redis->start_new($self->tls, @password, %settings);
}

sub start_sentinel ($self, $number) {
    my ($port, %tls) = (empty_port(), $self->tls);
    my ($password, $redis_password) = $self->{options}->@{qw(sentinel_password password)};
    my $settings = join "\n", (map { "$_ $tls{$_}" } sort keys %tls),
        ($redis_password ? "sentinel auth-pass limits $redis_password" : ()),
        ($password ? ("requirepass $password", "sentinel sentinel-pass $password") : ());
    my $dir  = "$self->{dir}/$number";
    mkdir $dir or die "$dir: $!";
    RateLimit::Nginx::write_file("$dir/sentinel.conf", <<"END");
bind 127.0.0.1
port $port
dir $dir
sentinel monitor limits 127.0.0.1 ${\$self->port_of($self->{redis}[0])} 2
sentinel down-after-milliseconds limits 500
sentinel failover-timeout limits 3000
$settings
END
    push $self->{sentinels}->@*, {
        port    => $port,
        public  => $tls{'tls-port'} // $port,
        process => RateLimit::Process->execute("$dir/output", 'redis-server', "$dir/sentinel.conf", '--sentinel'),
    };
}

# All know the replicas, and each other, which takes two seconds.
sub is_settled ($self) {
    my $others   = $self->{sentinels}->@* - 1;
    my $replicas = $self->{redis}->@* - 1;
    for my $number (0 .. $others) {
        my %master = eval { $self->ask($number, 'master', 'limits')->@* } or return 0;
        return 0 if $master{'num-other-sentinels'} != $others || $master{'num-slaves'} != $replicas;
    }
    return 1;
}

sub client ($self, $number) {
    my $password = $self->{options}{sentinel_password};
    return Redis->new(
        server       => "127.0.0.1:$self->{sentinels}[$number]{port}",
        cnx_timeout  => 1,
        read_timeout => 1,
        ($password ? (password => $password) : ()),
    );
}

sub ask ($self, $number, @words) {
    return $self->client($number)->sentinel(@words);
}

# Lines of a backend block.
sub servers ($self) {
    return join ' ', map { "server 127.0.0.1:$_->{public};" } $self->{sentinels}->@*;
}

sub redis ($self, $number) { return $self->{redis}[$number] }

# The redis-server that a Sentinel takes for the master.
sub master ($self, $number = 0) {
    my $address = eval { $self->ask($number, 'get-master-addr-by-name', 'limits') } or return;
    my ($found) = grep { $self->port_of($_) == $address->[1] } $self->{redis}->@*;
    return $found;
}

1;
