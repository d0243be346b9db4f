# The Debian packages, installed in a Debian without a compiler. Run by tools/test-deb, which makes that
# and the packages of this version and of a higher one.

use v5.36;
use lib 't/lib';
use IO::Socket::INET;
use JSON::PP qw(decode_json);
use RateLimit::Chroot;
use RateLimit::Load qw(start_load);
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Processes qw(private_memory);
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(time);

my $name    = 'libnginx-mod-http-redis-rate-limit';
my $stream  = 'libnginx-mod-stream-redis-rate-limit';
my $tools   = 'redis-rate-limit-tools';
my $module  = '/usr/lib/nginx/modules/ngx_http_redis_rate_limit_module.so';
my $enabled = '/etc/nginx/modules-enabled/90-mod-http-redis-rate-limit.conf';
my $doc     = "/usr/share/doc/$name";
my $port    = empty_port();
my $chroot  = RateLimit::Chroot->new($ENV{RATE_LIMIT_CHROOT} // BAIL_OUT('run by tools/test-deb'), $port);
my $redis   = RateLimit::Redis->start_new;

END {
    if ($chroot && $chroot->master) {
        kill QUIT => $chroot->master;
        wait_until(sub { !$chroot->master });
    }
}

sub runs ($line, $what) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my ($said, $succeeds) = $chroot->run($line);
    ok($succeeds, $what) or diag($said);
    return $said;
}

# A package as a file in the chroot, and its version.
sub package_in ($directory, $package = $name) {
    my ($file) = map { substr $_, length $chroot->path('') } glob $chroot->path("$directory/${package}_*.deb");
    my ($version) = $chroot->run("dpkg-deb -f $file Version");
    chomp $version;
    return ($file, $version);
}

sub version_of ($package_version) { return $package_version =~ s/~.*//r }

my ($package, $version)       = package_in('/srv');
my ($newer,   $newer_version) = package_in('/srv/newer');

# --- the files, before they are installed

{
    my ($released)  = RateLimit::Nginx::slurp('VERSION') =~ /^(\S+)$/;
    my ($suffix) = $version =~ /^\Q$released\E(~debian\d+)$/;
    ok($suffix, "$version is that of the file VERSION");
    my ($said) = $chroot->run("dpkg --compare-versions $newer_version gt $version && echo higher");
    is($said, "higher\n", "$newer_version is higher");

    for my $changes (glob 'build/redis-rate-limit_*.changes') {
        my $words = qx{lintian --fail-on error,warning $changes 2>&1};
        is($?, 0, "lintian of $changes") or diag($words);
    }

    my $fields = qx{dpkg-deb -f build/${name}_*.deb Depends Built-Using};
    my $nginx  = qx{dpkg-query -W -f '\${Version}' nginx-dev};
    like($fields, qr/nginx-abi-[\d.]+-\d+/, 'depends on the ABI of nginx');
    like($fields, qr/nginx \(>= \Q$nginx\E\)/, 'and on no older nginx than that whose headers it was built with');
    like($fields, qr/^Built-Using: hiredis \(= [\d.]+-\S+\)$/m, 'and names the hiredis in it');
    unlike($fields, qr/libhiredis/, 'which no package has to bring');
}

# --- beside an nginx of another ABI, such as that of nginx.org

subtest 'another nginx' => sub {
    runs(<<'END', 'there is one');
mkdir -p /srv/other/DEBIAN
cat >/srv/other/DEBIAN/control <<CONTROL
Package: nginx
Version: 99.0.0-1
Architecture: all
Maintainer: nobody <nobody@example.org>
Provides: nginx-abi-99.0.0-1
Description: nginx of another ABI
CONTROL
dpkg-deb --build /srv/other /srv/nginx.deb
END
    runs('apt-get update', 'apt has lists');
    my ($said, $succeeds) = $chroot->run("apt-get install --simulate /srv/nginx.deb $package");
    ok(!$succeeds, 'apt refuses to install the module beside it');
    my ($abi) = qx{dpkg-deb -f build/${name}_*.deb Depends} =~ /(nginx-abi-\S+?)(?:,|$)/m;
    like($said, qr/\Q$name\E : Depends: \Q$abi\E/, 'and names the ABI that is missing') or diag($said);
    note($said);
    like(RateLimit::Nginx::slurp('docs/packages.md'), qr/Depends: nginx-abi-/, 'which the documentation explains');
};

# --- installed

$chroot->forbid_services;
runs("apt-get install --yes --no-install-recommends $package", 'apt installs it');
my ($compilers) = $chroot->run('command -v cc gcc g++ c++ clang');
is($compilers, '', 'without a compiler');
is(readlink $chroot->path($enabled), '/usr/share/nginx/modules-available/mod-http-redis-rate-limit.conf', 'and enables the module, as the last one');
is($chroot->slurp('/usr/share/nginx/modules-available/mod-http-redis-rate-limit.conf'), "load_module modules/ngx_http_redis_rate_limit_module.so;\n", 'from the usual place');
runs('nginx -t', 'nginx takes it');
my ($linked) = $chroot->run("ldd $module");
unlike($linked, qr/hiredis|not found/, 'and it has all libraries') or diag($linked);
for my $file (qw(README.md CHANGELOG.md copyright hiredis.copyright rapidjson.copyright docs/directives.md docs/metrics.schema.json
    docker/monitoring/alerts.yaml docker/monitoring/prometheus.yaml docker/monitoring/grafana/redis_rate_limit.json examples/docker/nginx.conf))
{
    ok(-s $chroot->path("$doc/$file"), "$doc/$file");
}
my ($manual) = $chroot->run("grep -rhoE '\\]\\(\\.\\./[^)#]*' $doc/docs | cut -c 6- | sort -u");
is(join(' ', grep { !-f $chroot->path("$doc/$_") } split ' ', $manual), '', 'links of the pages to what is beside them lead somewhere');

# --- running

my $limits = <<"END";
log_format statuses '\$status';
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$arg_key zone=per_key:1m on_error=closed;
server {
    listen 127.0.0.1:$port;
    location /limits/ { redis_rate_limit_dashboard; }
    location / {
        redis_rate_limit zone=per_key algorithm=sliding_log limit=3 window=1h;
        empty_gif;
    }
    location /load {
        access_log /var/log/nginx/load.log statuses;
        redis_rate_limit zone=per_key algorithm=fixed_window limit=1000000000 window=1h name=load;
        empty_gif;
    }
}
END
my $rule = 'per_key/3600s';

sub outcomes () { return $chroot->status->{zones}{per_key}{rules}{$rule} }

sub holds ($key, $when) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is($chroot->statuses("/?key=$key", 5), '200 200 200 429 429', "the limit holds $when");
    is($redis->taken("rl:{per_key:$key}:sliding_log:3600000"), 3, 'by what Redis has counted');
}

unlink $chroot->path('/etc/nginx/sites-enabled/default');
$chroot->write_file('/etc/nginx/conf.d/limits.conf', $limits);
$chroot->allow_services;
runs('service nginx start', 'the service starts');
ok(wait_until(sub { $chroot->status->{version} }), 'and serves');
holds(first => 'after the installation');
{
    my @workers = $chroot->workers;
    runs('service nginx reload', 'the service reloads');
    ok($chroot->wait_for_others(@workers), 'with other workers');
    is($chroot->statuses('/?key=first', 1), '429', 'which deny whom Redis denies');
    is(outcomes->{passed}, 3, 'and have the counters of those before');
}

# --- the tools, with the log of these requests

subtest 'tools' => sub {
    runs("apt-get install --yes --no-install-recommends /srv/${tools}_*.deb", 'apt installs them');
    is(runs('redis-rate-limit-replay --version', 'the program runs'), "redis-rate-limit-replay ${\version_of($version)}\n", 'of this version');
    ok(-s $chroot->path('/usr/share/man/man1/redis-rate-limit-replay.1.gz'), 'it has a manual page');
    $chroot->write_file('/srv/rules.conf', <<'END');
redis_rate_limit_zone $arg_key zone=per_key:1m;
redis_rate_limit zone=per_key algorithm=sliding_log limit=3 window=1h;
END
    my $replayed = decode_json(runs('redis-rate-limit-replay --rules /srv/rules.conf --json - /var/log/nginx/access.log', 'and replays the log'));
    is_deeply([ $replayed->{rules}{$rule}->@{qw(passed rejected)} ], [ 3, 3 ], 'with the verdicts that nginx gave');
};

# --- the module of stream, for which apt brings stream itself

subtest 'stream' => sub {
    my ($file) = package_in('/srv', $stream);
    runs("apt-get install --yes --no-install-recommends $file", 'apt installs it');
    my @enabled = map { m{([^/]+)$} } sort glob $chroot->path('/etc/nginx/modules-enabled/*stream*.conf');
    is("@enabled", '50-mod-stream.conf 90-mod-stream-redis-rate-limit.conf', 'and enables it after that of nginx');
    my ($linked) = $chroot->run("ldd @{[ $module =~ s/_http_/_stream_/r ]}");
    unlike($linked, qr/hiredis|not found/, 'it has all libraries') or diag($linked);
    ok(-s $chroot->path("/usr/share/doc/$stream/$_"), $_) for qw(copyright hiredis.copyright rapidjson.copyright);
    my $sessions = empty_port();
    my $added    = '/etc/nginx/modules-enabled/99-limits.conf'; # nginx.conf of Debian has no place for stream
    $chroot->write_file($added, <<"END");
stream {
    redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
    redis_rate_limit_zone \$remote_addr zone=sessions:1m on_error=closed;
    server { listen 127.0.0.1:$sessions; redis_rate_limit zone=sessions algorithm=sliding_log limit=1 window=1h; return passed; }
}
END
    runs('service nginx restart', 'the service restarts');
    ok(wait_until(sub { $chroot->status->{version} }), 'and serves');
    is($chroot->status->{zones}{sessions}{context}, 'stream', 'the pages know its zone');
    is(join(',', map { readline(IO::Socket::INET->new("127.0.0.1:$sessions")) // 'none' } 1, 2), 'passed,none', 'the limit holds');
    unlink $chroot->path($added);
    runs("apt-get purge --yes --auto-remove $stream", 'apt purges it');
    runs('service nginx restart', 'and nginx does without it');
    ok(wait_until(sub { $chroot->status->{version} }), 'and serves');
    is(outcomes->{passed}, 0, 'with counters that begin anew');
    $redis->client->flushall;
    holds(first => 'as before');
};

# --- upgraded under load. A reload cannot bring the new module.

# Statuses of the requests of the load generator.
sub load_statuses () {
    my %seen = map { $_ => 1 } split /\n/, $chroot->slurp('/var/log/nginx/load.log');
    delete $seen{499}; # those that it left when it was ended
    return join ' ', sort keys %seen;
}

subtest 'an upgrade' => sub {
    my $load    = start_load($chroot->url('/load?key=load'), connections => 4, close => 1);
    my @workers = $chroot->workers;
    my $said    = runs("apt-get install --yes $newer", 'apt upgrades the package');
    my @words   = $said =~ /(nginx runs the old version of the redis_rate_limit module\..*service nginx upgrade)/gs;
    is(scalar @words, 1, 'and it says once how the new module comes to run') or diag($said);
    ok($chroot->wait_for_others(@workers), 'nginx reloads');
    is($chroot->status->{version}, version_of($version), 'and still runs the old module');
    is(outcomes->{passed}, 3, 'with its counters');

    my $master = $chroot->master;
    runs('service nginx upgrade', '`service nginx upgrade`');
    ok(wait_until(sub { $chroot->master != $master && ($chroot->status->{version} // '') eq version_of($newer_version) }, 20), 'brings the new one');
    ok(wait_until(sub { !-d "/proc/$master" }, 20), 'and the old master leaves');
    is($chroot->statuses('/?key=first', 1), '429', 'Redis still has its counters');
    is(outcomes->{passed}, 0, 'those of the metrics begin anew');
    ok($load->is_running, 'the load lasted all the while');
    my $result = $load->finish;
    cmp_ok($result->{requests}, '>', 500, "$result->{requests} requests");
    is("$result->{broken} $result->{refused}", '0 0', 'none of them failed');
    is(load_statuses, '200', 'none has another status');
    $said = runs("dpkg-reconfigure $name", 'configured again');
    unlike($said, qr/old version/, 'it says nothing');
};

# --- beside all other modules that Debian has, for a minute of load

my $no_fault = qr/detected a LuaJIT version which is not OpenResty's/; # lua of Debian 13 says so

subtest 'neighbours' => sub {
    runs('/srv/install-packages neighbours', 'are installed');
    my @enabled = map { m{([^/]+)$} } glob $chroot->path('/etc/nginx/modules-enabled/*.conf');
    cmp_ok(scalar @enabled, '>=', 20, 'many: ' . @enabled);
    is($enabled[-1], '90-mod-http-redis-rate-limit.conf', 'ours is the last one');
    runs('nginx -t', 'nginx takes all of them');
    runs('service nginx restart', 'and restarts');
    ok(wait_until(sub { $chroot->status->{version} }), 'and serves');
    holds(neighbours => 'beside them');

    my $memory = sub { my $sum = 0; $sum += private_memory($_) for $chroot->workers; return $sum };
    my @workers = $chroot->workers;
    my $began   = time;
    my $load    = start_load($chroot->url('/load?key=minute'), connections => 16);
    my $limited = start_load($chroot->url('/?key=limited'), connections => 2);
    # By then buffers have their size.
    ok(wait_until(sub { time - $began > 20 }, 30), 'a third of a minute');
    my $first = $memory->();
    ok(wait_until(sub { time - $began > 60 }, 60), 'a minute of load');
    my $growth = $memory->() - $first;
    my $result = $load->finish;
    cmp_ok($result->{requests}, '>', 10_000, "$result->{requests} requests");
    is("$result->{broken} $result->{refused}", '0 0', 'none of them failed');
    my $denied = $limited->finish;
    is($denied->{requests} - $denied->{refused}, 3, "of $denied->{requests} others as many pass as may");
    cmp_ok($growth, '<', 1024 * 1024, "memory of workers grows by $growth bytes after that");
    is(join(' ', $chroot->workers), "@workers", 'no worker has ended');
    holds(afterwards => 'afterwards');
    is(join("\n", grep { /\[(?:alert|emerg)\]/ && !/$no_fault/ } split /\n/, $chroot->slurp('/var/log/nginx/error.log')), '', 'no alert');
};

# --- away again

subtest 'removed' => sub {
    unlink $chroot->path('/etc/nginx/conf.d/limits.conf');
    my @workers = $chroot->workers;
    runs("apt-get remove --yes $name", 'apt removes the package');
    ok(!-l $chroot->path($enabled), 'and disables the module');
    ok(!-e $chroot->path($module), 'and takes it away');
    runs('nginx -t', 'nginx does without it');
    runs("apt-get install --yes $newer", 'installed again');
    ok(-l $chroot->path($enabled), 'it is enabled again');
    runs("apt-get purge --yes $name $tools", 'apt purges both packages');
    my ($left) = $chroot->run("find / -xdev \\( -path /proc -o -path /srv -o -path /var/cache/apt \\) -prune -o -iname '*redis?rate?limit*' -print");
    is($left, '', 'and leaves nothing');
    runs('service nginx stop', 'nginx stops');
};

done_testing;
