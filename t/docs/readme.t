# The examples of the documentation are what they say: configurations that nginx takes. What they do
# is in t/docs/examples.t, and whether pages lead to each other in t/docs/links.t. And they agree about the version.

use v5.36;
use lib 't/lib';
use File::Temp qw(tempdir);
use JSON::PP qw(decode_json);
use RateLimit::Certificates;
use RateLimit::Documentation qw(examples_of http_level stream_level);
use RateLimit::Nginx;
use RateLimit::Stream qw(new_stream);
use Test::More;

my $certificates = RateLimit::Certificates->new;
my $authority    = RateLimit::Nginx::slurp($certificates->certificate('authority'));
$certificates->issue('limits', 'DNS:limits.example.internal');
my $otel      = '/usr/lib/nginx/modules/ngx_otel_module.so'; # is not in Debian
my $reads_json = (RateLimit::Nginx->new('client_body_early_read on; json_set $a $request_body a; server { listen %PORT%; }')->test_configuration)[1];

for my $example (map { examples_of($_) } 'README.md', glob 'docs/*.md') {
    my $needs_otel = $example->{text} =~ /^ *otel_/m;
    SKIP: {
        skip "$example->{place}: no nginx-otel here", 1 if $needs_otel && !-f $otel;
        skip "$example->{place}: needs nginx 1.31.5 with its JSON module", 1 if $example->{text} =~ /client_body_early_read/ && !$reads_json;
        my $text  = $example->{text} =~ s{/var/cache/nginx/\w+}{%DIR%/cache}gr; # nginx makes it at once
        my $nginx =
              $example->{level} eq 'stream'
            ? new_stream((stream_level($text))[0])
            : RateLimit::Nginx->new(http_level($text), $needs_otel ? (before => "load_module $otel;\n") : ());
        RateLimit::Nginx::write_file($nginx->dir . '/redis.password', "secret\n");
        RateLimit::Nginx::write_file($nginx->dir . "/$_", $authority) for 'redis-ca.pem', 'operators.pem';
        RateLimit::Nginx::write_file($nginx->dir . '/limits.pem', RateLimit::Nginx::slurp($certificates->certificate('limits')));
        RateLimit::Nginx::write_file($nginx->dir . '/limits.key', RateLimit::Nginx::slurp($certificates->key('limits')));
        my ($said, $accepted) = $nginx->test_configuration;
        skip "$example->{place}: built without cctz", 1 if $said =~ /built without the library cctz/;
        ok($accepted && $said !~ /\[warn\] redis_rate_limit/, $example->{place}) or diag($said);
    }
}

# The tables of migrating.md have rules, too, most of them without the zone.
my @rules = RateLimit::Nginx::slurp('docs/migrating.md') =~ /`[^`]*?(algorithm=[^`;]+)/g;
cmp_ok(scalar @rules, '>=', 20, 'rules in tables');
my $locations = join "\n", map { "location /$_ { redis_rate_limit zone=z $rules[$_] name=rule-$_; }" } 0 .. $#rules;
my ($said, $accepted) = RateLimit::Nginx->new("redis_rate_limit_zone \$remote_addr zone=z:1m; server { listen %PORT%; $locations }")->test_configuration;
ok($accepted, 'which nginx takes') or diag($said);

# A client of IPv6 has a whole /64. migrating.md takes over the keys that others have.
my @whole = grep { $_->{text} =~ /redis_rate_limit_zone \$(?:binary_)?remote_addr\b/ } map { examples_of($_) } 'README.md', grep { !/migrating/ } glob 'docs/*.md';
is(join(' ', map { $_->{place} } @whole), '', 'no example counts addresses of IPv6 one by one');

# What somebody copies out of the text of a page works. The tables of directives.md show a syntax, which nobody pastes.
for my $page ('README.md', grep { !/directives/ } glob 'docs/*.md') {
    my @escaped = RateLimit::Nginx::slurp($page) =~ /^(\|.*`[^`|]*\\\|.*)$/mg;
    is("@escaped", '', "$page: no code with a \\| in a table");
}

cmp_ok(RateLimit::Nginx::slurp('README.md') =~ tr/\n//, '<', 170, 'the README is short enough to be read');

# --- what the README tells of other pages

my $readme = RateLimit::Nginx::slurp('README.md');
my ($before) = $readme =~ /\A(.*?)^```nginx$(?:.*?)^```$/ms;
my ($first)  = $readme =~ /^```nginx\n(.*?)^```$/ms;
cmp_ok(($before =~ tr/\n//) + ($first =~ tr/\n//), '<', 25, 'the first configuration is on the first screen');
like($first, qr/^http \{/m, 'and whole');

# Those of Debian are among the others.
my ($tested) = RateLimit::Nginx::slurp('docs/compatibility.md') =~ /^## nginx and its relatives\n(.*?)^## /ms;
my %nginx_version = map { $_ => 1 } $tested =~ /^\| [\w.-]+ \| ([\w.]+\/\S+?)(?: of Debian [\d.]+|,[^|]*)? \|/mg;
my ($servers) = RateLimit::Nginx::slurp('docs/compatibility.md') =~ /^## Redis and Valkey\n(.*?)^## /ms;
my %server;
++$server{$_} for $servers =~ /^\| [\w.-]+ \| (Redis|Valkey) \d/mg;
my @words = qw(none one two three four five six seven eight nine ten);
my $versions = "${\scalar keys %nginx_version} versions of nginx and its relatives, $words[$server{Redis}] of Redis and $words[$server{Valkey}] of Valkey";
ok(index($readme =~ s/\s+/ /gr, "[$versions](docs/compatibility.md)") >= 0, "docs/compatibility.md has $versions");

my @ratios = sort { $a <=> $b } map { (split / *\| */)[9] } RateLimit::Nginx::slurp('docs/benchmark.md') =~ /^(\| gcra, headers off +\|.*)$/mg;
cmp_ok(scalar @ratios, '>', 3, 'several loads');
like($readme, qr/takes $ratios[0] to $ratios[-1] times the CPU/, 'the range of what a check costs is that of docs/benchmark.md');

my ($compared) = $readme =~ /^## Compared with others\n(.*?)^## /ms;
cmp_ok((($compared =~ /^(\|.*)$/m)[0] // '') =~ tr/|//, '<=', 5, 'a phone can show the comparison');
unlike(RateLimit::Nginx::slurp('docs/comparison.md'), qr/^\|/m, 'and the page of all that was compared, which has no tables');

# --- the version

my $version = RateLimit::Nginx::slurp('VERSION');
like($version, qr/\A\d+\.\d+\.\d+\n\z/, 'VERSION is one line');
my ($newest) = RateLimit::Nginx::slurp('CHANGELOG.md') =~ /^## \[(\d[^\]]*)\] - \d{4}-\d\d-\d\d$/m;
is("$newest\n", $version, 'the newest release of the changelog is this version');

# tools/set-version writes it into the files that are not built, in a copy of them here.
my $copy = tempdir(CLEANUP => 1);
system("tar -cf - VERSION CHANGELOG.md docs packaging tools | tar -xf - -C $copy") == 0 or die 'no copy';
is(qx{$copy/tools/set-version 2>&1}, '', 'all files have this version');
RateLimit::Nginx::write_file("$copy/VERSION", "8.9.10\n");
RateLimit::Nginx::write_file("$copy/CHANGELOG.md", "## [8.9.10] - 2027-01-02\n");
my @written = split /\n/, qx{$copy/tools/set-version 2>&1};
is("@written", 'docs/openapi.yaml docs/packages.md packaging/rpm/nginx-mod-redis-rate-limit.spec', 'another one is written into them');
like(RateLimit::Nginx::slurp("$copy/$_"), qr/\b8\.9\.10\b/, $_) for @written;
like(RateLimit::Nginx::slurp("$copy/$written[2]"), qr/^%changelog\n\* Sat Jan 02 2027 .* - 8\.9\.10-1\n/m, 'also as the newest change of the RPM');

my $nginx = RateLimit::Nginx->start_new('server { listen %PORT%; location / { redis_rate_limit_metrics json; } }');
is(decode_json($nginx->get('/')->{content})->{version} . "\n", $version, 'and so is the module');
$nginx->stop;

done_testing;
