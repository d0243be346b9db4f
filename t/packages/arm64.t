# The packages for arm64 that another machine has built: Debian's nginx for arm64 limits requests and sessions
# with them, and the replay reads its log. Run by tools/test-deb-arm64, which makes both.

use v5.36;
use lib 't/lib';
use File::Temp qw(tempdir);
use JSON::PP qw(decode_json);

my ($root, $run);

# What is under test is named before the libraries of tests are read.
BEGIN {
    $root = $ENV{RATE_LIMIT_ARM64} // die "run by tools/test-deb-arm64\n";
    my $dir = tempdir('arm64-XXXXXXXX', TMPDIR => 1, CLEANUP => 1);
    chmod 0755, $dir;
    $run = "qemu-aarch64 -L $root $root";
    open my $nginx, '>', "$dir/nginx" or die "$dir/nginx: $!";
    print {$nginx} "#!/bin/sh\nexec $run/usr/sbin/nginx \"\$@\"\n";
    close $nginx;
    chmod 0755, "$dir/nginx";
    @ENV{qw(RATE_LIMIT_NGINX RATE_LIMIT_MODULE)} = ("$dir/nginx", "$root/usr/lib/nginx/modules/ngx_http_redis_rate_limit_module.so");
}

use RateLimit::Metrics qw(metrics_of);
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use RateLimit::Stream qw(new_stream open_session take_line);
use RateLimit::Wait qw(wait_until);
use Test::More;

# The titles of nginx's processes are hidden by qemu, so that all of a master's children count as workers.
{
    no warnings 'redefine';
    *RateLimit::Nginx::children_of = sub ($pid, $pattern) {
        return 'worker process' =~ $pattern ? RateLimit::Nginx::children($pid) : ();
    };
}

my $redis       = RateLimit::Redis->start_new;
my $backend     = "redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }";
my $stream_port = empty_port();
my $nginx       = new_stream(<<"STREAM", http => <<"HTTP", workers => 2);
$backend
redis_rate_limit_zone \$remote_addr zone=sessions:1m;
server {
    listen 127.0.0.1:$stream_port;
    redis_rate_limit zone=sessions algorithm=sliding_log limit=3 window=1h;
    return passed\\n;
}
STREAM
$backend
redis_rate_limit_zone \$arg_key zone=z:1m;
log_format replayed '\$remote_addr - - [\$time_local] "\$request" \$status \$body_bytes_sent "-" "-"';
server {
    listen 127.0.0.2:%PORT%;
    access_log %DIR%/replayed.log replayed;
    location /asked    { redis_rate_limit zone=z algorithm=sliding_log limit=5 window=1h name=asked; empty_gif; }
    location /leased   { redis_rate_limit zone=z algorithm=token_bucket limit=1 window=24h burst=19 lease=10s name=leased; empty_gif; }
    location /calendar { redis_rate_limit zone=z algorithm=fixed_window limit=2 window=month timezone=Europe/Berlin name=calendar; empty_gif; }
}
HTTP
$nginx->start;

# The statuses of so many requests, and how often each.
sub statuses ($path, $count) {
    my %count;
    $count{ $nginx->get($path, host => '127.0.0.2')->{status} }++ for 1 .. $count;
    return join ' ', map { "$_: $count{$_}" } sort keys %count;
}

# --- which machine

like(qx{readelf -h $_}, qr/Machine:\s+AArch64/, s{.*/}{}r) for (map { "$root/usr/lib/nginx/modules/ngx_${_}_redis_rate_limit_module.so" } qw(http stream)), "$root/usr/bin/redis-rate-limit-replay";

# --- requests and sessions

is(statuses('/asked?key=a',    20), '200: 5 429: 15',  'what Redis grants');
like(statuses('/leased?key=a', 60), qr/^200: (?:1\d|20) 429/, 'what is leased');
is(statuses('/calendar?key=a', 20), '200: 2 429: 18',  'what a month allows in a time zone');
like($nginx->get('/asked?key=a', host => '127.0.0.2')->{headers}{'retry-after'}, qr/^3[56]\d\d$/, 'a rejection has its headers');
is(join('', map { take_line(open_session($stream_port)) } 1 .. 6), "passed\n" x 3, 'sessions of stream');

# --- what operators see and order

my $rules = metrics_of($nginx)->{zones}{z}{rules};
is_deeply({ $rules->{asked}->%{qw(passed rejected)} }, { passed => 5, rejected => 16 }, 'metrics') or diag(explain($rules));
my %order = (method => 'PUT', content => '{"limit": 1000}', headers => { 'Content-Type' => 'application/json' });
is($nginx->get('/api/override?zone=z&rule=asked&key=b', %order)->{status}, 200, 'an override is set');
ok(wait_until(sub { statuses('/asked?key=b', 10) eq '200: 10' }), 'and holds on both workers');

# --- reload

$nginx->reload;
is(statuses('/asked?key=a', 3), '429: 3', 'new workers know what the old ones did');

# --- replay

my $log = $nginx->dir . '/replayed.log';
RateLimit::Nginx::write_file("$log.rules", "redis_rate_limit_zone \$remote_addr zone=replayed:1m;\nredis_rate_limit zone=replayed algorithm=gcra limit=7 window=1d burst=6 name=r;\n");
my $told     = decode_json(scalar qx{$run/usr/bin/redis-rate-limit-replay --json - --rules $log.rules $log});
my $requests = () = RateLimit::Nginx::slurp($log) =~ /\n/g;
is_deeply({ $told->{rules}{r}->%{qw(passed rejected)} }, { passed => 7, rejected => $requests - 7 }, 'the replay of the log');

$nginx->stop;
done_testing;
