# The examples of the documentation are what they say: configurations that nginx takes. What they do
# is in t/examples.t.

use v5.36;
use lib 't/lib';
use RateLimit::Certificates;
use RateLimit::Documentation qw(examples_of http_level);
use RateLimit::Nginx;
use Test::More;

my $authority = RateLimit::Nginx::slurp(RateLimit::Certificates->new->certificate('authority'));

for my $example (map { examples_of($_) } 'README.md', glob 'docs/*.md') {
    my $nginx = RateLimit::Nginx->new(http_level($example->{text}));
    RateLimit::Nginx::write_file($nginx->dir . '/redis.password', "secret\n");
    RateLimit::Nginx::write_file($nginx->dir . '/redis-ca.pem', $authority);
    my ($said, $accepted) = $nginx->test_configuration;
    ok($accepted, $example->{place}) or diag($said);
}

# Links between pages, and to their headings as GitHub names them.
sub anchors ($page) {
    return map { lc =~ s/[^\w\- ]//gr =~ s/ /-/gr } RateLimit::Nginx::slurp($page) =~ /^#+ (.+)$/mg;
}
for my $page ('README.md', glob 'docs/*.md') {
    my $dir = $page =~ m{/} ? 'docs/' : '';
    my @broken;
    for my $target (RateLimit::Nginx::slurp($page) =~ /\]\((?!https?:)([^)]+)\)/g) {
        my ($path, $anchor) = split /#/, $target;
        my $file = ($path eq '' ? $page : $dir . $path) =~ s{^docs/\.\./}{}r;
        push @broken, $target if !-f $file || (defined $anchor && !grep { $_ eq $anchor } anchors($file));
    }
    is("@broken", '', "$page: each link leads somewhere");
}

done_testing;
