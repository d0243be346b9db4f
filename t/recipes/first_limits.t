# docs/first-limits.md: the three paths hold what they promise, against a client who has read the page.

use v5.36;
use lib 't/lib';
use RateLimit::Attack qw(addresses_of_a_network bearers compressed fields_of leaving);
use RateLimit::Port qw(empty_port);
use Test::More;

my $page = RateLimit::Attack->new('docs/first-limits.md');

$page->holds('concurrency limit=20', scale => { 100 => 40, 20 => 6 }, request => { ask => 'wait=0.1' }, moves => [ ({}) x 60, addresses_of_a_network(), leaving() ], innocents => [ {} ]);
$page->finds('concurrency limit=20', 'whole addresses of IPv6', [ '$redis_rate_limit_addr' => '$remote_addr' ], scale => { 100 => 10, 20 => 6 }, moves => [ addresses_of_a_network() ], rounds => 8);

my %plans = (
    changes   => [ '127.0.0.1:9145' => '127.0.0.1:' . empty_port(), 'k-77b2e4d0' => 'k', 'k-3f0c9a1d' => 'i' ],
    scale     => { 60 => 8, 30 => 5 },
    upstream  => { field => 'x-api-key', keys => { k => 'attacker', i => 'innocent' }, serves_anybody => 1, only_field => 1 },
    moves     => [ fields_of('X-API-Key', 'k'), addresses_of_a_network(), leaving() ],
    innocents => [ { fields => [ 'X-API-Key' => 'i' ] } ],
);
$page->holds('$nobodys_address', %plans);
$page->finds('$nobodys_address', 'the whole field', [ 'map $redis_rate_limit_field_x_api_key' => 'map $http_x_api_key', 'proxy_set_header X-API-Key' => '#' ], %plans);

my @encoded = map { +{ %$_, fields => [ Authorization => 'Bearer k', 'Content-Encoding' => 'gzip' ] } } compressed();
my %budget = (
    scale     => { 1000000 => 40_000, 20000 => 4000 },
    upstream  => { field => 'authorization', keys => { k => 'attacker', i => 'innocent' } },
    request   => { path => '/v1/chat/completions', method => 'POST', body => '{"max_tokens":3000}', fields => [ Authorization => 'Bearer k' ] },
    moves     => [ @encoded, @encoded, leaving(), leaving(), bearers('k'), { ask => 'silent' }, { ask => 'stream,silent' }, { ask => 'stream' }, { ask => 'break' } ],
    innocents => [ map { +{ fields => [ Authorization => 'Bearer i' ], %$_ } } (map { +{ ask => $_ } } ('status=401') x 8, ('status=500') x 8), {} ],
);
$page->holds('final_cost=$charged', %budget);
$page->finds('final_cost=$charged', 'the whole field', [ 'zone $redis_rate_limit_bearer' => 'zone $http_authorization', 'proxy_set_header   Authorization' => '#' ], %budget);

$page->all_attacked;
done_testing;
