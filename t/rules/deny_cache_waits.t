# Who waits exactly as long as the deny cache says, and nobody else asks meanwhile, passes: though others have passed
# since Redis denied, because they asked for less or by a higher limit.

use v5.36;
use lib 't/lib';
use RateLimit::DenyCache qw(calls location start_nginx told);
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep time);

my $redis = RateLimit::Redis->start_new;
my @rules = map { "algorithm=$_" } qw(sliding_log sliding_window token_bucket gcra leaky_bucket fixed_window);

# A rule of that capacity. Where buckets share a counter, what they get back in a second has to be alike.
sub rule ($rule, $capacity) {
    my $limit = $rule =~ /log|window/ ? $capacity : 5;
    my $burst = $rule =~ /gcra|leaky/ ? $capacity - 1 : $capacity;
    return "zone=z $rule window=8s limit=$limit" . ($rule =~ /log|window/ ? '' : " burst=$burst") . ($rule =~ /leaky/ ? " delay=$burst" : '');
}

# How long a request was told to wait, in seconds, by the log: it is exacter than Retry-After. Without one it is 0.
sub denied_for ($nginx, $path, $key) {
    my $response = $nginx->get("$path&key=$key");
    return 0 if $response->{status} == 200;
    my $told;
    wait_until(sub { $told = ($nginx->error_log =~ /.*key "\Q$key\E", retry after ([\d.]+)s/s)[0] });
    return $told;
}

# Asks by all rules side by side: what takes units and is then denied, what passes meanwhile, and at last what was denied.
sub waits ($nginx, $rules, $fill, $dear, $pass) {
    my @waits;
    for my $number (0 .. $rules->$#*) {
        my $key  = "$fill-$number" =~ tr/a-zA-Z0-9/_/cr;
        my $path = sub ($text) { $text =~ s/%/$number/r };
        $nginx->get($path->($_) . "&key=$key") for split / /, $fill;
        sleep 0.5;
        my $before = denied_for($nginx, $path->($dear), $key);
        $nginx->get($path->($_) . "&key=$key")->{status} == 200 || fail("$key: $_ passes") for split / /, $pass;
        push @waits, { rule => $rules->[$number], path => $path->($dear), key => $key, before => $before };
    }
    for my $one (@waits) {
        $one->{wait}  = denied_for($nginx, $one->{path}, $one->{key});
        $one->{until} = time + $one->{wait};
    }
    for my $one (sort { $a->{until} <=> $b->{until} } @waits) {
        sleep $one->{until} - time if $one->{until} > time;
        my $again = denied_for($nginx, $one->{path}, $one->{key});
        cmp_ok($one->{before}, '>', 0, "$one->{rule}: is denied by Redis");
        ok($again == 0, "$one->{rule}: passes after the wait of $one->{wait} s") or diag("is denied for another $again s");
    }
    return;
}

subtest 'smaller costs pass meanwhile' => sub {
    my $nginx = start_nginx($redis, join '', map { location("/$_", rule($rules[$_], 10) . " name=costs$_ cost=\$cost") } 0 .. $#rules);
    waits($nginx, \@rules, '/%?cost=3 /%?cost=5', '/%?cost=5', '/%?cost=1 /%?cost=1');
    $nginx->stop;
};

subtest 'costs of two locations' => sub {
    my $nginx = start_nginx($redis, join '', map {
        location("/$_/dear", rule($rules[$_], 10) . " name=two$_ cost=5") . location("/$_/cheap", rule($rules[$_], 10) . " name=two$_")
    } 0 .. $#rules);
    waits($nginx, \@rules, '/%/dear? /%/cheap? /%/cheap?', '/%/dear?', '/%/cheap? /%/cheap?');
    $nginx->stop;
};

subtest 'another limit passes meanwhile' => sub {
    my $nginx = start_nginx($redis, join '', map {
        location("/$_/low", rule($rules[$_], 5) . " name=limits$_") . location("/$_/high", rule($rules[$_], 20) . " name=limits$_")
    } 0 .. $#rules);
    waits($nginx, \@rules, join(' ', ('/%/low?') x 5), '/%/low?', join ' ', ('/%/high?') x 4);
    $nginx->stop;
};

subtest 'a limit that requests say' => sub {
    my $nginx = start_nginx($redis, join '', map { location("/$_", "zone=z $rules[$_] window=8s limit=\$arg_limit name=said$_") } 0 .. 1);
    waits($nginx, [@rules[0 .. 1]], join(' ', ('/%?limit=5') x 5), '/%?limit=5', join ' ', ('/%?limit=50') x 4);
    $nginx->stop;
};

subtest 'where nobody else can pass Redis is not asked' => sub {
    my $nginx = start_nginx($redis, join '', location('/one', 'zone=z algorithm=sliding_log limit=10 window=600 name=one cost=4'),
        location('/most/lax',    'zone=z algorithm=sliding_log limit=10 window=600 name=most'),
        location('/most/strict', 'zone=z algorithm=sliding_log limit=5 window=600 name=most cost=2'),
        location('/costs',       'zone=z algorithm=sliding_log limit=10 window=600 name=costs cost=$cost'),
    );
    my $denied = sub ($path, $fill) {
        is(told($nginx, "$path&key=flood"), '200 redis', "$path: passes") for 1 .. $fill;
        is(told($nginx, "$path&key=flood"), '429 redis', 'is denied');
        calls($redis);
        is(told($nginx, "$path&key=flood"), '429 deny_cache', 'is known') for 1 .. 5;
        is(calls($redis), 0, 'without a call');
    };
    $denied->('/one?', 2);       # two units are left, but nobody asks for so few
    $denied->('/most/lax?', 10); # nobody passes by the other rule whom this one denies
    $denied->('/costs?cost=5', 2);
    is(told($nginx, '/most/strict?key=flood'), '429 redis', 'the stricter rule asks, for the other one may pass') for 1 .. 2;
    $nginx->stop;
};

# A request that is known to be denied is told of the rules alone that are known to deny.
subtest 'the longest wait of several rules' => sub {
    my $nginx = start_nginx($redis, location('/', 'zone=z algorithm=gcra limit=1 window=4 name=short', 'zone=z algorithm=sliding_log limit=3 window=600 cost=$cost name=long'));
    is(told($nginx, '/?key=both&cost=2'), '200 redis', 'passes');
    my @told = map { $nginx->get('/?key=both&cost=2')->{headers} } 1 .. 2;
    cmp_ok($told[0]{'retry-after'}, '>', 590, 'Redis says the longer wait');
    cmp_ok($told[1]{'retry-after'}, '>', 590, 'and so it is when the shorter one alone could be known');
    $nginx->stop;
};

done_testing;
