# docs/deploying.md: its limits hold beside nginx's other modules, against a client who has read the page.

use v5.36;
use lib 't/lib';
use MIME::Base64 qw(encode_base64);
use RateLimit::Attack qw(addresses_of_a_network leaving);
use Test::More;

my $page = RateLimit::Attack->new('docs/deploying.md');

my %guard = (scale => { 1000 => 20, 200 => 15 }, moves => [ ({}) x 30, addresses_of_a_network(), leaving() ], innocents => [ {} ]);
$page->holds('limit_req ', %guard);
$page->finds('limit_req ', 'whole addresses of IPv6', [ '$redis_rate_limit_addr' => '$remote_addr' ], %guard, moves => [ map { +{ address => "2001:db8:a:a::$_" } } 1 .. 40 ]);

sub basic ($scheme, $user, $password = 'right') { return [ Authorization => $scheme . encode_base64("$user:$password", '') ] }

my @mine = map { basic($_, 'mallory') } 'Basic ', 'basic ', 'BASIC ', "\tBasic ", 'Basic  ';
my %users = (
    upstream  => { field => 'authorization', keys => { mallory => 'attacker', alice => 'innocent' } },
    files     => { users => "mallory:{PLAIN}right\nalice:{PLAIN}right\n" },
    request   => { path => '/private/' },
    innocents => [ { fields => basic('Basic ', 'alice') } ],
);
my @guesses = map { +{ fields => basic('Basic ', $_, 'guess') } } qw(alice mallory nobody);
$page->holds('auth_basic ', %users, moves => [ (map { +{ fields => $_ } } @mine), @guesses, map { +{ %$_, fields => $mine[0] } } addresses_of_a_network() ]);

# From many addresses, so that the limit of the user is what holds.
my $address = 0;
my %spread = (%users, scale => { 100 => 8 }, moves => [ map { +{ fields => $_, actor => 'everywhere', address => '192.0.2.' . ++$address } } @mine, @mine ]);
$page->holds('auth_basic ', %spread);
$page->finds('auth_basic ', 'the field is the key', [ '$remote_user  ' => '$http_authorization' ], %spread);

$page->all_attacked('redis_rate_limit_dry_run on');
done_testing;
