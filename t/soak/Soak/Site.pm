package Soak::Site;

# What is under the soak: nginx with two workers, a Redis that keeps what it counted, and an
# upstream. All policies let requests pass or deny them: no fault is a reason for a 5xx.

use v5.36;
use File::Path qw(remove_tree);
use RateLimit::Load;
use RateLimit::Nginx;
use RateLimit::Processes qw(descriptors freeze);
use RateLimit::Redis;
use RateLimit::Upstream;
use RateLimit::Wait qw(wait_until);
use Soak::Ledger;
use Soak::Rules qw(%judged $limit $window $permits $permits_window);
use Soak::Tail;

my $workers = 2;

# Paths of the steady load.
my @paths = map { "/$_" } (sort keys %judged), qw(both turned several permits paced open trial);

sub start_new ($class) {
    my $self = bless {
        redis    => RateLimit::Redis->start_new(appendonly => 'yes', appendfsync => 'no', 'auto-aof-rewrite-percentage' => 0),
        upstream => RateLimit::Upstream->start_new(seconds => 0.005),
    }, $class;
    $self->{zones} = [ ['a', '1m'], ['b', '1m'] ];
    $self->{nginx} = RateLimit::Nginx->start_new($self->configuration, workers => $workers, daemon => 1, log_level => 'notice');
    $self->{ledger} = Soak::Ledger->new($self->{redis});
    $self->{logs}   = { map { $_ => Soak::Tail->new($self->{nginx}->dir . "/$_") } qw(soak.log error.log) };
    $self->decides_by_redis or die "Redis does not decide\n";
    $self->new_episode;
    return $self;
}

sub nginx ($self)    { return $self->{nginx} }
sub redis ($self)    { return $self->{redis} }
sub upstream ($self) { return $self->{upstream} }
sub ledger ($self)   { return $self->{ledger} }

# What the log of this name says since the last asking.
sub new_lines ($self, $log) { return $self->{logs}{$log}->read_on }

# Forgets what was done to it: workers that were `killed`, and how many `memories` zones had.
sub new_episode ($self) { $self->@{qw(killed memories)} = ([], 1) }
sub killed ($self)      { return $self->{killed}->@* }
sub memories ($self)    { return $self->{memories} }

# The zones in the order and of the sizes that they have now.
sub configuration ($self) {
    my @both = map { "redis_rate_limit zone=$_ algorithm=fixed_window limit=1000000 window=60;" } qw(a b);
    my $pass = "proxy_pass ${\$self->{upstream}->url}";
    return <<"END";
log_format soak '\$msec \$status \$redis_rate_limit_source \$uri \$arg_key';
map \$status \$is_fault { default 0; ~^5 1; }
redis_rate_limit_backend default { server ${\$self->{redis}->address}; }
@{[ map { "redis_rate_limit_zone \$arg_key zone=$_->[0]:$_->[1];" } $self->{zones}->@* ]}
redis_rate_limit_zone \$arg_key    zone=open:1m on_error=open;
redis_rate_limit_zone \$request_id zone=unique:1m;
redis_rate_limit_zone \$uri        zone=permits:1m;
redis_rate_limit_log_level info;
add_header X-Source \$redis_rate_limit_source always;
server {
    access_log %DIR%/soak.log soak;
    listen %PORT%;
    listen 127.0.0.2:%PORT% http2;
    keepalive_requests 1000000;
    @{[ map { "location = /$_ { redis_rate_limit zone=a $judged{$_} limit=$limit window=${window}s name=$_; empty_gif; }\n" } sort keys %judged ]}
    location = /both    { @both empty_gif; }
    location = /turned  { @{[ reverse @both ]} empty_gif; }
    location = /several {
        redis_rate_limit zone=a algorithm=gcra           limit=100 window=1 burst=50 name=even;
        redis_rate_limit zone=b algorithm=sliding_log    limit=50  window=1 name=exact;
        redis_rate_limit zone=b algorithm=sliding_window limit=500 window=10 name=later phase=precontent;
        empty_gif;
    }
    location = /permits  { redis_rate_limit zone=permits algorithm=concurrency limit=$permits window=${permits_window}s; $pass; }
    location = /paced  { redis_rate_limit zone=b algorithm=leaky_bucket limit=50 window=1 burst=100 name=paced; empty_gif; }
    location = /open   { redis_rate_limit zone=open algorithm=sliding_log limit=100 window=1; empty_gif; }
    location = /trial  { redis_rate_limit zone=b algorithm=token_bucket limit=10 window=1 name=trial dry_run; empty_gif; }
    location = /probe  { redis_rate_limit zone=b algorithm=fixed_window limit=1000000 window=60 name=probe; empty_gif; }
    location = /one    { access_log %DIR%/soak.log soak if=\$is_fault; redis_rate_limit zone=b algorithm=gcra limit=100 window=1 burst=100 name=one; empty_gif; }
    location = /many   { access_log %DIR%/soak.log soak if=\$is_fault; redis_rate_limit zone=unique algorithm=gcra limit=1 window=1; empty_gif; }
}
END
}

# Requests of four clients for everything, each on a connection of its own.
sub start_load ($self, $seed) {
    return RateLimit::Load::start_load($self->{nginx}->url(''), connections => 48, close => 1,
        script => [ 't/soak/mix.lua', $seed, 40, 4, @paths ]);
}

# --- how it is

sub clients_of_redis ($self) { return $self->{redis}->client->info('clients')->{connected_clients} }

sub descriptors_of_workers ($self) { return join ' ', sort { $a <=> $b } map { descriptors($_) } $self->{nginx}->workers }

# Those of a worker that was killed are there for the rest of their window.
sub has_permits ($self) {
    my $client = $self->{redis}->client;
    my ($seconds, $microseconds) = $client->time->@*;
    return $client->zcount('rl:{permits:/permits}:concurrency:' . 1000 * $permits_window, 1_000_000 * $seconds + $microseconds, '+inf');
}

# Of each worker: requests of many connections reach both.
sub decides_by_redis ($self, $seconds = 5) {
    my $decides = sub { !grep { ($self->{nginx}->get('/probe?key=probe')->{headers}{'x-source'} // '') ne 'redis' } 1 .. 20 };
    return wait_until($decides, $seconds);
}

# --- what happens to it

# On the same port, without what it had counted.
sub restart_redis_empty ($self) {
    $self->{redis}->kill_now;
    $self->{ledger}->read_on;
    $self->{ledger}->forget;
    remove_tree($self->{redis}->tmpdir . '/appendonlydir');
    $self->{redis}->restart;
}

sub reload ($self) {
    $self->{nginx}->configure($self->configuration);
    $self->{nginx}->reload;
}

sub turn_zones ($self) { $self->{zones} = [ reverse $self->{zones}->@* ] }

# Another size: another memory.
sub resize_zones ($self) {
    $_->[1] = $_->[1] eq '1m' ? '2m' : '1m' for $self->{zones}->@*;
    ++$self->{memories};
}

sub start_successor ($self) {
    $self->{nginx}->start_successor;
    ++$self->{memories};
}

# New connections are all its own.
sub each_worker_alone ($self, $code) {
    my @workers = $self->{nginx}->workers;
    for my $alone (@workers) {
        my @others = grep { $_ != $alone } @workers;
        freeze($_) for @others;
        $code->();
        kill CONT => @others;
    }
}

sub kill_worker ($self) {
    my @workers = $self->{nginx}->workers;
    my $victim  = $workers[ rand @workers ];
    kill KILL => $victim;
    wait_until(sub { my @now = $self->{nginx}->workers; @now == $workers && !grep { $_ == $victim } @now })
        or die "$victim is not replaced\n";
    push $self->{killed}->@*, $victim;
}

1;
