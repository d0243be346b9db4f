# docs/kubernetes.md: what its manifests and its converter put into nginx holds what the page promises, against a
# client who has read it.

use v5.36;
use lib 't/lib';
use RateLimit::Attack qw(addresses_of_a_network fields_of leaving);
use RateLimit::Documentation qw(promises_in);
use RateLimit::Nginx;
use Test::More;
use YAML::XS qw(Load);

my $file = 'docs/kubernetes.md';
my $text = RateLimit::Nginx::slurp($file);
my ($zones, @recipes);

# A recipe of the zones so far and rules of a location.
sub add ($place, $http, $rules, $behind) {
    $zones = join '', $http =~ /^ *redis_rate_limit_zone .*\n/mg if $http =~ /redis_rate_limit_zone/;
    my $text = $http =~ /^geo /m ? $http : $zones;
    push @recipes, { place => $place, text => "$text\nserver {\n    location / {\n$rules\n        proxy_pass http://127.0.0.1:8081;\n    }\n}\n", promises => [ promises_in($behind) ] };
}

while ($text =~ /^```(yaml|nginx)\n(.*?)^```$(.*?)(?=^#+ |^```|\z)/msg) {
    my ($language, $block, $behind) = ($1, $2, $3);
    my $kind  = join ' ', $block =~ /^kind: (\w+)/mg;
    my $place = "$file:" . (1 + (substr($text, 0, $-[0]) =~ tr/\n//)) . ($kind ? " $kind" : '');
    next if $block !~ /redis_rate_limit/;
    if ($language eq 'nginx') {
        my ($http, $rules) = split /^# --- locations.*\n/m, $block;
        add($place, $http, $rules, $behind);
        next;
    }
    my ($http, $rules) = ('', '');
    for my $object (Load($block)) {
        my $data = $object->{data} // {};
        $http  .= $data->{'http-snippets'}     // '';
        $rules .= $data->{'location-snippets'} // '';
        $rules .= $object->{metadata}{annotations}{'nginx.org/location-snippets'} // '';
        $rules .= $_->{'location-snippets'} // '' for @{ $object->{spec}{routes} // [] };
        for my $snippet (@{ $object->{spec}{snippets} // [] }) {
            $http  .= $snippet->{value} if $snippet->{context} eq 'http';
            $rules .= $snippet->{value} if $snippet->{context} eq 'http.server.location';
        }
    }
    add($place, $http, $rules, $behind) if $rules =~ /redis_rate_limit/;
}
my $page = RateLimit::Attack->new($file, @recipes);
is(scalar @recipes, 5, 'recipes of the page');

my %by_address = (scale => { 100 => 10, 20 => 6 }, moves => [ ({}) x 20, addresses_of_a_network(), leaving() ], innocents => [ {} ]);
$page->holds($_, %by_address) for 'ConfigMap', 'VirtualServer', 'HTTPRoute';
$page->finds('ConfigMap', 'whole addresses of IPv6', [ '$redis_rate_limit_addr' => '$remote_addr' ], %by_address, moves => [ map { +{ address => "2001:db8:a:a::$_" } } 1 .. 20 ]);

my %by_key = (
    scale     => { 20 => 8, 100 => 30 },
    upstream  => { field => 'x-api-key', keys => { k => 'attacker', i => 'innocent' }, serves_anybody => 1, only_field => 1 },
    innocents => [ { fields => [ 'X-API-Key' => 'i' ] } ],
);
$page->holds('zone=per_key algorithm', %by_key, moves => [ fields_of('X-API-Key', 'k'), addresses_of_a_network() ]);

# From many addresses, so that the limit of the key is what holds.
my $address = 0;
my %spread = (%by_key, moves => [ map { +{ %$_, actor => 'everywhere', address => '192.0.2.' . ++$address } } fields_of('X-API-Key', 'k'), fields_of('X-API-Key', 'k') ]);
$page->holds('zone=per_key algorithm', %spread);
$page->finds('zone=per_key algorithm', 'bytes that the application cuts', [ 'return 400;' => '' ], %spread);
$page->finds('zone=per_key algorithm', 'the application reads what nginx does not', [ 'proxy_set_header' => '#' ], %spread);

# What the converter writes counts whole addresses, as ingress-nginx does, and answers 503.
my %converted = (scale => { 50 => 10 }, request => { address => '203.0.113.1', ask => 'wait=0.3' }, moves => [ ({}) x 60, leaving() ], together => 30, innocents => [ { address => '203.0.113.2' } ], stops_nobody => 1);
$page->holds('$limited_shop', %converted);
$page->finds('$limited_shop', 'none of those at a time', [ 'redis_rate_limit zone=shop/api algorithm=concurrency' => '#' ], %converted, scale => { 50 => 40 });

$page->all_attacked;
done_testing;
