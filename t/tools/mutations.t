# What tools/run-mutants changes: each kind of change, in code only.

use v5.36;
use lib 't/lib';
use RateLimit::Mutations qw(all_sources all_tests apply_mutation builds_of may_notice mutations_of);
use Test::More;

# A text after each of its mutations.
sub mutants ($path, $text) { return map { apply_mutation($text, $_) } mutations_of($path, $text) }

sub becomes ($path, $text, @expected) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is_deeply([ sort(mutants($path, $text)) ], [ sort @expected ], $text =~ s/\n/ /gr);
}

becomes('a.cpp', 'if (a < b) {',  'if (a <= b) {');
becomes('a.cpp', 'if (a == b) {', 'if (a != b) {');
becomes('a.cpp', 'x = min(a + 1, b);', map { "x = $_;" } 'min(a - 1, b)', 'min(a + 2, b)', 'min(a + 0, b)', 'max(a + 1, b)');
becomes('a.cpp', 'if (!a) {', 'if (a) {');
becomes('a.cpp', 'return is(true);', 'return is(false);');
becomes('a.cpp', 'return NGX_DECLINED;', 'return NGX_OK;');
becomes('a.cpp', 'if (a && f(b, c)) {', 'if (a || f(b, c)) {', 'if (a) {');
becomes('a.cpp', "if (a ||\n    (b && c)) {", "if (a) {", "if (a ||\n    (b || c)) {", "if (a ||\n    (b)) {");
becomes('a.cpp', "{\n    one.f(a, b);\n}", "{\n\n}");
becomes('a.cpp', "{\n    one.a = b;\n}",   "{\n\n}");
becomes('a.cpp', "{\n    break;\n}",       "{\n\n}");
becomes('a.cpp', "{\n    std::vector<int> all(a);\n    const int b = a;\n    return f(a);\n}");
becomes('a.cpp', qq{g("a < b", '+'); // a < b\n#if A == 1\n});

becomes('a.lua', 'if a ~= b then', 'if a == b then');
becomes('a.lua', 'if not a and b then', 'if a and b then', 'if not a or b then', 'if not a then');
becomes('a.lua', "do\n    call('SET', a)\nend", "do\n\nend");
becomes('a.lua', "f(ARGV[1]) -- a < 1");

is((mutations_of('a.cpp', "\n\na < b"))[0]{line}, 3, 'of which line it is');

# A test whose programs nobody builds fails in a tree without a mutation, and is left out.
subtest 'what has to be built for a test' => sub {
    my %built = (
        unit_tests                   => 'unit_tests',
        't/rules/limit.t'            => 'module',
        't/rules/deny_cache.t'       => 'module', # starts nginx by a module of t/lib
        't/rules/algorithms.t'       => 'optimized',
        't/simulation/fleets.t'      => 'optimized',
        't/replay/command_line.t'    => 'redis-rate-limit-replay',
        't/replay/page.t'            => 'redis-rate-limit-replay',
        't/replay/nginx.t'           => 'module print_verdicts',
    );
    is(join(' ', builds_of($_)), $built{$_}, $_) for sort keys %built;
    my $cmake    = do { local (@ARGV, $/) = 'CMakeLists.txt'; <> };
    my %is_built = map { $_ => 1 } 'module', 'optimized', $cmake =~ /add_executable\(([\w-]+)/g;
    is(join(' ', grep { !$is_built{$_} } map { builds_of($_) } all_tests()), '', 'all of that can be built');
};

subtest 'who may notice a change' => sub {
    my %noticed = (
        'src/nginx_module/http/module.cpp' => [ 1, 0, 0, 0, 1 ],
        'src/replay/rules/replay.cpp'      => [ 0, 0, 1, 1, 1 ],
        'src/rate_limit/text/key.cpp'      => [ 1, 1, 1, 1, 1 ],
        'lua/bucket.lua'                   => [ 1, 1, 1, 1, 1 ],
    );
    for my $source (sort keys %noticed) {
        my @notice = map { may_notice($_, $source) ? 1 : 0 } qw(t/rules/limit.t unit_tests replay_tests t/rules/algorithms.t t/replay/nginx.t);
        is("@notice", join(' ', $noticed{$source}->@*), $source);
    }
};

chomp(my @sources = qx{find src lua -name '*.cpp' -o -name '*.hpp' -o -name '*.lua' | LC_ALL=C sort});
is_deeply([ all_sources() ], \@sources, 'sources are mutated in folders of any depth');

# What `make help` shows, without a variable set.
my $said = qx{make mutants MUTANTS=0 2>&1};
like($said, qr/^0 of \d+ mutations, by seed 1$/m, 'make mutants') or diag $said;

done_testing;
