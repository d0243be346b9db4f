# docs/contributing.md: what a change takes is as it says there.

use v5.36;
use lib 't/lib';
use File::Find qw(find);
use RateLimit::Nginx;
use Test::More;

my ($table) = RateLimit::Nginx::slurp('docs/contributing.md') =~ /^## What a change takes\n(.*?)^## /ms;
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
