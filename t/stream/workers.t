# Two nginx with two workers each share the counts of sessions, exactly, through floods, reloads, killed
# workers and an upgrade; and no permit is left over.

use v5.36;
use lib 't/lib';
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Process;
use RateLimit::Redis;
use RateLimit::Stream qw(echo_server new_stream open_session take_line);
use POSIX ();
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis = RateLimit::Redis->start_new;
my $echo  = echo_server();

# A host: its servers limit sessions, and permits.
sub start_host (%options) {
    my %port  = map { $_ => empty_port() } qw(log again permits);
    my $nginx = new_stream(<<"END", workers => 2, %options);
%STREAM_LOG%
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$remote_addr zone=z:1m on_error=closed;
server { listen 127.0.0.1:$port{log}; redis_rate_limit zone=z algorithm=sliding_log limit=200 window=1h; return passed\\n; }
server { listen 127.0.0.1:$port{again}; redis_rate_limit zone=z algorithm=sliding_log limit=200 window=1h name=again; return passed\\n; }
server { listen 127.0.0.1:$port{permits}; redis_rate_limit zone=z algorithm=concurrency limit=4 name=permits; proxy_pass ${\$echo->address}; }
END
    $nginx->start;
    return { nginx => $nginx, %port };
}

my @hosts = (start_host(daemon => 1), start_host());

# How many of so many sessions with that server of each host pass, four clients at a time.
sub passed ($server, $count) {
    my @clients = map {
        my $port = $hosts[ $_ % 2 ]{$server};
        open my $out, '-|' or do {
            my $passed = grep { (take_line(open_session($port)) // '') eq "passed\n" } 1 .. $count / 2;
            print "$passed\n";
            POSIX::_exit(0) if close STDOUT;
        };
        $out;
    } 0 .. 3;
    my $sum = 0;
    $sum += readline $_ for @clients;
    return $sum;
}

is(passed('log', 150), 200, '200 of 300 sessions over two hosts with four workers pass');

subtest 'a reload' => sub {
    my $reloads = RateLimit::Process->run(sub { $_->{nginx}->reload for @hosts });
    is(passed('again', 150), 200, 'meanwhile changes nothing');
};

sub open_permit ($host) {
    my $session = open_session($hosts[$host]{permits});
    print $session "hello\n";
    return (take_line($session) // '') eq "hello\n" ? $session : undef;
}

sub permits () { return $redis->client->zcard((grep { /permits/ } $redis->keys)[0] // 'none') }

subtest 'permits' => sub {
    my @sessions = map { open_permit($_ % 2) } 0 .. 3;
    is(scalar(grep { defined } @sessions), 4, 'four sessions');
    ok(!open_permit($_), "no fifth one at host $_") for 0, 1;
    $hosts[0]{nginx}->reload;
    ok(!open_permit(0), 'nor after a reload, while the old worker goes on');
    print { $sessions[0] } "still\n";
    is(take_line($sessions[0]), "still\n", 'as its sessions do');
    @sessions = ();
    ok(wait_until(sub { permits() == 0 }), 'none is left when they have ended');
};

subtest 'an upgrade' => sub {
    my $session = open_permit(0);
    $hosts[0]{nginx}->start_successor;
    my $next = open_permit(0);
    ok($next, 'sessions pass at the new or the old one');
    undef $session;
    undef $next;
    $hosts[0]{nginx}->retire;
    $hosts[0]{nginx}->give_way;
    ok(wait_until(sub { permits() == 0 }), 'no permit is left');
};

subtest 'a killed worker' => sub {
    my $session = open_permit(1);
    my @workers = $hosts[1]{nginx}->workers;
    kill KILL => @workers;
    ok(wait_until(sub { my @now = $hosts[1]{nginx}->workers; @now == 2 && !grep { my $pid = $_; grep { $_ == $pid } @workers } @now }),
        'others come');
    ok(open_permit(1), 'sessions pass');
    $hosts[1]{expect} = RateLimit::Nginx::ends_of_killed(@workers);
};

$_->{nginx}->stop(expect => $_->{expect} // qr/^\b$/) for @hosts;

done_testing;
