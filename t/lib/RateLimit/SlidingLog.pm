package RateLimit::SlidingLog;

# lua/sliding_log.lua, asked directly as the module asks it: EVALSHA with limit, window and time
# to live.

use v5.36;
use RateLimit::Nginx;

sub new ($class, $redis) {
    my $source = RateLimit::Nginx::slurp('lua/sliding_log.lua') || die 'lua/sliding_log.lua';
    return bless { redis => $redis, sha1 => $redis->script_load($source) }, $class;
}

# The script's four numbers. The window is in microseconds, a multiple of 1000.
sub ask ($self, $key, $limit, $window) {
    return $self->{redis}->evalsha($self->words($key, $limit, $window))->@*;
}

sub words ($self, $key, $limit, $window) {
    return ($self->{sha1}, 1, $key, $limit, $window, $window / 1000 + 5001);
}

# So many checks in one write; returns nothing.
sub ask_often ($self, $count, @of) {
    my @words = $self->words(@of);
    for (1 .. $count) {
        $self->{redis}->evalsha(@words, sub { });
        $self->{redis}->wait_all_responses if $_ % 1000 == 0;
    }
    $self->{redis}->wait_all_responses;
}

1;
