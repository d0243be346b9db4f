package Soak::Judge;

# Whether a site is, after an episode, as it was before, and what it did meanwhile.

use v5.36;
use RateLimit::Nginx;
use RateLimit::Wait qw(wait_until);
use Soak::Answers;
use Soak::Rules qw($permits $permits_window);
use Test::More;

# A worker that was stopped keeps its connection for live limits for 10 s, though another one asks.
my $longest_idle = 20;

sub new ($class, $site) {
    my $self = bless { site => $site }, $class;
    wait_until(sub { $site->redis->followers == 1 }) or die "no worker asks for live limits\n";
    $self->{clients} = $site->clients_of_redis;
    $self->{descriptors} = wait_until(sub { $self->even_descriptors }) or die "descriptors of workers: ${\$site->descriptors_of_workers}\n";
    return $self;
}

# How many descriptors a worker has where both have as many, but for the one for live limits. These may
# be more than there were: a connection of a client, at each.
sub even_descriptors ($self) {
    return $self->{site}->descriptors_of_workers =~ /^(\d+) (\d+)$/ && $2 == $1 + 1 && $1;
}

sub none ($what, @faults) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is(join("\n", @faults), '', $what);
}

# The load has ended with this result. Returns what there is to tell of it.
sub judge ($self, $episode, $result) {
    my $site = $self->{site};
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    $self->is_quiet;
    my $answers = Soak::Answers->new($site->new_lines('soak.log'));
    none('no 5xx', $answers->faults);
    cmp_ok($result->{broken}, '<=', 48 * $site->killed, "$result->{broken} requests without an answer");
    my @log = $self->judge_log;
    # What a worker that died was just writing is not known, and its client begins anew.
    $self->judge_grants($answers, $site->memories + grep { /was locked by/ } @log);
    $self->judge_permits($episode, $answers);
    $site->new_episode;
    return sprintf '%6d requests, %5d of them decided by Redis, %5d known denials, %5d by this host, %d without an answer',
        $result->{requests}, (map { $answers->count($_) } qw(redis deny_cache local)), $result->{broken};
}

# Nothing is left of what was going on.
sub is_quiet ($self) {
    my $site = $self->{site};
    ok(wait_until(sub { !$site->nginx->leaving_workers }), 'workers that were to leave have left');
    ok(wait_until(sub { $site->clients_of_redis == $self->{clients} }, $longest_idle), 'as many connections to Redis as at first');
    my $no_more = sub { my $now = $self->even_descriptors; $now && $now <= $self->{descriptors} && $now };
    my $least   = wait_until($no_more, $longest_idle);
    ok($least, "no more descriptors than $self->{descriptors}") or diag $site->descriptors_of_workers;
    $self->{descriptors} = $least || $self->{descriptors};
    ok(wait_until(sub { !$site->has_permits }, $permits_window + 3), 'no permit is taken');
}

sub judge_grants ($self, $answers, $memories) {
    my $ledger = $self->{site}->ledger;
    $ledger->read_on;
    none('Redis granted no more than the rules allow', $ledger->faults);
    none('nor did this host', $answers->local_faults($memories));
    cmp_ok($answers->granted_by_redis, '<=', $ledger->granted, 'Redis counted all that passed with its consent');
}

# By all that has counters: a Redis that forgets, or this host by itself, does not know of those that
# are in flight.
sub judge_permits ($self, $episode, $answers) {
    my $most = $self->{site}->upstream->take_most;
    return if $episode->{forgets} || $answers->has_local_permits;
    cmp_ok($most, '<=', $permits, "never more than $permits requests in flight: $most");
}

# Its new lines.
sub judge_log ($self) {
    my $expected = RateLimit::Nginx::ends_of_killed($self->{site}->killed, 'nobody');
    my @lines;
    my %fails;
    ok(wait_until(sub {
        for my $line (split /\n/, $self->{site}->new_lines('error.log')) {
            push @lines, $line;
            $fails{$1} = $2 eq 'fails' if $line =~ /\[error\] (\d+)#.* backend "default" .*(fails|works again)/;
        }
        return !grep { $fails{$_} } $self->{site}->nginx->workers;
    }), 'error.log has the end of each outage');
    none('and no alert', grep { !/$expected/ } grep { /\[(?:alert|crit|emerg)\]|Sanitizer|runtime error:|exited on signal/ } @lines);
    return @lines;
}

sub stop ($self) {
    my $site = $self->{site};
    $site->nginx->stop(expect => qr/exited on signal 9|was locked by/); # each was judged before
    ok(wait_until(sub { $site->clients_of_redis == $self->{clients} - 3 }), 'no connection to Redis is left');
}

1;
