# The promise of leases: no client gets more than the rule, whatever happens to the hosts that lease.
# Judged by the instants between which each request was asked and answered.

use v5.36;
use lib 't/lib';
use File::Temp qw(tempdir);
use POSIX qw(ceil);
use RateLimit::Grants qw(most_within per_window start_clients);
use RateLimit::Nginx;
use RateLimit::Processes qw(freeze);
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep time);

my $hosts   = $ENV{LEASES_HOSTS}   // 2;
my $seconds = $ENV{LEASES_SECONDS} // 8;
my $redis   = RateLimit::Redis->start_new;

# Two rules of each kind: with the time of leases that `auto` gives, and with a long one.
my %rules;
for my $lease (qw(auto 250ms)) {
    $rules{"/log-$lease"}    = "algorithm=sliding_log limit=400 window=1 lease=$lease";
    $rules{"/bucket-$lease"} = "algorithm=token_bucket limit=400 burst=400 window=1 lease=$lease";
    $rules{"/gcra-$lease"}   = "algorithm=gcra limit=400 burst=399 window=1 lease=$lease";
    $rules{"/window-$lease"} = "algorithm=fixed_window limit=400 window=1 aligned lease=$lease";
    $rules{"/slide-$lease"}  = "algorithm=sliding_window limit=400 window=1 lease=$lease";
}
my @paths     = sort keys %rules;
my $locations = join '', map { "location $_ { redis_rate_limit zone=z $rules{$_} name=${\substr $_, 1}; empty_gif; }\n" } @paths;

my @nginx = map { RateLimit::Nginx->start_new(<<"END", workers => 2, daemon => 1, log_level => 'notice') } 1 .. $hosts;
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$uri zone=z:1m on_error=closed;
redis_rate_limit_log_level info;
add_header X-Source \$redis_rate_limit_source always;
keepalive_requests 1000000;
server {
    listen %PORT%;
    $locations
}
END

# Asks all paths of all hosts for so long, while `disturb` is called again and again.
sub run ($name, $disturb) {
    my $directory = tempdir(CLEANUP => 1);
    my $clients   = start_clients($directory, 3, \@paths, @nginx);
    my $until     = time + $seconds;
    while (time < $until) {
        $disturb->();
        sleep 0.3;
    }
    my ($grants, $asked) = $clients->finish;
    subtest $name => sub {
        for my $path (@paths) {
            my @grants = ($grants->{$path} // [])->@*;
            my $leased = grep { $_->[2] eq 'lease' } @grants;
            note sprintf '%-14s %5d of %5d requests granted, %5d by leases', $path, scalar @grants, $asked->{$path}, $leased;
            if ($path =~ /log/) {
                cmp_ok(most_within(1, @grants), '<=', 400, "$path: any window");
            } elsif ($path =~ /window/) {
                cmp_ok(per_window(1, @grants), '<=', 400, "$path: each window");
            } elsif ($path =~ /slide/) {
                cmp_ok(most_within(1, @grants), '<=', 799, "$path: any window");
            } else {
                cmp_ok(most_within($_, @grants), '<=', 399 + ceil($_ * 400), "$path: any $_ s") for 0.1, 0.5, 1, 2;
            }
            cmp_ok($leased, '>', 50, "$path: leases took part");
        }
    };
}

run('nothing else', sub { });

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
    sub ($nginx) { $redis->freeze; sleep 0.1; $redis->thaw },
    sub ($nginx) { $nginx->reload },
    sub ($nginx) { $nginx->upgrade if !$upgraded{$nginx}++ },
    sub ($nginx) { $redis->client->script('flush') },
);
run(
    'with faults',
    sub {
        my $nginx = $nginx[ $turn % @nginx ];
        $disturbances[ $turn++ % @disturbances ]->($nginx);
        wait_until(sub { $nginx->workers == 2 }) or die 'no workers';
    }
);
$_->stop(expect => RateLimit::Nginx::ends_of_killed(@killed)) for @nginx;
done_testing;
