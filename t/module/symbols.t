# Names that the module shares with the rest of the process. nginx loads all modules into one scope: what
# one exports can take the place of what another one meant.

use v5.36;
use lib 't/lib';
use RateLimit::Nginx;
use Test::More;

# The names that a file defines for others, or with --undefined-only those that it wants of others,
# each with its type and perhaps its version, as in `open64@GLIBC_2.2.5`.
sub names ($file, $which = '--defined-only') {
    open my $nm, '-|', 'nm', '-D', $which, $file or die "nm: $!";
    my %type_of = map { /(\S) (\S+)$/ ? ($2 => $1) : () } <$nm>;
    close $nm or die "nm does not read $file";
    return \%type_of;
}

# The files that are in the process before any module is: nginx, its libraries, and before them the
# runtime of a sanitizer.
sub nginx_and_its_libraries () {
    my $nginx = RateLimit::Nginx::binary;
    return ($nginx, qx{ldd $nginx} =~ m{=> (/\S+)}g, split ' ', RateLimit::Nginx::preload);
}

my $exported = names(RateLimit::Nginx::module);
is_deeply([ sort keys %$exported ], [qw(ngx_module_names ngx_module_order ngx_modules)], 'the module exports what nginx asks for and nothing else');

# Weak names may be missing.
my $wanted   = names(RateLimit::Nginx::module, '--undefined-only');
my @wanted   = grep { $wanted->{$_} ne 'w' } keys %$wanted;
my %defined  = map { s/@.*//r => 1 } map { keys names($_)->%* } nginx_and_its_libraries;
my @versions = grep { !/^(?:CXXABI|GCC|GLIBC|GLIBCXX)_/ } map { /@(.*)/ } @wanted;
# cctz is a shared library alone, whose names are in a namespace of its own: the process has it once.
my @unsafe = sort grep { !/@|^_ZNK?4cctz/ && !$defined{$_} } @wanted;

cmp_ok(scalar(grep { /^ngx_/ } @wanted), '>', 20, 'it uses nginx');
is_deeply(\@versions, [], 'what it takes by version is of the libraries of C and C++ alone');
is_deeply(\@unsafe, [], 'every other name that it uses is in nginx or its libraries, which come before all modules');

done_testing;
