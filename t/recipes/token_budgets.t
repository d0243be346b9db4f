# docs/token-budgets.md: no budget is exceeded by a client who has read the page, and what costs nothing is
# not charged.

use v5.36;
use lib 't/lib';
use RateLimit::Attack qw(bearers compressed leaving);
use Test::More;

my $page = RateLimit::Attack->new('docs/token-budgets.md');

my @errors = (map { +{ ask => $_ } } ('status=401') x 8, ('status=429') x 8, ('status=500') x 8, ('status=529') x 8);
my @encoded = map { +{ %$_, fields => [ Authorization => 'Bearer k', 'Content-Encoding' => 'gzip' ] } } compressed();
my %budget = (
    scale     => { 1000000 => 40_000, 20000 => 4000 },
    upstream  => { field => 'authorization', keys => { k => 'attacker', i => 'innocent', o => 'owner of an upstream that is gone' } },
    request   => { path => '/v1/chat/completions', method => 'POST', body => '{"max_tokens":3000}', fields => [ Authorization => 'Bearer k' ] },
    moves     => [ @encoded, @encoded, leaving(), leaving(), bearers('k'), { ask => 'silent' }, { ask => 'stream,silent' }, { ask => 'stream' }, { ask => 'break' }, { body => '{' } ],
    innocents => [ map { +{ fields => [ Authorization => 'Bearer i' ], %$_ } } @errors, {} ],
);

# Who finds no upstream is charged nothing.
sub nobody_listens ($attack) {
    $attack->{upstream}{process}->signal('KILL');
    $attack->{upstream}{process}->wait_for_end;
    my %request = (actor => 'unlucky', method => 'POST', path => '/v1/chat/completions', body => '{}', fields => [ Authorization => 'Bearer o' ]);
    my @statuses = RateLimit::Attack::play($attack, map { +{%request} } 1 .. 24);
    return map { "without an upstream the answer is $_" } grep { $_ ne '502' } @statuses;
}

my $default = "final_cost=\$charged;\n\n        client_max_body_size 16k;                   #";
$page->holds($default, %budget, after => \&nobody_listens);
$page->finds($default, 'the whole field', [ 'zone $redis_rate_limit_bearer' => 'zone $http_authorization', 'proxy_set_header   Authorization' => '#' ], %budget);
$page->finds($default, 'no key is no limit', [ 'return 401;' => '' ], %budget);
$page->finds($default, 'a usual reservation', [ 'cost=20000' => 'cost=100' ], %budget);
$page->finds($default, 'encoded prompts', [ 'proxy_set_header   Content-Encoding' => '#' ], %budget);
$page->finds($default, 'who leaves gets the reservation back', [ 'default                            "";' => 'default 0;' ], %budget);
$page->finds($default, 'errors keep the reservation', [ 'final_cost=$charged' => 'final_cost=$tokens' ], %budget, moves => []);

my @reads = map { +{ method => 'GET', body => undef, path => '/v1/models' } } 1 .. 40;
$page->holds('cost=$reserved_by_method final_cost=$settled', %budget, scale => { 200000 => 40_000, 100000 => 6000, 20000 => 4000 },
    moves => [ @{ $budget{moves} }, @reads ], innocents => [ map { +{ fields => [ Authorization => 'Bearer i' ], %$_ } } @errors, @reads, {} ]);
$page->finds('cost=$reserved_by_method final_cost=$settled', 'reading costs a reservation', [ 'GET     0;' => '' ], %budget, scale => { 200000 => 40_000, 100000 => 6000, 20000 => 4000 },
    moves => [], innocents => [ map { +{ fields => [ Authorization => 'Bearer i' ], %$_ } } @reads, {} ]);

$page->holds('zone=per_team:10m', %budget, scale => { 10000000 => 60_000, 1000000 => 40_000, 20000 => 4000 });

# --- what stands in bodies

my @bodies = map { +{ body => $_ } } (
    '{"metadata":{"max_tokens":1},"max_tokens":3000,"model":"small-1"}',
    '{"model":"small-1","max_tokens":3000,"metadata":{"max_tokens":1}}',
    '{"max_tokens":1,"model":"small-1","max_tokens":3000}',
    '{"max_tok\u0065ns":3000,"model":"small-1"}',
    '{"model":"sm\u0061ll-1","max_tokens":3000}',
    '{"model":"small-1","max_tokens":"3000"}',
    '{"model":"small-1","max_tokens":3e3}',
    '{"model":"small-1","max_tokens":1,"max_completion_tokens":3000}',
    '{"model":"small-1","max_tokens":900,"n":20}',
    '{"model":"small-1","max_tokens":0}',
    '{"model":"large-1","max_tokens":3000}',
    '{"model":{"a":1},"model":"small-1","max_tokens":3000}',
    '[{"model":"small-1","max_tokens":3000}]',
    "\x{ef}\x{bb}\x{bf}" . '{"model":"small-1","max_tokens":3000}',
    '{"model":"small-1","max_tokens":3000}{}',
    '{"model":"small-1"}',
    (map { qq({"model":"invented-$_","max_tokens":3000}) } 1 .. 3),
    '{"model":"small-1","max_tokens":3000,"x":"' . 'x' x 20_000 . '"}',
);
my %bodies = (
    %budget,
    scale     => { 1000000 => 50_000, 1500000 => 70_000 },
    moves     => [ @bodies, (map { +{ %$_, fields => [ Authorization => 'Bearer k', 'Content-Encoding' => 'identity' ] } } $bodies[0]), map { +{ body => '{"model":"small-1","max_tokens":3000}', %$_ } } leaving(), bearers('k') ],
    innocents => [ { fields => [ Authorization => 'Bearer i' ], body => '{"model":"small-1","max_tokens":3000}' } ],
    rounds    => 3,
);
$page->holds('json_set $max_tokens', %bodies);
$page->finds('json_set $max_tokens', 'the first such words in the text', [
    'json_set $max_tokens  $request_body max_tokens;' => 'map $request_body $max_tokens { default ""; "~\"max_tokens\"\s*:\s*(?<most>\d{1,6})\b" $most; }',
    17400 => 'small', small => 1000, 20400 => 4000,
], %bodies);
$page->finds('json_set $max_tokens', 'models that are invented', [ '"~^small-1 [1-3]\d{3}$"    20400' => '"~^\S+ [1-3]\d{3}$" 4000', 'zone=per_key   algorithm=fixed_window limit=1500000' => 'zone=per_key algorithm=fixed_window limit=999999999' ],
    %bodies, moves => [ map { +{ body => qq({"model":"invented-$_","max_tokens":3000}) } } 1 .. 40 ]);

my @calls = map { +{ body => $_ } } (
    ('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"report"}}') x 6,
    '{"jsonrpc":"2.0","id":1,"params":{"name":"decoy"},"method":"tools/call","params":{"name":"report"}}',
    '{"jsonrpc":"2.0","id":1,"meta":{"params":{"name":"decoy"}},"method":"tools/call","params":{"arguments":{"name":"decoy"},"name":"report"}}',
    '{"jsonrpc":"2.0","id":1,"method":"tools\/call","params":{"name":"rep\u006frt"}}',
    '[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"report"}},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"report"}}]',
    '{"id":1,"method":"tools/call","params":{"name":"report"}}',
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"report"},"x":"' . 'x' x 70_000 . '"}',
);
my %calls = (%budget, scale => { 200 => 60 }, request => { %{ $budget{request} }, path => '/mcp' }, moves => [ @calls, bearers('k'), map { +{ %{ $calls[0] }, %$_ } } leaving(), bearers('k'), ({ method => 'PUT', body => '[' . join(',', ($calls[0]{body}) x 3) . ']' }) x 3 ],
    innocents => [ { %{ $calls[0] }, fields => [ Authorization => 'Bearer i' ] } ]);
$page->holds('json_set $rpc_tool', %calls);
$page->finds('json_set $rpc_tool', 'arrays of calls', [ 'return 400;' => '' ], %calls);

$page->all_attacked;
done_testing;
