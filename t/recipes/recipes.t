# docs/recipes.md: each recipe keeps the promise that stands below it, against a client who has read it. And
# the attack finds the faults that recipes have had.

use v5.36;
use lib 't/lib';
use RateLimit::Attack qw(addresses_of_a_network bearers fields_of leaving);
use Test::More;

my $page = RateLimit::Attack->new('docs/recipes.md');

# --- by address

my @network = addresses_of_a_network();
my %by_address = (moves => [ ({}) x 12, @network ], scale => { 100 => 10 }, innocents => [{}]);

$page->holds('geo $is_our_own', %by_address);
$page->finds('geo $is_our_own', 'whole addresses of IPv6', [ '$redis_rate_limit_addr' => '$remote_addr' ], %by_address);

my @forged = map { +{ fields => [ 'X-Forwarded-For', $_ ] } } '192.0.2.1', '192.0.2.2', '10.0.0.1', '192.0.2.3, 10.0.0.1', "\t192.0.2.4 ";
$page->holds('set_real_ip_from', %by_address, moves => [ ({}) x 12, @forged ], innocents => [{ from => '127.0.0.2' }]);
$page->finds('set_real_ip_from', 'everybody is believed', [ '10.0.0.0/8' => '0.0.0.0/0' ], %by_address, moves => [ ({}) x 12, @forged ]);

$page->holds('$is_translated', %by_address);
$page->holds('$redis_rate_limit_addr_56', %by_address, moves => [ ({}) x 24, @network ], scale => { 100 => 10, 400 => 40, 1000 => 100 });
$page->holds('name=scanners', %by_address, moves => [ ({}) x 24, @network ], scale => { 300 => 20, 50 => 10 });
$page->holds('map $http_user_agent', %by_address, moves => [ ({}) x 40, @network, map { +{ fields => [ 'User-Agent', $_ ] } } qw(Googlebot GoogleBot GPTBot curl) ], scale => { 100 => 10 });
$page->holds('name=soft dry_run', %by_address, moves => [ ({}) x 24, @network ], scale => { 600 => 20, 300 => 10 });
$page->holds('name=hard', %by_address, moves => [ ({}) x 40, @network ], scale => { 200 => 10 }, changes => [ 'zone=per_client:10m' => 'zone=per_client:5m' ]);
$page->holds('error_page 429 @limited', %by_address);
$page->holds('Access-Control-Allow-Origin', %by_address, request => { path => '/api/' }, moves => [ ({}) x 12, @network, ({ method => 'OPTIONS' }) x 12, { method => 'PUT' }, { method => 'DELETE' } ]);
$page->holds('grpc-status', %by_address, moves => [ ({}) x 40, @network ], scale => { 200 => 10 }, stops_nobody => 1,
    changes => [ 'listen 8080 http2;' => "listen %PORT%;\n", 'grpc_pass        grpc://127.0.0.1:50051' => 'proxy_pass http://127.0.0.1:8081' ]);
$page->holds('map $http_upgrade', %by_address, request => { path => '/ws/', ask => 'wait=0.3', fields => [ Upgrade => 'websocket' ] }, moves => [ ({}) x 30, leaving() ]);

# --- by key

my %keys = (k => 'attacker', i => 'innocent');
my %by_key = (
    scale    => { 100000 => 8 },
    upstream => { field => 'x-api-key', keys => \%keys },
    moves    => [ fields_of('X-API-Key', 'k') ],
    innocents => [{ fields => [ 'X-API-Key' => 'i' ] }],
);
$page->holds('lease=auto', %by_key);
my @whole_field = ('map $redis_rate_limit_field_x_api_key' => 'map $http_x_api_key', 'proxy_set_header X-API-Key' => '#');
$page->finds('lease=auto', 'no key is no limit', [ 'return 401;' => '' ], %by_key);
$page->finds('lease=auto', 'bytes that the application cuts', [ '!~ "^[!-~]+$"' => '= ""' ], %by_key);

my %plans = (
    %by_key,
    scale    => { 60 => 8, 30 => 5 },
    changes  => [ 'k-77b2e4d0' => 'k', 'k-3f0c9a1d' => 'i' ],
    upstream => { %{ $by_key{upstream} }, serves_anybody => 1, only_field => 1 },
    request  => { path => '/api/' },
);
$page->holds('$nobodys_address', %plans);
$page->finds('$nobodys_address', 'the whole field', \@whole_field, %plans);
$page->finds('$nobodys_address', 'the application reads what nginx does not', [ 'proxy_set_header X-API-Key $redis_rate_limit_field_x_api_key;' => '' ], %plans);
$page->finds('$nobodys_address', 'bytes that the application cuts', [ 'return 400;' => '' ], %plans);
$page->finds('$nobodys_address', 'unknown keys are unlimited', [ 'redis_rate_limit zone=anonymous' => '#' ], %plans);

$page->holds('auth_request_set', %by_key, scale => { 100 => 20 }, request => { path => '/v1/' });
$page->holds('$calls_per_month', %by_key, scale => { 1000 => 6 }, request => { path => '/api/' }, changes => [ 'k-51c8aa02' => 'k', 'k-3f0c9a1d' => 'i' ]);
$page->finds('$calls_per_month', 'the whole field', [ @whole_field, 'return 401;' => '' ], %by_key, scale => { 1000 => 6 }, request => { path => '/api/' }, changes => [ 'k-51c8aa02' => 'k', 'k-3f0c9a1d' => 'i' ]);
$page->holds('$from_the_fifteenth', %by_key, scale => { 1000 => 6 }, changes => [ 'k-3f0c9a1d' => 'k', 'k-77b2e4d0' => 'i' ]);

my $file = 'x' x 2000;
my %bytes = (%by_key, scale => { 1000000000 => 20_000, 50000000 => 3000 }, request => { path => '/downloads/file', ask => 'size=2000' });
$page->holds('final_cost=$bytes_sent', %bytes);
$page->finds('final_cost=$bytes_sent', 'nothing is reserved', [ 'cost=50000000' => 'cost=0' ], %bytes, moves => [ ({ fields => [ 'X-API-Key', 'k' ], ask => 'wait=0.3,size=2000' }) x 12 ]);

# --- logins

my %login = (
    request => { path => '/login', method => 'POST', body => 'name=root&password=guess', ask => 'wait=0.02' },
    moves   => [
        (map { +{ path => $_ } } '/login/', '/Login', '/LOGIN', '/login.json', '/login;x', '/login;x=1/', '//login', '/./login', '/x/../login', '/%6cogin', '/log%69n/', '/login?x', '/;x/login', '/x/..;/login', '/api/v2/login'),
        (map { +{ method => $_ } } qw(PUT PATCH)),
        leaving(), @network,
    ],
    innocents => [{ body => 'name=me&password=right' }],
);
$page->holds('$who_logs_in', %login);
$page->finds('$who_logs_in', 'one way to write the path', [ 'location ~* /login' => 'location = /login' ], %login);
$page->finds('$who_logs_in', 'parts of the path before it', [ 'location ~* /login' => 'location ~* ^/+login' ], %login);
$page->finds('$who_logs_in', 'one method', [ 'default $redis_rate_limit_addr' => 'default ""', 'GET     ""' => 'POST $redis_rate_limit_addr' ], %login);

# Eight people behind one address, and then once more.
sub colleagues ($attack) {
    $attack->{together} = 8;
    my @right = map { +{ actor => 'colleague', address => '192.0.2.8', path => '/login', method => 'POST', body => 'name=me&password=right', ask => 'wait=0.1' } } 1 .. 8;
    my @statuses = (RateLimit::Attack::play($attack, @right), RateLimit::Attack::play($attack, @right));
    return map { "a right password is answered $_" } grep { $_ ne '204' } @statuses;
}
my %failures = (%login, moves => [ @{ $login{moves} }, map { +{ ask => $_ } } 'break', 'status=500', 'wait=0.1' ], rounds => 3, after => \&colleagues);
$page->holds('$failed_login', %failures);
$page->finds('$failed_login', 'who leaves is forgotten', [ 'default            1;' => 'default 0; 401 1;', 'proxy_ignore_client_abort on;' => '' ], %failures, moves => [ leaving(), ({ ask => 'wait=0.1' }) x 3 ], after => undef, rounds => 6);

$page->finds('$failed_login', 'a block that reservations begin', [ 'limit=10 window=15m' => 'limit=7 window=15m block=15m' ], %failures, moves => []);

# --- what answers tell

my %tokens = (
    scale    => { 100000 => 20_000, 8000 => 4000 },
    upstream => { field => 'authorization', keys => \%keys },
    request  => { path => '/v1/chat/completions', method => 'POST', body => '{"max_tokens":3000}' },
    moves    => [ bearers('k'), map { +{ fields => [ Authorization => 'Bearer k' ], %$_ } } leaving(), { ask => 'silent' }, { ask => 'stream,silent' }, { ask => 'break' } ],
    innocents => [{ fields => [ Authorization => 'Bearer i' ] }],
);
$page->holds('$upstream_http_x_tokens_used', %tokens);
$page->finds('$upstream_http_x_tokens_used', 'the whole field', [ '$redis_rate_limit_bearer' => '$http_authorization', 'proxy_set_header' => '#' ], %tokens);
$page->finds('$upstream_http_x_tokens_used', 'a usual reservation', [ 'cost=8000' => 'cost=10' ], %tokens);
$page->holds('$upstream_trailer_x_tokens', %tokens,
    changes => [ 'listen 8080 http2;' => "listen %PORT%;\n", 'grpc_pass        grpc://127.0.0.1:50051' => 'proxy_pass http://127.0.0.1:8081', grpc_set_header => 'proxy_set_header', '/inference.Model/' => '/v1/' ]);

my %pages = (together => 40, innocents => [{}], scale => { 100 => 10 }, changes => [ '/var/cache/nginx/api' => '%DIR%/cache' ], moves => [ map { +{ path => "/page?$_", ask => 'wait=0.2' } } 1 .. 40 ]);
$page->holds('$asked_origin', %pages);
$page->finds('$asked_origin', 'misses at the same time', [ 'cost=1' => 'cost=0' ], %pages);

$page->all_attacked('otel_trace');
done_testing;
