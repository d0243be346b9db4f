# docs/at-night.md: the limits with which its lines are shown hold against a client who has read it.

use v5.36;
use lib 't/lib';
use RateLimit::Attack qw(addresses_of_a_network fields_of leaving);
use Test::More;

my $page = RateLimit::Attack->new('docs/at-night.md');

my %plan = (
    changes   => [ 'listen 8080;' => 'listen %PORT%;' ],
    scale     => { 600 => 6, 100 => 20 },
    upstream  => { field => 'x-api-key', keys => { k => 'attacker', i => 'innocent' }, serves_anybody => 1, only_field => 1 },
    innocents => [ { fields => [ 'X-API-Key' => 'i' ] } ],
);
$page->holds('zone=per_customer:10m', %plan, moves => [ fields_of('X-API-Key', 'k'), addresses_of_a_network(), leaving() ]);

# From many addresses, so that the limit of the key is what holds.
my $address = 0;
my %spread = (%plan, moves => [ map { +{ %$_, actor => 'everywhere', address => '192.0.2.' . ++$address } } fields_of('X-API-Key', 'k') ]);
$page->holds('zone=per_customer:10m', %spread);
$page->finds('zone=per_customer:10m', 'bytes that the application cuts', [ 'return 400;' => '' ], %spread);
$page->finds('zone=per_customer:10m', 'the application reads what nginx does not', [ 'proxy_set_header' => '#' ], %spread);

$page->all_attacked;
done_testing;
