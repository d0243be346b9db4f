package RateLimit::Mutations;

# Small changes of a source file, C++ or Lua, that a test should notice: for tools/run-mutants. They
# are found in the text, as clang-format lays it out, by patterns and not by a grammar: some of them
# will not compile. And which tests may notice them: by what they run.

use v5.36;
use Exporter 'import';
use File::Find qw(find);

our @EXPORT_OK = qw(all_sources all_tests apply_mutation builds_of may_notice mutations_of);

my @common = (
    [ qr/ < /,    ' <= ' ], [ qr/ <= /, ' < ' ], [ qr/ > /, ' >= ' ], [ qr/ >= /, ' > ' ],
    [ qr/ \+ /,   ' - ' ],  [ qr/ - /,  ' + ' ], [ qr/ \* /, ' / ' ], [ qr{ / }, ' * ' ],
    [ qr/\btrue\b/, 'false' ], [ qr/\bfalse\b/, 'true' ], [ qr/\bmin\b(?=\()/, 'max' ], [ qr/\bmax\b(?=\()/, 'min' ],
);

# No part of a name or of a fraction, and in a script no index, as of ARGV.
my %number = (cpp => qr/(?<![\w.'])\d+(?![\w.'])/, lua => qr/(?<![\w.\[])\d+(?![\w.])/);

my %operators = (
    cpp => [
        @common,
        [ qr/ == /, ' != ' ], [ qr/ != /, ' == ' ], [ qr/ && /, ' || ' ], [ qr/ \|\| /, ' && ' ], [ qr/!(?=[\w(*])/, '' ],
        [ qr/ \+= /, ' -= ' ], [ qr/ -= /, ' += ' ], [ qr/\bceil\b(?=<)/, 'floor' ],
        [ qr/(?<=return )NGX_DECLINED(?=;)/, 'NGX_OK' ], [ qr/(?<=return )NGX_OK(?=;)/, 'NGX_ERROR' ],
        [ qr/(?<=return )NGX_AGAIN(?=;)/, 'NGX_OK' ],    [ qr/(?<=return )NGX_(?:DONE|ERROR)(?=;)/, 'NGX_OK' ],
    ],
    lua => [
        @common,
        [ qr/ == /, ' ~= ' ], [ qr/ ~= /, ' == ' ], [ qr/ and /, ' or ' ], [ qr/ or /, ' and ' ], [ qr/\bnot /, '' ],
    ],
);

# What joins two conditions, of which the second is dropped; and what ends a condition.
my %junction = (cpp => qr/ && | &&(?=\n)| \|\| | \|\|(?=\n)/, lua => qr/ and | or /);
my %end      = (cpp => qr/\G(?: &&| \|\|| \?|[;,:])/, lua => qr/\G(?: and | or | then| do\b|[,\n])/);

# Statements that begin a line: calls, assignments, and what leaves a block.
my $callee    = qr/(?:[\w:.\[\]*]|->|\(\)\.|\(\)->)+/;
my %statement = (
    cpp => qr/^ +(?:$callee\([^;{}]*\)|[\w.\[\]>*-]+ [-+|&]?= [^;{}]*|(?:\+\+|--)[\w.>-]+|return|break|continue);$/m,
    lua => qr/^ +(?!local )(?:$callee\([^\n]*\)|[\w.\[\], ]+ = [^\n]*)$/m,
);

# The text with other bytes in place of what is no code: comments, strings, preprocessor lines.
sub code_of ($kind, $text) {
    my $blank = sub ($bytes) { $bytes =~ s/[^\n]/#/gr };
    return $text =~ s/(--[^\n]*|'(?:\\.|[^'\n])*'|"(?:\\.|[^"\n])*")/$blank->($1)/ger if $kind eq 'lua';
    return $text =~ s{(//[^\n]*|R"\(.*?\)"|"(?:\\.|[^"\n])*"|(?<!\d)'(?:\\.|[^'\n\\])'|^#[^\n]*|^\s*static_assert[^;]*;)}{$blank->($1)}gemsr;
}

# The length of the condition that begins there, or nothing where it has no end that is understood.
sub length_of_condition ($kind, $code, $from) {
    my $depth = 0;
    for (my $at = $from; $at < length $code; ++$at) {
        my $byte = substr $code, $at, 1;
        pos($code) = $at;
        return $at - $from if $depth == 0 && $at > $from && ($byte =~ /[)\]}]/ || $code =~ /$end{$kind}/gc);
        return if $byte =~ /[;{}]/;
        ++$depth if $byte =~ /[(\[]/;
        --$depth if $byte =~ /[)\]]/;
    }
    return;
}

# All of a file, in the order of their places: { line, at, from, to }, of which `from` stands at byte
# `at` of the text and is replaced by `to`.
sub mutations_of ($path, $text) {
    my $kind = $path =~ /\.lua$/ ? 'lua' : 'cpp';
    my $code = code_of($kind, $text);
    my @found;
    my $add = sub ($at, $length, $to) {
        my $line = 1 + (substr($text, 0, $at) =~ tr/\n//);
        push @found, { line => $line, at => $at, from => substr($text, $at, $length), to => $to };
    };
    for my $operator ($operators{$kind}->@*) {
        my ($pattern, $to) = @$operator;
        $add->($-[0], $+[0] - $-[0], $to) while $code =~ /$pattern/g;
    }
    while ($code =~ /$number{$kind}/g) {
        my ($at, $length, $value) = ($-[0], $+[0] - $-[0], $&);
        $add->($at, $length, $value + 1);
        $add->($at, $length, $value - 1) if $value > 0;
    }
    while ($code =~ /$junction{$kind}/g) {
        my ($at, $after) = ($-[0], $+[0]);
        my $length = length_of_condition($kind, $code, $after);
        $add->($at, $after + $length - $at, '') if $length;
    }
    while ($code =~ /$statement{$kind}/g) {
        my ($at, $statement) = ($-[0], $&);
        my $is_whole = ($statement =~ tr/(//) == ($statement =~ tr/)//);
        my $is_begin = $kind eq 'lua' || substr($code, 0, $at) =~ /[;{}:)#]\s*\z/; # not in the middle of one
        $add->($at, length $statement, '') if $is_whole && $is_begin;
    }
    return sort { $a->{at} <=> $b->{at} || $a->{to} cmp $b->{to} } @found;
}

sub apply_mutation ($text, $mutation) {
    substr $text, $mutation->{at}, length $mutation->{from}, $mutation->{to};
    return $text;
}

# The files that can be mutated, however deep their folder is.
sub all_sources () {
    my @files;
    find({ no_chdir => 1, wanted => sub { push @files, $_ if /\.(?:[ch]pp|lua)$/ } }, 'src', 'lua');
    return sort @files;
}

# The files that `make test` runs.
sub all_tests () { return grep { !m{^t/(?:packages|soak)/} } glob 't/*/*.t' }

# What has to be built for a test: programs of build/cmake, `module`, and `optimized` for those of build/simulation
# that `make test` builds. A test is a file, or the name of such a program that is a test by itself.
sub builds_of ($test) {
    return $test if $test !~ m{/};
    open my $file, '<', $test or die "$test: $!\n";
    my $text     = do { local $/; <$file> };
    my %programs = map { $_ => 1 } $text =~ m{\bbuild/cmake/([\w-]+)}g;
    $programs{optimized} = 1 if $text =~ m{\bbuild/simulation\b};
    $programs{module} = 1 if !%programs || $text =~ /RateLimit::Nginx->(?:new|start_new)/;
    return sort keys %programs;
}

# The programs that have code of these folders; all have that of the others.
my %only_in = (
    'src/nginx_module' => [qw(module)],
    'src/replay'       => [qw(optimized print_verdicts redis-rate-limit-replay replay_tests simulation)],
);

# Whether a change of this source is a change of what the test runs.
sub may_notice ($test, $source) {
    my ($folder) = $source =~ m{^(src/\w+)/};
    my $only = $only_in{ $folder // '' } // return 1;
    my %runs = map { $_ => 1 } builds_of($test);
    return 0 + grep { $runs{$_} } @$only;
}

1;
