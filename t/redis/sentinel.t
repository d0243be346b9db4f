# A Redis that Sentinels watch: the master is where they say, its replicas never decide, and a
# failover, by command or by death, costs the checks in flight.

use v5.36;
use lib 't/lib';
use IO::Socket::INET;
use List::Util qw(sum0);
use RateLimit::Certificates;
use RateLimit::Dns;
use RateLimit::Liar;
use RateLimit::Load qw(start_load);
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Sentinels;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(time);

my $sentinels = RateLimit::Sentinels->start_new;

sub start_nginx ($backend, %options) {
    my $http = delete $options{http} // '';
    return RateLimit::Nginx->start_new(<<"END", %options);
$http
redis_rate_limit_backend default { mode sentinel; sentinel_master limits; $backend }
redis_rate_limit_zone \$arg_key zone=open:1m   on_error=open;
redis_rate_limit_zone \$arg_key zone=closed:1m on_error=closed;
redis_rate_limit_log_level info;
server {
    listen %PORT%;
    location /open   { redis_rate_limit zone=open   algorithm=sliding_log limit=2 window=60; empty_gif; }
    location /closed { redis_rate_limit zone=closed algorithm=sliding_log limit=2 window=60; empty_gif; }
    location /many   { redis_rate_limit zone=open   algorithm=sliding_log limit=1000000 window=60; empty_gif; }
}
END
}

sub works ($nginx) { return wait_until(sub { $nginx->get('/closed?key=' . rand)->{status} == 200 }) }

# Script runs so far.
sub checks ($redis) { return sum0(values $redis->script_calls->%*) }

# Returns the new one.
sub wait_for_another_master ($old) {
    return wait_until(sub {
        my $master = $sentinels->master;
        return $master && $master != $old && $master->client->info('replication')->{role} eq 'master' && $master;
    }, 20) // die 'no failover';
}

subtest 'the master' => sub {
    my $nginx = start_nginx($sentinels->servers);
    is($nginx->statuses('/closed?key=master', 3), '200 200 429', 'the limit holds');
    is($sentinels->master->taken('rl:{closed:master}:sliding_log:60000'), 2, 'at the master');
    unlike($nginx->error_log, qr/fails/, 'from the first request on');
    $nginx->stop;
};

# Under load: what a failover does to requests, and where checks go afterwards.
sub survives ($name, $fail_over) {
    my $nginx  = start_nginx($sentinels->servers, workers => 2);
    my $old    = $sentinels->master;
    ok(works($nginx), "$name: verdicts before");
    my $load   = start_load($nginx->url('/many?key=load'), connections => 64);
    ok(wait_until(sub { checks($old) > 100 }), "$name: the old master decides");
    $fail_over->($old);
    my $master = wait_for_another_master($old);
    ok(wait_until(sub { checks($master) > 100 }), "$name: the new one does");
    my $before = checks($master);
    ok(wait_until(sub { checks($master) > $before + 1000 }), "$name: and goes on");
    my $is_new = !$old->pid;
    $old->restart if $is_new;
    ok(wait_until(sub { (eval { $old->client->info('replication')->{role} } // '') eq 'slave' }, 20), "$name: the old one is its replica");
    my $at_old = $is_new ? 0 : checks($old); # one worker may have heard of it later than the other
    $before = checks($master);
    ok(wait_until(sub { checks($master) > $before + 1000 }), "$name: that changes nothing");
    is(checks($old), $at_old, "$name: and is asked nothing");
    my $result = $load->finish;
    is($result->{refused}, 0, "$name: no error of ${\$result->{requests}} requests");
    is($result->{broken}, 0, "$name: and each was answered");
    my $log = $nginx->error_log;
    unlike($log, qr/fails: [:,]/, "$name: with a reason");
    cmp_ok(scalar(() = $log =~ / fails: /g), '<=', 4, "$name: a line or two of each worker");
    $nginx->stop;
}

subtest 'failover by command' => sub {
    survives('by command', sub ($old) { $sentinels->ask(0, 'failover', 'limits') });
};

subtest 'a master that dies' => sub {
    survives('a death', sub ($old) { $old->kill_now });
};

subtest 'Sentinels that are not there, or do not answer' => sub {
    my $nowhere = empty_port();
    my $silent  = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 5) or die "listen: $!";
    my $nginx   = start_nginx("server 127.0.0.1:$nowhere; server 127.0.0.1:${\$silent->sockport}; " . $sentinels->servers);
    ok(works($nginx), 'others are asked');
    $nginx->stop;

    $nginx = start_nginx("server 127.0.0.1:$nowhere;");
    is($nginx->get('/open?key=nowhere')->{status}, 200, 'none: open passes');
    ok(wait_until(sub { $nginx->get('/closed?key=nowhere')->{status} == 503 }), 'closed does not');
    ok($nginx->wait_for_log(qr/fails: no Sentinel tells where the master is: connecting failed,/), 'the log tells why');
    $nginx->stop;
};

sub list (@words) { return '*' . @words . "\r\n" . join '', map { '$' . length($_) . "\r\n$_\r\n" } @words }

sub told ($host, $port) { return list($host, $port) }

subtest 'a Sentinel that lies' => sub {
    my $master    = $sentinels->master;
    my ($replica) = grep { $_ != $master } map { $sentinels->redis($_) } 0, 1;
    my $port      = $replica->conf->{port};
    my $liar      = RateLimit::Liar->start_new(told('127.0.0.1', $port));
    my $before    = checks($replica);
    my $nginx     = start_nginx($liar->server);
    ok($nginx->wait_for_log(qr/fails: ROLE: slave,/), 'the log tells what it leads to');
    is($nginx->get('/closed?key=lie')->{status}, 503, 'no verdict');
    is(checks($replica), $before, 'the replica is asked nothing');
    $nginx->stop;

    $nginx = start_nginx($liar->server . $sentinels->servers);
    ok(works($nginx), 'another one is asked');
    $nginx->stop;

    my $rude = RateLimit::Liar->start_new("HTTP/1.1 400 Bad Request\r\n\r\n");
    $nginx = start_nginx($rude->server . $sentinels->servers);
    ok(works($nginx), 'or where it is none');
    $nginx->stop;
};

subtest 'a name that no Sentinel knows' => sub {
    my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { mode sentinel; sentinel_master others; ${\$sentinels->servers} }
redis_rate_limit_zone \$arg_key zone=open:1m on_error=open;
server { listen %PORT%; redis_rate_limit zone=open algorithm=sliding_log limit=2 window=60; location / { empty_gif; } }
END
    is($nginx->get('/?key=a')->{status}, 200, 'open passes');
    ok($nginx->wait_for_log(qr/fails: no Sentinel tells where the master is: it knows no master of that name,/), 'the log tells why');
    $nginx->stop;
};

# A lookup that is under way is one of the master, whatever becomes of the Sentinel meanwhile.
subtest 'Sentinels that leave when they have told a name' => sub {
    my $redis = RateLimit::Redis->start_new;
    my $dns   = RateLimit::Dns->start_new('redis.test' => '127.0.0.1', delay => 0.3);
    my $told  = told('redis.test', $redis->conf->{port});
    my @liars = map { RateLimit::Liar->start_new($told, leaves => 1) } 1, 2;
    my $nginx = start_nginx(join(' ', map { $_->server } @liars) . ' connect_timeout 3s; timeout 3s;', http => $dns->resolver);
    ok(works($nginx), 'the name that they told counts');
    $nginx->stop;
};

# A new master may take a moment to come: what was waited for the old one says nothing of that.
subtest 'a master that was hard to reach, and moves' => sub {
    my $subscribed = "*3\r\n\$9\r\nsubscribe\r\n\$14\r\n+switch-master\r\n:1\r\n";
    my $redis      = RateLimit::Redis->start_new;
    my $old        = RateLimit::Relay->start_new($redis->conf->{port});
    my $new        = RateLimit::Relay->start_new(empty_port());
    my $says       = sub ($relay) { told('127.0.0.1', $relay->port) . $subscribed };
    my $liar       = RateLimit::Liar->start_new($says->($old));
    my $sentinel   = RateLimit::Relay->start_new($liar->port);
    $old->replace_all("-LOADING Redis is loading the dataset in memory\r\n");
    my $nginx = start_nginx("server 127.0.0.1:${\$sentinel->port};");
    ok(wait_until(sub { $old->counts->{accepted} >= 7 }), 'after some attempts there is a second between them');
    $old->replace_all('');
    ok(works($nginx), 'it lets us in');

    $sentinel->replace_all($says->($new));
    $sentinel->inject(list('message', '+switch-master', join ' ', 'limits', map { ('127.0.0.1', $_->port) } $old, $new));
    ok(wait_until(sub { $new->counts->{accepted} >= 1 }), 'the new one is tried');
    my $began = time;
    ok(wait_until(sub { $new->counts->{accepted} >= 4 }), 'and tried again');
    my $lasts = time - $began;
    cmp_ok($lasts, '<', 1, sprintf 'soon: three times in %.2f s', $lasts); # 0.35 s at most, of waiting
    $nginx->stop;
};

# Each worker listens to a Sentinel, and so does the one that asks for live limits, once more.
sub subscriptions () {
    return sum0(map { scalar(() = $sentinels->client($_)->client('list') =~ /sub=1/g) } 0 .. 2);
}

subtest 'Sentinels that are restarted' => sub {
    my $others = subscriptions;
    my $nginx  = start_nginx($sentinels->servers);
    ok(works($nginx), 'verdicts');
    ok(wait_until(sub { subscriptions == $others + 2 }), 'one is listened to');
    $sentinels->client($_)->client('kill', 'type', 'pubsub') for 0 .. 2;
    ok(wait_until(sub { subscriptions == $others + 2 }), 'and again, or another');
    unlike($nginx->error_log, qr/fails/, 'nothing happened to the master');
    $nginx->stop;
};

subtest 'workers come and go' => sub {
    my $others = subscriptions;
    my $nginx  = start_nginx($sentinels->servers, workers => 2);
    ok(works($nginx), 'verdicts');
    ok(wait_until(sub { subscriptions == $others + 3 }), 'each listens to one');
    for (1 .. 5) {
        $nginx->reload;
        ok(works($nginx), 'after a reload');
    }
    ok(wait_until(sub { !$nginx->leaving_workers }), 'old workers leave');
    ok(wait_until(sub { subscriptions == $others + 3 }), 'and their subscriptions');
    $nginx->stop;
};

subtest 'passwords and TLS' => sub {
    my $certificates = RateLimit::Certificates->new;
    $certificates->issue('redis', 'IP:127.0.0.1');
    my $secured = RateLimit::Sentinels->start_new(tls => $certificates, password => 'horse', sentinel_password => 'staple');
    my $lines   = $secured->servers . ' password horse; ssl on; ssl_trusted_certificate ' . $certificates->certificate('authority') . ';';
    my $nginx   = start_nginx("$lines sentinel_password staple;");
    ok(works($nginx), 'verdicts');
    $nginx->stop;
    $nginx = start_nginx("$lines sentinel_password battery;");
    ok($nginx->wait_for_log(qr/fails: no Sentinel tells where the master is: WRONGPASS,/), 'a wrong one is told of');
    unlike($nginx->error_log, qr/battery|horse|staple/, 'without it');
    $nginx->stop;
};

done_testing;
