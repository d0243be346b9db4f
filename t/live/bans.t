# Bans: what a client that operators have banned gets, whatever else holds; what is logged and counted.

use v5.36;
use lib 't/lib';
use Digest::SHA qw(sha256_hex);
use MIME::Base64 qw(encode_base64);
use RateLimit::DenyCache qw(calls);
use RateLimit::Live;
use RateLimit::LiveStore;
use RateLimit::Metrics qw(metrics_of outcomes promtool tops);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis = RateLimit::Redis->start_new;
my $store = RateLimit::LiveStore->new($redis->client);
my $fixed = 'algorithm=fixed_window limit=3 window=1h';

my $nginx = RateLimit::Nginx->start_new(<<"END", daemon => 1, workers => 2);
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; breaker failures=1 cooldown=10s; }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=open;
redis_rate_limit_zone \$arg_b   zone=b:1m on_error=open;
redis_rate_limit_zone \$arg_b   zone=closed:1m on_error=closed;
redis_rate_limit_zone \$remote_user zone=user:1m on_error=closed;
redis_rate_limit_zone \$arg_key zone=hidden:1m show_keys=hash;
redis_rate_limit_zone \$binary_remote_addr zone=address:1m;
add_header X-Said "\$redis_rate_limit_status \$redis_rate_limit_source \$redis_rate_limit_rule" always;
add_header X-Numbers "\$redis_rate_limit_limit/\$redis_rate_limit_remaining/\$redis_rate_limit_reset/\$redis_rate_limit_retry_after" always;
add_header X-Decided \$redis_rate_limit_decided always;
server {
    listen %PORT%;
    location = /json { redis_rate_limit_metrics json; }
    location = /metrics { redis_rate_limit_metrics; }
    location = /marker { redis_rate_limit zone=z algorithm=fixed_window limit=1000000 window=1h name=marker; empty_gif; }
    location = /one { redis_rate_limit zone=z $fixed name=one; empty_gif; }
    location = /log { redis_rate_limit zone=z $fixed name=one; redis_rate_limit_log_level warn; empty_gif; }
    location = /own { redis_rate_limit zone=z $fixed name=one; redis_rate_limit_status 403; error_page 403 = /sorry; empty_gif; }
    location = /sorry { return 200 sorry; }
    location = /satisfied { satisfy any; auth_basic x; auth_basic_user_file %DIR%/users; redis_rate_limit zone=z $fixed name=one; redis_rate_limit_status 403; empty_gif; }
    location = /several {
        redis_rate_limit zone=b $fixed name=other;
        redis_rate_limit zone=z $fixed name=one;
        redis_rate_limit zone=z $fixed name=two;
        redis_rate_limit zone=z $fixed name=trial dry_run;
        empty_gif;
    }
    location = /variable { redis_rate_limit zone=z algorithm=fixed_window window=1h limit=\$arg_limit cost=\$arg_cost name=variable; empty_gif; }
    location = /never { redis_rate_limit zone=b algorithm=fixed_window window=1h limit=0 name=never; redis_rate_limit zone=z $fixed name=one; empty_gif; }
    location = /trial { redis_rate_limit zone=z $fixed name=trial dry_run; redis_rate_limit zone=b $fixed name=other; empty_gif; }
    location = /trials { redis_rate_limit zone=z $fixed name=trial; redis_rate_limit_dry_run on; empty_gif; }
    location = /closed { redis_rate_limit zone=z $fixed name=one; redis_rate_limit zone=closed $fixed name=closed; empty_gif; }
    location = /user { auth_basic x; auth_basic_user_file %DIR%/users; redis_rate_limit zone=b $fixed name=other; redis_rate_limit zone=user $fixed name=user phase=precontent; empty_gif; }
    location = /redirected { error_page 404 = /one?key=\$arg_key; return 404; }
    location = /hidden { redis_rate_limit zone=hidden $fixed name=hidden; empty_gif; }
    location = /address { redis_rate_limit zone=address $fixed name=address; empty_gif; }
}
END
RateLimit::Nginx::write_file($nginx->dir . '/users', "ann:{PLAIN}secret\nbob:{PLAIN}secret\n");
my $live = RateLimit::Live->new($store, $nginx);

# Status, and what $redis_rate_limit_... say of status, source and rule: `429 REJECTED override one`.
sub told ($path, %options) {
    my $response = $nginx->get($path, %options);
    return "$response->{status} " . ($response->{headers}{'x-said'} // '');
}

sub counts ($zone, $rule) { return outcomes(metrics_of($nginx), $zone, $rule) }
sub overrides ($zone) { return metrics_of($nginx)->{zones}{$zone}{overrides} }
sub limit_headers ($response) { return join ' ', sort grep { /ratelimit/ } keys $response->{headers}->%* }

# Lines of error.log that this code makes.
sub logged ($code) {
    my $before = length $nginx->error_log;
    $code->();
    my @lines = grep { /limiting requests/ } split /\n/, substr $nginx->error_log, $before;
    return [ map { s/.*?(?=\[\w+\])//r =~ s/ \d+#\d+: \*\d+//r =~ s/, client: .*//r } @lines ];
}

my @banned = map { { zone => 'z', key => $_, ban => 1 } } qw(k s v p d away);
my %hidden = (zone => 'hidden', key => 'secret');
my %address = (zone => 'address', key => '%7F%00%00%01');
$live->put(@banned, { zone => 'z', key => 's', rule => 'two', ban => 1, expires_in => 100 }, map { { %$_, ban => 1 } } { zone => 'user', key => 'ann' }, \%hidden, \%address);

subtest 'without an end' => sub {
    calls($redis);
    my $before   = overrides('z')->{rejections};
    my $response = $nginx->get('/one?key=k');
    is("$response->{status} $response->{headers}{'x-said'}", '429 REJECTED override one', 'denied');
    is($response->{headers}{'x-numbers'}, '///', 'variables of numbers are empty');
    like($response->{headers}{'x-decided'}, qr/^\d{10}\.\d{6}$/, 'it has a time');
    is($response->{headers}{'retry-after'}, undef, 'no Retry-After');
    is(limit_headers($response), '', 'no rate-limit headers');
    is(told('/one?key=k'), '429 REJECTED override one', 'by all workers') for 1 .. 6;
    is(calls($redis), 0, 'and Redis was not asked');
    is_deeply(logged(sub { $nginx->get('/log?key=k') }), ['[warn] limiting requests, rule "one", key "k", banned'], 'a log line');
    is_deeply(counts('z', 'one'), { rejected => 8 }, 'rejected');
    is_deeply(overrides('z'), { count => 7 + $live->markers, rejections => $before + 8, dropped => 0, rejected => { overrides('z')->{rejected}->%*, one => 8 } }, 'by an override');
    is_deeply([ grep { $_->{key} eq 'k' } metrics_of($nginx)->{zones}{z}{top_rejected}->@* ], tops(k => 8), 'among the top keys');
    is(told('/one?key=other'), '200 PASSED redis one', 'others pass');
    $live->remove({ zone => 'z', key => 'k' });
    $response = $nginx->get('/one?key=k');
    is("$response->{status} $response->{headers}{'x-ratelimit-remaining'}", '200 2', 'nothing was charged');
};

subtest 'Prometheus' => sub {
    my $text = $nginx->get('/metrics')->{content};
    is(promtool($nginx, $text), '', 'promtool is content');
    my $json = overrides('z');
    like($text, qr/^nginx_redis_rate_limit_overrides\{zone="z"\} $json->{count}$/m, 'how many there are');
    like($text, qr/^nginx_redis_rate_limit_override_rejections_total\{zone="z"\} $json->{rejections}$/m, 'rejections');
    like($text, qr/^nginx_redis_rate_limit_overrides_dropped_total\{zone="z"\} 0$/m, 'dropped ones');
};

subtest 'with an end' => sub {
    $live->put({ zone => 'z', key => 'short', ban => 1, expires_in => 3.5 });
    my $response = $nginx->get('/one?key=short');
    is("$response->{status} $response->{headers}{'x-said'}", '429 REJECTED override one', 'denied');
    like($response->{headers}{'retry-after'}, qr/^[1-4]$/, 'Retry-After is its end');
    is($response->{headers}{'x-numbers'}, "///$response->{headers}{'retry-after'}", 'so is the variable');
    is(limit_headers($response), '', 'no rate-limit headers');
    ok(wait_until(sub { told('/one?key=short') eq '200 PASSED redis one' }), 'then it passes');
    ok(wait_until(sub { overrides('z')->{count} == 6 + $live->markers }), 'it is no longer counted');
};

subtest 'several rules' => sub {
    calls($redis);
    is_deeply(logged(sub { is(told('/several?key=s&b=s'), '429 REJECTED override one', 'whatever other rules say, and for longest') }),
        [ '[error] limiting requests, rule "trial", key "s", banned, dry run', '[error] limiting requests, rule "one", key "s", banned' ], 'logged');
    is(calls($redis), 0, 'nobody was asked');
    is_deeply(counts('b', 'other'), {}, 'the other zone counts nothing');
    is_deeply([ map { counts('z', $_) } qw(two trial) ], [ { rejected => 1 }, { dry_run_rejected => 1 } ], 'each rule of the zone counts');
    is(overrides('z')->{rejected}{$_}, { two => 1, trial => 0 }->{$_}, "$_ by an override") for qw(two trial);
    my $response = $nginx->get('/never?key=s&b=s');
    is("$response->{status} $response->{headers}{'x-said'}", '429 REJECTED override one', 'before a limit of 0');
    $live->remove({ zone => 'z', key => 's' });
    $response = $nginx->get('/several?key=s&b=s');
    is("$response->{status} $response->{headers}{'x-said'}", '429 REJECTED override two', 'a ban from one rule');
    like($response->{headers}{'retry-after'}, qr/^(?:9\d|100)$/, 'its end');
    is(told('/one?key=s'), '200 PASSED redis one', 'where it does not apply');
};

subtest 'numbers of variables are of no interest' => sub {
    is(told("/variable?key=v&$_"), '429 REJECTED override variable', $_) for 'limit=no&cost=1', 'limit=0&cost=0', 'limit=5&cost=1000000000';
    is(told("/variable?key=v&$_"), '200 ', "but an empty one exempts from the rule: $_") for 'limit=&cost=1', 'limit=1&cost=';
};

subtest 'statuses and pages' => sub {
    my $response = $nginx->get('/own?key=p');
    is("$response->{status} $response->{content} $response->{headers}{'x-said'}", '200 sorry REJECTED override one', 'an error_page');
    my %password = (headers => { Authorization => 'Basic ' . encode_base64('ann:secret', '') });
    is($nginx->get('/satisfied?key=p', %password)->{status}, 403, 'satisfy any lets nobody in');
    is(told('/redirected?key=p'), '429 REJECTED override one', 'a location that a redirect leads to');
};

subtest 'dry run' => sub {
    my $before = overrides('z')->{rejections};
    is_deeply(logged(sub { is(told('/trial?key=d&b=d'), '200 REJECTED_DRY_RUN redis other', 'the other rule decides') }),
        ['[error] limiting requests, rule "trial", key "d", banned, dry run'], 'it is reported');
    my $response = $nginx->get('/trial?key=d&b=d');
    is($response->{headers}{'ratelimit-policy'}, '"other";q=3;w=3600', 'headers are of the other rule');
    is(told('/trials?key=d'), '200 REJECTED_DRY_RUN override trial', 'the only one');
    is(limit_headers($nginx->get('/trials?key=d')), '', 'has no headers');
    is(counts('z', 'trial')->{dry_run_rejected}, 1 + 4, 'counted');
    is(overrides('z')->{rejections}, $before, 'as no rejection');
    is(counts('b', 'other')->{passed}, 2, 'the other rule was charged');
};

subtest 'phases' => sub {
    my $as = sub ($user) { (headers => { Authorization => 'Basic ' . encode_base64("$user:secret", '') }) };
    is($nginx->get('/user?b=u1')->{status}, 401, 'authentication comes before');
    is(told('/user?b=u2', $as->('ann')), '429 REJECTED override user', 'the ban in its phase');
    is(told('/user?b=u2', $as->('bob')), '200 PASSED redis other', 'others pass');
    my $response = $nginx->get('/user?b=u2', $as->('ann'));
    is("$response->{headers}{'x-said'} " . limit_headers($response), 'REJECTED override user ', 'headers tell of no rule that granted before');
};

subtest 'keys in the log' => sub {
    my $hash = substr sha256_hex('secret'), 0, 12;
    is_deeply(logged(sub { $nginx->get('/hidden?key=secret') }), [qq{[error] limiting requests, rule "hidden", key "$hash", banned}], 'a hash');
    is_deeply(logged(sub { $nginx->get('/address') }), ['[error] limiting requests, rule "address", key "127.0.0.1", banned'], 'an address');
};

subtest 'Redis is away' => sub {
    $redis->kill_now;
    is(told('/one?key=other'), '200 ERROR_OPEN none one', 'on_error=open');
    is(told('/one?key=away'), '429 REJECTED override one', 'and yet a ban');
    is(told('/closed?key=away&b=c'), '429 REJECTED override one', 'on_error=closed of another zone');
    is(told('/closed?key=other&b=c'), '503 ERROR_CLOSED none one', 'without a ban');

    $nginx->reload;
    is(told('/one?key=away'), '429 REJECTED override one', 'a reload keeps it') for 1 .. 4;
    $redis->restart;
    RateLimit::LiveStore->new($redis->client)->put(zone => 'z', key => 'away', ban => 1);
    ok(wait_until(sub { told('/one?key=other') eq '200 PASSED redis one' }, 20), 'Redis is back');
    $nginx->upgrade;
    ok(wait_until(sub { told('/one?key=away') eq '429 REJECTED override one' }, 2), 'an upgraded nginx learns of it');
};

$nginx->stop;
done_testing;
