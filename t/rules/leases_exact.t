# The promise of leases: no client gets more than the rule, whatever happens to the hosts that lease.
# Judged by the instant of each grant, in microseconds, merged over all hosts.

use v5.36;
use lib 't/lib';
use File::Temp qw(tempdir);
use RateLimit::Grants qw(most_above_bucket most_within per_window start_clients);
use RateLimit::Nginx;
use RateLimit::Processes qw(freeze);
use RateLimit::Sentinels;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep time);

my $hosts     = $ENV{LEASES_HOSTS}   // 2;
my $seconds   = $ENV{LEASES_SECONDS} // 6;
my $sentinels = RateLimit::Sentinels->start_new;

my ($limit, $window_us) = (400, 1_000_000);

# Two rules of each kind: with the time of leases that `auto` gives, and with a long one.
my %rules;
for my $lease (qw(auto 250ms)) {
    $rules{"/log-$lease"}    = "algorithm=sliding_log limit=$limit window=1 lease=$lease";
    $rules{"/bucket-$lease"} = "algorithm=token_bucket limit=$limit burst=$limit window=1 lease=$lease";
    $rules{"/gcra-$lease"}   = "algorithm=gcra limit=$limit burst=${\($limit - 1)} window=1 lease=$lease";
    $rules{"/window-$lease"} = "algorithm=fixed_window limit=$limit window=1 aligned lease=$lease";
    $rules{"/slide-$lease"}  = "algorithm=sliding_window limit=$limit window=1 lease=$lease";
}
my @paths     = sort keys %rules;
my $locations = join '', map { "location $_ { redis_rate_limit zone=z $rules{$_} name=${\substr $_, 1}; empty_gif; }\n" } @paths;

my @nginx = map { RateLimit::Nginx->start_new(<<"END", workers => 2, daemon => 1, log_level => 'notice') } 1 .. $hosts;
redis_rate_limit_backend default { mode sentinel; sentinel_master limits; ${\$sentinels->servers} connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$uri zone=z:1m on_error=closed;
redis_rate_limit_log_level info;
add_header X-Source \$redis_rate_limit_source always;
add_header X-Decided \$redis_rate_limit_decided always;
keepalive_requests 1000000;
server {
    listen %PORT%;
    $locations
}
END

# Asks all paths of all hosts while `disturb` goes on. Returns what was granted, and how many were asked.
sub load ($disturb) {
    my $directory = tempdir(CLEANUP => 1);
    my $clients   = start_clients($directory, 3, \@paths, @nginx);
    $disturb->();
    return $clients->finish;
}

# Calls `disturb` again and again.
sub for_some_time ($disturb) {
    my $until = time + $seconds;
    while (time < $until) {
        $disturb->();
        sleep 0.3;
    }
}

# No client got more than so many quotas of its rule. An instant may be a microsecond or two off, which
# is less than a hundredth of the time of a bucket's unit.
sub keeps_promise ($path, $quotas, @grants) {
    my $most = $quotas * $limit;
    if ($path =~ /log/) {
        cmp_ok(most_within($window_us, @grants), '<=', $most, "$path: any window");
    } elsif ($path =~ /window/) {
        cmp_ok(per_window($window_us, @grants), '<=', $most, "$path: each window");
    } elsif ($path =~ /slide/) {
        cmp_ok(most_within($window_us, @grants), '<=', 2 * $most - 1, "$path: any window");
    } else {
        cmp_ok(most_above_bucket($most, $window_us / $limit, @grants), '<', 0.01, "$path: any time");
    }
}

my %leased; # grants of each path
sub judge ($name, $quotas, $grants, $asked) {
    subtest $name => sub {
        for my $path (@paths) {
            my @grants = ($grants->{$path} // [])->@*;
            my $leased = grep { $_->[1] eq 'lease' } @grants;
            note sprintf '%-14s %5d of %5d requests granted, %5d by leases', $path, scalar @grants, $asked->{$path}, $leased;
            keeps_promise($path, $quotas, @grants);
            $leased{$path} += $leased;
        }
    };
}

judge('nothing else', 1, load(sub { for_some_time(sub { }) }));

my $turn = 0;
my %upgraded;
my @killed;
my @disturbances = (
    sub ($nginx) {
        my ($worker) = $nginx->workers;
        push @killed, $worker;
        kill KILL => $worker;
        wait_until(sub { RateLimit::Nginx::is_gone($worker) });
    },
    sub ($nginx) {
        my ($worker) = $nginx->workers;
        freeze($worker);
        sleep 0.1;
        kill CONT => $worker;
    },
    sub ($nginx) { # for less time than it takes the Sentinels to give it up
        my $redis = $sentinels->master;
        $redis->freeze;
        sleep 0.1;
        $redis->thaw;
    },
    sub ($nginx) { $nginx->reload },
    sub ($nginx) { $nginx->upgrade if !$upgraded{$nginx}++ },
    sub ($nginx) { $sentinels->master->client->script('flush') },
);
sub disturb () {
    my $nginx = $nginx[ $turn % @nginx ];
    $disturbances[ $turn++ % @disturbances ]->($nginx);
    wait_until(sub { $nginx->workers == 2 }) or die 'no workers';
}
judge('with faults', 1, load(sub { for_some_time(\&disturb) }));

# What the old master had not told its replica is lost with it: at most one quota.
sub fail_over () {
    my $old = $sentinels->master;
    $old->kill_now;
    my $new = wait_until(sub { my $now = $sentinels->master; $now && $now != $old && $now }, 20) or die 'no failover';
    wait_until(sub { $new->client->info('replication')->{role} eq 'master' }) or die 'the new master is none';
    for_some_time(sub { });
}
judge('a master that dies', 2, load(\&fail_over));

# How many, the machine's speed says.
cmp_ok($leased{$_}, '>', 0, "$_: leases took part") for @paths;

$_->stop(expect => RateLimit::Nginx::ends_of_killed(@killed)) for @nginx;
done_testing;
