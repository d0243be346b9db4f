# Connections to Redis that something between, such as a load balancer, forgets without a word: packets of either side
# lead nowhere from then on. The kernel finds out before a request does. The test has a network of its own.

use v5.36;
use lib 't/lib';
use List::Util qw(min);
use RateLimit::Certificates;
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(time);

if (!$ENV{RATE_LIMIT_OWN_NETWORK}) {
    $ENV{RATE_LIMIT_OWN_NETWORK} = 1;
    exec 'unshare', ($> == 0 ? () : '--map-root-user'), '--net', $^X, $0 or die "unshare: $!";
}

sub run (@command) { system(@command) == 0 or die "@command: $?" }

run(qw(ip link set lo up));
run(qw(ip rule add pref 100 lookup local)); # so that there is room before it
run(qw(ip rule del pref 0));

my %is_dropped; # ports of nginx's, whose connections Redis takes for open

# The port of the one connection for checks that leads to Redis; undef if there is none.
sub port_at ($redis) {
    my ($port) = grep { !$is_dropped{$_} } map { $_->{addr} =~ /:(\d+)$/ ? $1 : () } $redis->nginx_clients;
    return $port;
}

sub drop_connection ($redis) {
    my $port = port_at($redis) // die 'no connection';
    $is_dropped{$port} = 1;
    run(qw(ip rule add pref 10 ipproto tcp), $_, $port, 'blackhole') for qw(sport dport);
}

sub start_nginx ($backend, %options) {
    return RateLimit::Nginx->start_new(<<"END", %options);
log_format source '\$redis_rate_limit_source';
redis_rate_limit_backend default { $backend connect_timeout 5s; }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=open;
server {
    listen %PORT%;
    access_log %DIR%/sources.log source;
    location / { redis_rate_limit zone=z algorithm=fixed_window limit=1000 window=100; empty_gif; }
}
END
}

my $certificates = RateLimit::Certificates->new;
$certificates->issue('redis', 'IP:127.0.0.1');
my $trusted = 'ssl on; ssl_trusted_certificate ' . $certificates->certificate('authority') . ';';
for my $kind (qw(plain tls)) {
    subtest "a quiet connection, $kind" => sub {
        my $port  = empty_port();
        my $redis = RateLimit::Redis->start_new($kind eq 'tls' ? $certificates->redis_settings('redis', $port) : ());
        my $nginx = start_nginx($kind eq 'tls' ? "server 127.0.0.1:$port; $trusted" : "server ${\$redis->address};");
        ok(wait_until(sub { port_at($redis) }), 'a connection');
        is($nginx->get('/?key=a')->{status}, 200, 'a verdict');
        drop_connection($redis);
        ok(wait_until(sub { port_at($redis) }), 'is replaced within seconds, though nobody asks for anything');
        is($nginx->get('/?key=a')->{status}, 200, 'a request');
        my $sources = sub { RateLimit::Nginx::slurp($nginx->dir . '/sources.log') };
        ok(wait_until(sub { 2 == (() = $sources->() =~ /\n/g) }), 'is logged');
        is($sources->(), "redis\n" x 2, 'with its verdict');
        unlike($nginx->error_log, qr/fails/, 'it is no fault');
        $nginx->stop;
    };
}

subtest 'a connection that is asked in the same moment' => sub {
    my $redis = RateLimit::Redis->start_new;
    my $nginx = start_nginx("server ${\$redis->address};");
    ok(wait_until(sub { port_at($redis) }), 'a connection');
    my $patience = 1; # of the session, seconds: then it gives up itself
    my @took;
    while (@took < 8 && min($patience, @took) >= 0.95 * $patience) { # one round is enough where the machine is not busy
        drop_connection($redis);
        my $began = time;
        $nginx->get('/?key=b');
        ok(wait_until(sub { port_at($redis) }), 'is replaced');
        push @took, time - $began;
    }
    note sprintf 'it took %s s', join ', ', map { sprintf '%.2f', $_ } @took;
    cmp_ok(min(@took), '<', 0.95 * $patience, 'before the session loses its patience');
    $nginx->stop;
};

done_testing;
