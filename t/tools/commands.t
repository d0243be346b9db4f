# Each command of `make help` is run as it is written there: by `make test` and its tests, or else by the
# long soak.

use v5.36;
use lib 't/lib';
use File::Temp qw(tempdir);
use RateLimit::Nginx;
use Test::More;

# What runs those that no soak runs, and words of it that show it.
my %run_by = (
    all     => ['Makefile',           qr/^test:\n\t.*\n\t\$\(MAKE\) \$\(ON_ALL_CORES\) all$/m],
    test    => ['Makefile',           qr/^test:$/m],
    soak    => ['Makefile',           qr{^soak:}m],
    run     => ['t/docs/demo.t',      qr{tools/run-demo}], # which is what it does at the end
    install => ['t/docs/examples.t',  qr/qx\{make install /],
    clean   => ['t/tools/commands.t', qr/qx\{make clean /],
);

my @commands = map { /^make {2,}/ ? 'all' : /^make ([\w-]+)/ ? $1 : () } split /\n/, qx{make --no-print-directory help};
cmp_ok(scalar @commands, '>', 15, 'make help names its commands');
my %run_by_soak = map { $_ => 1 } split ' ', qx{SOURCE=/path/to/nginx NGINX_OTEL=/path/to/nginx-otel tools/run-commands --list};
for my $command (@commands) {
    next if $run_by_soak{$command};
    my ($file, $words) = ($run_by{$command} // ['Makefile', qr/(?!)/])->@*;
    like(RateLimit::Nginx::slurp($file), $words, "make $command is run by $file");
}
like(qx{make -n soak MINUTES=10 2>&1}, qr{^\[ \$MINUTES -lt 10 \] \|\| \S+ tools/run-commands}m, 'the others are run by a long soak');
my %is_command = map { $_ => 1 } @commands;
is(join(' ', grep { !$is_command{$_} } sort(keys %run_by_soak, keys %run_by)), '', 'and nothing else');

my $dir = tempdir(CLEANUP => 1);
mkdir "$dir/build" or die "$dir/build: $!";
RateLimit::Nginx::write_file("$dir/Makefile", RateLimit::Nginx::slurp('Makefile'));
qx{make clean -C $dir};
ok(!-e "$dir/build", 'make clean');

done_testing;
