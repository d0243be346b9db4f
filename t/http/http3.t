# HTTP/3: denied as elsewhere, and streams that end while Redis is asked leave nothing behind.

use v5.36;
use lib 't/lib';
use RateLimit::Certificates;
use RateLimit::Nginx;
use RateLimit::Process;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

qx(@{[ RateLimit::Nginx::binary ]} -V 2>&1) =~ /http_v3_module/ or plan skip_all => 'this nginx speaks no HTTP/3';
qx(curl --version) =~ /\bHTTP3\b/ or plan skip_all => 'this curl speaks no HTTP/3';

my $trust = RateLimit::Certificates->new;
$trust->issue('nginx', 'IP:127.0.0.1');
my $redis = RateLimit::Redis->start_new;
my $http  = <<"END";
redis_rate_limit_backend default { server ${\$redis->address}; timeout 30s; }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed;
ssl_certificate ${\$trust->certificate('nginx')};
ssl_certificate_key ${\$trust->key('nginx')};
server {
    listen %PORT%;
    listen 127.0.0.1:%PORT% quic;
    location / {
        redis_rate_limit zone=z algorithm=sliding_log limit=2 window=60;
        empty_gif;
    }
    location /posted {
        redis_rate_limit zone=z algorithm=sliding_log limit=2 window=60;
        proxy_pass http://unix:%DIR%/upstream.sock;
    }
    location /many {
        redis_rate_limit zone=z algorithm=sliding_log limit=1000 window=60;
        empty_gif;
    }
    location /posted/free {
        redis_rate_limit off;
        proxy_pass http://unix:%DIR%/upstream.sock;
    }
    location /connections { stub_status; }
}
server {
    listen unix:%DIR%/upstream.sock;
    location / { return 200; }
}
END
my $nginx = RateLimit::Nginx->start_new($http);
my ($worker) = $nginx->workers;
my $body = $nginx->dir . '/posted';
RateLimit::Nginx::write_file($body, 'x' x 300_000);

# Version, status and remaining of a response, and how many connections were made for it.
my @options = (
    qw(--http3-only --silent --output /dev/null --cacert), $trust->certificate('authority'),
    '--write-out', '%{http_version} %{http_code} %header{x-ratelimit-remaining} %{num_connects}\n',
);

# Requests of one client, each a path and more options.
sub curl ($how, @requests) { return curl_at($nginx, $how, @requests) }

sub curl_at ($server, $how, @requests) {
    my $site      = 'https://127.0.0.1:' . $server->port;
    my @arguments = map { my ($path, @more) = @$_; ('--next', @options, @more, $site . $path) } @requests;
    return RateLimit::Process->execute($nginx->dir . '/curl', 'curl', @$how, @arguments[1 .. $#arguments]);
}

sub answers ($client) {
    $client->wait_for_end or die "curl does not end\n";
    return read_answers();
}

sub read_answers () {
    return [split /\n/, RateLimit::Nginx::slurp($nginx->dir . '/curl')];
}

# So many requests of the access log ended as their clients left.
sub left ($pattern) { return scalar(() = $nginx->access_log =~ /"GET \S*$pattern HTTP\/3\S*" 499 /g) }

is_deeply(answers(curl([], ['/?key=a'], ['/?key=a'], ['/?key=a'])), ['3 200 1 1', '3 200 0 0', '3 429 0 0'], 'two pass');

# nginx 1.26.3 and curl 8.14.1, those of Debian 13, hang in 1 or 2 of 70 rounds of such requests, with
# limit_req and with no limit at all just the same: curl does not end, and nginx does not leave on QUIT.
# So they have an nginx of their own, and are tried again where they hang; and then they have to hang
# without a rule, too.
subtest 'bodies of 300 KB, the last of which is refused, and the connection serves on' => sub {
    my $posted   = RateLimit::Nginx->start_new($http);
    my $round_of = sub ($path) {
        my $client = curl_at($posted, [], ([$path, '--data-binary', "\@$body"]) x 3, [$path]);
        return $client->wait_for_end(20) ? read_answers() : undef;
    };
    my ($hung, $answers) = 0;
    ++$hung until ($answers = $round_of->("/posted?key=b$hung")) || $hung == 5;
    is_deeply($answers, ['3 200 1 1', '3 200 0 0', '3 429 0 0', '3 429 0 0'], 'statuses, and one connection');
    if ($hung) {
        my ($rounds, $is_good) = (0, 1);
        ++$rounds while ($is_good = $round_of->('/posted/free')) && $rounds < 400;
        diag "$hung rounds beside a rule have hung, and of those without one ", $is_good ? "none of $rounds" : "one after $rounds";
        ok(!$is_good, 'they hang without a rule, too: that is not ours');
    }
    $posted->stop(signal => $hung ? 'TERM' : 'QUIT');
};

# A client leaves when that time is over. On a busy machine it takes a while until nginx has its request.
my @leave = ('--max-time', 10);

$redis->freeze;
is_deeply(answers(curl([], ['/many?key=closed', @leave])), ['0 000  1'], 'a connection that is closed while Redis is stopped');
ok(wait_until(sub { left('key=closed') == 1 }), 'is noticed');
$redis->thaw;

$redis->freeze;
my $client = curl(['--parallel'], ['/many?key=stays', '--max-time', 60], ['/many?key=reset', @leave]);
ok(wait_until(sub { left('key=reset') == 1 }, 30), 'a stream that is reset while Redis is stopped');
$redis->thaw;
is_deeply([sort @{ answers($client) }], ['0 000  0', '3 200 999 1'], 'the other one of its connection is answered');

is($redis->taken("rl:{z:$_}:sliding_log:60000"), 1, "$_: charged once") for qw(closed stays reset);
ok(wait_until(sub { $nginx->get('/connections')->{content} =~ /Active connections: 1 / }), 'no connection is left');
is(($nginx->workers)[0], $worker, 'the worker is the same');

$nginx->stop;
done_testing;
