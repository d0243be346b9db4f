# What the build says where something is missing, and a module that was built without it.

use v5.36;
use lib 't/lib';
use Cwd qw(abs_path);
use File::Copy qw(copy);
use File::Temp qw(tempdir);
use RateLimit::Nginx;
use Test::More;

my $source = $ENV{NGINX_SOURCE} // '/usr/share/nginx/src';
my $built  = abs_path('build/nginx');
my $dir    = tempdir(CLEANUP => 1);

mkdir "$dir/tried";

# A compiler that runs these lines of shell first. nginx's configure tries more than a hundred small programs, most of
# them the same in each build here: what the compiler has made of one, and said, is kept.
sub write_compiler ($lines) {
    RateLimit::Nginx::write_file("$dir/cc", <<"END");
#!/bin/sh
$lines
case "\$*" in
    *' -o '*/autotest' '*/autotest.c*) ;;
    *) exec cc "\$@" ;;
esac
program=\${*%%/autotest *}/autotest
program=\${program##* }
tried=$dir/tried/\$({ echo "\$*" | sed "s|\$program|program|g"; cat "\$program.c"; } | sha256sum | cut -c 1-64)
if ! [ -f "\$tried.code" ]; then
    cc "\$@" >"\$tried.said" 2>&1
    echo \$? >"\$tried.code"
    ! [ -x "\$program" ] || cp "\$program" "\$tried.program"
fi
cat "\$tried.said"
! [ -f "\$tried.program" ] || cp "\$tried.program" "\$program"
exit "\$(cat "\$tried.code")"
END
    chmod 0755, "$dir/cc";
}

# Configures a build in the folder with that compiler, and returns what was said.
sub configure_in ($folder, $lines, @arguments) {
    write_compiler($lines);
    local $ENV{CC} = "$dir/cc";
    return scalar qx{tools/configure-nginx $source $dir/$folder @arguments 2>&1};
}

# Configures a build with a compiler that runs these lines of shell first. Returns the code of
# configure, what it said, and the Makefile.
sub configure ($lines) {
    my $said = configure_in('configured', $lines);
    my $code = $? >> 8;
    return ($code, $said . RateLimit::Nginx::slurp("$dir/configured/configure.log"), RateLimit::Nginx::slurp("$dir/configured/Makefile"));
}

subtest 'a machine of 32 bits' => sub {
    my ($code, $said) = configure('set -- -D__int128=none -U__SIZEOF_INT128__ "$@"');
    is($code, 1, 'is refused');
    like($said, qr/error: redis_rate_limit needs a compiler that has the type __int128\.\n.*64-bit machines only/, 'in words');
};

subtest 'hiredis' => sub {
    my ($code, $said, $makefile) = configure('case "$*" in *libhiredis.a*) exit 1 ;; esac');
    is($code, 0, 'where there is no static one, the build goes on');
    like($said, qr/warning: redis_rate_limit uses the shared hiredis.*\n.*\nthat brings a hiredis of its own, such as nchan/, 'with a warning');
    like($makefile, qr/ -lhiredis /, 'and takes the shared one');
    mkdir "$dir/hiredis";
    RateLimit::Nginx::write_file("$dir/hiredis/hiredis.h", <<'END');
typedef struct redisReader { char of_another_version[4096]; int ridx; void *fn; } redisReader;
redisReader *redisReaderCreate(void);
void freeReplyObject(void *reply);
END
    ($code, $said) = configure("set -- -I$dir \"\$@\"");
    is($code, 1, 'headers of another version are refused');
    like($said, qr/error: redis_rate_limit needs hiredis 0\.14 or newer, and its library \(-l:libhiredis\.a.*\nhas to be of the same version/, 'in words');
};

subtest 'cctz' => sub {
    my ($code, $said, $makefile) = configure('case "$*" in *-lcctz*) exit 1 ;; esac');
    is($code, 0, 'where it is missing, the build goes on');
    like($said, qr/warning: redis_rate_limit knows the time zone UTC alone.*\n.*\n?.*libcctz-dev/, 'with a warning');
    unlike($makefile, qr/-lcctz|HAS_CCTZ/, 'and without it');
    local $ENV{REDIS_RATE_LIMIT_CCTZ} = 'NO';
    ($code, $said, $makefile) = configure('');
    unlike($makefile, qr/-lcctz|HAS_CCTZ/, 'as it does where that is wanted');
};

subtest 'link-time optimization' => sub {
    my ($code, $said, $makefile) = configure('case "$*" in *-flto*) exit 1 ;; esac');
    is($code, 0, 'where the compiler has none, the build goes on');
    like($makefile, qr/ -fno-lto /, 'and says so, for the flags of an nginx may ask for it');
    unlike($makefile, qr/ -flto/, 'and nowhere else');
    ($code, $said, $makefile) = configure('');
    like($makefile, qr/: CFLAGS := .* -flto=auto /, 'else the modules are compiled with it');
};

subtest 'an nginx without http' => sub {
    my $said = configure_in('without_http', '', q{''}, '--without-http');
    is($?, 0, 'is configured') or diag $said;
    like(RateLimit::Nginx::slurp("$dir/without_http/configure.log"), qr/^ \+ no module for http: this nginx is built without it$/m, 'and is told what it goes without');
};

subtest 'RapidJSON' => sub {
    my ($code, $said) = configure('for file; do case $file in *.c) grep -qs rapidjson "$file" && exit 1 ;; esac; done');
    is($code, 1, 'where it is missing, the build is refused');
    like($said, qr/error: redis_rate_limit needs the headers of RapidJSON 1\.1 or newer\.\nDebian has them in rapidjson-dev/, 'in words');
};

# Debian 13 builds C with this flag. g++ does not know it, and with nginx's -Werror it would stop.
my $flag_of_c = '-Werror=implicit-function-declaration';

# nginx names objects by the last folder of their source and by the file.
subtest 'another add-on with a folder and a file of the same name' => sub {
    my $addon = "$dir/neighbour";
    system('mkdir', '-p', "$addon/conf") == 0 or die 'no neighbour';
    RateLimit::Nginx::write_file("$addon/conf/configuration.c", "int neighbour;\n");
    RateLimit::Nginx::write_file("$addon/config", <<'END');
ngx_addon_name=ngx_http_neighbour_module
ngx_module_type=HTTP
ngx_module_name=$ngx_addon_name
ngx_module_srcs=$ngx_addon_dir/conf/configuration.c
. auto/module
END
    my $said = configure_in('beside', '', $flag_of_c, "--add-dynamic-module=$addon");
    is($?, 0, 'is built beside this one') or diag $said;
    my $plan = qx{make -n -C $source -f $dir/beside/Makefile modules} =~ s/\\\n//gr;
    like($plan, qr/ -c .*$flag_of_c .*configuration\.c$/m, 'C has all flags of nginx');
    like($plan, qr/ -c .*\.cpp$/m, 'there is C++');
    unlike($plan, qr/ -c .*$flag_of_c .*\.cpp$/m, 'which has only those that g++ knows');
};

# The objects that make would compile, as if these files had changed.
sub to_compile (@changed) {
    my $plan = qx{make -n -C $source -f $built/Makefile @{[ map { "-W $_" } @changed ]} modules};
    return map { $_ => 1 } $plan =~ m{-o\s+\S*/addon/(\S+)\.o}g;
}

sub rebuilt_for ($file) {
    my %anyway = to_compile();
    my %all    = to_compile(abs_path($file));
    return join ' ', grep { !$anyway{$_} } sort keys %all;
}

subtest 'what is compiled anew' => sub {
    is(rebuilt_for('src/limiter/decision.cpp'), 'redis_rate_limit/limiter', 'the unit of a source');
    is(rebuilt_for('src/replay/log/log_format.hpp'), '', 'nothing of the program that replays logs');
    is(rebuilt_for('lua/bucket.lua'), 'redis_rate_limit/rate_limit redis_rate_limit/redis_client', 'those that embed scripts');
    is(rebuilt_for('dashboard/page.css'), 'redis_rate_limit/http', 'that of the page');
    is(rebuilt_for('VERSION'), 'redis_rate_limit/rate_limit', 'and that of the version');
};

# Without link-time optimization, for each link would be one of the whole module, and without any other one, which
# what is fortified has to have.
my $quickly = '-O0 -g0 -fno-lto -U_FORTIFY_SOURCE';
my $said    = configure_in('quick', '');
$said .= qx{make --jobs=2 -C $source -f $dir/quick/Makefile REDIS_RATE_LIMIT_CFLAGS='$quickly' modules 2>&1} if $? == 0;
is($?, 0, 'the module is built without link-time optimization') or diag $said;

# That module with a unit that was compiled otherwise: from another tree, with more flags.
sub rebuild_with ($unit, %options) {
    my $tree    = $options{tree} // abs_path('.');
    my $source_of = "$dir/quick/redis_rate_limit/$unit.cpp";
    my $plan      = qx{make -n -C $source -f $dir/quick/Makefile -W $source_of modules} =~ s/\\\n//gr;
    my $kind      = $unit eq 'stream' ? 'stream' : 'http';
    my ($compile) = $plan =~ /^(.* -c .*\Q$source_of\E)$/m           or die "no way to compile $unit in: $plan";
    my ($link)    = $plan =~ /^(.*-o \S*ngx_${kind}_\S+\.so.*)$/m or die "no way to link in: $plan";
    my ($object)  = $compile =~ /-o\s+(\S+)/;
    my $module    = "$dir/$options{name}.so";
    $compile =~ s{-o\s+\Q$object\E}{-o $dir/$options{name}.o};
    $compile =~ s{(-DRATE_LIMIT_DIR=)\S+}{$1'"$tree"'};
    $link    =~ s{\Q$object\E}{$dir/$options{name}.o};
    $link    =~ s{-o\s+\S+\.so}{-o $module};
    system('sh', '-c', "cd $source && $compile $options{flags} && $link") == 0 or die "no $options{name}";
    return $module;
}

ok(-f rebuild_with('rate_limit', name => 'at_o3', flags => '-O3 -fno-lto'), 'no false alarm of the compiler at -O3');

# Debian's nginx is built with it. Without it, lines for the debug log are no code.
for my $unit (qw(nginx_module http stream)) {
    ok(-f rebuild_with($unit, name => 'no_debug', flags => "$quickly -DNGX_DEBUG=0"), "$unit for an nginx without --with-debug");
}

sub said_of ($module, $http) {
    return RateLimit::Nginx->new("$http server { listen %PORT%; }", module => $module)->test_configuration;
}

subtest 'a module without TLS' => sub {
    my $module = rebuild_with('nginx_module', name => 'no_tls', flags => "$quickly -DNGX_SSL=0");
    my ($said, $is_valid) = said_of($module, <<'END');
redis_rate_limit_backend b { server 127.0.0.1:6379; ssl on; }
redis_rate_limit_zone $arg_key zone=z:1m backend=b;
END
    ok(!$is_valid, 'does not take `ssl on`');
    like($said, qr/invalid ssl "on", expected off, for this module was built without TLS; configure the build as its nginx, with --with-http_ssl_module/, 'and says why');
};

subtest 'a module without its scripts' => sub {
    for my $empty (qw(bucket one_check batch_of_checks)) {
        my $tree = "$dir/tree-$empty";
        mkdir $_ or die "$_: $!" for $tree, "$tree/lua";
        copy($_, "$tree/$_") or die "$_: $!" for glob('lua/*.lua'), 'VERSION';
        RateLimit::Nginx::write_file("$tree/lua/$empty.lua", '');
        my $module = rebuild_with($empty eq 'bucket' ? 'rate_limit' : 'redis_client', name => "no_$empty", tree => $tree, flags => $quickly);
        my ($said, $is_valid) = said_of($module, <<'END');
redis_rate_limit_zone $arg_key zone=z:1m;
redis_rate_limit zone=z algorithm=gcra limit=1 window=60;
END
        ok(!$is_valid, "has no rules where $empty.lua is empty");
        like($said, qr/invalid algorithm "gcra", expected a module that has its script; in this one it is empty/, 'and says why');
    }
    my $whole = rebuild_with('redis_client', name => 'whole', flags => $quickly);
    my ($said, $is_valid) = said_of($whole, 'redis_rate_limit_zone $arg_key zone=z:1m; redis_rate_limit zone=z algorithm=gcra limit=1 window=60;');
    ok($is_valid, 'with them it has') or diag $said;
};

done_testing;
