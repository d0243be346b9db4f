package Bench::Accuracy;

# How many requests are granted of those that the limit allows, where clients of two hosts ask for
# more.

use v5.36;
use Bench::PacedClient qw(start_paced);
use Exporter 'import';
use JSON::PP qw(decode_json);
use List::Util qw(max min);
use POSIX qw(ceil floor);
use RateLimit::Nginx;
use RateLimit::Redis;
use Time::HiRes qw(time);

our @EXPORT_OK = qw(measure_accuracy @accuracy_loads @accuracy_windows $accuracy_limit);

our $accuracy_limit   = 500;            # a second
our @accuracy_loads   = (1.5, 3);       # of the limit
our @accuracy_windows = (1, 5, 10, 20); # seconds
my $warm_up           = 3;              # a bucket is full at first
my $measured          = 2 * max(@accuracy_windows);
my $hosts             = 2;
my $connections       = 256;            # of each client

my @algorithms = qw(fixed_window sliding_window sliding_log token_bucket);
my @paths      = map { ("/$_/off", "/$_/auto") } @algorithms;

sub name_of ($path) { return $path =~ s{^/}{}r }

sub location ($path) {
    my ($algorithm, $lease) = $path =~ m{/(\w+)/(\w+)};
    my $aligned = $algorithm eq 'fixed_window' ? 'aligned' : '';
    return "location $path { redis_rate_limit zone=z algorithm=$algorithm limit=$accuracy_limit window=1 $aligned lease=$lease name=${\name_of($path)}; empty_gif; }";
}

# Counts what is asked for and granted of one path.
sub new_counts () {
    return { asked => 0, granted => 0, windows => { map { $_ => [(0) x ($measured / $_)] } @accuracy_windows } };
}

# Times are seconds since the measurement began. A window of so many seconds has those grants that lie
# surely within it, because they were asked for and answered there.
sub count ($counts, $status, $sent, $answered) {
    return if $answered < 0 || $answered >= $measured;
    ++$counts->{asked};
    return if $status != 200;
    ++$counts->{granted};
    for my $seconds (@accuracy_windows) {
        my ($first, $last) = map { floor($_ / $seconds) } $sent, $answered;
        ++$counts->{windows}{$seconds}[$last] if $first == $last;
    }
}

# What each path has granted so far, and how much of that by leases.
sub grants_of (@nginx) {
    my %grants = map { $_ => { passed => 0, leased => 0 } } @paths;
    for my $rules (map { decode_json($_->get('/json')->{content})->{zones}{z}{rules} } @nginx) {
        for my $path (@paths) {
            my $rule = $rules->{ name_of($path) };
            $grants{$path}{passed} += $rule->{passed};
            $grants{$path}{leased} += $rule->{leases}{requests};
        }
    }
    return \%grants;
}

# The least and the most of windows that follow each other, of the limit.
sub extremes ($seconds, $counts) { return [map { $_ / $seconds / $accuracy_limit } min(@$counts), max(@$counts)] }

sub measure ($load, @nginx) {
    my $rate    = $load * $accuracy_limit * @paths / $hosts;
    my $begin   = ceil(time) + $warm_up;
    my @clients = map { start_paced($_, $rate, $warm_up + $measured + 2, $connections, @paths) } @nginx;
    my %counts  = map { $_ => new_counts() } @paths;
    my $before  = grants_of(@nginx);
    for my $client (@clients) {
        $client->each_answer(sub ($path, $status, $due, $sent, $answered) {
            count($counts{$path}, $status, $sent - $begin, $answered - $begin);
        });
    }
    my $now = grants_of(@nginx);
    return map {
        my $path = $_;
        my ($algorithm, $lease) = $path =~ m{/(\w+)/(\w+)};
        my ($counts, $windows)  = ($counts{$path}, $counts{$path}{windows});
        my ($passed, $leased)   = map { my $of = $_; $now->{$path}{$of} - $before->{$path}{$of} } qw(passed leased);
        {
            algorithm => $algorithm,
            lease     => $lease,
            load      => $load,
            leased    => $leased / $passed,
            windows   => { map { $_ => extremes($_, $windows->{$_}) } @accuracy_windows },
            map { $_ => $counts->{$_} / $measured / $accuracy_limit } qw(asked granted),
        };
    } @paths;
}

# Rows of { algorithm, lease, load, asked, granted, leased, windows => { 1 => [least, most] } }: shares
# of the limit, and what leases granted of all that was granted.
sub measure_accuracy () {
    my $redis     = RateLimit::Redis->start_new;
    my $locations = join "\n", map { location($_) } @paths;
    my @nginx     = map { RateLimit::Nginx->start_new(<<"END", workers => 2, log_level => 'error') } 1 .. $hosts;
access_log off;
keepalive_requests 1000000000;
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$uri zone=z:1m on_error=closed;
redis_rate_limit_headers off;
redis_rate_limit_log_level info;
server {
    listen %PORT% backlog=1024;
    location = /json { redis_rate_limit_metrics json; }
    $locations
}
END
    my @rows = map { measure($_, @nginx) } @accuracy_loads;
    $_->stop for @nginx;
    return \@rows;
}

1;
