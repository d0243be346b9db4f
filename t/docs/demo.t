# What `make run` serves: shows the limit at work, and leaves nothing behind.

use v5.36;
use lib 't/lib';
use HTTP::Tiny;
use JSON::PP qw(decode_json);
use Net::EmptyPort qw(check_port);
use POSIX qw(_exit WNOHANG);
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Wait qw(wait_until);
use Test::More;

my $port = empty_port();
my ($pid, $out) = demo($port);
END { kill TERM => $pid if $pid }
local $SIG{ALRM} = sub { kill TERM => $pid; BAIL_OUT('tools/run-demo says nothing') };
alarm 30;
my $said = '';
while (my $line = <$out>) {
    $said .= $line;
    last if $line =~ /until Ctrl-C/;
}
alarm 0;

my @statuses = $said =~ /^ +\d+ +(\d{3}) /mg;
is("@statuses", '200 ' x 10 . '429 429', 'ten requests pass, two are refused') or diag($said);
like($said, qr/^ +1 +200 +9 +"per_ip\/10s";r=9/m,           'a request that passed, with its headers');
like($said, qr/^ +11 +429 +0 +\d+ +"per_ip\/10s";r=0;t=/m, 'a refused one, with Retry-After');

my $response = HTTP::Tiny->new->get("http://127.0.0.1:$port/");
like($response->{status}, qr/^(?:200|429)$/, 'it goes on serving');
is($response->{headers}{'x-ratelimit-limit'}, 10, 'with rate-limit headers');

my ($dashboard) = $said =~ /^Dashboard: +(http\S+)$/m;
is(HTTP::Tiny->new->get($dashboard)->{status}, 200, 'the dashboard is where it says');
my $rule = decode_json(HTTP::Tiny->new->get("${dashboard}status.json")->{content})->{zones}{per_ip}{rules}{'per_ip/10s'};
is_deeply([ $rule->{passed} >= 10, $rule->{rejected} >= 2 ], [ 1, 1 ], 'and has seen the burst');
my ($api) = HTTP::Tiny->new->get($dashboard)->{content} =~ /<body data-api="(\/[^"]+)">/;
ok($api, 'it has an inspector');
my $client = HTTP::Tiny->new->get("http://127.0.0.1:$port${\($api // '/')}key?zone=per_ip&key=127.0.0.1");
like($client->{content}, qr{"per_ip/10s": \{.*"capacity": 10,}s, 'whose API knows the client');
is(HTTP::Tiny->new->get("http://127.0.0.1:$port/", { headers => { Host => 'rebound.example' } })->{status}, 599, 'and serves no other name');

my ($other, $other_out) = demo($port);
my $refusal = do { local $/; <$other_out> };
waitpid $other, 0;
isnt($?, 0, 'another one on its port is refused');
like($refusal, qr/port $port is taken/, 'and told why');

my @processes = descendants($pid);
cmp_ok(scalar @processes, '>=', 4, 'redis-server, nginx and its workers run');
my ($dir) = grep { m{/build/demo\.} } map { readlink("/proc/$_/cwd") // () } @processes;
ok(-d $dir, 'in a directory below build/');
is(scalar(grep { (stat "/proc/$_")[4] != 0 } @processes), 2, 'with unprivileged workers') if $> == 0;

kill TERM => $pid;
ok(wait_until(sub { waitpid($pid, WNOHANG) != 0 }), 'ends when told');
is($?, 0, 'with success');
undef $pid;
is(join(' ', grep { kill 0, $_ } @processes), '', 'and all its processes with it');
ok(!-e $dir, 'the directory is gone');
ok(!check_port({ host => '127.0.0.1', port => $port }), 'the port is free');
done_testing;

# tools/run-demo in the background: its process, and what it says.
sub demo ($port) {
    my $pid = open(my $out, '-|') // die "fork: $!";
    if ($pid == 0) {
        $ENV{PORT} = $port;
        delete $ENV{RATE_LIMIT_MODULE} if $ENV{RATE_LIMIT_PRELOAD};    # with a sanitizer, which nobody preloads here
        open STDERR, '>&', \*STDOUT or _exit(127);
        exec 'tools/run-demo' or _exit(127);
    }
    return ($pid, $out);
}

sub descendants ($pid) { return map { ($_, descendants($_)) } RateLimit::Nginx::children($pid) }
