# A client that ends its sending side is answered, one that resets its connection has left: while
# Redis is asked. Before and after that nginx decides, as it does without a rule.

use v5.36;
use lib 't/lib';
use IO::Socket::UNIX;
use POSIX ();
use RateLimit::Certificates;
use RateLimit::Client;
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Upstream;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep);

# The relay keeps the answers of Redis back while a client does something.
my $redis        = RateLimit::Redis->start_new;
my $relay        = RateLimit::Relay->start_new($redis->conf->{port});
my $upstream     = RateLimit::Upstream->start_new;
my $certificates = RateLimit::Certificates->new;
my $certificate  = $certificates->issue('nginx', 'IP:127.0.0.1');
my $tls_port     = empty_port();

sub new_nginx ($events) {
    return RateLimit::Nginx->new(<<"END", events => $events);
redis_rate_limit_backend default { server 127.0.0.1:${\$relay->port}; connect_timeout 10s; timeout 20s; }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed deny_cache=off;
limit_req_zone \$arg_key zone=theirs:1m rate=1r/s;
limit_req_status 429;
ssl_certificate ${\$certificates->certificate($certificate)};
ssl_certificate_key ${\$certificates->key($certificate)};
keepalive_timeout 60s;
server {
    listen %PORT%;
    listen $tls_port ssl;
    listen unix:%DIR%/nginx.sock;
    location = /ours { redis_rate_limit zone=z algorithm=sliding_log limit=2 window=1h; empty_gif; }
    location /passed {
        redis_rate_limit zone=z algorithm=sliding_log limit=1000 window=1h name=passed;
        proxy_pass ${\$upstream->url};
        location = /passed/ignore { proxy_ignore_client_abort on; proxy_pass ${\$upstream->url}; }
        location = /passed/free { redis_rate_limit off; proxy_pass ${\$upstream->url}; }
    }
    location = /delayed/ours { redis_rate_limit zone=z algorithm=leaky_bucket limit=1 window=2 burst=5 name=delayed; empty_gif; }
    location = /delayed/theirs { limit_req zone=theirs burst=5; empty_gif; }
    location = /free { empty_gif; }
}
END
}

my $nginx;

# A request after which the client may end its sending side.
sub message ($target, @more) { return join "\r\n", "GET $target HTTP/1.1", 'Host: a', @more, '', '' }

# A whole turn of nginx's event loop is over: it has seen what was sent before.
sub await_turn () { $nginx->get('/free')->{status} == 200 or die 'nginx does not answer' for 1, 2 }

# Redis was asked, and its answer is kept back.
sub await_held () { wait_until(sub { $relay->counts->{held} > 0 }) or die 'Redis was not asked' }

sub left ($pattern) {
    return wait_until(sub { $nginx->access_log =~ /"GET \S*$pattern\S* HTTP\S*" 499 / });
}

# What a client is answered that does something after its request, while Redis is asked.
sub status_after ($client, $target, $act) {
    $relay->hold;
    $client->send(message($target));
    await_held;
    $act->($client);
    await_turn;
    $relay->release;
    return $client->response->{status};
}

sub end_sending ($client) { $client->end_sending }

# User and system time of the worker so far, seconds.
sub worker_time () {
    my ($worker) = $nginx->workers;
    my @words = split ' ', RateLimit::Nginx::slurp("/proc/$worker/stat") =~ s/.*\)//sr;
    return ($words[11] + $words[12]) / POSIX::sysconf(POSIX::_SC_CLK_TCK());
}

sub tls_client () {
    my $client = RateLimit::Client->new($nginx);
    CORE::close $client->{socket};
    $client->{socket} = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $tls_port) or die "connect: $@";
    return $client->start_tls;
}

# Debian's nginx has epoll alone.
for my $method (qw(epoll poll select)) {
    $nginx = new_nginx("use $method;");
    my ($said) = $nginx->test_configuration;
    if ($said =~ /invalid event type/) {
        note "no $method here";
        next;
    }
    $nginx->start;
    $redis->client->flushall;
    is($nginx->get('/ours?key=first')->{status}, 200, "$method: works");

    subtest "$method: the end of what a client sends" => sub {
        for my $key (qw(at-once 200-later)) {
            my @statuses = map {
                my $client = RateLimit::Client->new($nginx);
                $key eq 'at-once'
                    ? $client->send(message("/ours?key=$key"))->end_sending->response->{status}
                    : status_after($client, "/ours?key=$key", \&end_sending)
            } 1 .. 3;
            is("@statuses", '200 200 429', "$key: is answered");
        }
        my $client = RateLimit::Client->new($nginx);
        my $two    = message('/passed/ignore?key=pipe') . message('/ours?key=pipe');
        $client->send($two)->end_sending;
        is($client->response->{body}, "ok\n", 'the first of two requests');
        is($client->response->{status}, 200, 'and the second');
        unlike($nginx->access_log, qr/" 499 /, 'nobody has left');
    };

    subtest "$method: what comes does not keep nginx busy" => sub {
        my %acts = (end => \&end_sending, more => sub ($client) { $client->send(message('/ours?key=busy-2')) });
        for my $act (sort keys %acts) {
            my $client = RateLimit::Client->new($nginx);
            my $spent;
            my $status = status_after($client, "/ours?key=busy-$act", sub ($client) {
                $acts{$act}->($client);
                my $before = worker_time();
                sleep 0.5; # while it has nothing to do
                $spent = worker_time() - $before;
            });
            is($status, 200, "$act: answered");
            cmp_ok($spent, '<', 0.25, "$act: after ${spent} s of the processor's time");
            is($client->response->{status}, 200, 'and what came') if $act eq 'more';
        }
    };

    subtest "$method: a reset" => sub {
        $relay->hold;
        my $client = RateLimit::Client->new($nginx)->send(message('/ours?key=reset'));
        await_held;
        $client->reset;
        ok(left('key=reset'), 'ends the request at once');
        if ($method eq 'epoll') { # the others tell nothing more of a connection whose events are not read
            $client = RateLimit::Client->new($nginx)->send(message('/ours?key=reset-later'))->end_sending;
            await_turn;
            $client->reset;
            ok(left('key=reset-later'), 'also after the end');
            $client = RateLimit::Client->new($nginx)->send(message('/ours?key=reset-more'));
            await_turn;
            $client->send(message('/free'));
            await_turn;
            $client->reset;
            ok(left('key=reset-more'), 'also after a second request');
        }
        my $local = IO::Socket::UNIX->new(Peer => $nginx->dir . '/nginx.sock') or die "connect: $@";
        syswrite $local, message('/ours?key=local');
        await_turn;
        close $local;
        ok(left('key=local'), 'as does the end of a client on this host');
        $relay->release;
        ok(wait_until(sub { $redis->taken('rl:{z:reset}:sliding_log:3600000') == 1 }), 'was charged');
    };

    subtest "$method: TLS" => sub {
        is(status_after(tls_client(), '/ours?key=tls', \&end_sending), 200, 'an end without notice');
        my $notify = sub ($client) { $client->notify_of_close->end_sending };
        is(status_after(tls_client(), '/ours?key=tls', $notify), 200, 'an end with notice');
        is(status_after(tls_client(), '/ours?key=tls', $notify), 429, 'and a denial');
        return if $method ne 'epoll'; # nginx may not ask them for events while there may be bytes to decrypt
        $relay->hold;
        my $client = tls_client()->send(message('/ours?key=tls-reset'));
        await_turn;
        $client->reset;
        ok(left('key=tls-reset'), 'a reset');
        $relay->release;
    };

    # The upstream keeps its requests, so that the client may end its sending side meanwhile.
    subtest "$method: what is passed on" => sub {
        my $accepted = $upstream->counts->{accepted};
        is(status_after(RateLimit::Client->new($nginx), '/passed/ignore?key=on', \&end_sending), 200, 'with proxy_ignore_client_abort');
        is($upstream->counts->{accepted}, $accepted + 1, 'the upstream has seen it');

        # On a connection that was used before events tell of an end only once.
        for my $is_used (0, 1) {
            $upstream->answer;
            my ($free, $ours) = map { RateLimit::Client->new($nginx) } 1, 2;
            if ($is_used) {
                is($_->send(message('/passed/free?key=used'))->response->{status}, 200, 'a connection') for $free, $ours;
            }
            $upstream->hold;
            $free->send(message("/passed/free?key=free-$is_used"));
            ok($upstream->wait_for(1), 'without a rule');
            $free->end_sending;
            ok(left("key=free-$is_used"), 'nginx takes an end for the client leaving');
            is(status_after($ours, "/passed?key=ours-$is_used", \&end_sending), 0, 'so it does after a rule');
            ok(left("key=ours-$is_used"), 'which is logged');
            $upstream->answer;
        }
    };

    subtest "$method: what is held back" => sub {
        for my $act (qw(end_sending reset)) {
            my %logged;
            for my $whose (qw(theirs ours)) {
                my $target = "/delayed/$whose?key=$act";
                my $client = RateLimit::Client->new($nginx)->send(message($target));
                is($client->end_sending->response->{status}, 200, "$whose: not the first");
                $client = RateLimit::Client->new($nginx)->send(message("$target-2"));
                is($client->response->{status}, 200, 'nor the first of another key');
                $client->send(message("$target-2"));
                ok($nginx->wait_for_log($whose eq 'ours' ? qr/delaying request, rule "delayed", key "$act-2"/ : qr/delaying request.*GET \Q$target-2\E /), 'the second');
                $client->$act;
                ok(left("$whose\\S*key=$act-2"), "$act: ends the request");
            }
        }
        is(status_after(RateLimit::Client->new($nginx), '/delayed/ours?key=end_sending', \&end_sending), 0, 'an end before it is held back');
        ok(left('ours\S*key=end_sending(?= )'), 'ends it, too');
    };

    ok(wait_until(sub { $relay->counts->{held} == 0 }), 'Redis has answered all');
    $nginx->stop;
}

done_testing;
