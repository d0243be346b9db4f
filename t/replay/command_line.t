# redis-rate-limit-replay as a user calls it: logs of all kinds, results in all forms, and what it
# refuses. Whether it decides as nginx does is in t/replay/nginx.t.

use v5.36;
use lib 't/lib';
use File::Temp qw(tempdir);
use JSON::PP qw(decode_json);
use JSON::Validator;
use POSIX ();
use RateLimit::Clock;
use RateLimit::Nginx;
use RateLimit::Redis;
use Test::More;

our $program = $ENV{RATE_LIMIT_REPLAY} // 'build/cmake/redis-rate-limit-replay';
my $schema  = JSON::Validator->new->schema('./docs/replay.schema.json')->schema;
my $dir     = tempdir('replay-XXXXXXXX', TMPDIR => 1, CLEANUP => 1);

sub file ($name, @text) {
    RateLimit::Nginx::write_file("$dir/$name", join '', @text);
    return "$dir/$name";
}

# Runs it with these arguments. Returns its exit status, what it printed, and what it complained of.
sub replay (@arguments) {
    my $input = ref $arguments[-1] ? ${ pop @arguments } : '';
    file('input', $input);
    my $words = join ' ', map { "'" . s/'/'\\''/gr . "'" } @arguments;
    my $out   = qx{$program $words <$dir/input 2>$dir/errors};
    return ($? >> 8, $out, RateLimit::Nginx::slurp("$dir/errors"));
}

sub json_of (@arguments) {
    my ($status, $out, $errors) = replay('--json', '-', @arguments);
    is($status, 0, "@arguments") or diag($errors);
    my $result = eval { decode_json($out) } // {};
    is(join('; ', $schema->validate($result)), '', 'JSON is as docs/replay.schema.json says');
    return $result;
}

my $zone  = "redis_rate_limit_zone \$remote_addr zone=per_ip:10m;\n";
my $rules = file('rules.conf', "${zone}redis_rate_limit zone=per_ip algorithm=sliding_log limit=2 window=60;\n");

# One of combined, at a second of a minute.
sub line ($address, $second, $uri = '/') {
    return sprintf qq{%s - - [25/Nov/2026:10:00:%02d +0100] "GET %s HTTP/1.1" 200 12 "-" "curl"\n}, $address, $second, $uri;
}
my $log = file('access.log', join '', map { line('192.0.2.1', $_) . line('2001:db8::1', $_) } 1 .. 4);

is_deeply(
    json_of('--rules', $rules, $log),
    {
        rules => {
            'per_ip/60s' => {
                requests => 8, passed => 4, delayed => 0, rejected => 4, keys => 2,
                top_rejected => [{ key => '192.0.2.1', rejected => 2 }, { key => '2001:db8::1', rejected => 2 }],
                limits       => { '0.01' => 4, '0.001' => 4, '0' => 4 },
            },
        },
        lines => 8, skipped => 0, no_request => 0, undecided => 0, estimate => JSON::PP::true,
    },
    'JSON'
);

subtest 'a table' => sub {
    my ($status, $out, $errors) = replay('--rules', $rules, $log);
    is($status, 0, 'the program is content');
    is($errors, '', 'and says nothing else');
    like($out, qr/^8 lines, from 2026-11-25 09:00:01 to 2026-11-25 09:00:04 UTC$/m, 'lines and time');
    like($out, qr/^An estimate: /m,                                              'an estimate');
    like($out, qr/^per_ip\/60s  sliding_log limit=2 window=60s$/m,                 'the rule');
    like($out, qr/^  rejected +4 +50\.0 %$/m,                                     'what was rejected');
    like($out, qr/^    rejects nothing +4$/m,                                     'the smallest limit');
    like($out, qr/^ +2  2001:db8::1$/m,                                           'keys');
    unlike($out, qr/\e/, 'no colours but on a terminal');
};

subtest 'a terminal' => sub {
    my $long = file('long.log', join '', map { line("192.0.2.$_", $_ % 60) } (1 .. 250) x 160);
    my $out  = qx{script -qec "$program --rules $rules $long" /dev/null};
    like($out, qr/\r\[#*\.*\] +\d+ %  \d+ lines /, 'shows how far the work is');
    like($out, qr/\r\e\[K/,                          'and wipes that away');
    like($out, qr/^\e\[1mper_ip\/60s\e\[0m/m,        'before the table, which has colours');
};

subtest 'where lines come from' => sub {
    my $text = RateLimit::Nginx::slurp($log);
    is(json_of('--rules', $rules, \$text)->{lines},      8,  'the standard input');
    is(json_of('--rules', $rules, '-', \$text)->{lines}, 8,  'by its name');
    is(system("gzip -k $log"),                           0,  'gzip');
    is(json_of('--rules', $rules, "$log.gz")->{lines},   8,  'a compressed file');
    is(json_of('--rules', $rules, "$log.gz", $log)->{lines}, 16, 'several');
    is(system("head -c 100 $log.gz >$dir/cut.gz"), 0, 'a file that was cut');
    my ($status, undef, $errors) = replay('--rules', $rules, "$dir/cut.gz");
    is($status, 1, 'is an error') or diag($errors);
    like($errors, qr/cut\.gz: the compressed file is cut off$/, 'that names the file');
    for (['xz', "\xfd7zXZ\0"], ['zstd', "\x28\xb5\x2f\xfd"], ['bzip2', 'BZh9']) {
        my ($other, $begin) = @$_;
        ($status, undef, $errors) = replay('--rules', $rules, file("log.$other", "$begin...\n"));
        is($status, 1, $other);
        like($errors, qr{/log\.$other: is compressed by $other, which is not read here; $other -dc FILE \| redis-rate-limit-replay}, 'is named');
    }
    is(json_of('--rules', $rules, file('empty.log', ''))->{lines}, 0, 'an empty file');
};

subtest 'formats' => sub {
    my $decided = '$redis_rate_limit_decided $remote_addr';
    my $exact   = file('exact.log', join '', map { "1700000000.00000$_ 192.0.2.1\n" } 1 .. 3);
    my $result  = json_of('--rules', $rules, '--format', $decided, $exact);
    is($result->{estimate},                         JSON::PP::false, 'nginx said when it decided');
    is($result->{rules}{'per_ip/60s'}{rejected}, 1,               'by microseconds');
    for my $pasted (q{'$redis_rate_limit_decided ' '$remote_addr'}, qq{ log_format main '\$redis_rate_limit_decided '\n '\$Remote_Addr';\n}) {
        is(json_of('--rules', $rules, '--format', $pasted, $exact)->{rules}{'per_ip/60s'}{requests}, 3, "as it is pasted: $pasted");
    }
    my $json = file('json.log', qq{{"t":"2026-11-25T10:00:00+01:00","a":"192.0.2.1"}\n} x 3);
    is(json_of('--rules', $rules, '--format', 'escape=json {"t":"$time_iso8601","a":"$remote_addr"}', $json)->{rules}{'per_ip/60s'}{rejected},
        1, 'JSON');
};

# Lines of a log in which fields were not quoted, or have the separator in their values.
subtest 'lines that are hard to read' => sub {
    my $of = sub ($text) { file('hard.conf', $text) };
    my $by = sub ($key) { $of->("redis_rate_limit_zone $key zone=per_ip:10m;\nredis_rate_limit zone=per_ip algorithm=sliding_log limit=1 window=60;\n") };
    my $located = $of->("${zone}location / { redis_rate_limit zone=per_ip algorithm=sliding_log limit=1 window=60; }\n");
    my $counts = sub ($rules, $format, @lines) {
        my $result = json_of('--rules', $rules, '--format', $format, file('hard.log', map { "$_\n" } @lines));
        my $rule   = $result->{rules}{'per_ip/60s'};
        return join ' ', $rule->@{qw(requests rejected)}, map { $_->{key} } $rule->{top_rejected}->@*;
    };
    is($counts->($located, '$msec to: $upstream_addr: $request $status $remote_addr', '1764021600.000 to: 10.0.0.1:80, 10.0.0.2:80: GET / HTTP/1.1 200 1.1.1.1', '1764021600.100 to: 10.0.0.1:80: GET /a b HTTP/1.1 200 1.1.1.1'),
        '2 1 1.1.1.1', 'upstreams that were asked one after the other, and a request without quotes');
    my @forwarded = ('1764021600.000 1.2.3.4, 5.6.7.8 1.1.1.1') x 2;
    is($counts->($rules, '$msec $http_x_forwarded_for $remote_addr', @forwarded), '2 0', 'a list of addresses before the one');
    is($counts->($by->('$http_x_forwarded_for'), '$msec $http_x_forwarded_for $remote_addr', @forwarded), '2 1 1.2.3.4, 5.6.7.8', 'and that list');
    is($counts->($rules, '$time_local $remote_addr', '25/Nov/2026:10:00:00 +0100 192.0.2.1'), '1 0', 'a time with a space');

    my $time = '$remote_addr $msec $upstream_response_time $request_time';
    my ($status, $out) = replay('--rules', $rules, '--format', $time, \"192.0.2.1 1764021610.000 1.000, 9.000 10.000\n");
    like($out, qr/ from 2025-11-24 22:00:00 to 2025-11-24 22:00:00 UTC$/m, '$request_time behind a list of times');
    ($status, $out, my $errors) = replay('--rules', $rules, '--format', $time, \"192.0.2.1 1764021610.000 1.000, 9.000 1.0x\n");
    is($status, 1, 'a time that is none');
    like($errors, qr/^It is not of the format at "1\.0x": expected \$request_time and the end of the line\.$/m, 'is named');
    ($status, $out, $errors) = replay('--rules', $rules, '--format', '$remote_addr $redis_rate_limit_decided', $log);
    is($status, 1, 'a log of another format');
    like($errors, qr/expected \$redis_rate_limit_decided and the end of the line\.\n--format takes the log_format of this log\./, 'is named');

    my @ambiguous = ('--format', '$msec $http_x_forwarded_for $http_referer $remote_addr', \"1764021600.000 1.2.3.4, 5.6.7.8 - 1.1.1.1\n");
    is(json_of('--rules', $rules, @ambiguous)->{skipped}, 0, 'two ways to read what no rule needs');
    ($status, $out, $errors) = replay('--rules', $by->('$http_referer'), @ambiguous);
    is($status, 1, 'or what one needs');
    like($errors, qr/^It can be read in several ways: \$http_referer may be "5\.6\.7\.8 -" or "-"\. Quotes around it in the log_format tell\.$/m, 'is named');
};

# By a log of what is decided. Lines without a request, and those on which no rule decided, count apart.
subtest 'requests on which no rule decided' => sub {
    my @format = ('--format', '$redis_rate_limit_decided $msec $remote_addr "$request" $status');
    my $fixed  = file('fixed.conf', "${zone}redis_rate_limit zone=per_ip algorithm=fixed_window limit=4 window=60s;\n");
    my @decided = map { qq{1700000000.00000$_ 1700000000.010 192.0.2.1 "GET / HTTP/1.1" 200} } 1 .. 5;
    my @others  = (
        ('- 1700000000.005 192.0.2.1 "GET / HTTP/1.1" 400') x 3,
        '- 1700000000.005 192.0.2.1 "TRACE / HTTP/1.1" 405', '- 1700000000.005 192.0.2.1 "GET /moved HTTP/1.1" 301',
        '- 1700000000.005 192.0.2.1 "\x16\x03\x01" 400', '- 1700000000.005 192.0.2.1 "-" 408',
    );
    my $mixed  = file('mixed.log', map { "$_\n" } @decided, @others);
    my $counts = sub (@arguments) {
        my $result = json_of('--rules', $fixed, @format, @arguments, $mixed);
        return join ' ', $result->@{qw(lines skipped no_request undecided)}, $result->{rules}{'per_ip/60s'}->@{qw(requests rejected)}, $result->{estimate} ? 'estimate' : 'exact';
    };
    is($counts->(),                       '12 0 2 5 5 1 exact',     'are left out');
    is($counts->('--undecided=estimate'), '12 0 2 0 10 6 estimate', 'or replayed by another time');
    my ($status, $out) = replay('--rules', $fixed, @format, $mixed);
    like($out, qr/^12 lines, 2 without a request, 5 of requests on which no rule decided, from /, 'and named');
    like($out, qr/^Requests on which no rule decided are left out\. --undecided=estimate replays them by \$msec\.$/m, 'with the other way');
    ($status, $out) = replay('--rules', $fixed, @format, '--undecided=estimate', $mixed);
    like($out, qr/^An estimate: on 5 requests nginx did not decide\. They are replayed by another time\.$/m, 'which is an estimate');

    my $refuses = sub ($expected_status, $pattern, @arguments) {
        ($status, $out, my $errors) = replay('--rules', $fixed, @arguments);
        is($status, $expected_status, join(' ', (grep { !ref } @arguments), 'status'));
        like($errors, $pattern, 'the reason');
    };
    my $none = file('none.log', map { "$_\n" } @others);
    $refuses->(1, qr/no rule decided on any of the requests: .* --undecided=estimate replays them/, @format, $none);
    $refuses->(1, qr/With \$msec in the log_format, too/, '--format', '$redis_rate_limit_decided $remote_addr', \"- 192.0.2.1\n");
    $refuses->(1, qr/none of 1 lines holds a request/, '--format', '$msec $remote_addr "$request"', \qq{1700000000.000 192.0.2.1 "-"\n});
    $refuses->(1, qr/1 of 1 lines are not of the format/, @format, \qq{never 1700000000.010 192.0.2.1 "GET / HTTP/1.1" 200\n});
    $refuses->(2, qr/--undecided: expected estimate/, @format, '--undecided=maybe', $none);
    $refuses->(2, qr/--undecided: expected a format with \$redis_rate_limit_decided and \$msec/, '--undecided=estimate', $log);
};

subtest 'rules' => sub {
    my $several = file('several.conf', <<"END");
http {
    $zone
    redis_rate_limit_zone \$arg_user zone=user:1m;
    map \$arg_user \$limit { bob 3; default 1; }
    server {
        listen 80;
        location / { proxy_pass http://app; }
        location /api/ {
            redis_rate_limit zone=per_ip algorithm=fixed_window limit=3 window=60 name=address;
            redis_rate_limit zone=user algorithm=fixed_window limit=\$limit window=60 name=user;
            redis_rate_limit zone=per_ip algorithm=gcra limit=1 window=60 name=trial dry_run;
        }
        location = /api/free { redis_rate_limit off; }
        location /answered/ { return 204; redis_rate_limit zone=per_ip algorithm=gcra limit=1 window=60 name=never; }
    }
}
END
    my $api = file('api.log', join '', map { line('192.0.2.1', 1, $_) } ('/', '/api/?user=bob') x 5, '/api/free', '/answered/', '/%61pi/x?user=eve', '//api/./?user=');
    my $result = json_of('--rules', $several, $api)->{rules};
    my %counts = map { my $rule = $_; $rule => join ' ', map { $result->{$rule}{$_} // '-' } qw(requests passed rejected) } keys %$result;
    is_deeply(\%counts, { address => '7 3 4', user => '6 4 2', trial => '7 1 6', never => '0 0 0' }, 'by location, with variables, side by side');
    ok(!exists $result->{user}{limits}, 'no smallest limit of a limit that variables give');
};

# Requests of which $msec tells the end.
subtest 'requests in flight' => sub {
    my @format = ('--format', '$redis_rate_limit_decided $msec $request_time $remote_addr');
    my $flight = sub ($limit) { file('flight.conf', "${zone}redis_rate_limit zone=per_ip algorithm=concurrency limit=$limit;\n") };
    my $three  = file('three.log', <<'END');
1700000000.000000 1700000010.000 10.000 192.0.2.1
1700000001.000000 1700000011.000 10.000 192.0.2.1
1700000002.000000 1700000002.100 0.100 192.0.2.1
1700000010.500000 1700000010.600 0.100 192.0.2.1
END
    my $result = json_of('--rules', $flight->(2), @format, $three)->{rules}{'per_ip/concurrency'};
    is("$result->{passed} $result->{rejected} $result->{limits}{0}", '3 1 3', 'the third one is too many, until the first one ends');
    my $two = file('two.log', "1700000000.500000 1700000001.000 1.000 192.0.2.1\n1700000001.200000 1700000001.300 0.100 192.0.2.1\n");
    is(json_of('--rules', $flight->(1), @format, $two)->{rules}{'per_ip/concurrency'}{rejected}, 0, '$request_time has begun before the decision');
    my $long = file('long.log', map { my ($begin, $time) = @$_; sprintf "1700000%03d.000000 1700000%03d.000 %d.000 192.0.2.1\n", $begin, $begin + $time, $time } [0, 30], [1, 0], [8, 20], [9, 0]);
    my $brief = file('brief.conf', "${zone}redis_rate_limit zone=per_ip algorithm=concurrency limit=2 window=1s;\n");
    is(json_of('--rules', $brief, @format, $long)->{rules}{'per_ip/concurrency'}{rejected}, 1, 'a request is in flight for as long as it takes, whatever the window');
};

subtest 'maps' => sub {
    my $mapped = file('mapped.conf', <<'END');
map $http_user_agent $crawler { ~*bot 1; }
redis_rate_limit_zone $crawler zone=per_ip:10m;
redis_rate_limit zone=per_ip algorithm=sliding_log limit=1 window=60;
END
    is(json_of('--rules', $mapped, '--format', '$msec $crawler', \"1700000000.000 1\n1700000000.000 -\n1700000000.000 1\n")->{rules}{'per_ip/60s'}{rejected},
        1, 'what the log has need not be mapped');
};

subtest 'a rule that runs dry beside one that rejects' => sub {
    my $beside = file('beside.conf', $zone, "redis_rate_limit zone=per_ip algorithm=leaky_bucket limit=1 window=1s burst=10 name=leaky dry_run;\nredis_rate_limit zone=per_ip algorithm=fixed_window limit=1 window=60s name=fixed;\n");
    my $result = json_of('--rules', $beside, '--format', '$redis_rate_limit_decided $remote_addr', file('beside.log', map { "1700000000.00000$_ 192.0.2.1\n" } 1 .. 3))->{rules};
    is("$result->{leaky}->@{qw(passed delayed rejected)}", '1 2 0', 'is told by what it would have held back');
};

subtest 'a rule without requests' => sub {
    my $never = file('never.conf', "${zone}location /never { redis_rate_limit zone=per_ip algorithm=gcra limit=1 window=60 name=never; }\n");
    ok(!exists json_of('--rules', $never, $log)->{rules}{never}{limits}, 'has no smallest limits');
    my ($status, $out) = replay('--rules', $never, $log);
    unlike($out, qr/smallest limit/, 'nor shows some');
};

subtest 'Lua beside the rules' => sub {
    my $lua = file('lua.conf', $zone . <<'END');
location / {
    redis_rate_limit zone=per_ip algorithm=sliding_log limit=2 window=60;
    content_by_lua_block {
        -- don't: }
        local text = "}\"" .. '{' .. [==[ }]] ]==] --[[ } ]]
        if text then ngx.say({ text }) end
    }
}
END
    is(json_of('--rules', $lua, $log)->{rules}{'per_ip/60s'}{rejected}, 4, 'is passed over');
    my ($status, $out, $errors) = replay('--rules', file('open.conf', "a_by_lua_block {\n'}\n"), $log);
    like($errors, qr/open\.conf:3: unexpected end of file in a block of Lua/, 'up to its end');
};

subtest 'more logs than a process may open' => sub {
    my @logs = map { file("many-$_.log", line('192.0.2.1', $_ % 60) =~ s{/2026}{/@{[1990 + $_]}}r) } 1 .. 60;
    local $program = "ulimit -n 30; $program";
    is(json_of('--rules', $rules, reverse @logs)->{lines}, 60, 'of which few are of the same time');
    my @same = map { file("same-$_.log", line('192.0.2.1', 1) . line('192.0.2.1', 2)) } 1 .. 60;
    my ($status, $out, $errors) = replay('--rules', $rules, @same);
    is($status, 1, 'all of one time');
    like($errors, qr/cannot read .*: Too many open files\. So many logs are of the same time: join some of them, or raise ulimit -n$/, 'is an error that says what helps');
};

subtest 'characters that order others' => sub {
    my $agent  = file('agent.conf', "redis_rate_limit_zone \$arg_key zone=per_ip:10m;\nredis_rate_limit zone=per_ip algorithm=sliding_log limit=1 window=60;\n");
    my $turned = "a\xe2\x80\xaeb\xe2\x81\xa6c\xd8\x9cd\xe2\x80\x8fe";
    my $result = json_of('--rules', $agent, '--format', 'escape=json {"t":"$msec","k":"$arg_key"}', \(qq({"t":"1700000000.000","k":"$turned"}\n) x 2));
    is($result->{rules}{'per_ip/60s'}{top_rejected}[0]{key}, 'a\xe2\x80\xaeb\xe2\x81\xa6c\xd8\x9cd\xe2\x80\x8fe', 'are told as bytes');
};

subtest 'shards, and a variable that is no number' => sub {
    my $many = file('many.log', line('192.0.2.1', 1) x 100);
    my $sharded = file('sharded.conf', "${zone}redis_rate_limit zone=per_ip algorithm=fixed_window limit=10 window=60s shards=4;\n");
    is(json_of('--rules', $sharded, $many)->{rules}{'per_ip/60s'}{passed}, 10, 'shards sum up to the limit');
    my $closed = file('closed.conf', $zone =~ s/;/ on_error=closed;/r . <<'END');
redis_rate_limit zone=per_ip algorithm=fixed_window limit=$arg_limit window=60s name=given;
redis_rate_limit zone=per_ip algorithm=fixed_window limit=1000 window=60s name=other;
END
    my $result = json_of('--rules', $closed, file('given.log', line('192.0.2.1', 1, '/?limit=x') . line('192.0.2.1', 2, '/?limit=5')))->{rules};
    is("$result->{given}{passed} $result->{other}{passed}", '1 1', 'rejects, and other rules are not asked');
};

subtest 'leases' => sub {
    my $leased = file('leased.conf', "${zone}redis_rate_limit zone=per_ip algorithm=fixed_window limit=100000 window=60s lease=auto;\n");
    my ($status, $out) = replay('--rules', $leased, $log);
    like($out, qr/^note: per_ip\/60s: leases are left out/m, 'are left out, which is said');
    ($status, $out) = replay('--rules', $rules, $log);
    unlike($out, qr/leases/, 'but not of a rule without');
};

subtest 'what makes it an estimate' => sub {
    my @format = ('--format', '$redis_rate_limit_decided $remote_addr');
    my $both   = file('both.conf', "${zone}redis_rate_limit zone=per_ip algorithm=gcra limit=5 window=60s;\nredis_rate_limit zone=per_ip algorithm=gcra limit=5 window=60s name=late phase=precontent;\n");
    my $exact  = file('one.log', "1700000000.000001 192.0.2.1\n");
    my ($status, $out) = replay('--rules', $both, @format, $exact);
    like($out, qr/^An estimate: rules of both phases apply/m, 'rules of both phases');
    my $late = file('late.log', join '', map { "$_.000001 192.0.2.1\n" } 1700000000, 1700000100, 1700000101, 1700000200, 1700000201, 1700000020);
    ($status, $out) = replay('--rules', $rules, @format, $late);
    like($out, qr/^An estimate: lines are out of order/m, 'lines that are late');
};

subtest 'a full disk' => sub {
    for my $blocks (0, 1, 4) {
        local $program = "trap '' XFSZ; ulimit -f $blocks; $program";
        my ($status, $out) = replay('--rules', $rules, file('full.log', join '', map { line('192.0.2.1', $_ % 60) } 1 .. 20_000));
        is($status, 0, "$blocks blocks: the program is content");
        like($out, qr/^note: per_ip\/60s: no limits are given, because its requests could not be written into TMPDIR$/m, 'and says what is missing');
        unlike($out, qr/smallest limit/, 'instead of a wrong number');
    }
};

subtest 'a real Redis' => sub {
    my $redis  = RateLimit::Redis->start_new;
    my $result = json_of('--rules', $rules, '--redis', $redis->address, $log);
    is($result->{rules}{'per_ip/60s'}{rejected}, 4, 'decides the same');
    my ($status, undef, $errors) = replay('--rules', $rules, '--redis', '127.0.0.1:1', $log);
    is($status, 1, 'none there');
    like($errors, qr/--redis: 127\.0\.0\.1:1: Connection refused/, 'is said');
    ($status, undef, $errors) = replay('--rules', $rules, '--redis', '[::1]:1', $log);
    like($errors, qr/--redis: \[::1\]:1: (?:Connection refused|Cannot assign)/, 'an address of IPv6');
    ($status, undef, $errors) = replay('--rules', $rules, '--redis', 'localhost', $log);
    like($errors, qr/--redis: localhost: expected host:port, or \[address\]:port/, 'no port');
};

# Redis's clock runs on by a minute each millisecond or so: what the log says of 0.9 s takes days there.
subtest 'a real Redis whose keys would expire' => sub {
    my $clock = RateLimit::Clock->new(1_800_000_000_000_000);
    my $redis = RateLimit::Redis->start_new(clock => $clock);
    my $brief = file('brief.conf', map { "redis_rate_limit_zone \$remote_addr zone=$_:1m;\nredis_rate_limit zone=$_ algorithm=$_ limit=10 window=1s;\n" } qw(sliding_log fixed_window sliding_window gcra));
    my $many  = file('many.log', map { sprintf "1700000000.%06d 192.0.2.1\n", $_ * 450 } 0 .. 1999);
    my @arguments = ('--rules', $brief, '--format', '$redis_rate_limit_decided $remote_addr', $many);
    my $expected  = json_of(@arguments);
    my $mover = fork // die "fork: $!";
    if ($mover == 0) {
        for (1 .. 5_000) { $clock->move(60_000_000); select undef, undef, undef, 0.001 }
        POSIX::_exit(0);
    }
    my $result = json_of('--redis', $redis->address, @arguments);
    kill 'KILL', $mover;
    waitpid $mover, 0;
    is_deeply($result, $expected, 'decides the same, whatever the clock of the server');
    is(scalar(() = $redis->keys), 0, 'and leaves no key behind');
};

subtest 'what it refuses' => sub {
    my $refuses = sub ($expected_status, $pattern, @arguments) {
        my ($status, $out, $errors) = replay(@arguments);
        is($status, $expected_status, "@arguments: status");
        like($errors, $pattern, 'the reason');
        is($out, '', 'no result');
    };
    $refuses->(2, qr/--rules is missing/,            $log);
    $refuses->(2, qr/unrecognized option/,           '--nonsense');
    $refuses->(2, qr/expected ZONE=TEXT/,            '--rules', $rules, '--zone-key', 'per_ip', $log);
    $refuses->(2, qr/--format: it has no \$redis/,   '--rules', $rules, '--format', '$remote_addr', $log);
    $refuses->(1, qr/cannot read .*nowhere/,         '--rules', $rules, "$dir/nowhere");
    $refuses->(1, qr/cannot read .*nowhere: No such file/, '--rules', "$dir/nowhere", $log);
    $refuses->(1, qr/cannot read .*: Is a directory/, '--rules', $dir, $log);
    $refuses->(1, qr/cannot write .*No such file/,   '--rules', $rules, '--json', "$dir/nowhere/x", $log);
    for my $option ('--json', '--html') {
        my $mistaken = file('mistaken.log', RateLimit::Nginx::slurp($log));
        $refuses->(1, qr/mistaken\.log holds no such result: it stays/, '--rules', $rules, $option, $mistaken, $log);
        is(RateLimit::Nginx::slurp($mistaken), RateLimit::Nginx::slurp($log), "$option overwrites no log");
        my $result = file('result', '');
        is((replay('--rules', $rules, $option, $result, $log))[0], 0, "but an empty file") for 1, 2;
    }
    my $of_stream = "stream {\n    redis_rate_limit_zone \$remote_addr zone=sessions:1m;\n    redis_rate_limit off;\n    server {\n        redis_rate_limit zone=sessions algorithm=concurrency limit=20 PHASE;\n    }\n}\n";
    for my $beside ('', RateLimit::Nginx::slurp($rules)) {
        my $preread = file('stream.conf', $beside, $of_stream =~ s/PHASE/phase=preread/r);
        $refuses->(1, qr/stream\.conf:\d+: redis_rate_limit: the rule "sessions\/concurrency" is one of stream, .*; expected rules of http alone$/, '--rules', $preread, $log);
    }
    my $late = file('stream.conf', $of_stream =~ s/PHASE/phase=precontent/r);
    $refuses->(1, qr/stream\.conf:5: redis_rate_limit: invalid phase "precontent", expected access or preread$/, '--rules', $late, $log);
    my $without = file('stream.conf', RateLimit::Nginx::slurp($rules), $of_stream =~ s/zone=sessions algorithm.*;/off;/r);
    is(json_of('--rules', $without, $log)->{rules}{'per_ip/60s'}{requests}, 8, 'stream without rules is passed over');
    my $key = file('key.conf', "redis_rate_limit_zone \$http_x_key zone=k:1m;\nredis_rate_limit zone=k algorithm=gcra limit=1 window=1;\n");
    $refuses->(1, qr/key\.conf:1: redis_rate_limit_zone: the log has no \$http_x_key/, '--rules', $key, $log);
    $refuses->(1, qr/--zone-key: the log has no \$http_x_other/, '--rules', $key, '--zone-key', 'k=$http_x_other', $log);
    is(json_of('--rules', $key, '--zone-key', 'k=$remote_addr', $log)->{rules}{'k/1s'}{requests}, 8, 'but with another key');
    my @keys     = ('k', '\x09k', 'k ', ' \x09', 'a b', '-');
    my $seconds  = 0;
    my $with_key = file('keys.log', join '', map { sprintf qq(192.0.2.1 [25/Nov/2026:10:00:%02d +0000] "%s"\n), $seconds++, $_ } @keys);
    my $in_hour  = file('hour.conf', "redis_rate_limit_zone \$http_x_key zone=k:1m;\nredis_rate_limit zone=k algorithm=fixed_window limit=1 window=1h;\n");
    is_deeply(
        [ json_of('--rules', $in_hour, '--format', '$remote_addr [$time_local] "$http_x_key"', $with_key)->{rules}{'k/3600s'}->@{qw(requests rejected keys)} ],
        [ 4, 2, 2 ], 'blanks and tabs at the ends of keys are cut'
    );
    my $flight = file('flight.conf', "${zone}redis_rate_limit zone=per_ip algorithm=concurrency limit=1;\n");
    $refuses->(1, qr/concurrency needs \$request_time/, '--rules', $flight, $log);
    my $other = file('other.log', RateLimit::Nginx::slurp($log) . "something else\e[2J\nand more\n");
    $refuses->(1, qr/2 of 10 lines are not of the format, the first of them:\nsomething else\\x1b\[2J/, '--rules', $rules, $other);
    my $few = file('few.log', RateLimit::Nginx::slurp($log) x 2 . "something else\n");
    my $result = json_of('--rules', $rules, $few);
    is("$result->{lines} $result->{skipped}", '17 1', 'a few such lines are skipped');
};

subtest 'help' => sub {
    my ($status, $out) = replay('--help');
    is($status, 0, 'is no error');
    my ($example) = $out =~ /^Example:\n\n(.*?)\n\n/ms or BAIL_OUT('no example');
    ok(-e 'man/redis-rate-limit-replay.1', 'a man page');
    my $man = RateLimit::Nginx::slurp('man/redis-rate-limit-replay.1') =~ s/\\-/-/gr;
    my $page = RateLimit::Nginx::slurp('docs/finding-the-right-limit.md');
    my ($of_page) = $page =~ /```nginx\n(.*?)```/s;
    for my $text ($example, $man) {
        my ($of_text) = $text =~ /^ *cat >rules\.conf <<'END'\n(.*?)^ *END$/ms or BAIL_OUT('no rules');
        is($of_text =~ s/^ +//gmr, $of_page, 'has the rules of the page');
    }
    like($man, qr/\Q$_\E\b/, "has $_") for $out =~ /^  (--[\w-]+)/mg;
    is(qx{man -l --warnings -E UTF-8 man/redis-rate-limit-replay.1 2>&1 >/dev/null}, '', 'that man reads') if -x '/usr/bin/man';
    ($status, $out) = replay('--version');
    is($out, 'redis-rate-limit-replay ' . RateLimit::Nginx::slurp('VERSION'), 'the version');
};

# The examples of the page, with a log of one line.
subtest 'documentation' => sub {
    my $page  = RateLimit::Nginx::slurp('docs/finding-the-right-limit.md');
    my @rules = grep { /redis_rate_limit_zone/ } $page =~ /```nginx\n(.*?)```/gs;
    is(scalar @rules, 2, 'rules');
    for (0 .. $#rules) {
        is(json_of('--rules', file("page$_.conf", $rules[$_]), $log)->{lines}, 8, 'are replayed');
    }
    my ($of_sessions) = $page =~ /`--format '(.*?)'`/ or BAIL_OUT('no format of sessions');
    my $sessions = file('sessions.log', map { "192.0.2.1 [25/Nov/2026:10:00:0$_ +0100] TCP 200 5 7 $_.000\n" } 1 .. 3);
    my $at_once  = file('at_once.conf', "${zone}redis_rate_limit zone=per_ip algorithm=concurrency limit=2;\n");
    is(json_of('--rules', $at_once, '--format', $of_sessions, $sessions)->{rules}{'per_ip/concurrency'}{rejected}, 1, 'a log of sessions');
    my ($format) = $page =~ /log_format limits '(.*?)' *\n *'(.*?)';/s ? "$1$2" : '';
    my $limits = file('limits.log', qq{1700000000.000001 1700000000.010 0.010 192.0.2.1 200 "GET / HTTP/1.1" PASSED\n});
    is(json_of('--rules', $rules, '--format', $format, $limits)->{estimate}, JSON::PP::false, 'the format');
};

done_testing;
