# docs/contributing.md: the rooms of the house and what a change takes are as it says there.

use v5.36;
use lib 't/lib';
use File::Find qw(find);
use RateLimit::Nginx;
use Test::More;

my $page = RateLimit::Nginx::slurp('docs/contributing.md');

# Each row of the house has a floor and, in its third cell, the floor's rooms.
my ($house) = $page =~ /^## The house\n(.*?)^## /ms;
my %rooms = $house =~ /^\| `(src\/\w+)` \| [^|]* \| ([^|]*)\|/mg;
my @named = map { my $floor = $_; map { "$floor/$_" } $rooms{$floor} =~ /`([^`]+)`/g } keys %rooms;
my @folders;
find({ wanted => sub { push @folders, $_ if -d && m{^src/[^/]+/} }, no_chdir => 1 }, 'src');
is(join(' ', sort @named), join(' ', sort @folders), 'the rooms of the house are the folders of src');

my ($table) = $page =~ /^## What a change takes\n(.*?)^## /ms;
my @paths = grep { !/</ } $table =~ m{`((?:src|lua|t|docs|dashboard|docker)/[^`]*)`}g;
cmp_ok(scalar @paths, '>', 15, 'it names files');
is(join(' ', grep { !-e } @paths), '', 'that there are');

my %text_of;
find({ wanted => sub { $text_of{$_} = RateLimit::Nginx::slurp($_) if /\.[ch]pp$/ }, no_chdir => 1 }, 'src');

sub files_with ($pattern) { return join ' ', grep { $text_of{$_} =~ $pattern } sort keys %text_of }

# What differs between algorithms is asked of their traits.
my $algorithm = qr/(?:\w+::)*Algorithm::\w+/;
is(files_with(qr/[=!]= $algorithm\b|\bcase $algorithm:/), '', 'no code but their table and their files tells algorithms apart');

# A name that metrics have is written once.
my ($rule_counters) = grep { m{/rule_counters\.hpp$} } keys %text_of;
my @families = $text_of{$rule_counters} =~ /^ *"(\w+_total)"/mg;
cmp_ok(scalar @families, '>', 3, 'rules have families of counters');
is(files_with(qr/"\Q$_\E"/), $rule_counters, "$_ has its name in one file") for @families;

done_testing;
