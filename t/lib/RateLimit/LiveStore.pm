package RateLimit::LiveStore;

# What operators set, written straight into Redis by the script that the API runs.

use v5.36;
use RateLimit::Nginx;

my %script = map { $_ => RateLimit::Nginx::slurp("lua/live_$_.lua") } qw(write records rules);

# Under the keys of a backend of this prefix, in that Redis: RateLimit::Redis's client, or code that
# returns one, as for a cluster.
sub new ($class, $redis, $prefix = 'rl:') {
    return bless {
        redis => $redis,
        keys  => [map { "$prefix\{live}:$_" } qw(head log data expiry)],
        epoch => sprintf('%016x', 1 + int rand 2**52), # of a store that this makes: no two are one
    }, $class;
}

sub client ($self) { return ref $self->{redis} eq 'CODE' ? $self->{redis}->() : $self->{redis} }

# Of zone, key and rule, which may be '' or missing. Keys are as they are encoded.
sub name (%target) {
    my ($zone, $key, $rule) = map { $_ // '' } @target{qw(zone key rule)};
    return $key eq '' ? "R $zone $rule" : $rule eq '' ? "K $zone $key" : "KR $zone $key $rule";
}

sub words ($self, %override) {
    my $action = $override{ban} ? 'ban' : $override{exempt} ? 'exempt' : 'numbers';
    my $numbers = join ' ', map { $_ // '-' } @override{qw(limit burst)};
    return (name(%override), $action, $numbers, int(1e6 * ($override{expires_in} // 0)), 'test -', $self->{epoch}, '0 0');
}

# Runs lua/live_<name>.lua.
sub run ($self, $name, @words) { return $self->client->eval($script{$name}, @words) }

sub write_record ($self, @words) { return $self->run('write', 4, $self->{keys}->@*, @words) }

# ->put(zone => 'z', key => 'k', limit => 5), or ban => 1, exempt => 1, expires_in => 1.5
sub put ($self, %override) { return $self->write_record($self->words(%override)) }

sub remove ($self, %target) { return $self->write_record(name(%target), 'deleted', '- -', 0, 'test -', $self->{epoch}, '0 0') }

sub reset_key ($self, $zone, $key) {
    return $self->write_record("X $zone $key", 'reset', '- -', 0, 'test -', $self->{epoch}, '0 0');
}

# Many at once: a list of such hashes.
sub put_all ($self, @overrides) {
    my $client = $self->client;
    my $sha    = $client->script_load($script{write});
    while (my @some = splice @overrides, 0, 1000) {
        $client->evalsha($sha, 4, $self->{keys}->@*, $self->words($_->%*), sub { die $_[1] if defined $_[1] }) for @some;
        $client->wait_all_responses;
    }
}

1;
