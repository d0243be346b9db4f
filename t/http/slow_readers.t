# Clients that do not read what the module's own pages answer, or read it slowly, or leave meanwhile: the
# answer is finished where it can be, and no connection stays behind.

use v5.36;
use lib 't/lib';
use IO::Socket::INET;
use JSON::PP qw(decode_json);
use RateLimit::Api qw(query);
use RateLimit::Client;
use RateLimit::Http2;
use RateLimit::LiveStore;
use RateLimit::Nginx;
use RateLimit::Processes qw(descriptors);
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Socket qw(SOL_SOCKET SO_RCVBUF);
use Test::More;

my $redis = RateLimit::Redis->start_new;

# So many rules with so long names that each answer is long.
my @names    = map { 'x' x 60 . $_ } 100 .. 199;
my @rules    = map { "redis_rate_limit zone=z algorithm=fixed_window limit=0 window=1h name=$_;" } @names;
my $limited  = join "\n", map { "location /$_ { @rules[10 * $_ .. 10 * $_ + 9] }" } 0 .. 9; # a location has 12 at most
my $over_h2  = '127.0.0.2';
my $narrow   = '127.0.0.3';
my $nginx    = RateLimit::Nginx->start_new(<<"END", connections => 2048);
redis_rate_limit_backend default { server ${\$redis->address}; }
redis_rate_limit_zone \$arg_key zone=z:2m deny_cache=off;
server {
    listen 127.0.0.1:%PORT%;
    listen $over_h2:%PORT% http2;
    listen $narrow:%PORT% sndbuf=4k;
    redis_rate_limit_problem on;
    redis_rate_limit_log_level info;
    redis_rate_limit_headers off;
    $limited
    location /api/ { redis_rate_limit_api write; }
    location /dashboard/ { redis_rate_limit_dashboard api=/api/; }
    location = /metrics { redis_rate_limit_metrics; }
    location = /json { redis_rate_limit_metrics json; }
}
END
my ($worker) = $nginx->workers;

my $store = RateLimit::LiveStore->new($redis->client);
$store->put_all(map { { zone => 'z', key => "client$_", limit => 1000 + $_ } } 1 .. 490);

my $key   = query(zone => 'z', key => 'client');
my %pages = (
    'a rejection'          => ['/0?key=rejected'],
    'GET zones'            => ['/api/zones'],
    'GET key'              => ["/api/key$key"],
    'GET overrides'        => ['/api/overrides?zone=z'],
    'PUT override'         => ["/api/override$key", method => 'PUT', body => '{"limit": 1, "note": "' . 'n' x 100 . '"}'],
    'PUT of a wrong body'  => ["/api/override$key", method => 'PUT', body => '{"limit": "one"}'],
    'DELETE override'      => ["/api/override$key", method => 'DELETE'],
    'DELETE key'           => ["/api/key$key", method => 'DELETE'],
    'an error of the API'  => ['/api/nothing'],
    'metrics'              => ['/metrics'],
    'metrics in JSON'      => ['/json'],
    'the dashboard'        => ['/dashboard/'],
    'the dashboard\'s data' => ['/dashboard/status.json'],
);

# Connections of nginx to Redis, which come and go, count with the others.
$nginx->get('/0?key=other');
$nginx->get("/api/key$key");
ok(wait_until(sub { $redis->client->info('clients')->{connected_clients} >= 3 }), 'nginx is connected to Redis');
my $before = descriptors($worker);
sub is_as_before ($what) {
    ok(wait_until(sub { descriptors($worker) <= $before }), "after $what the worker has as many descriptors as before")
        or diag descriptors($worker) - $before, ' are left';
}

my $clients = 40; # of each page: more than 500 in all

subtest 'over HTTP/2, nothing may be sent, and the client leaves' => sub {
    for my $page (sort keys %pages) {
        my ($path, @options) = $pages{$page}->@*;
        my @all = map { RateLimit::Http2->new($nginx, $over_h2, window => 0) } 1 .. $clients;
        my @streams = map { $_->request($path, @options) } @all;
        $all[$_]->wait_for_head($streams[$_]) for keys @all;
        $_->reset for @all;
        is_as_before($page);
    }
};

subtest 'over HTTP/2, nothing may be sent, and the client cancels its request' => sub {
    for my $page (sort keys %pages) {
        my ($path, @options) = $pages{$page}->@*;
        my $client = RateLimit::Http2->new($nginx, $over_h2, window => 0);
        for (1 .. $clients) {
            my $stream = $client->request($path, @options);
            $client->wait_for_head($stream);
            $client->cancel($stream);
        }
        my $stream = $client->request('/api/zones');
        ok(defined $client->content($stream), "the connection goes on after $page");
        $client->reset;
        is_as_before($page);
    }
};

sub is_whole ($text, $page, $what) {
    return ok(length($text // '') > 10_000 && $text =~ /\n\z/, $what) if $page eq 'metrics' || $page eq 'the dashboard';
    ok(defined $text && eval { decode_json($text) }, $what) or diag substr $text // 'nothing', 0, 200;
}

subtest 'over HTTP/2, a slow reader gets all' => sub {
    for my $page (sort keys %pages) {
        my ($path, @options) = $pages{$page}->@*;
        my $client = RateLimit::Http2->new($nginx, $over_h2, window => 0);
        my $stream = $client->request($path, @options);
        $client->wait_for_head($stream);
        is_whole($client->content($stream, 3000), $page, $page);
        $client->reset;
    }
};

# Of HTTP/1.1, to an nginx that can hand the kernel little at a time.
sub narrow_client () {
    my $socket = IO::Socket::INET->new(Proto => 'tcp', Type => Socket::SOCK_STREAM) or die "socket: $!";
    setsockopt $socket, SOL_SOCKET, SO_RCVBUF, pack 'i', 1 or die "setsockopt: $!";
    connect $socket, Socket::pack_sockaddr_in($nginx->port, Socket::inet_aton($narrow)) or die "connect: $!";
    return $socket;
}

sub send_request ($socket, $path, %options) {
    my $body   = $options{body} // '';
    my $method = $options{method} // 'GET';
    my $length = length $body;
    syswrite $socket, "$method $path HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: $length\r\n\r\n$body";
}

my @long = grep { !/override$|DELETE|wrong|error/ } sort keys %pages;

subtest 'over a narrow socket, the client leaves' => sub {
    for my $page (@long) {
        my @all = map { narrow_client() } 1 .. $clients;
        send_request($_, $pages{$page}->@*) for @all;
        sysread $_, my $some, 200 for @all;
        close $_ for @all;
        is_as_before($page);
    }
};

subtest 'over a narrow socket, a slow reader gets all' => sub {
    for my $page (@long) {
        my $socket = narrow_client();
        send_request($socket, $pages{$page}->@*);
        my $text = '';
        1 while sysread $socket, $text, 1000, length $text;
        my ($head, $body) = split /\r\n\r\n/, $text, 2;
        is_whole($head =~ /^Transfer-Encoding/m ? undef : $body, $page, $page);
    }
    is_as_before('all of them');
};

is($nginx->get('/api/zones')->{status}, 200, 'the worker serves');
is(($nginx->workers)[0], $worker, 'and is the same');
$nginx->stop;

done_testing;
