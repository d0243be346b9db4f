# What a zone shows of its clients' keys, in log lines and among the top keys: show_keys.

use v5.36;
use lib 't/lib';
use Digest::SHA qw(sha256_hex);
use JSON::PP qw(decode_json);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis  = RateLimit::Redis->start_new;
my $secret = 's3cr3t-' . 'k' x 60 . '-'; # what follows is beyond the 64 bytes that top keys have room for
my %zones  = (
    plain   => '$http_x_key show_keys=on',
    hash    => '$http_x_key show_keys=hash',
    off     => '$http_x_key show_keys=off',
    kept    => '$http_x_key show_keys=off top_keys=on',
    address => '$binary_remote_addr show_keys=hash',
    mixed   => 'x$binary_remote_addr show_keys=hash',
);

# The configuration where these zones have other keys and parameters; a zone without any is left out.
sub site (%changed) {
    my %all   = (%zones, %changed);
    my @names = grep { $all{$_} } sort keys %all;
    my $zones = join "\n", map {
        my ($key, @parameters) = split ' ', $all{$_};
        "redis_rate_limit_zone $key zone=$_:1m @parameters;"
    } @names;
    my $locations = join "\n", map { <<"END" } @names;
location /$_/denied  { redis_rate_limit zone=$_ algorithm=sliding_log limit=0 window=60; empty_gif; }
location /$_/trial   { redis_rate_limit zone=$_ algorithm=sliding_log limit=0 window=60 dry_run; empty_gif; }
location /$_/cached  { redis_rate_limit zone=$_ algorithm=sliding_log limit=1 window=1h; empty_gif; }
location /$_/delayed { redis_rate_limit zone=$_ algorithm=leaky_bucket limit=100 window=10s burst=1; empty_gif; }
location /$_/invalid { redis_rate_limit zone=$_ algorithm=sliding_log limit=\$http_x_limit window=60; empty_gif; }
END
    return <<"END";
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_log_level error;
$zones
set_real_ip_from 127.0.0.1;
real_ip_header X-Real-IP;
server {
    listen %PORT%;
    $locations
    location /json { redis_rate_limit_metrics json; }
    location /metrics { redis_rate_limit_metrics; }
    location /limits/ { redis_rate_limit_dashboard; }
}
END
}

my $nginx = RateLimit::Nginx->start_new(site());

sub request ($path, $key, $count = 1, %headers) {
    $nginx->get($path, headers => { 'X-Key' => $key, %headers }) for 1 .. $count;
}

# The lines about rules that error.log has of these requests, up to what nginx adds.
sub lines_of (@request) {
    my $before = length $nginx->error_log;
    request(@request);
    return map { /: \*\d+ (.*?rule ".*?), client: / ? $1 : () } split /\n/, substr $nginx->error_log, $before;
}

sub top ($zone, $page = '/json') {
    my $told = decode_json($nginx->get($page)->{content})->{zones}{$zone}{top_rejected};
    return join ' ', sort map { "$_->{key}=$_->{rejected}" } @$told;
}

sub hash ($text) { return substr sha256_hex($text), 0, 12 }

subtest 'log lines' => sub {
    my %shown = (plain => ', key "a b"', hash => ", key \"${\hash('a b')}\"", off => '');
    for my $zone (sort keys %shown) {
        is_deeply([ lines_of("/$zone/denied", 'a b') ], [qq(limiting requests, rule "$zone/60s"$shown{$zone})], "$zone: a rejection");
        is_deeply([ lines_of("/$zone/trial", 'a b') ], [qq(limiting requests, rule "$zone/60s"$shown{$zone}, dry run)], 'one of a dry run');
        my $timed = qr/^limiting requests, rule "$zone\/3600s"$shown{$zone}, retry after [\d.]+s$/;
        my @timed = lines_of("/$zone/cached", 'a b', 3);
        is(scalar(grep { /$timed/ } @timed), 2, 'by Redis and by the deny cache') or diag(@timed);
        my @delayed = lines_of("/$zone/delayed", 'a b', 2);
        like($delayed[-1], qr/^delaying request, rule "$zone\/10s"$shown{$zone}, by [\d.]+s$/, 'a delay');
    }
};

subtest 'what an operator looks up' => sub {
    my %text = (hash => $secret . 'x', address => '203.0.113.7');
    for my $zone (sort keys %text) {
        my $found = qx{printf %s $text{$zone} | sha256sum | cut -c 1-12} =~ s/\n//r;
        my @lines = lines_of("/$zone/denied", $text{$zone}, 1, 'X-Real-IP' => '203.0.113.7');
        is_deeply(\@lines, [qq(limiting requests, rule "$zone/60s", key "$found")], "$zone: is in the log");
        like(top($zone), qr/\b$found=1\b/, 'and among the top keys');
    }
    my %found = (
        'address an IPv6 address' => [ '2001:db8::1', '2001:db8::1' ],
        'mixed an address that is but a part of the key, by its bytes' => [ '203.0.113.7', "x\xcb\x00\x71\x07" ],
    );
    for (sort keys %found) {
        my ($zone, $what) = split ' ', $_, 2;
        my ($address, $hashed) = $found{$_}->@*;
        is_deeply([ lines_of("/$zone/denied", '', 1, 'X-Real-IP' => $address) ], [qq(limiting requests, rule "$zone/60s", key "${\hash($hashed)}")], $what);
    }
};

subtest 'top keys' => sub {
    $nginx->stop;
    $nginx->start;
    for my $zone (qw(plain hash off kept)) {
        request("/$zone/denied", $secret . 'one', 2);
        request("/$zone/denied", $secret . 'two');
    }
    is(top('plain'), substr($secret, 0, 64) . '=3', 'as they are: one, where the first 64 bytes are the same');
    my $hashes = join ' ', sort "${\hash($secret . 'one')}=2", "${\hash($secret . 'two')}=1";
    is(top('hash'), $hashes, 'hashes, of all bytes');
    is(top('hash', '/limits/status.json'), $hashes, 'on the dashboard, too');
    is(top($_), '', "$_: none") for qw(off kept);
};

# Its value may have to do with the key.
subtest 'a variable that is no number' => sub {
    my %shown = (plain => ' "none"', hash => '', off => '');
    for my $zone (sort keys %shown) {
        my @lines;
        wait_until(sub { @lines = lines_of("/$zone/invalid", 'a', 1, 'X-Limit' => 'none') }); # one a second at most
        is_deeply(\@lines, [qq(redis_rate_limit: invalid limit$shown{$zone}, expected a whole number from 0 to 1000000, rule "$zone/60s")], $zone);
    }
};

subtest 'a secret' => sub {
    $nginx->stop;
    $nginx->configure(site(plain => ''));
    unlink $nginx->dir . '/error.log';
    $nginx->start;
    my $part = substr $secret, 0, 8;
    for my $zone (qw(hash off kept)) {
        my @lines = map { lines_of("/$zone/$_", $secret, 3, 'X-Limit' => $secret) } qw(denied trial cached delayed invalid);
        cmp_ok(scalar @lines, '>=', 9, "$zone: the log tells of rejections");
    }
    unlike($nginx->error_log, qr/$part/, 'and not of the secret');
    unlike($nginx->get($_)->{content}, qr/$part/, "nor does $_") for qw(/json /metrics /limits/status.json);
};

subtest 'a reload' => sub {
    my $becomes = sub ($show_keys) {
        $nginx->configure(site(plain => '', hash => "\$http_x_key show_keys=$show_keys"));
        $nginx->reload;
    };
    $becomes->('on');
    is(top('hash'), '', 'hashes are not taken for keys');
    request('/hash/denied', 'key');
    $becomes->('on');
    is(top('hash'), 'key=1', 'keys stay');
    $becomes->('hash');
    is(top('hash'), '', 'unless only hashes are to be shown');
    request('/hash/denied', 'key');
    is(top('hash'), hash('key') . '=1', 'which there are from then on');
    $becomes->('hash');
    is(top('hash'), hash('key') . '=1', 'and stay, too');
    $becomes->('off');
    is(top('hash'), '', 'unless none are wanted');
    $becomes->('hash');
    is(top('hash'), '', 'and none come back');
};

$nginx->stop;
done_testing;
