package RateLimit::Cluster;

# A Redis Cluster of the test's own: masters at 127.0.0.11, .12 and so on, and a replica of each.

use v5.36;
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);

my $first_address = 11;

# Options: masters (3 or more, or 1), replicas (0 or 1, of each), address, of all nodes, password, tls, a
# RateLimit::Certificates with one that is called `redis`: then nodes talk by TLS; settings, of all.
sub start_new ($class, %options) {
    my $self = bless { masters => 3, replicas => 1, nodes => [], %options }, $class;
    $self->start_node for 1 .. $self->{masters} * (1 + $self->{replicas});
    if ($self->{masters} == 1) {
        $self->{nodes}[0]->client->cluster('addslotsrange', 0, 16_383);
    } else {
        $self->cli('create', (map { $self->address_of($_) } $self->{nodes}->@*), '--cluster-replicas', $self->{replicas});
    }
    $self->wait_until_settled;
    return $self;
}

# One that is of no cluster yet.
sub start_node ($self) {
    my $address  = $self->{address} // '127.0.0.' . ($first_address + $self->{nodes}->@*);
    my $password = $self->{password};
    my $node     = RateLimit::Redis->start_new(
        bind                    => $address,
        port                    => empty_port($address),
        'cluster-enabled'       => 'yes',
        'cluster-announce-ip'   => $address, # others see a connection from 127.0.0.1
        'cluster-node-timeout'  => 1000,
        'cluster-replica-validity-factor' => 0,
        'cluster-require-full-coverage'   => 'no',
        'cluster-allow-replica-migration' => 'no',
        ($password ? (requirepass => $password, masterauth => $password) : ()),
        $self->tls($address),
        ($self->{settings} // {})->%*,
    );
    $self->{ids}{$node} = $node->client->cluster('myid');
    push $self->{nodes}->@*, $node;
    return $node;
}

sub tls ($self, $address) {
    my $certificates = $self->{tls} // return ();
    return $certificates->redis_settings(
        'redis',           empty_port($address),
        'tls-replication' => 'yes',
        'tls-cluster'     => 'yes',
    );
}

# As clients reach it.
sub address_of ($self, $node) {
    my $conf = $node->conf;
    return "$conf->{bind}:" . $conf->{ $self->{tls} ? 'tls-port' : 'port' };
}

# redis-cli's commands for clusters. Returns what it says.
sub cli ($self, $command, @arguments) {
    my @tls      = $self->{tls} ? ('--tls', '--cacert', $self->{tls}->certificate('authority')) : ();
    my @password = $self->{password} ? ('--no-auth-warning', '-a', $self->{password}) : ();
    open my $said, '-|', 'redis-cli', @tls, @password, '--cluster', $command, @arguments, '--cluster-yes' or die "redis-cli: $!";
    my $text = do { local $/; <$said> };
    close $said or die "redis-cli --cluster $command: $text";
    return $text;
}

# One that serves nothing yet.
sub add_master ($self) {
    my $node = $self->start_node;
    $self->cli('add-node', $self->address_of($node), $self->address_of($self->{nodes}[0]));
    $self->wait_until_settled;
    return $node;
}

# One that serves nothing any more.
sub remove_node ($self, $node) {
    my $id = $self->id_of($node);
    $self->{nodes} = [grep { $_ != $node } $self->{nodes}->@*];
    $self->cli('del-node', $self->address_of($self->{nodes}[0]), $id);
    $node->stop;
}

sub move_slots ($self, $count, $from, $to) {
    $self->cli('reshard', $self->address_of($to), '--cluster-from', $self->id_of($from),
        '--cluster-to', $self->id_of($to), '--cluster-slots', $count);
}

sub nodes ($self) { return $self->{nodes}->@* }

# Lines of a backend block.
sub servers ($self) {
    return join ' ', map { 'server ' . $self->address_of($_) . ';' } $self->{nodes}->@*;
}

# All that run know that all keys are served, and who serves them.
sub wait_until_settled ($self) {
    my $is_settled = sub {
        my %maps;
        for my $node (grep { $_->pid } $self->{nodes}->@*) {
            my $client = eval { $node->client } or return 0;
            next if $client->info('cluster')->{cluster_enabled} != 1;
            return 0 if $client->cluster('info') !~ /^cluster_state:ok/;
            $maps{ join ' ', sort map { "$_->[0]-$_->[1] $_->[2][2] " . ($_->@* - 3) } $client->cluster('slots')->@* } = 1;
        }
        return keys %maps == 1;
    };
    return wait_until($is_settled, 30) // die 'the cluster does not settle';
}

# As nodes call each other, whatever their addresses.
sub id_of ($self, $node) { return $self->{ids}{$node} }

# The ranges of hash slots with who serves them, as a node that runs says.
sub ranges ($self) {
    my ($running) = grep { $_->pid } $self->{nodes}->@*;
    return $running->client->cluster('slots')->@*;
}

sub node_of_id ($self, $id) {
    my ($node) = grep { $self->id_of($_) eq $id } $self->{nodes}->@*;
    return $node;
}

sub master_of_slot ($self, $slot) {
    my ($range) = grep { $_->[0] <= $slot && $slot <= $_->[1] } $self->ranges or return;
    return $self->node_of_id($range->[2][2]);
}

# From its master to another, in three steps: begin_move(), move_keys() and end_move().
sub begin_move ($self, $slot, $to) {
    my $from = $self->master_of_slot($slot);
    $to->client->cluster('setslot', $slot, 'importing', $self->id_of($from));
    $from->client->cluster('setslot', $slot, 'migrating', $self->id_of($to));
    return { slot => $slot, from => $from, to => $to };
}

# Some keys of the hash slot, or all that it has.
sub move_keys ($self, $move, @keys) {
    my $client   = $move->{from}->client;
    @keys        = $client->cluster('getkeysinslot', $move->{slot}, 1000)->@* if !@keys;
    my @password = $self->{password} ? ('auth', $self->{password}) : ();
    $client->migrate(split(/:/, $self->address_of($move->{to})), '', 0, 5000, @password, 'keys', @keys) if @keys;
}

sub end_move ($self, $move) {
    $_->client->cluster('setslot', $move->{slot}, 'node', $self->id_of($move->{to})) for $move->@{qw(to from)};
    my $is_moved = sub { ($self->master_of_slot($move->{slot}) // 0) == $move->{to} }; # another node hears of it from these
    wait_until($is_moved, 30) // die 'the hash slot does not move';
}

sub slot_of ($self, $key) {
    my ($running) = grep { $_->pid } $self->{nodes}->@*;
    return $running->client->cluster('keyslot', $key);
}

sub master_of ($self, $key) { return $self->master_of_slot($self->slot_of($key)) }

sub masters ($self) {
    my %is_master = map { ($_->[2][2] => 1) } $self->ranges;
    return grep { $is_master{ $self->id_of($_) } } $self->{nodes}->@*;
}

1;
