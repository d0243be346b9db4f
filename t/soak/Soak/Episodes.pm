package Soak::Episodes;

# What happens to a site, under load, one after another.

use v5.36;
use Exporter 'import';
use RateLimit::Client;
use RateLimit::Load qw(start_requests);
use Time::HiRes qw(sleep);

our @EXPORT_OK = qw(between @warm_up @of_redis @of_nginx);

# By chance, like all times here: they are the faults themselves, nothing is waited for.
sub between ($least, $most) { return $least + rand($most - $least) }

# So often, with pauses.
sub repeat ($times, $longest_pause, $code) {
    for (1 .. $times) {
        $code->();
        sleep between(0, $longest_pause);
    }
}

sub while_redis_is_down ($site, $code) {
    $site->redis->kill_now;
    sleep between(0, 1);
    $code->($site);
    $site->redis->restart;
}

sub while_redis_stands_still ($site, $code) {
    $site->redis->freeze;
    sleep between(0, 1);
    $code->($site);
    $site->redis->thaw;
}

# Clients that send a request each and go away, most of them before they have an answer; half of
# them so that nginx knows of it.
sub leave ($site) {
    my @paths = qw(/log /permits /paced /several);
    repeat(40, 0.02, sub {
        my @clients = map { RateLimit::Client->new($site->nginx)->send("GET $paths[rand @paths]?key=c1 HTTP/1.1\r\nHost: a\r\n\r\n") } 1 .. 10;
        sleep between(0, 0.02);
        $_->reset for splice @clients, 0, 5;
        $_->close for @clients;
    });
}

# Floods get all of their answers, too.
sub flood ($site, $path) { must_be_answered(start_requests($site->nginx->url($path), 20_000, connections => 32)) }

sub must_be_answered ($load) {
    my $result = $load->finish;
    die "$result->{broken} requests of a flood without an answer\n" if $result->{broken};
}

sub speak_http2 ($site) {
    my $url = $site->nginx->url('/several?key=c1', '127.0.0.2');
    my ($whole, $cut) = map { start_requests($url, $_, connections => 4, streams => 32) } 5000, 1_000_000;
    must_be_answered($whole);
    $cut->kill_now;
}

# All of its streams wait at once.
sub wait_by_http2 ($site) {
    my $load = start_requests($site->nginx->url('/both?key=c1', '127.0.0.2'), 1_000_000, connections => 8, streams => 32);
    sleep between(0.5, 1);
    while_redis_stands_still($site, sub ($) { sleep 0.2 });
    $load->kill_now;
}

sub kill_workers ($site) { repeat(10, 0.2, sub { $site->kill_worker }) }

sub reload ($site, $change) {
    repeat(10, 0.1, sub {
        $change->();
        $site->reload;
    });
}

sub turn_zones ($site) { reload($site, sub { $site->turn_zones }) }

sub upgrade ($site) {
    $site->start_successor;
    sleep between(0, 0.5);
    $site->nginx->retire;
    sleep between(0, 0.5);
    $site->nginx->give_way;
}

sub take_upgrade_back ($site) {
    $site->start_successor;
    $site->nginx->retire;
    sleep between(0, 0.5);
    $site->nginx->take_back;
}

# Each: what it is called, what it does, and whether it `forgets` what Redis had counted.
sub episode ($name, $code, %is) { return { name => $name, code => $code, %is } }

my @floods = (
    episode('a flood of requests of one client',   sub ($site) { flood($site, '/one') }),
    episode('a flood of requests of many clients', sub ($site) { flood($site, '/many') }),
);

my $http2 = episode('HTTP/2 while Redis stands still', \&wait_by_http2);
my $still = episode('Redis stands still', sub ($site) { while_redis_stands_still($site, sub ($) { sleep between(0, 3) }) });

our @of_redis = (
    $still,
    $http2,
    @floods,
    episode('HTTP/2', \&speak_http2),
    episode('Redis is killed', sub ($site) { while_redis_is_down($site, sub ($) { sleep between(0, 2) }) }),
    episode('Redis is killed and comes back empty', sub ($site) { $site->restart_redis_empty }, forgets => 1),
    episode('Redis stalls again and again', sub ($site) {
        repeat(8, 0.3, sub { $site->redis->freeze; sleep between(0.02, 0.3); $site->redis->thaw });
    }),
    episode('connections to Redis are cut', sub ($site) {
        my $client = $site->redis->client;
        repeat(10, 0.3, sub { $client->client('kill', 'id', $_->{id}) for $site->redis->nginx_clients });
    }),
    episode('scripts are flushed', sub ($site) {
        my $client = $site->redis->client;
        repeat(40, 0.05, sub { $client->script_flush });
    }),
    episode('counters are flushed', sub ($site) {
        my $client = $site->redis->client;
        repeat(3, 0.5, sub { $client->flushall });
    }, forgets => 1),
    episode('clients go away', \&leave),
    episode('clients go away while Redis stands still', sub ($site) { while_redis_stands_still($site, \&leave) }),
);

our @of_nginx = (
    episode('reloads that turn the zones round',    \&turn_zones),
    episode('reloads that give zones other memory', sub ($site) { reload($site, sub { $site->resize_zones }) }),
    episode('reloads while Redis is down',          sub ($site) { while_redis_is_down($site, \&turn_zones) }),
    episode('reloads while Redis stands still',     sub ($site) { while_redis_stands_still($site, \&turn_zones) }),
    episode('workers are killed',                    \&kill_workers),
    episode('workers are killed while Redis is down', sub ($site) { while_redis_is_down($site, \&kill_workers) }),
    episode('a binary upgrade',                      \&upgrade),
    episode('a binary upgrade while Redis stands still', sub ($site) { while_redis_stands_still($site, \&upgrade) }),
    episode('a binary upgrade that is taken back',   \&take_upgrade_back),
);

# What takes most memory. Later a worker may accept all of the connections by chance, so each does
# here.
our @warm_up = map {
    my $episode = $_;
    episode("$episode->{name}, each worker alone", sub ($site) { $site->each_worker_alone(sub { $episode->{code}->($site) }) });
} @floods, $http2, $still;

1;
