# Whoever follows the documentation arrives: each link between pages, and to their headings, leads somewhere, here and
# where packages install the pages, and docs/README.md has an index of all of them.

use v5.36;
use lib 't/lib';
use RateLimit::Nginx;
use Test::More;

# A page without its blocks of code, whose comments look like headings.
sub prose ($page) { return RateLimit::Nginx::slurp($page) =~ s/^ *```.*?^ *```$//gmsr }

# The anchors of a page's headings, as GitHub names them: the second heading of the same words has "-1" behind them.
sub anchors ($page) {
    my %seen;
    return map {
        my $name = lc =~ s/\]\([^)]*\)//gr =~ s/[^\w\- ]//gr =~ s/ /-/gr;
        $seen{$name}++ ? "$name-" . ($seen{$name} - 1) : $name
    } prose($page) =~ /^#+ (.+)$/mg;
}

# The links of a page to files here: [ as it is written, file, anchor ].
sub links ($page) {
    my $dir = $page =~ m{/} ? 'docs/' : '';
    return map {
        my ($path, $anchor) = split /#/;
        [ $_, ($path eq '' ? $page : $dir . $path) =~ s{^docs/\.\./}{}r, $anchor ]
    } prose($page) =~ /\]\((?!https?:)([^)]+)\)/g;
}

my @pages = glob '*.md docs/*.md';
my %anchors = map { my $page = $_; $page => { map { $_ => 1 } anchors($page) } } @pages;
for my $page (@pages) {
    my @broken = map { $_->[0] } grep { !-f $_->[1] || (defined $_->[2] && !$anchors{ $_->[1] }{ $_->[2] }) } links($page);
    is("@broken", '', "$page: each link leads somewhere");
}

my %indexed = map { $_->[1] => 1 } links('docs/README.md');
is(join(' ', grep { !$indexed{$_} && $_ ne 'docs/README.md' } glob 'docs/*.md'), '', 'docs/README.md leads to every page');
ok((grep { $_->[1] eq 'docs/README.md' } links('README.md')), 'and the README leads to it');

# What packages install of the pages, and of what these show.
my @installed = map { split ' ', RateLimit::Nginx::slurp($_) } glob('debian/*http*.docs'), glob('debian/*http*.examples');
my ($of_rpm)  = RateLimit::Nginx::slurp('packaging/rpm/nginx-mod-redis-rate-limit.spec') =~ /^%doc (.+)$/m;
is(join(' ', sort @installed), join(' ', sort split ' ', $of_rpm), 'Debian and RPM have the same pages');
for my $page (map { -d $_ ? glob "$_/*.md" : $_ } grep { !/^docker$/ } @installed) {
    my @broken;
    for my $link (links($page)) {
        push @broken, $link->[0] if !grep { $link->[1] eq $_ || index($link->[1], "$_/") == 0 } @installed;
    }
    is("@broken", '', "$page: each link leads to what is installed, too");
}

done_testing;
