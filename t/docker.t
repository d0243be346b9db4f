# The image's entrypoint and nginx.conf, as far as they can be tried without an image.

use v5.36;
use lib 't/lib';
use RateLimit::Nginx;
use Test::More;

my $nginx   = RateLimit::Nginx->new('');
my $dir     = $nginx->dir;
my ($built) = RateLimit::Nginx::slurp("$dir/nginx.conf") =~ /^(load_module .*)$/m;

my %here = ('docker/nginx.conf' => "$dir/nginx.conf", 'docker/entrypoint' => "$dir/entrypoint");
for my $file (keys %here) {
    my $text = RateLimit::Nginx::slurp($file);
    $text =~ s/include mime/include \/etc\/nginx\/mime/;
    $text =~ s/listen 8080;/listen ${\$nginx->port};/;
    $text =~ s{/tmp/}{$dir/}g;
    $text =~ s/^load_module .*$/$built/m; # which may be in /tmp, too
    RateLimit::Nginx::write_file($here{$file}, $text);
}

my $said = do {
    local @ENV{qw(REDIS_HOST REDIS_PORT LD_PRELOAD)} = ('127.0.0.1', 16379, RateLimit::Nginx::preload);
    my @command = ('bash', "$dir/entrypoint", $nginx->command('-t'));
    qx{cd $dir && @command 2>&1};
};
is($?, 0, 'the configuration is accepted') or diag($said);
is(RateLimit::Nginx::slurp("$dir/redis_server.conf"), "server 127.0.0.1:16379;\n", 'Redis is where the environment says');

done_testing;
