# What `nginx -t` says of redis_rate_limit_response_value, and what a level inherits of it is in
# t/http/response_value.t.

use v5.36;
use lib 't/lib';
use RateLimit::Configuration qw(accepts invalid refuse_all refuses);
use Test::More;

my $directive = 'redis_rate_limit_response_value';
my $taken     = 'a name that nothing else defines';
my $paths     = 'paths such as usage.total_tokens, items[0].n, [*].n or ["a.b"], or max(a,b) of some, joined by + and |';

sub refused_variable ($name, $expected) { return invalid($directive, 'variable', $name, $expected) }

refuses('location', "$directive $_ a;", refused_variable($_, '$ and a name of A-Za-z0-9_')) for qw(tokens $ $a-b $a.b $$a), '${a}';
refuses('location', "$directive \$t $_->[0];", invalid($directive, 'expression', $_->[1], $paths))
    for map { ref ? $_ : [$_, $_] } qw(a..b a| |a a++b a[x] a[ a-b a.), 'max()', 'max(a', 'max(a|b)', 'max(a+b)', ['"a b"', 'a b'], ['""', ''], ['a[\'b\']', 'a[\'b\']'];
refuses('location', "$directive \$t " . join('+', map { "p$_" } 1 .. 33) . ';', qr/\Q$directive: invalid expression "p1+p2+\E.*", expected at most 32 paths on a level/);
refuses('location', join(' ', map { "$directive \$t$_ p$_;" } 1 .. 33), invalid($directive, 'expression', 'p33', 'at most 32 paths on a level'));
refuses('location', "$directive \$t " . join('.', ('a') x 65) . ';', qr/expected paths of at most 64 steps/);

for my $line ("$directive \$t a; $directive \$t b;", "$directive \$t a; $directive \$T a;") {
    refuses($_, $line, qr/$directive: invalid variable "\$[tT]", expected each name only once on a level/) for qw(http location);
}
refuse_all(
    http => (
        "$directive \$uri a;"                               => refused_variable('$uri', $taken),
        "$directive \$args a;"                              => refused_variable('$args', $taken),
        "$directive \$redis_rate_limit_status a;"           => refused_variable('$redis_rate_limit_status', $taken),
        "map \$uri \$t { default 1; } $directive \$t a;"    => refused_variable('$t', $taken),
        "geo \$t { default 1; } $directive \$T a;"          => refused_variable('$T', $taken),
        "$directive \$t a; map \$uri \$t { default 1; }"    => qr/the duplicate "t" variable/,
        "$directive \$t a; server { set \$t 1; }"           => qr/the duplicate "t" variable/,
        "server { set \$t 1; location / { $directive \$t a; } }" => refused_variable('$t', $taken),
    )
);
refuse_all(
    location => (
        "$directive \$t;"                      => qr/invalid number of arguments in "$directive"/,
        "$directive \$t a b;"                  => qr/invalid number of arguments in "$directive"/,
        "if (\$arg_a) { $directive \$t a; }" => qr/"$directive" directive is not allowed here/,
    )
);

accepts('http', "$directive \$t a; $directive \$u a; server { $directive \$t b; location / { $directive \$t c; $directive \$v c; } location /b { $directive \$t c; } }");
accepts('location', "$directive \$Tokens $_;") for 'usage.total_tokens', 'usage["a.b"].c', "'[\"a b\"] | a + b'", '[*].u|a.*.b[0]', join('+', map { "p$_" } 1 .. 32), 'max(usage.n,start.usage.n)+b', "'max( a, b ) + c | d'";
accepts('location', join(' ', map { "$directive \$t$_ usage.total_tokens+a;" } 1 .. 40));
accepts('rule', 'zone=z algorithm=fixed_window limit=10 window=60 cost=5 final_cost=$tokens; redis_rate_limit_response_value $tokens usage.total_tokens');

done_testing;
