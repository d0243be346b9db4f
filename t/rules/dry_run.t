# Dry runs: they count and tell in the log and in variables, and do nothing to a request.

use v5.36;
use lib 't/lib';
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(time);

my $redis = RateLimit::Redis->start_new;
my $told  = join '|', map { "\$redis_rate_limit_$_" } qw(status source rule limit remaining retry_after);

sub rule ($name, $limit, $more = '', $zone = 'z') {
    return "redis_rate_limit zone=$zone algorithm=sliding_log limit=$limit window=60 name=$name $more;";
}

my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_backend other { server ${\$redis->address}; connect_timeout 10s; timeout 10s; prefix other:; }
redis_rate_limit_backend nobody { server 127.0.0.1:${\empty_port}; }
redis_rate_limit_zone \$uri zone=z:1m on_error=closed;
redis_rate_limit_zone \$uri zone=other:1m on_error=closed backend=other;
redis_rate_limit_zone \$uri zone=nobody:1m on_error=closed backend=nobody;
add_header X-Told '$told' always;
server {
    listen %PORT%;
    location /alone { ${\rule('alone', 1, 'dry_run')} empty_gif; }
    location /zero { ${\rule('zero', 0, 'dry_run')} empty_gif; }
    location /delay { redis_rate_limit zone=z algorithm=leaky_bucket limit=1 window=60 burst=1 name=delay dry_run; empty_gif; }

    location /all/ {
        redis_rate_limit_dry_run on;
        ${\rule('all', 1)}
        empty_gif;
        location /all/inherits { empty_gif; }
        location /all/own { ${\rule('own', 1)} empty_gif; }
        location /all/off/ {
            redis_rate_limit_dry_run off;
            empty_gif;
            location /all/off/flag { ${\rule('flag', 1, 'dry_run')} empty_gif; }
        }
    }

    location /beside/ {
        ${\rule('trial', 2, 'dry_run')}
        ${\rule('real', 4)}
        empty_gif;
        location /beside/zero { ${\rule('trial', 0, 'dry_run')} ${\rule('real', 2)} empty_gif; }
        location /beside/wide { ${\rule('trial', 9, 'dry_run')} ${\rule('real', 2)} empty_gif; }
        location /beside/other-denies { ${\rule('trial', 1, 'dry_run', 'other')} ${\rule('real', 3)} empty_gif; }
        location /beside/other-grants { ${\rule('trial', 9, 'dry_run', 'other')} ${\rule('real', 1)} empty_gif; }
        location /beside/both {
            ${\rule('trial', 1, 'dry_run')}
            redis_rate_limit zone=z algorithm=leaky_bucket limit=1 window=60 burst=1 name=delay dry_run;
            ${\rule('real', 9)}
            empty_gif;
        }
    }

    location /down/ {
        ${\rule('down', 1, 'dry_run', 'nobody')}
        empty_gif;
        location /down/beside { ${\rule('trial', 1, 'dry_run', 'nobody')} ${\rule('real', 1)} empty_gif; }
        location /down/invalid { ${\rule('trial', '$arg_limit', 'dry_run')} ${\rule('real', 1)} empty_gif; }
    }
}
END

# What is left of a request when nothing limits it: no header but X-Told, which is returned.
sub passes ($path, $what) {
    my $response = $nginx->get($path);
    my @headers  = grep { /ratelimit|retry/ } keys $response->{headers}->%*;
    is("$response->{status} @headers", '200 ', $what);
    return $response->{headers}{'x-told'};
}

# The lines that tell of a limit or a delay since the last call.
sub lines () {
    state $seen = 0;
    my $new = substr $nginx->error_log, $seen;
    $seen += length $new;
    return join "\n", $new =~ /((?:limiting|delaying) request.*?), client/g;
}

sub taken ($path, $name, $of = 'rl:{z') { return $redis->taken("$of:$path}:sliding_log:60000:$name") }

subtest 'a dry run' => sub {
    is(passes('/alone', 'passes'),           'PASSED|redis|alone|1|0|', 'and tells');
    is(lines,                                '',                        'no line');
    is(passes('/alone', 'would be refused'), 'REJECTED_DRY_RUN|redis|alone|1|0|60', 'and tells');
    like(lines, qr/^limiting requests, rule "alone", key "\/alone", retry after (?:59\.\d{3}|60\.000)s, dry run$/, 'one line');
    is(taken('/alone', 'alone'), 1, 'what it would refuse is not counted');

    is(passes('/zero', 'a limit of 0'), 'REJECTED_DRY_RUN|none|zero|0|0|', 'tells');
    is(lines, 'limiting requests, rule "zero", key "/zero", dry run', 'one line');
};

subtest 'a delay of a dry run' => sub {
    passes('/delay', 'the first one');
    my $began = time;
    is(passes('/delay', 'would be delayed'), 'DELAYED_DRY_RUN|redis|delay|2|0|', 'and tells');
    cmp_ok(time - $began, '<', 30, 'at once');
    like(lines, qr/^delaying request, rule "delay", key "\/delay", by (?:59\.\d{3}|60\.000)s, dry run$/, 'one line');
};

subtest 'redis_rate_limit_dry_run' => sub {
    for my $path (qw(/all/ /all/inherits /all/own /all/off/flag)) {
        passes($path, "$path passes") for 1 .. 2;
        like(lines, qr/^limiting .*, dry run$/, 'and would be refused');
    }
    is($nginx->statuses('/all/off/', 2), '200 429', 'off: the rule of the outer level is in force');
    unlike(lines, qr/dry run/, 'one line that is no dry run');
};

subtest 'beside a real rule' => sub {
    my @policies = map { $_->{headers}->@{qw(ratelimit-policy x-ratelimit-limit x-ratelimit-remaining x-told)} }
        map { $nginx->get('/beside/') } 1 .. 3;
    my $policy = '"real";q=4;w=60';
    is_deeply(
        \@policies,
        [
            $policy, 4, 3, 'PASSED|redis|real|4|3|',
            $policy, 4, 2, 'PASSED|redis|real|4|2|',
            $policy, 4, 1, 'REJECTED_DRY_RUN|redis|real|4|1|'
        ],
        'only the real one is told to clients'
    );
    is(taken('/beside/', 'trial'), 2, 'the dry run counts');
    is(taken('/beside/', 'real'), 3, 'the real one counts what the other would refuse');
    is($nginx->statuses('/beside/', 2), '200 429', 'and refuses');
    is($nginx->get('/beside/')->{headers}{'retry-after'}, 60, 'Retry-After is its own');

    is($nginx->statuses('/beside/zero', 3), '200 200 429', 'a limit of 0 in a dry run');
    is($nginx->statuses('/beside/wide', 4), '200 200 429 429', 'a wide limit in a dry run');
    is(taken('/beside/wide', 'trial'), 2, 'counts nothing that the real one refuses');

    lines;
    $nginx->get('/beside/both') for 1 .. 2;
    is(() = lines =~ /dry run$/mg, 2, 'a line for each of two dry runs');
};

subtest 'on another Redis than the real rule' => sub {
    is($nginx->statuses('/beside/other-denies', 4), '200 200 200 429', 'it refuses none');
    is(taken('/beside/other-denies', 'real'), 3, 'the real one counts what the other would refuse');
    is($nginx->statuses('/beside/other-grants', 3), '200 429 429', 'it admits none');
    ok(wait_until(sub { taken('/beside/other-grants', 'trial', 'other:{other') == 1 }), 'what the real one refuses is given back');
};

subtest 'without a verdict' => sub {
    is(passes('/down/', 'on_error=closed does not refuse'), 'ERROR_OPEN|none|down|||', 'and tells');
    is($nginx->statuses('/down/beside', 2), '200 429', 'the real rule decides');
    is($nginx->statuses('/down/invalid?limit=abc', 2), '200 429', 'also beside a variable that is no number');
    like($nginx->error_log, qr/invalid limit "abc", .*rule "trial"/, 'which the log tells');
};

$nginx->stop;
done_testing;
