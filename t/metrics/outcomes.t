# What is counted, and how it is told: each request in exactly one outcome of each of its rules.

use v5.36;
use lib 't/lib';
use List::Util qw(sum0);
use RateLimit::Client;
use RateLimit::Metrics qw(metrics_of outcomes pending promtool request tops);
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis = RateLimit::Redis->start_new;
my ($held, $lost) = map { RateLimit::Relay->start_new($redis->conf->{port}) } 1 .. 2;

# Of zones and rules that an operator might have, each location with rules of its own name.
sub rule ($name, $zone, $more) { return "redis_rate_limit zone=$zone name=$name window=1h $more;" }

my $log = <<'END';
log_format outcomes '$pid $uri $status $redis_rate_limit_status';
access_log %DIR%/outcomes.log outcomes;
END

# The site of the mixed run; `more` is more of its server.
sub site ($more = '') {
    my $log_rule = 'algorithm=sliding_log';
    my $leaky    = 'algorithm=leaky_bucket limit=36000 burst=10';
    return <<"END";
$log
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_backend held { server 127.0.0.1:${\$held->port}; connect_timeout 5s; timeout 30s; }
redis_rate_limit_backend lost { server 127.0.0.1:${\$lost->port}; connect_timeout 5s; timeout 30s; breaker off; }
redis_rate_limit_backend nobody { server 127.0.0.1:${\empty_port}; }
redis_rate_limit_zone \$arg_key zone=z:1m;
redis_rate_limit_zone \$arg_key zone=asks:1m deny_cache=off;
redis_rate_limit_zone \$arg_key zone=strict:1m on_error=closed;
redis_rate_limit_zone \$arg_key zone=held:1m backend=held on_error=closed deny_cache=off;
redis_rate_limit_zone \$arg_key zone=lost-open:1m backend=lost on_error=open;
redis_rate_limit_zone \$arg_key zone=lost-local:1m backend=lost;
redis_rate_limit_zone \$arg_key zone=none-open:1m backend=nobody on_error=open;
redis_rate_limit_zone \$arg_key zone=none-closed:1m backend=nobody on_error=closed;
redis_rate_limit_zone \$arg_key zone=none-local:1m backend=nobody;
server {
    listen %PORT% reuseport;
    location /metrics { access_log off; redis_rate_limit_metrics; }
    location /json { access_log off; redis_rate_limit_metrics json; }

    location /limited { ${\rule('limited', 'z', "$log_rule limit=5")} empty_gif; }
    location /asking { ${\rule('asking', 'asks', "$log_rule limit=5")} empty_gif; }
    location /zero { ${\rule('zero', 'z', "$log_rule limit=0")} empty_gif; }
    location /peek { ${\rule('limited', 'z', "$log_rule limit=5 cost=0")} empty_gif; }
    location /delayed { ${\rule('delayed', 'z', $leaky)} empty_gif; }
    location /trial/limited { ${\rule('trial', 'z', "$log_rule limit=5 dry_run")} empty_gif; }
    location /trial/delayed { ${\rule('trial-delayed', 'z', "$leaky dry_run")} empty_gif; }
    location /invalid/passes { ${\rule('invalid', 'z', "$log_rule limit=\$arg_limit")} error_page 404 =200 /invalid/again?\$args; }
    location /invalid/again { ${\rule('invalid', 'z', "$log_rule limit=\$arg_limit")} empty_gif; }
    location /invalid/closed { ${\rule('invalid', 'strict', "$log_rule limit=\$arg_limit")} empty_gif; }
    location /several {
        ${\rule('wide', 'asks', "$log_rule limit=1000")}
        ${\rule('narrow', 'asks', "$log_rule limit=2")}
        ${\rule('seen', 'asks', "$log_rule limit=1000 cost=0")}
        ${\rule('beside', 'asks', "$log_rule limit=1 dry_run")}
        empty_gif;
    }
    location /sharded { ${\rule('sharded', 'z', "$log_rule limit=6 shards=2")} empty_gif; }
    location /held { ${\rule('held', 'held', "$log_rule limit=5")} empty_gif; }
    location /slots { ${\rule('slots', 'held', 'algorithm=concurrency limit=100')} empty_gif; }
    location /two {
        ${\rule('answered', 'asks', "$log_rule limit=1000")}
        ${\rule('unanswered', 'held', "$log_rule limit=1000")}
        empty_gif;
    }
    location /lost/open { ${\rule('lost', 'lost-open', "$log_rule limit=5")} empty_gif; }
    location /lost/local { ${\rule('lost', 'lost-local', "$log_rule limit=5")} empty_gif; }
    location /none/open { ${\rule('none', 'none-open', "$log_rule limit=5")} empty_gif; }
    location /none/closed { ${\rule('none', 'none-closed', "$log_rule limit=5")} empty_gif; }
    location /none/trial { ${\rule('none-trial', 'none-closed', "$log_rule limit=5 dry_run")} empty_gif; }
    location /none/local { ${\rule('none', 'none-local', "$log_rule limit=5")} empty_gif; }
    location /none/delayed { ${\rule('none-delayed', 'none-local', $leaky)} empty_gif; }
    $more
}
END
}

sub sum_of ($outcomes) { return sum0 map { $outcomes->{$_} } grep { !/^(?:rejected_by_deny_cache|leases|settlements)$/ } keys %$outcomes }

# Requests of the access log: those of a location, or all.
sub logged ($nginx, $path = qr/./) {
    my @lines = map { [ split / / ] } split /\n/, RateLimit::Nginx::slurp($nginx->dir . '/outcomes.log');
    return grep { $_->[1] =~ /^$path/ } @lines;
}

# Sends requests from clients that leave before that backend answers; others may have.
sub leave ($nginx, $backend, $path, $count = 1) {
    my $logged  = () = logged($nginx);
    my $pending = pending($nginx, $backend);
    my @clients = map { RateLimit::Client->new($nginx)->send("GET $path HTTP/1.1\r\nHost: a\r\n\r\n") } 1 .. $count;
    wait_until(sub { pending($nginx, $backend) == $pending + $count && pending($nginx, 'default') == 0 })
        or die 'not all are asked';
    $_->reset for @clients;
    wait_until(sub { logged($nginx) == $logged + $count }) or die 'nobody noticed that they left';
    is(pending($nginx, $backend), $pending + $count, 'their answers are still to come');
}

my $nginx = RateLimit::Nginx->start_new(site(), workers => 2);

# What requests of a location are to come to, by zone and rule.
my %expected;

sub expect ($zone, $rule, %outcomes) {
    $expected{"$zone $rule"}{$_} += $outcomes{$_} for keys %outcomes;
}

sub run_mixed () {
    state $key = 0;
    ++$key;
    request($nginx, "/limited?key=$key", 20);
    expect(z => 'limited', passed => 5, rejected => 15, rejected_by_deny_cache => 14);
    request($nginx, "/peek?key=$key", 3);
    expect(z => 'limited', passed => 3);
    request($nginx, "/asking?key=$key", 20);
    expect(asks => 'asking', passed => 5, rejected => 15);
    request($nginx, "/zero?key=$key", 2);
    expect(z => 'zero', rejected => 2);
    request($nginx, "/delayed?key=$key", 2);
    expect(z => 'delayed', passed => 1, delayed => 1);
    request($nginx, "/trial/limited?key=$key", 8);
    expect(z => 'trial', passed => 5, dry_run_rejected => 3);
    request($nginx, "/trial/delayed?key=$key", 3);
    expect(z => 'trial-delayed', passed => 1, dry_run_delayed => 2);
    request($nginx, "/invalid/passes?key=$key&limit=x", 4);
    request($nginx, "/invalid/again?key=$key&limit=-1");
    request($nginx, "/invalid/again?key=$key&limit=7");
    expect(z => 'invalid', invalid => 5, passed => 1);
    request($nginx, "/invalid/closed?key=$key&limit=1e3", 2);
    expect(strict => 'invalid', invalid => 2);
    request($nginx, "/several?key=$key", 5);
    expect(asks => 'wide',   passed => 2, uncharged        => 3);
    expect(asks => 'narrow', passed => 2, rejected         => 3);
    expect(asks => 'seen',   passed => 5);
    expect(asks => 'beside', passed => 1, dry_run_rejected => 4);
    request($nginx, "/sharded?key=$key", 20); # some of them ask twice
    request($nginx, "/none/open?key=$key", 4);
    expect('none-open' => 'none', error_open => 4);
    request($nginx, "/none/closed?key=$key", 4);
    expect('none-closed' => 'none', error_closed => 4);
    request($nginx, "/none/trial?key=$key", 2);
    expect('none-closed' => 'none-trial', error_open => 2); # it rejects nobody
    request($nginx, "/none/local?key=$key", 7);
    expect('none-local' => 'none', local_passed => 5, local_rejected => 2);
    request($nginx, "/none/delayed?key=$key", 2);
    expect('none-local' => 'none-delayed', local_passed => 1, local_delayed => 1);

    request($nginx, $_) for map { "/lost/$_?key=$key" } qw(open local);
    request($nginx, "/held?key=$key", 3);
    $_->hold for $held, $lost;
    leave($nginx, 'lost', "/lost/$_?key=$key") for qw(open local);
    $lost->reset_all;
    $lost->release;
    leave($nginx, 'held', "/held?key=$key", 4);
    leave($nginx, 'held', $_) for "/slots?key=$key", "/two?key=$key";
    $held->release;
    expect('lost-open'  => 'lost',       passed => 1, error_open   => 1);
    expect('lost-local' => 'lost',       passed => 1, local_passed => 1);
    expect(held         => 'held',       passed => 5, rejected     => 2);
    expect(held         => 'slots',      passed => 1);
    expect(asks         => 'answered',   passed => 1);
    expect(held         => 'unanswered', passed => 1);
}

sub counts_are_exact ($when) {
    my %counted;
    my $settled = sub {
        my $metrics = metrics_of($nginx);
        %counted = map { $_ => outcomes($metrics, split / /) } keys %expected;
        return sum0(map { sum_of($_) } values %counted) >= sum0(map { sum_of($_) } values %expected);
    };
    wait_until($settled); # the last answers that nobody waits for
    is_deeply(\%counted, \%expected, "exact counts $when");
}

# Where the rules stand.
my %location = (
    'z limited'     => 'limited|peek',
    'asks asking'   => 'asking',
    'z zero'        => 'zero',
    'z delayed'     => 'delayed',
    'z trial'       => 'trial/limited',
    'z trial-delayed' => 'trial/delayed',
    'z invalid'       => 'invalid/again',
    'strict invalid'  => 'invalid/closed',
    (map { ("asks $_" => 'several') } qw(wide narrow seen beside)),
    'held held'       => 'held',
    'held slots'      => 'slots',
    'asks answered'   => 'two',
    'held unanswered' => 'two',
    (map { ("lost-$_ lost" => "lost/$_") } qw(open local)),
    (map { ("none-$_ none" => "none/$_") } qw(open closed local)),
    'none-closed none-trial'  => 'none/trial',
    'none-local none-delayed' => 'none/delayed',
);

subtest 'a mixed run' => sub {
    run_mixed;
    counts_are_exact('after known traffic');
    my %worker = map { $_->[0] => 1 } logged($nginx);
    is(keys %worker, 2, 'over two workers');

    $nginx->configure(site('location /more { redis_rate_limit zone=z algorithm=gcra limit=1 window=1; empty_gif; }'));
    $nginx->reload;
    counts_are_exact('survive a reload');
    is_deeply(outcomes(metrics_of($nginx), 'z', 'z/1s'), {}, 'to which a new rule comes');
    run_mixed;
    $nginx->configure(site());
    $nginx->reload;
    counts_are_exact('go on after it, and survive another');

    my %requests = map { my $path = $location{$_}; $_ => scalar(() = logged($nginx, qr{/(?:$path)$})) } keys %location;
    my %counted  = map { $_ => sum_of($expected{$_}) } keys %expected;
    is_deeply(\%counted, \%requests, 'each request of the access log is in one outcome of each rule');
    is(sum0(map { $_->[2] == 499 } logged($nginx)), 16, 'some of them had left');

    my $metrics = metrics_of($nginx);
    my $sharded = outcomes($metrics, 'z', 'sharded');
    is_deeply([ map { $_ => $sharded->{$_} } qw(passed rejected) ], [ passed => 12, rejected => 28 ], 'so is one that asks two shards');
    my %top = map { my $top = $metrics->{zones}{$_}{top_rejected}; @$top ? ($_ => $top) : () } keys $metrics->{zones}->%*;
    my %rejected = (z => 31, asks => 18, held => 2, 'none-local' => 2);
    is_deeply(\%top, { map { $_ => tops((1 => $rejected{$_}), (2 => $rejected{$_})) } keys %rejected }, 'the keys that were rejected');
    is_deeply([ map { $_->{pending} } values $metrics->{backends}->%* ], [ 0, 0, 0, 0 ], 'nothing is pending');
    is(join(' ', $metrics->@{qw(version workers)}), (RateLimit::Nginx::slurp('VERSION') =~ s/\n/ 2/r), 'version and workers');
};

subtest 'as Prometheus has it' => sub {
    my $response = $nginx->get('/metrics');
    is($response->{headers}{'content-type'}, 'text/plain; version=0.0.4; charset=utf-8', 'its type');
    is(promtool($nginx, $response->{content}), '', 'promtool is content');
    my $metrics = metrics_of($nginx);
    my %told;
    while ($response->{content} =~ /^nginx_redis_rate_limit_requests_total\{zone="(.+?)",rule="(.+?)",outcome="(.+?)"\} (\d+)$/mg) {
        $told{$1}{$2}{$3} = $4;
    }
    for my $zone (values $metrics->{zones}->%*) {
        delete $_->@{qw(algorithm limit window_seconds rejected_by_deny_cache leases settlements)} for values $zone->{rules}->%*;
    }
    is_deeply(\%told, { map { $_ => $metrics->{zones}{$_}{rules} } keys $metrics->{zones}->%* }, 'the same numbers as in JSON');
};

subtest 'methods' => sub {
    for my $path (qw(/metrics /json)) {
        my $client = RateLimit::Client->new($nginx);
        my $ask    = sub ($method, $body = '') {
            my $length = length $body ? 'Content-Length: ' . length($body) . "\r\n" : '';
            return $client->send("$method $path HTTP/1.1\r\nHost: a\r\n$length\r\n$body")->response($method);
        };
        my ($get, $head) = map { $ask->($_) } qw(GET HEAD);
        is("$get->{status} $head->{status}", '200 200', "$path: GET and HEAD");
        is_deeply([ map { $_->{headers}{'content-length'} } $get, $head ], [ (length $get->{body}) x 2 ], 'of the same length');
        is(join(' ', map { $ask->($_, 'body')->{status} } qw(POST PUT DELETE OPTIONS PATCH)), join(' ', (405) x 5), 'nothing else');
        is($ask->('GET', 'body')->{status}, 200, 'a body is of no interest');
        my ($before, $after) = map { s/"uptime_seconds": \d+//r } $get->{body}, $ask->('GET')->{body};
        is($after, $before, 'the connection is in step, and nothing was counted');
    }
};

subtest 'a worker is killed' => sub {
    my ($worker) = $nginx->workers;
    $held->hold;
    my @clients = map { RateLimit::Client->new($nginx)->send("GET /slots?key=kill HTTP/1.1\r\nHost: a\r\n\r\n") } 1 .. 20;
    ok(wait_until(sub { pending($nginx, 'held') == 20 }), 'checks are pending');
    kill KILL => $worker;
    my $left;
    ok(wait_until(sub { ($left = pending($nginx, 'held')) < 20 }), "without those of a worker that is gone: $left");
    $held->release;
    is((grep { $_->response->{status} == 200 } @clients), $left, 'the others are answered');
    ok(wait_until(sub { pending($nginx, 'held') == 0 }), 'nothing is pending in the end');
    $nginx->stop(expect => RateLimit::Nginx::ends_of_killed($worker));
};

done_testing;
