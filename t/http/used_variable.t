# `$redis_rate_limit_used`: how near the limit a request came, in http and stream.

use v5.36;
use lib 't/lib';
use RateLimit::Api qw(api query);
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use RateLimit::Stream qw(new_stream open_session take_line);
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis  = RateLimit::Redis->start_new;
my $nobody = empty_port();
my $nginx  = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_backend nobody { server 127.0.0.1:$nobody; breaker off; }
redis_rate_limit_zone \$arg_key zone=z:1m;
redis_rate_limit_zone \$arg_key zone=open:1m backend=nobody on_error=open;
redis_rate_limit_zone \$arg_key zone=closed:1m backend=nobody on_error=closed;
redis_rate_limit_zone \$arg_key zone=local:1m backend=nobody;
add_header X-Used \$redis_rate_limit_used always;
map \$redis_rate_limit_used \$is_near { default 0; ~^(?:[89].|100)\$ 1; }
log_format near '\$arg_key \$redis_rate_limit_used \$status';
server {
    listen 127.0.0.1:%PORT%;
    location /three { redis_rate_limit zone=z algorithm=fixed_window limit=3 window=1h name=three; empty_gif; }
    location /many { redis_rate_limit zone=z algorithm=fixed_window limit=\$arg_limit cost=\$arg_cost window=1h name=many; empty_gif; }
    location /bucket { redis_rate_limit zone=z algorithm=token_bucket limit=1 burst=10 window=1h cost=4 name=bucket; empty_gif; }
    location /several {
        redis_rate_limit zone=z algorithm=fixed_window limit=10 window=1h name=ten;
        redis_rate_limit zone=z algorithm=fixed_window limit=4 window=1h name=four;
        redis_rate_limit zone=z algorithm=fixed_window limit=1 window=1h name=dry dry_run;
        empty_gif;
    }
    location /dry { redis_rate_limit zone=z algorithm=fixed_window limit=2 window=1h dry_run name=only_dry; empty_gif; }
    location /none { redis_rate_limit zone=z algorithm=fixed_window limit=0 window=1h name=none; empty_gif; }
    location /open { redis_rate_limit zone=open algorithm=gcra limit=1 window=60; empty_gif; }
    location /closed { redis_rate_limit zone=closed algorithm=gcra limit=1 window=60; empty_gif; }
    location /local { redis_rate_limit zone=local algorithm=fixed_window limit=4 window=1h; empty_gif; }
    location /off { redis_rate_limit off; empty_gif; }
    location /banned { redis_rate_limit zone=z algorithm=fixed_window limit=10 window=1h name=banned; empty_gif; }
    location /near { redis_rate_limit zone=z algorithm=fixed_window limit=5 window=1h name=near; access_log %DIR%/near.log near if=\$is_near; empty_gif; }
    location /api/ { redis_rate_limit_api write; }
}
END

sub used ($path, $count = 1) {
    return join ' ', map { $nginx->get($path)->{headers}{'x-used'} // 'none' } 1 .. $count;
}

subtest 'of one rule' => sub {
    is(used('/three?key=a', 5), '33 66 100 100 100', 'rounded down, and 100 when rejected');
    is(used("/many?key=b&limit=1000&cost=$_"), $_ == 9 ? 0 : 99, "$_ of 1000 more") for 9, 990;
    is(used('/many?key=b&limit=1000&cost=2'), 100, 'too much, though a unit is left');
    is(used('/many?key=c&limit=1000000000&cost=999999999'), 99, 'the largest numbers');
    is(used('/many?key=c&limit=1000000000&cost=1'), 100, 'and nothing left');
    is(used('/many?key=d&limit=10&cost=0', 2), '0 0', 'a request that takes nothing');
    is(used('/many?key=e&limit=10&cost=11'), 100, 'a cost that never fits');
    is(used('/bucket?key=a', 3), '40 80 100', 'of a bucket');
    is(used('/none?key=a'), 100, 'of nothing');
};

subtest 'of several rules the tightest' => sub {
    is(used('/several?key=a', 5), '25 50 75 100 100', 'that is enforced');
    is(used('/dry?key=a', 3), '50 100 100', 'else of the dry runs');
};

subtest 'without a verdict of Redis' => sub {
    is(used('/open?key=a'), 'none', 'open');
    is(used('/closed?key=a'), 'none', 'closed');
    is(used('/local?key=a', 5), '25 50 75 100 100', 'this host decides');
    is(used($_), 'none', $_) for '/off?key=a', '/three', '/many?key=f&limit=&cost=1';
};

subtest 'a ban' => sub {
    is(used('/banned?key=a'), 10, 'before it');
    api($nginx, 'PUT override' . query(zone => 'z', key => 'a'), body => { ban => \1 });
    ok(wait_until(sub { used('/banned?key=a') == 100 }), 'rejects');
};

subtest 'a log of its own' => sub {
    $nginx->get('/near?key=n') for 1 .. 6;
    my $lines = sub { -e $nginx->dir . '/near.log' ? RateLimit::Nginx::slurp($nginx->dir . '/near.log') : '' };
    ok(wait_until(sub { $lines->() =~ /429/ }), 'is written');
    is($lines->(), "n 80 200\nn 100 200\nn 100 429\n", 'from 80 % on');
};
$nginx->stop;

subtest 'stream' => sub {
    my %port = map { $_ => empty_port() } qw(three off);
    my $stream = new_stream(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$remote_addr zone=s:1m;
log_format used '[\$redis_rate_limit_used] \$status';
access_log %DIR%/used.log used;
server { listen 127.0.0.1:$port{three}; redis_rate_limit zone=s algorithm=fixed_window limit=3 window=1h; return passed\\n; }
server { listen 127.0.0.1:$port{off}; return passed\\n; }
END
    $stream->start;
    my $lines = sub { [ split /\n/, RateLimit::Nginx::slurp($stream->dir . '/used.log') ] };
    my $count = 0;
    for my $server (qw(three three three three off)) {
        take_line(open_session($port{$server}));
        ++$count;
        wait_until(sub { $lines->()->@* == $count });
    }
    is_deeply($lines->(), [ '[33] 200', '[66] 200', '[100] 200', '[100] 503', '[-] 200' ], 'the same numbers');
    $stream->stop;
};

done_testing;
