# redis-rate-limit-replay --html: the page in a browser.

use v5.36;
use lib 't/lib';
use File::Temp qw(tempdir);
use JSON::PP qw(decode_json);
use RateLimit::Browser;
use Test::More;

my $replay = $ENV{RATE_LIMIT_REPLAY} // 'build/cmake/redis-rate-limit-replay';
my $dir    = tempdir('replay-XXXXXXXX', TMPDIR => 1, CLEANUP => 1);
my $format = '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_time';
my $browser = RateLimit::Browser->new;

sub slurp ($path) {
    open my $file, '<:raw', $path or die "$path: $!";
    local $/;
    return <$file>;
}

sub spew ($path, @text) {
    open my $file, '>:raw', $path or die "$path: $!";
    print {$file} @text;
    close $file or die "$path: $!";
}

# A line of the log, so many seconds after ten o'clock.
sub line ($seconds, $address = '10.0.0.1', $agent = 'x') {
    my $time = sprintf '%02d:%02d:%02d', 10 + $seconds / 3600, $seconds / 60 % 60, $seconds % 60;
    return qq{$address - - [25/Nov/2025:$time +0000] "GET / HTTP/1.1" 200 1 "-" "$agent" 0.000\n};
}

# Opens the page of these rules and lines. Returns the text of the file, and what --json tells.
sub page ($rules, @lines) {
    spew("$dir/rules.conf", $rules);
    spew("$dir/access.log", @lines);
    open my $table, '-|', $replay, '--format', $format, '--rules', "$dir/rules.conf", '--html', "$dir/page.html", '--json', "$dir/report.json", "$dir/access.log"
        or die "$replay: $!";
    my @table = <$table>;
    close $table or die "$replay fails: $?";
    $browser->open("file://$dir/page.html");
    return (slurp("$dir/page.html"), decode_json(slurp("$dir/report.json")));
}

sub text ($selector) { return ($browser->text($selector) // '') =~ s/\s+/ /gr }
sub texts ($selector) { return map { s/\s+/ /gr } $browser->value("[...document.querySelectorAll('$selector')].map((each) => each.innerText)")->@* }
# The number before a part in percent.
sub number ($text) { return $text =~ s/ .*%//r =~ s/\D//gr }

sub press ($selector, $key) {
    $browser->value(qq{document.querySelector('$selector').dispatchEvent(new KeyboardEvent('keydown', { key: '$key' }))});
}

sub is_quiet () {
    is_deeply([ $browser->errors ], [], 'no error on its console');
    is_deeply([ grep { !m{^(?:file://\Q$dir\E/page\.html|data:)} } $browser->requests ], [], 'no request to anywhere');
}

my $zone = "redis_rate_limit_zone \$remote_addr zone=per_ip:1m;\n";

# 400 s, so that a step of the chart is two seconds: one client asks twice a second, and of twenty
# others each asks once a minute.
my @lines = map {
    my $second = $_;
    ((line($second)) x 2, map { line($second, "10.0.1.$_") } grep { $_ == $second % 60 } 1 .. 20)
} 0 .. 399;

subtest 'a rule' => sub {
    my ($file, $report) = page($zone . 'redis_rate_limit zone=per_ip algorithm=fixed_window limit=100 window=60s aligned;', @lines);
    my $rule = $report->{rules}{'per_ip/60s'};
    unlike($file =~ s{http://www\.w3\.org/2000/svg}{}gr, qr{https?:|//\w+\.|(?:src|href)\s*=\s*["'](?!data:)|url\(|\@import}, 'names no other file');
    like($file, qr{Content-Security-Policy" content="default-src 'none'; img-src data:; }, 'and may not ask for one');

    is(text('#health'), 'per_ip/60s would have rejected 12.8 % of 940 requests', 'in a sentence');
    is_deeply(
        [ map { number($_) } texts('.tile b') ], [ $rule->@{qw(requests passed delayed rejected keys)} ],
        'the numbers are those of --json'
    );
    like(text('header'), qr/^redis_rate_limit: replay of a log 2025-11-25 10:00:00 to 10:06:39 UTC, 6 min 39 s . 940 lines$/, 'when');
    like(text('#estimate'), qr/^An estimate:/, 'which is an estimate');
    ok($browser->value('byId("overview").hidden'), 'no table of one rule');

    my $chart = '.rule .chart:not(.peaks) svg';
    is($browser->value("document.querySelector('$chart').getAttribute('aria-valuemax')"), 200, 'a chart of all steps');
    is(scalar(() = $browser->value("document.querySelector('$chart .passed').getAttribute('d')") =~ /L/g), 401, 'each drawn from its begin to its end');
    is(join(' ', texts('.marks span')), '10:00 10:02 10:04 10:06 1 2 4 8 16 32 64 128', 'the marks of both axes');
    is(text('.legend'), 'passed 820 (87.2 %) delayed 0 (0 %) rejected 120 (12.8 %)', 'numbers of the whole');
    press($chart, $_) for qw(Home ArrowRight);
    is(text('.legend'), 'passed 5 (100 %) delayed 0 (0 %) rejected 0 (0 %)', 'of the first step');
    press($chart, $_) for 'End', ('ArrowLeft') x 5;
    my $told = $browser->value("document.querySelector('$chart').getAttribute('aria-valuetext')");
    like($told, qr/^2025-11-25 10:06:28 to 10:06:30 UTC, passed 4 /, 'and of any other, for a screen reader, too');
    $browser->value("document.querySelector('$chart').dispatchEvent(new PointerEvent('pointerleave'))");
    like(text('.legend'), qr/^passed 820 /, 'and of the whole again');

    my $peaks = '.peaks svg';
    is(join('|', texts('.lines span')), '120: rejects nothing|119: rejects at most 1 %|100: limit', 'the limit is drawn in, and those that were searched');
    is($browser->value("document.querySelectorAll('$peaks .limit').length"), 3, 'with a line for each');
    my $ends = $browser->value("[...document.querySelectorAll('$peaks .column')].map((each) => [each.classList[1], Number(each.getAttribute('x')) + Number(each.getAttribute('width'))])");
    my $line = 1200 * (log(100) / log(2) + 1) / 8;
    is_deeply([ grep { $_->[0] eq 'passed' && $_->[1] > $line + 0.01 } @$ends ], [], 'beyond which nothing is blue');
    press($peaks, 'End');
    is(text('.both .heading .unit'), '65 to 128 in a window: 1 key (4.76 %)', 'the key that asks most');
    press($peaks, $_) for qw(Home ArrowRight);
    is(text('.both .heading .unit'), 'at most 1 in a window: 20 keys (95.2 %)', 'and those that ask least');
    is_deeply([ map { number($_) } texts('.limits .found td') ], [ $rule->{limits}->@{qw(0.01 0.001 0)} ], 'the smallest limits');
    is_deeply([ texts('.keys tbody tr') ], ['10.0.0.1 120 15 % 800'], 'the key that is rejected most');
    is_quiet();
};

subtest 'rules' => sub {
    my (undef, $report) = page($zone . <<'END', map { line($_ / 4) } 1 .. 400);
redis_rate_limit zone=per_ip algorithm=token_bucket limit=1 burst=30 window=1s name=bucket;
redis_rate_limit zone=per_ip algorithm=sliding_window limit=1000 window=60s block=60s name=blocks;
redis_rate_limit zone=per_ip algorithm=concurrency limit=1000 name=permits;
location /never { redis_rate_limit zone=per_ip algorithm=gcra limit=1 window=1s name=never; }
END
    my @names = qw(bucket blocks permits never);
    is_deeply([ texts('#rules a') ], \@names, 'a table of them');
    is_deeply([ texts('.rule h2') ], \@names, 'and a section for each');
    is_deeply(
        [ map { number($_) || 0 } texts('#rules td.number') ], [ map { $_->@{qw(requests passed delayed rejected keys)} } $report->{rules}->@{@names} ],
        'with the numbers of --json'
    );
    like(text('#health'), qr/^bucket would have rejected [\d.]+ % of 400 requests, most of the 4 rules$/, 'the one that rejects most');
    my $of = sub ($rule, $selector) { text("#rule-$rule $selector") };
    is($of->(1, '.mode'), 'token_bucket, limit 1 per 1 s, 30 at once', 'what a bucket holds');
    like($of->(2, '.both'), qr/None can be told: /, 'no limits with a block');
    is($of->(3, '.mode') . $of->(3, '.peaks'), 'concurrency, limit 1000', 'no windows of requests at a time');
    like($of->(4, '.empty'), qr/^No request of the log comes to this rule\.$/, 'nothing of a rule without requests');
    is_quiet();
};

subtest 'nothing is rejected' => sub {
    page($zone . 'redis_rate_limit zone=per_ip algorithm=sliding_log limit=100 window=60s;', line(0));
    is(text('#health'), 'per_ip/60s would have rejected none of 1 request', 'of one line');
    is($browser->value('byId("health").className'), 'good', 'which is good');
    like(text('header'), qr/ 2025-11-25 10:00:00 UTC . 1 line$/, 'at one time');
    is($browser->value('document.querySelector(".rule svg").getAttribute("aria-valuemax")'), 1, 'one step');
    is(join('|', texts('.lines span')), '100: limit|1: rejects nothing', 'limits');
    like(text('.rule'), qr/No key would have been rejected\.$/, 'and no keys');
    is_quiet();
};

subtest 'long names, on a phone' => sub {
    my @names = map { $_ x 64 } qw(a b);
    page($zone . join('', map { "redis_rate_limit zone=per_ip algorithm=sliding_log limit=1 window=60s name=$_ dry_run;\n" } @names), (line(0)) x 3);
    $browser->look(400, 800, 'light');
    is($browser->value('document.documentElement.scrollWidth'), 400, 'fit');
    $browser->look(1200, 800, 'light');
    is($browser->value('[...document.querySelectorAll("table")].filter((each) => !each.ariaLabel && !each.getAttribute("aria-labelledby")).length'), 0, 'all tables have names');
    unlike(text('#rule-1 .both'), qr/have held requests back/, 'rules that run dry hold nothing back');
    page($zone . join('', map { "redis_rate_limit zone=per_ip algorithm=sliding_log limit=$_ window=60s name=of_$_;\n" } 1, 2), (line(0)) x 3);
    like(text('#rule-2 .both'), qr/other rules have held requests back, too/, 'others do');
    is_quiet();
};

subtest 'hostile keys' => sub {
    my @agents = (
        '<script>attacked = 1</script>', '</script><script>attacked = 2</script>', '<!--<script>', '\x22><img src=x onerror=attacked=3>',
        q{'&lt;&#60;javascript:attacked=4}, 'x' x 256,
    );
    my ($file, $report) = page(
        "redis_rate_limit_zone \$http_user_agent zone=agent:1m;\nredis_rate_limit zone=agent algorithm=fixed_window limit=1 window=60s;",
        map { my $second = $_; map { line($second, '10.0.0.1', $_) } @agents } 0, 1
    );
    my @keys = map { $_->{key} } $report->{rules}{'agent/60s'}{top_rejected}->@*;
    is_deeply([ sort @keys ], [ sort map { s/\\x22/"/r } @agents ], 'are told');
    is_deeply($browser->value('[...document.querySelectorAll(".key")].map((each) => each.textContent)'), \@keys, 'as text');
    is($browser->value('typeof attacked'), 'undefined', 'and do nothing');
    is($browser->value('document.images.length'), 0, 'nor make elements');
    $browser->look(400, 800, 'dark');
    is($browser->value('document.documentElement.scrollWidth'), 400, 'and fit on a phone');
    is_quiet();
};

done_testing;
