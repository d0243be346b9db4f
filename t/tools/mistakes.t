# The mistakes that simulated fleets find: the code has the lines that each changes, and the README tells how many
# there are.

use v5.36;
use lib 't/lib';
use RateLimit::Nginx;
use Test::More;

my @names = split /\n/, qx{tools/find-mistakes --list};
is($?, 0, 'each has lines that the code has');
my ($told) = RateLimit::Nginx::slurp('README.md') =~ /puts (\d+) mistakes into the code/;
is(scalar @names, $told, 'there are as many as README.md tells');
my %is_told;
is(join(', ', grep { $is_told{$_}++ } @names), '', 'each with a name of its own');

done_testing;
