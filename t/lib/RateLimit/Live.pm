package RateLimit::Live;

# Sets overrides in Redis, and waits until an nginx obeys them. Its location /marker has a rule
# `marker` of zone z, whose key is $arg_key, with a limit that is never reached.

use v5.36;
use RateLimit::Wait qw(wait_until);

sub new ($class, $store, $nginx) { return bless { store => $store, nginx => $nginx, markers => 0 }, $class }

# Hashes as those of RateLimit::LiveStore.
sub put    ($self, @overrides) { $self->{store}->put(%$_)    for @overrides; return $self->settle }
sub remove ($self, @targets)   { $self->{store}->remove(%$_) for @targets;   return $self->settle }
sub reset_key ($self, $zone, $key) { $self->{store}->reset_key($zone, $key); return $self->settle }

# Hosts take changes in their order: where this one holds, all before it do.
sub settle ($self) {
    my $marker = 'marker' . ++$self->{markers};
    $self->{store}->put(zone => 'z', key => $marker, rule => 'marker', ban => 1);
    return wait_until(sub { $self->{nginx}->get("/marker?key=$marker")->{status} == 429 }) || die "$marker does not come";
}

# So many overrides are in zone z for that.
sub markers ($self) { return $self->{markers} }

1;
