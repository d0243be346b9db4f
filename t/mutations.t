# What tools/run-mutants changes: each kind of change, in code only.

use v5.36;
use lib 't/lib';
use RateLimit::Mutations qw(apply_mutation mutations_of);
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

done_testing;
