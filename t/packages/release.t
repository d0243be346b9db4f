# `make release` makes the same of a commit anywhere, and what it makes can be checked. Takes as long as two
# builds of the packages: run by `make test-release`. ARCHITECTURE=arm64 in the environment is about packages
# for arm64.

use v5.36;
use lib 't/lib';
use Cwd qw(abs_path);
use File::Temp qw(tempdir);
use JSON::PP qw(decode_json);
use JSON::Validator;
use RateLimit::TreeCopy qw(slurp write_file);
use Test::More;

my ($version) = slurp('VERSION') =~ /^(\S+)$/;
chomp(my $commit = qx{git rev-parse HEAD});
my $builder = 'https://example.org/builders/one';
my $dir     = tempdir('release.XXXXXX', DIR => '/var/tmp', CLEANUP => 1);
chmod 0755, $dir;
my $bundle = "$dir/commit";
my $key    = "$dir/secret.key";
run("git bundle create --quiet $bundle HEAD", 'the commit in a file');
run("minisign -G -W -p $dir/public.key -s $key", 'a key');
chmod 0644, $bundle, $key;

sub run ($command, $what) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $said = qx{($command) 2>&1};
    return ok($? == 0, $what) || diag("$command: $said");
}

# Two ways to make one. Another user can be taken by root only. DEB_BUILD_OPTIONS would change what is compiled,
# if make-release let it through.
my @ways = (
    { place => "$dir/here", umask => '022' },
    {
        place       => "$dir/a_longer/way/there",
        user        => $> == 0 ? 'nobody' : undef,
        umask       => '077',
        environment => "TZ=Pacific/Auckland LANG=de_DE.UTF-8 CFLAGS=-O1 DEB_BUILD_OPTIONS=noopt faketime '+400 days 5 hours'",
    },
);

for my $way (@ways) {
    system('mkdir', '-p', $way->{place}) == 0 or die "no $way->{place}\n";
    my $as_user = $way->{user} ? "setpriv --reuid=$way->{user} --regid=nogroup --clear-groups" : '';
    chown((getpwnam $way->{user})[2, 3], $way->{place}) if $way->{user};
    write_file("$way->{place}.sh", <<"END");
set -e
umask $way->{umask}
cd $way->{place}
export HOME=\$PWD
git clone -q -c advice.detachedHead=false $bundle checkout
cd checkout
${\($way->{environment} // '')} tools/make-release $builder $key
END
    $way->{pid} = fork // die "fork: $!";
    $way->{pid} or exec 'sh', '-c', "exec $as_user sh $way->{place}.sh >$way->{place}.log 2>&1" or die "sh: $!";
}
for my $way (@ways) {
    waitpid $way->{pid}, 0;
    is($?, 0, "a release is made in $way->{place}") or diag(qx{tail -n 30 $way->{place}.log});
}
my ($here, $there) = map { "$_->{place}/checkout/build/release" } @ways;
BAIL_OUT('no release') if !-s "$here/SHA256SUMS" || !-s "$there/SHA256SUMS";

# --- the same

my @names = map { s{.*/}{}r } glob "$here/*";
is(join(' ', map { s{.*/}{}r } glob "$there/*"), "@names", 'there are the same files');
for my $name (@names) {
    next if ok(qx{cmp $here/$name $there/$name 2>&1} eq '', "$name is the same");
    diag(qx{diffoscope $here/$name $there/$name 2>&1}) if -x '/usr/bin/diffoscope';
}

# --- what it has

my ($suffix) = map { /~(\w+)\.spdx\.json$/ } @names;
my $debs = join ' ', map { "${_}_$version~$suffix.deb" } qw(libnginx-mod-http-redis-rate-limit libnginx-mod-stream-redis-rate-limit redis-rate-limit-tools);
my $more = join ' ', map { "redis_rate_limit-$version$_" } '.tar.gz', '-images.tar.gz', "~$suffix.spdx.json", "~$suffix.provenance.json";
ok(-s "$here/$_", $_) for split(' ', "$debs $more"), "nginx-mod-redis-rate-limit-$version-1.src.rpm";
run("cd $here && sha256sum --check --strict --quiet SHA256SUMS", 'the checksums are right');
is(join(' ', sort map { (split)[1] } split /\n/, slurp("$here/SHA256SUMS")), join(' ', sort grep { !/^SHA256SUMS/ } @names), 'of all files');
run("cd $here && minisign -Vm SHA256SUMS -p $dir/public.key", 'and signed');
qx{sed 's/^./x/' $here/SHA256SUMS >$dir/SHA256SUMS && cp $here/SHA256SUMS.minisig $dir};
qx{cd $dir && minisign -Vm SHA256SUMS -p public.key 2>&1};
isnt($?, 0, 'changed ones are not');
is(qx{cd $here && zcat redis_rate_limit-$version.tar.gz 2>/dev/null | git get-tar-commit-id}, "$commit\n", 'the archive is of the commit');

for my $name (@names) {
    my $unpacked = tempdir('unpacked.XXXXXX', DIR => $dir);
    qx{cd $unpacked && case $name in *.deb) dpkg-deb -x $here/$name . ;; *.tar.gz) tar -xf $here/$name ;; *) cp $here/$name . ;; esac};
    is(qx{grep -rlF $dir $unpacked}, '', "$name does not tell where it was made");
}

qx{mkdir $dir/images && tar -C $dir/images -xf $here/redis_rate_limit-$version-images.tar.gz};
for my $dockerfile (split ' ', qx{cd $dir/images && find docker -name Dockerfile}) {
    my @copied = map { split } slurp($dockerfile) =~ /^COPY (?!--from)(.+) \S+$/mg;
    is(join(' ', grep { !-e "$dir/images/$_" } @copied), '', "$dockerfile finds what it copies");
}

# --- SBOM

sub object (%properties) { return { type => 'object', required => [sort keys %properties], properties => \%properties } }
sub text ($pattern) { return { type => 'string', pattern => $pattern } }
sub list_of ($items) { return { type => 'array', minItems => 1, items => $items } }

sub faults_of ($document, $schema) {
    return join "\n", JSON::Validator->new->schema({ '$schema' => 'http://json-schema.org/draft-07/schema#', %$schema })->validate($document);
}

my $id   = text('^SPDXRef-[A-Za-z0-9.-]+$');
my $sbom = decode_json(slurp("$here/redis_rate_limit-$version~$suffix.spdx.json"));
is(
    faults_of(
        $sbom,
        object(
            spdxVersion       => text('^SPDX-2\.3$'),
            dataLicense       => text('^CC0-1\.0$'),
            SPDXID            => text('^SPDXRef-DOCUMENT$'),
            name              => text('.'),
            documentNamespace => text('^https://[^#]+$'),
            creationInfo      => object(created => text('^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$'), creators => list_of(text('^(Tool|Organization|Person): .'))),
            packages          => list_of(object(
                SPDXID           => $id,
                name             => text('.'),
                versionInfo      => text('^\d'),
                downloadLocation => text('^NOASSERTION$'),
                licenseConcluded => text('^[A-Z][\w.-]+( WITH [\w.-]+)?$'),
                filesAnalyzed    => { const => JSON::PP::false },
            )),
            relationships => list_of(object(spdxElementId => $id, relatedSpdxElement => $id, relationshipType => { enum => [qw(DESCRIBES STATIC_LINK DYNAMIC_LINK)] }))
        )
    ),
    '',
    'the SBOM has the form of SPDX 2.3'
);
my %version_of = map { $_->{SPDXID} => $_->{versionInfo} } $sbom->{packages}->@*;
is(scalar keys %version_of, scalar $sbom->{packages}->@*, 'in which each package has an id of its own');
is(join(' ', grep { !$version_of{$_} && $_ ne 'SPDXRef-DOCUMENT' } map { $_->@{qw(spdxElementId relatedSpdxElement)} } $sbom->{relationships}->@*), '', 'and each relation has both sides');

sub linked_to ($package, $type) {
    return join ' ', sort map { $_->{relatedSpdxElement} =~ s/^SPDXRef-//r } grep { $_->{spdxElementId} eq "SPDXRef-$package" && $_->{relationshipType} eq $type } $sbom->{relationships}->@*;
}
chomp(my $gcc = qx{gcc -dumpversion});
chomp(my $machine = qx{dpkg --print-architecture});
my $is_cross_built = ($ENV{ARCHITECTURE} // $machine) ne $machine;
my $libgcc         = "libgcc-$gcc-dev" . ($is_cross_built ? "-$ENV{ARCHITECTURE}-cross" : '');
is(linked_to("libnginx-mod-$_-redis-rate-limit", 'STATIC_LINK'), "$libgcc libhiredis-dev rapidjson-dev", "the module of $_ has code of libgcc, hiredis and RapidJSON") for qw(http stream);
like(linked_to('libnginx-mod-http-redis-rate-limit', 'DYNAMIC_LINK'), qr/^(?=.*libcctz2)(?=.*libssl3)(?=.*libstdc--6)/, 'and is linked to cctz, OpenSSL and the library of C++');
like(linked_to('redis-rate-limit-tools', 'DYNAMIC_LINK'), qr/^(?=.*luajit)(?=.*zlib1g)/, 'the replay to LuaJIT and zlib');
# dpkg-shlibdeps has found out by itself what packages are linked to.
for my $package (map { s/_.*//r } split ' ', $debs) {
    my %needs = map { $_ => 1 } qx{dpkg-deb -f $here/${package}_*.deb Depends} =~ /(?:^|, )(lib(?!nginx)[\w.+-]+|zlib1g)/g;
    my %told  = map { $_ => 1 } split ' ', linked_to($package, 'DYNAMIC_LINK');
    is(join(' ', grep { !$told{ s/\+/-/gr } } sort keys %needs), '', "nothing that $package depends on is missing");
}
chomp(my $hiredis = qx{dpkg-query -W -f '\${Version}' libhiredis-dev});
is($version_of{'SPDXRef-libhiredis-dev'}, $hiredis, 'with the versions that are installed');

# --- provenance

my $digest     = object(sha256 => text('^[0-9a-f]{64}$'));
my $provenance = decode_json(slurp("$here/redis_rate_limit-$version~$suffix.provenance.json"));
is(
    faults_of(
        $provenance,
        object(
            _type         => text('^https://in-toto\.io/Statement/v1$'),
            predicateType => text('^https://slsa\.dev/provenance/v1$'),
            subject       => list_of(object(name => text('.'), digest => $digest)),
            predicate     => object(
                buildDefinition => object(
                    buildType            => text('^https://'),
                    externalParameters   => { const => { commit => $commit, version => $version } },
                    internalParameters   => object(commands => list_of(text('^[^/]'))),
                    resolvedDependencies => list_of({ anyOf => [object(uri => text('^pkg:deb/debian/'), digest => $digest), { const => { name => 'redis_rate_limit', digest => { gitCommit => $commit } } }] }),
                ),
                runDetails => object(builder => { const => { id => $builder } }),
            )
        )
    ),
    '',
    'the provenance is a statement of in-toto'
);
my %digest_of = map { reverse split } split /\n/, slurp("$here/SHA256SUMS");
is_deeply({ map { $_->{name} => $_->{digest}{sha256} } $provenance->{subject}->@* }, { map { $_ => $digest_of{$_} } grep { !/provenance/ } keys %digest_of }, 'of all files but itself');
my @materials = map { $_->{uri} // () } $provenance->{predicate}{buildDefinition}{resolvedDependencies}->@*;
my $compiler = $is_cross_built ? "gcc-$gcc-aarch64-linux-gnu" : "gcc-$gcc";
ok((grep { index($_, "/$compiler@") >= 0 } @materials), 'it names the compiler');
ok((grep { m{/nginx-dev@} } @materials), 'and the headers of nginx');

# --- a checkout that is not the commit

write_file("$dir/here/checkout/lua/new.lua", '');
my $said = qx{$dir/here/checkout/tools/make-release $builder 2>&1};
isnt($?, 0, 'a changed checkout is refused');
like($said, qr{^a release is made of a commit, and these files are not as in it:\n\?\? lua/new\.lua$}m, 'with the names of its files');
ok(-s "$here/SHA256SUMS", 'and a release that is there stays');

done_testing;
