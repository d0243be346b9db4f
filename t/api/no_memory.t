# The API where memory runs out in the middle of a request.

use v5.36;
use lib 't/lib';
use File::Temp qw(tempdir);
use RateLimit::Api qw(api query);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Upstream;
use RateLimit::Wait qw(wait_until);
use Test::More;

plan skip_all => 'a sanitizer has an allocator of its own' if $ENV{RATE_LIMIT_PRELOAD};

my $dir     = tempdir('no-memory-XXXXXXXX', TMPDIR => 1, CLEANUP => 1);
chmod 0755, $dir; # workers may be another user's
my $switch  = "$dir/switch";
my $library = "$dir/no_memory.so";
system('cc', '-Wall', '-Wextra', '-Werror', '-shared', '-fPIC', qq(-DNO_MEMORY="$switch"), '-o', $library, 't/lib/no_memory.c') == 0 or die 'no_memory.c does not compile';
local $ENV{RATE_LIMIT_PRELOAD} = $library;

my $redis    = RateLimit::Redis->start_new;
my $upstream = RateLimit::Upstream->start_new;
my $nginx    = RateLimit::Nginx->start_new(<<"END", workers => 1);
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$arg_key zone=z:1m;
server {
    listen %PORT%;
    location / {
        redis_rate_limit zone=z algorithm=fixed_window limit=100 window=1h name=small;
        redis_rate_limit zone=z algorithm=fixed_window limit=1000000 window=1h name=large shards=64;
    }
    location /api/ { redis_rate_limit_api write; error_page 500 = \@slow; }
    location \@slow { proxy_pass ${\$upstream->url}; }
}
END

# The rule with many shards finds no memory after the other one was asked for, whose answer comes while
# nginx still answers.
my $path = 'key' . query(zone => 'z', key => 'k');
is_deeply([ sort keys api($nginx, "GET $path")->{json}{rules}->%* ], [qw(large small)], 'with memory');
$upstream->hold;
RateLimit::Nginx::write_file($switch, '');
my $response = $nginx->get_later("/api/$path");
ok($upstream->wait_for(1), 'an error is answered by another location, slowly');
unlink $switch or die "$switch: $!";
is(api($nginx, "GET $path")->{status}, 200, 'Redis has answered meanwhile');
$upstream->answer;
is(join(' ', map { $_->{status}, $_->{headers}{'content-length'} } $response->()), '200 3', 'that location has answered');
is($upstream->counts->{accepted}, 1, 'once');
$nginx->stop(expect => qr/malloc\(\d+\) failed/);

done_testing;
