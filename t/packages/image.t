# The image of docker/official, by a chroot into it. Run by tools/test-image.

use v5.36;
use lib 't/lib';
use IO::Socket::INET;
use RateLimit::Chroot;
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $port           = empty_port();
my $port_of_stream = empty_port();
my $image          = RateLimit::Chroot->new($ENV{RATE_LIMIT_CHROOT} // BAIL_OUT('run by tools/test-image'), $port);
my $redis          = RateLimit::Redis->start_new;

my ($tools) = $image->run('command -v cc gcc g++ make');
is($tools, '', 'the image has no compiler');
for my $context (qw(http stream)) {
    my ($linked) = $image->run("ldd /usr/lib/nginx/modules/ngx_${context}_redis_rate_limit_module.so");
    unlike($linked, qr/hiredis|not found/, "hiredis is in the module of $context") or diag($linked);
}
my $loaded = join ' ', $image->slurp('/etc/nginx/nginx.conf') =~ /^load_module modules\/ngx_(http|stream)_redis/mg;
is($loaded, 'stream http', 'the configuration of the image loads both');

ok(-s $image->path("/usr/share/doc/redis_rate_limit/$_"), "the license: $_") for qw(copyright hiredis.copyright rapidjson.copyright);

$image->write_file('/srv/nginx.conf', <<"END");
load_module modules/ngx_http_redis_rate_limit_module.so;
load_module modules/ngx_stream_redis_rate_limit_module.so;
user nobody nogroup;
pid /run/nginx.pid;
error_log /srv/error.log;
events {}
stream {
    redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
    redis_rate_limit_zone \$remote_addr zone=sessions:1m on_error=closed;
    server { listen 127.0.0.1:$port_of_stream; redis_rate_limit zone=sessions algorithm=sliding_log limit=1 window=60; return passed; }
}
http {
    redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
    redis_rate_limit_zone \$arg_key zone=per_key:1m on_error=closed;
    server {
        listen 127.0.0.1:$port;
        location / { redis_rate_limit zone=per_key algorithm=sliding_log limit=3 window=60; empty_gif; }
    }
}
END
my ($said, $starts) = $image->run('nginx -c /srv/nginx.conf');
ok($starts, 'nginx of the image starts') or diag($said);
is($image->statuses('/?key=a', 5), '200 200 200 429 429', 'the limit holds');
is($redis->taken('rl:{per_key:a}:sliding_log:60000'), 3, 'by what Redis has counted');
is(join(',', map { readline(IO::Socket::INET->new("127.0.0.1:$port_of_stream")) // 'none' } 1, 2), 'passed,none', 'and that of stream');
kill QUIT => $image->master;
ok(wait_until(sub { !$image->master }), 'nginx leaves');
unlike($image->slurp('/srv/error.log'), qr/\[(?:alert|emerg)\]/, 'no alert');

done_testing;
