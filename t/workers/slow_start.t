# Workers whose configuration took longer to read than they may take to connect, or whose start
# another module holds up: they connect as others do. nginx's clock stands still meanwhile.

use v5.36;
use lib 't/lib';
use POSIX qw(mkfifo);
use RateLimit::AccessLog qw($log_times requests_of wait_for_requests);
use RateLimit::Load qw(start_load);
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Process;
use RateLimit::Redis;
use RateLimit::Stream qw(new_stream open_session take_line);
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep);

my $redis   = RateLimit::Redis->start_new;
my $backend = "redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 1s; timeout 10s; }";
my $seconds = 1.4; # longer than connect_timeout

# A part of the configuration that nginx waits for: it opens a pipe, which somebody opens to write
# only when the time is over.
my $include = 'include slow.conf;';

sub slowly ($nginx, $start) {
    my $pipe = $nginx->dir . '/slow.conf';
    mkfifo($pipe, 0600) || -p $pipe or die "mkfifo: $!";
    my $writer = RateLimit::Process->run(sub { sleep $seconds; open my $end, '>', $pipe or die "$pipe: $!" });
    $start->();
    ok($writer->wait_for_end, 'nginx has read all of its configuration');
}

sub new_nginx ($http, %options) { return RateLimit::Nginx->new(<<"END", workers => 2, %options) }
$log_times
$backend
redis_rate_limit_zone \$uri zone=z:1m on_error=closed;
$http
server {
    listen %PORT%;
    location / {
        redis_rate_limit zone=z algorithm=fixed_window limit=1000000 window=1h;
        empty_gif;
    }
}
END

sub gave_up_no_connection ($nginx) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is(scalar(() = $nginx->error_log =~ /no connection in time/g), 0, 'no connection was given up');
    ok(wait_until(sub { !$nginx->leaving_workers }), 'the old workers leave');
    $nginx->stop;
}

# `reload` is code that reloads.
sub reloads_refuse_nobody ($nginx, $reload) {
    my $load = start_load($nginx->url, connections => 4, close => 1);
    for (1 .. 4) {
        $reload->();
        wait_for_requests($nginx);
    }
    $load->finish;
    is(scalar(grep { $_->{status} != 200 } requests_of($nginx)), 0, 'each request had its verdict and passed');
    gave_up_no_connection($nginx);
}

# With timer_resolution only a signal makes nginx's clock go on.
for my $main ('', 'timer_resolution 20ms;') {
    subtest "a configuration that takes a while, $main" => sub {
        my $nginx = new_nginx($include, main => $main);
        slowly($nginx, sub { $nginx->start });
        reloads_refuse_nobody($nginx, sub { slowly($nginx, sub { $nginx->reload }) });
    };
}

subtest 'in stream' => sub {
    my $port  = empty_port();
    my $nginx = new_stream(<<"END", workers => 2);
$include
$backend
redis_rate_limit_zone \$remote_addr zone=sessions:1m on_error=closed;
server { listen 127.0.0.1:$port; redis_rate_limit zone=sessions algorithm=fixed_window limit=1000000 window=1h; return passed\\n; }
END
    slowly($nginx, sub { $nginx->start });
    for (1 .. 4) {
        my $reload = RateLimit::Process->run(sub { $nginx->reload });
        my %got;
        slowly($nginx, sub { $got{ take_line(open_session($port)) // 'nothing' }++ while $reload->is_running });
        is_deeply([ keys %got ], ["passed\n"], 'each session had its verdict and passed');
    }
    gave_up_no_connection($nginx);
};

# Other modules may do a lot when a worker starts, and lua does it before this module's turn.
subtest 'another module takes a while' => sub {
    my ($ndk, $lua) = map { "/usr/lib/nginx/modules/$_.so" } qw(ndk_http_module ngx_http_lua_module);
    plan skip_all => 'this nginx has no module lua' if !-e $lua;
    my $nginx = new_nginx(<<"END", before => "load_module $ndk; load_module $lua; ");
init_worker_by_lua_block {
    local ffi = require 'ffi'
    ffi.cdef 'int poll(void *, unsigned long, int)'
    ffi.C.poll(nil, 0, @{[$seconds * 1000]})
}
END
    $nginx->start;
    reloads_refuse_nobody($nginx, sub { $nginx->reload });
};

done_testing;
