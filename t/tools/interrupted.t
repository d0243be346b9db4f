# A test that is interrupted leaves no process behind.

use v5.36;
use lib 't/lib';
use RateLimit::Wait qw(wait_until);
use Test::More;

my $test = <<'END';
use v5.36;
use lib 't/lib';
use RateLimit::Nginx;
use RateLimit::Process;
use RateLimit::Redis;
$| = 1;
my $redis   = RateLimit::Redis->start_new;
my $nginx   = RateLimit::Nginx->start_new('server { listen %PORT%; }');
my $process = RateLimit::Process->run(sub { sleep 600 });
say join ' ', $redis->pid, $nginx->pid, $nginx->workers, $process->pid;
sleep 600;
END

for my $signal (qw(INT TERM)) {
    my $pid = open(my $out, '-|', $^X, '-e', $test) // die "$^X: $!";
    my @started = split ' ', scalar <$out>;
    is(scalar(grep { kill 0, $_ } @started), 4, "$signal: a test has started processes");
    kill $signal => $pid;
    ok(wait_until(sub { !grep { kill 0, $_ } @started }), 'and they end with it') or kill KILL => @started;
}

done_testing;
