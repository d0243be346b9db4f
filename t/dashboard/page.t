# redis_rate_limit_dashboard: what it answers, and the page in a browser.

use v5.36;
use lib 't/lib';
use Digest::SHA qw(sha256_base64);
use JSON::PP qw(decode_json);
use JSON::Validator;
use List::Util qw(mesh min pairs);
use RateLimit::Browser;
use RateLimit::Client;
use RateLimit::Nginx;
use RateLimit::Process;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis = RateLimit::Redis->start_new;
my $schema = JSON::Validator->new->schema('./docs/metrics.schema.json')->schema;

# `more` is more of `http`.
sub configuration ($more = '') {
    return <<"END";
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$arg_key zone=per_ip:1m;
$more
server {
    listen %PORT% reuseport;
    location /limits/ { access_log off; redis_rate_limit_dashboard; }
    location / {
        redis_rate_limit zone=per_ip algorithm=sliding_log limit=20 window=1s;
        redis_rate_limit zone=per_ip algorithm=sliding_log limit=5 window=1s name=stricter dry_run;
        empty_gif;
    }
}
END
}

my $nginx = RateLimit::Nginx->start_new(configuration(), workers => 2);

# Of the texts of elements.
sub hashes ($page, $tag) {
    return join ' ', map { "'sha256-" . sha256_base64($_) . "='" } $page =~ m{<$tag>(.*?)</$tag>}sg;
}

subtest 'answers' => sub {
    my $page = $nginx->get('/limits/');
    is("$page->{status} $page->{headers}{'content-type'}", '200 text/html; charset=utf-8', 'the page');
    is(
        $page->{headers}{'content-security-policy'},
        "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
            . "; style-src ${\hashes($page->{content}, 'style')}; script-src ${\hashes($page->{content}, 'script')}",
        'that asks no other host'
    );
    unlike($page->{content}, qr{\w+\.(?:css|js)\b|/\* (?:style|script) \*/}, 'with its style and script in it');
    is_deeply([ $page->{headers}->@{qw(cache-control x-content-type-options referrer-policy)} ], [qw(no-store nosniff no-referrer)], 'and other headers');

    my $status = $nginx->get('/limits/status.json');
    is(join(' ', $status->{status}, $status->{headers}->@{qw(content-type cache-control)}), '200 application/json no-store', 'its data');
    is_deeply([ $schema->validate(decode_json($status->{content})) ], [], 'are those of redis_rate_limit_metrics json');
    is($nginx->statuses("/limits/$_", 1), 404, "nothing at $_") for qw(x status.json/ status.jso index.html);

    my $client = RateLimit::Client->new($nginx);
    my $ask    = sub ($method, $path) { $client->send("$method $path HTTP/1.1\r\nHost: a\r\n\r\n")->response($method) };
    for my $path (qw(/limits/ /limits/status.json)) {
        my ($get, $head) = map { $ask->($_, $path) } qw(GET HEAD);
        is_deeply([ map { $_->@{qw(status)}, $_->{headers}{'content-length'} } $get, $head ], [ (200, length $get->{body}) x 2 ], "$path: GET and HEAD");
        is(join(' ', map { $ask->($_, $path)->{status} } qw(POST PUT DELETE OPTIONS PATCH)), join(' ', (405) x 5), 'nothing else');
    }
    my $redirect = $ask->('GET', '/limits');
    like("$redirect->{status} $redirect->{headers}{location}", qr{^301 http://[^/]+/limits/$}, 'its address without the slash leads to it');
};

my $site    = 'http://127.0.0.1:' . $nginx->port;
my $browser = RateLimit::Browser->new;

sub shows ($selector, $pattern, $seconds = 30) {
    return wait_until(sub { ($browser->text($selector) // '') =~ $pattern }, $seconds) // diag("$selector: ", $browser->text($selector));
}

sub load ($connections) {
    return RateLimit::Process->execute($nginx->dir . '/load.log', qw(wrk -t1 -d120 -s), 't/lib/paced.lua', '-c', $connections, $site);
}

# For people to look at.
sub screenshots (%views) {
    for my $view (sort keys %views) {
        $browser->look($views{$view}->@*);
        $browser->screenshot("build/dashboard-$view.png");
    }
}

subtest 'in a browser' => sub {
    my $load = load(4);
    $browser->look(1280, 900, 'light');
    $browser->open("$site/limits/");
    ok(shows('#health', qr{^Redis answers, per_ip/1s rejects [1-9].* of its checks$}), 'tells that Redis answers, and what is rejected');
    my $in_all = sub { $browser->value('document.querySelector("#rules tbody tr").lastChild.innerText') =~ s/\D//gr };
    my $before = $in_all->();
    ok(wait_until(sub { $in_all->() > $before }), 'numbers move under load');
    ok(shows('#outcomes-legend', qr/rejected [1-9]/), 'by outcome');
    ok(shows('#zones', qr/^key-1\t[1-9]/m), 'the key that is rejected most');
    ok(shows('#dry-runs', qr/^Dry run stricter would reject [1-9].* in force of its zone reject [1-9].* known denials/), 'what a dry run would do');
    ok(wait_until(sub { $browser->value('samples.length') >= 3 }), 'each second again');
    screenshots(light => [ 1280, 900, 'light' ], dark => [ 1280, 900, 'dark' ], narrow => [ 390, 844, 'dark' ]);
    is($browser->value('document.documentElement.scrollWidth'), 390, 'fits on a phone');
    undef $load;

    $nginx->configure(configuration('redis_rate_limit_zone $arg_key zone=another:1m;'));
    $nginx->reload;
    ok(shows('#zones', qr/^another$/m), 'a zone that a reload brings');

    $load = load(1);
    $redis->stop;
    ok(shows('#health', qr/^Redis .default. (?:is down|does not answer)/, 3), 'an outage of Redis within 3 s');
    ok(shows('#health',  qr/this host alone decides [1-9]/), 'and that this host decides alone');
    ok(shows('#sources', qr/this host alone [1-9]/),         'how often');
    ok(shows('#verdicts-legend', qr{this host alone [1-9][\d.]* /s}), 'and how many a second');
    screenshots(outage => [ 1280, 900, 'dark' ]);
    is_deeply([ $browser->errors ], [], 'no error on its console');
    is_deeply([ grep { !m{^(?:\Q$site\E/limits/|data:)} } $browser->requests ], [], 'no request to another host');

    undef $load;
    $nginx->stop;
    ok(shows('#health', qr/^nginx does not answer: status\.json cannot be fetched/), 'that there is no data shows, too');
    screenshots(stale => [ 1280, 900, 'light' ]);
};

# A status of zones that are made up: { zone => { rules => { ... } } }, with some of a backend's
# facts.
my @counters = qw(
    passed delayed rejected rejected_by_deny_cache dry_run_delayed dry_run_rejected
    local_passed local_delayed local_rejected uncharged error_open error_closed invalid
);

sub rule (%counts) { return { algorithm => 'gcra', limit => '10', window_seconds => 1, (map { $_ => 0 } @counters), leases => leases(0), settlements => settlements(0, 0, 0), %counts } }

sub settlements (@counts) { return { mesh [qw(charged returned lost)], \@counts } }

sub leases ($requests) { return { (map { $_ => 0 } qw(taken units used returned expired)), requests => $requests } }

# How many requests bans have rejected, for each rule.
sub overrides (%rejected) { return { (map { $_ => 0 } qw(count rejections dropped)), rejected => \%rejected } }

sub status ($zones, %backend) {
    my %zone    = (context => 'http', size_bytes => 1 << 20, used_bytes => 0, entries => 0, evictions => 0, overrides => overrides(), top_rejected => [], rules => {});
    my $default = {
        mode            => 'standalone', servers => ['127.0.0.1:6379'], state => 'up', checks => 0, reconnects => 0, script_reloads => 0, pending => 0,
        live_limits_followed => JSON::PP::true,
        errors          => { map { $_ => 0 } qw(timeout connect reply breaker overload) },
        latency_seconds => { map { $_ => 0 } qw(p50 p90 p99 max) },
        %backend,
    };
    return {
        version  => '0.1.0', nginx_version => '1.22.1', workers => 2, uptime_seconds => 12,
        backends => { default => $default },
        zones    => { map { $_ => { %zone, $zones->{$_}->%* } } keys %$zones },
    };
}

# Gives these to the page, got a second after each other, or after pauses that stand between them.
# What was before is none of their past.
sub give (@statuses) {
    state $json = JSON::PP->new->ascii->canonical;
    my $time  = 0;
    my @samples = map { ref ? [ ++$time, $_ ] : do { $time += $_; () } } @statuses;
    $browser->value("for (const [time, status] of ${\$json->encode(\@samples)}) take(status, 1000 * time)");
}

# Of one zone, whose rules these are.
sub rules (%rules) { return status({ z => { rules => \%rules } }) }

sub keys_rejected (@counts) {
    return status({ z => { top_rejected => [ map { top(@$_) } pairs @counts ] } });
}

# A key that ends in an ellipsis is cut there.
sub top ($key, $rejected) {
    my $is_cut = $key =~ s/\x{2026}$//;
    return { key => $key, rejected => $rejected, $is_cut ? (is_cut => JSON::PP::true) : () };
}

sub text ($selector) { return $browser->text($selector) =~ s/\s+/ /gr }

subtest 'of statuses that are made up' => sub {
    $browser->value('let isHeld = false; const fetchReally = fetchStatus; fetchStatus = () => { isHeld = true; return new Promise(() => {}) }');
    wait_until(sub { $browser->value('isHeld') }) or die 'the page goes on to ask';
    is_deeply([ $schema->validate(rules(r => rule)) ], [], 'which are as the schema says');

    subtest 'rates' => sub {
        give(rules(r => rule(passed => 900_000), s => rule(passed => 100)), rules(r => rule(passed => 3), s => rule(passed => 110), t => rule(passed => 5000)));
        is(text('#checked'), '13.0', 'a counter that got smaller began anew, a rule that is new did not');
        give(map { status({ z => { rules => { r => rule(passed => 10 * $_) }, size_bytes => $_ << 20 } }) } 1, 2);
        is(text('#checked'), '20.0', 'a zone of another size began anew');
        give(map { rules(r => rule(passed => 10 * $_**2)) } 0 .. 12);
        is(text('#checked'), '190', 'an average of the last five seconds');
        my $denied = sub ($rejected, $known) { rules(r => rule(rejected => $rejected, rejected_by_deny_cache => $known)) };
        give($denied->(1_000_000, 999_000), $denied->(1_001_000, 1_000_001));
        is(text('#sources'), 'Redis 0 % leases 0 % deny cache 100 % bans 0 % this host alone 0 % none 0 %', 'counters that were not read at the same time');
        my $from_all = rule(passed => 30, delayed => 10, rejected => 40, rejected_by_deny_cache => 20, leases => leases(10), local_rejected => 20, invalid => 10, uncharged => 50, dry_run_rejected => 60);
        give(rules(r => rule), status({ z => { rules => { r => $from_all }, overrides => overrides(r => 10) } }));
        is(text('#sources'), 'Redis 36 % leases 9.1 % deny cache 18 % bans 9.1 % this host alone 18 % none 9.1 %', 'where verdicts come from');
        is(text('#verdicts-legend'), 'Redis 40.0 /s leases 10.0 /s deny cache 20.0 /s bans 10.0 /s this host alone 20.0 /s none 10.0 /s', 'and how many');
    };

    subtest 'time' => sub {
        my @statuses = map { rules(r => rule(passed => 100 * $_)) } 0 .. 4;
        my $path     = sub { $browser->value('document.querySelector("#outcomes .passed").getAttribute("d")') };
        give(@statuses);
        is($path->(), 'M1170,1000L1170,0L1180,0L1190,0L1200,0L1200,1000Z', 'its axis');
        my $leased = sub ($requests) { rules(r => rule(passed => 100, leases => leases($requests))) };
        give(map { $leased->($_) } 0, 20, 50);
        my $sources = sub ($which) { $browser->value(qq{document.querySelector("#verdicts .$which").getAttribute("d")}) };
        is_deeply([ map { $sources->($_) } qw(lease redis) ], [ 'M1190,1000L1190,600L1200,400L1200,1000Z', '' ], 'verdicts by source');
        $browser->value('document.querySelector("#verdicts svg").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft" }))');
        like(text('#verdicts-legend'), qr/leases 20\.0/, 'at the line, too');
        my $settled = sub (@counts) { rules(r => rule(passed => 100, settlements => settlements(@counts))) };
        give(map { $settled->(@$_) } [ 0, 0, 0 ], [ 20, 10, 0 ]);
        is(text('#settlements'), 'Of the requests that r let pass 20.0 /s turned out to cost more than they had reserved, and 10.0 /s less.', 'final costs');
        give(map { $settled->(@$_) } [ 20, 10, 0 ], [ 20, 10, 3 ]);
        like(text('#settlements'), qr/less; of 3 in all Redis could not be told\.$/, 'that were lost');
        give(@statuses[ 0 .. 2 ], 59, @statuses[ 3, 4 ]);
        is($path->(), 'M580,1000L580,0L590,0L590,1000ZM1190,1000L1190,983L1200,0L1200,1000Z', 'without samples for a minute');
        give(@statuses[ 0 .. 2 ], 3600, $statuses[3]);
        is(text('#checked') . $path->(), '0', 'nothing is left of before a sleep');
    };

    subtest 'trials' => sub {
        my $beside = sub ($trial, $other) {
            give(rules(in_force => rule, trial => rule(dry_run_rejected => 9)), rules(in_force => $other, trial => $trial));
            return text('#dry-runs');
        };
        my $trial = rule(passed => 46, dry_run_rejected => 99, dry_run_delayed => 4);
        is(
            $beside->($trial, rule(rejected => 244, rejected_by_deny_cache => 195)),
            'Dry run trial would reject 90.0 /s (64 %) and delay 4.0 /s (2.9 %) of the 140 /s that reached it; '
                . 'the rules in force of its zone reject 244 /s, 195 /s of them known denials that it is not asked about.',
            'beside a rule in force'
        );
        like($beside->($trial, rule(dry_run_delayed => 1)), qr/^Dry run trial .*; no rule of its zone is in force\. Dry run in_force .*; no rule of its zone is in force\.$/, 'alone');
        is($beside->(rule(dry_run_rejected => 9,  passed   => 5), rule), '', 'not of what was a dry run some time ago');
        is($beside->(rule(dry_run_rejected => 99, rejected => 5), rule), '', 'or has come into force');
    };

    subtest 'the sentence at the top' => sub {
        my @traffic = (
            rules(one => rule, other => rule),
            rules(one => rule(passed => 1, rejected => 3), other => rule(passed => 100, rejected => 100)),
        );
        my $announced = sub { $browser->value('byId("announcement").textContent') };
        give((status({}, state => 'down')) x 2);
        is($announced->(), "Redis \x{201c}default\x{201d} is down", 'trouble is announced');
        give(status({}), status({}, errors => { timeout => 0, connect => 0, reply => 0, breaker => 7, overload => 0 }));
        is($announced->(), "Redis \x{201c}default\x{201d} does not answer, its breaker is open", 'so is other trouble');
        give((status({}, live_limits_followed => JSON::PP::false)) x 2);
        is($announced->(), "What operators set in Redis \x{201c}default\x{201d} does not reach this host", 'what does not reach this host');
        is(text('#backends .state'), 'live limits not followed', 'and the Redis says so');
        give(@traffic);
        is($announced->(),  'Redis answers',                                   'and its end');
        is(text('#health'), 'Redis answers, other rejects 50 % of its checks', 'the rule that rejects most is told, not announced');
        my $is = sub { $browser->value('document.getElementById("health").className') };
        is($is->(), 'warning', 'as a warning where it is much');
        give(rules(r => rule), rules(r => rule(passed => 99, rejected => 1)));
        is($is->(), 'good', 'a few rejections are usual');
        my @all_rejected = map { rules(busy => rule(passed => 1000 * $_, rejected => 900 * $_), broken => rule(rejected => 4 * $_)) } 0 .. 3;
        give(@all_rejected[ 0 .. 2 ]);
        is($is->(), 'warning', 'eight rejections say nothing yet');
        give(@all_rejected);
        is($is->() . ' ' . text('#health'), 'bad Rule broken rejects all of its checks; Redis answers', 'a rule that lets nobody pass');
        screenshots('rejects-all' => [ 1280, 900, 'light' ]);
        is($browser->value('document.title'), "\x{26a0} all rejected \x{b7} redis_rate_limit", 'is in the title, too');
        give(map { rules(a => rule(rejected => 20 * $_), b => rule(local_rejected => 20 * $_)) } 0, 1);
        is(text('#health'), '2 rules reject all of their checks: a, b; Redis answers', 'two of them');
        give(rules(r => rule), rules(r => rule(rejected => 99)), 40, rules(r => rule(rejected => 99)));
        is($is->(), 'good', 'not for ever');
        give(status({}, state => 'idle'));
        is(text('#health'), 'No Redis has been asked yet', 'none that was asked');
        give({ zones => {} });
        like(text('#health'), qr/^This page fails: \S/, 'a fault of the page');
        my %answers = ('""' => 'nginx answered status.json with what is no JSON', '"", { status: 429 }' => 'nginx answered status.json with 429');
        is($browser->value("fetch = async () => new Response($_); fetchReally().catch((error) => error.message)"), $answers{$_}, "an answer of $_") for sort keys %answers;
    };

    subtest 'keys' => sub {
        my $none   = "\x{b7}";
        my @others = map { ("key-$_" => 100 + $_) } 1 .. 12;
        my $shown  = sub { $browser->value('[...document.querySelectorAll("#zones tbody tr")].map((row) => row.innerText)') };
        give(keys_rejected(old => 1_000_000, @others), keys_rejected(old => 1_000_000, @others, '<b>x</b>' => 30));
        is_deeply([ $shown->()->@[ 0 .. 2 ] ], [ "<b>x</b>\t30.0\t30", "old\t$none\t1\x{202f}000\x{202f}000", "key-12\t$none\t112" ], 'those that are rejected now are first, as text');
        is(scalar $shown->()->@*, 10, 'no more than ten');
        $browser->value('getSelection().selectAllChildren(document.querySelector("#zones td.key"))');
        give(keys_rejected('<b>x</b>' => 30), keys_rejected('<b>x</b>' => 70));
        is($browser->value('getSelection().toString()') . ' ' . $shown->()->[0], "<b>x</b> <b>x</b>\t40.0\t70", 'what is selected stays selected');
        my $long = 'x' x 64;
        give(keys_rejected("$long\x{2026}" => 9, $long => 5), keys_rejected("$long\x{2026}" => 19, $long => 6));
        is_deeply($shown->(), [ "$long\x{2026}\t10.0\t19", "$long\t1.0\t6" ], 'a key that is cut has a sign, a whole one of its bytes has none');
        like(text('#zones'), qr/Of a key that ends in \x{2026} only the first 64 bytes are kept\./, 'and it is said');
        is_deeply([ $schema->validate(keys_rejected("$long\x{2026}" => 9)) ], [], 'as the schema has it');
        give(status({ z => { context => 'stream' } }));
        like(text('#zones'), qr/^z in stream, 0 /, 'a zone of stream');
    };

    subtest 'charts and tables' => sub {
        my @latencies = map { my $p99 = $_ / 1000; status({}, latency_seconds => { p50 => 0.001, p90 => 0.001, p99 => $p99, max => $p99 }) } 1 .. 9;
        give(@latencies);
        my $p99 = sub { $browser->value('backendCards.get("default").facts.p99.textContent') };
        is($p99->(), '9.0 ms', 'latency now');
        $browser->value('document.querySelector("#backends svg").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft" }))');
        is($p99->(), '8.0 ms', 'and before, by an arrow key');
        give(rules(permits => rule(algorithm => 'concurrency', limit => '100', window_seconds => 60), usual => rule));
        like(text('#rules'), qr/permits concurrency, limit 100, zone z .* usual gcra, limit 10 per 1 s, zone z/, 'limits');

        like(text('#backends'), qr/^default standalone, 127\.0\.0\.1:6379 up /, 'the address of a Redis');
        my $pair = sub ($leased) { rules(r => rule(passed => $leased, uncharged => 9 * $leased, leases => leases($leased))) };
        give(map { $pair->($_) } 0, 100);
        my $ends = sub (@charts) { join ' ', map { text("$_ .top") } @charts };
        is($ends->('#outcomes', '#verdicts'), '1 000 /s 1 000 /s', 'charts beside each other have one scale');
        my $two = status({}, latency_seconds => { p50 => 0.001, p90 => 0.001, p99 => 0.002, max => 0.002 });
        $two->{backends}{far} = { $two->{backends}{default}->%*, servers => [ 's1:26379', 's2:26379' ], latency_seconds => { p50 => 0.04, p90 => 0.04, p99 => 0.05, max => 0.06 } };
        give(($two) x 2);
        is($browser->value('[...document.querySelectorAll("#backends .top")].map((top) => top.textContent).join(" ")'), '50 ms 50 ms', 'so have those of two Redises');

        my $busy = sub ($samples) { rules(map { ("rule-$_" => rule(passed => 100 * $samples, delayed => $samples, rejected => $_ * $samples)) } 1 .. 500) };
        give(map { $busy->($_) } 1, 2);
        $browser->value('while (samples.length < 118) samples.unshift({ ...samples[0], time: samples[0].time - 1000 })');
        my @times = map { $browser->value('(() => { const start = performance.now(); update(); return performance.now() - start })()') } 1 .. 4;
        cmp_ok(min(@times), '<', 200, '500 rules take no more than 200 ms each second') or diag("@times");
    };

    subtest 'many rules' => sub {
        my $many = sub ($samples) {
            my %zones = map { ("zone-$_" => { rules => { "rule-$_" => rule(passed => 10 * $samples, rejected => $_ == 77 ? 5 * $samples : 0, dry_run_rejected => $_ == 150 ? 9 * $samples : 0) } }) } 1 .. 200;
            return status(\%zones);
        };
        give(map { $many->($_) } 1, 2);
        my $names = sub { $browser->value('[...document.querySelectorAll("#rules tbody th")].map((each) => each.firstChild.textContent)') };
        is_deeply([ scalar $names->()->@*, $names->()->@[ 0 .. 2 ] ], [ 20, qw(rule-77 rule-150 rule-1) ], 'the first ones in the order of trouble');
        is(text('#rules-count'), '20 of 200', 'as is said');
        is($browser->value('[...document.querySelectorAll("#zones h3")].slice(0, 2).map((each) => each.textContent).join()'), 'zone-77,zone-150', 'zones, too');
        for my $look ([ 1280, 900 ], [ 390, 844 ]) {
            $browser->look(@$look, 'light');
            cmp_ok($browser->value('document.documentElement.scrollHeight'), '<', 8_000, "the page is not endless, $look->[0] wide");
            is($browser->value('document.documentElement.scrollWidth'), $look->[0], 'nor too wide');
        }
        screenshots('200-rules' => [ 1280, 900, 'light' ], '200-rules-narrow' => [ 390, 844, 'dark' ]);
        $browser->value('byId("rules-order").value = "configured"; byId("rules-order").dispatchEvent(new Event("input"))');
        is($names->()->[0], 'rule-1', 'as they are configured');
        $browser->value('byId("rules-filter").value = "ZONE-77"; byId("rules-filter").dispatchEvent(new Event("input"))');
        is_deeply($names->(), ['rule-77'], 'those of a zone');
        $browser->value('byId("rules-filter").value = ""; byId("rules-all").click()');
        is(scalar $names->()->@*, 200, 'all of them');
        is(text('#rules-all') . text('#rules-count'), 'Show the first 20', 'and fewer again');
    };
};

done_testing;
