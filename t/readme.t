# The examples of the documentation are what they say: configurations that nginx takes.

use v5.36;
use lib 't/lib';
use RateLimit::Certificates;
use RateLimit::Nginx;
use RateLimit::Redis;
use Test::More;

my $authority = RateLimit::Nginx::slurp(RateLimit::Certificates->new->certificate('authority'));

# A name of an example resolves nowhere, its password is no secret.
sub adapt ($example) {
    $example =~ s/(?:redis|sentinel)(?:-\d)?\.example\.internal/127.0.0.1/g;
    $example =~ s/password_file\s+\S+;/password_file %DIR%\/redis.password;/g;
    return $example;
}

# What stands around a fragment in a whole configuration.
sub http_level ($example) {
    return $example if $example =~ /^\s*(?:server|redis_rate_limit_zone|redis_rate_limit_backend|geo)\b/m;
    return "server { listen %PORT%; $example }";
}

my @files = ('README.md', glob 'docs/*.md');
for my $file (@files) {
    my $text = RateLimit::Nginx::slurp($file);
    while ($text =~ /^```nginx\n(.*?)^```$/msg) {
        my $example = adapt($1);
        my $line    = 1 + (substr($text, 0, $-[1]) =~ tr/\n//);
        $example =~ s/^load_module .*?^http \{\n(.*)^\}$/$1/ms; # the harness has its own
        my $zones = $example =~ /redis_rate_limit zone=/ && $example !~ /redis_rate_limit_zone/
            ? "redis_rate_limit_zone \$remote_addr zone=per_ip:10m;\n" : '';
        my $nginx = RateLimit::Nginx->new($zones . http_level($example));
        RateLimit::Nginx::write_file($nginx->dir . '/redis.password', "secret\n");
        RateLimit::Nginx::write_file($nginx->dir . '/redis-ca.pem', $authority);
        my ($said, $accepted) = $nginx->test_configuration;
        ok($accepted, "$file:$line") or diag($said);
    }
}

# The first one is the promise of the page: it limits.
my ($first) = RateLimit::Nginx::slurp('README.md') =~ /^```nginx\n.*?^http \{\n(.*?)^\}\n```$/ms;
my $redis = RateLimit::Redis->start_new;
$first =~ s/listen 8080/listen %PORT%/;
my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
$first
END
my @statuses = split ' ', $nginx->statuses('/', 102);
is((grep { $_ != 429 } @statuses), 100, '100 requests pass');
is("@statuses[100, 101]", '429 429', 'and no more');

$nginx->stop;
done_testing;
