# What `nginx -t` says of redis_rate_limit: each parameter, and the rules of a level together.

use v5.36;
use lib 't/lib';
use RateLimit::Configuration qw(accepts around invalid refuse_all refuses refuses_line warns $long_name $of_names $rule);
use Test::More;

# --- a rule

for my $without (qw(zone algorithm limit window)) {
    my $words = join ' ', grep { !/^$without=/ } split ' ', $rule;
    refuses('rule', $words, qr/redis_rate_limit: missing "$without="/);
}
for my $again (qw(zone=z algorithm=sliding_log limit=2 limit=$arg_limit window=30)) {
    my ($parameter, $value) = split /=/, $again;
    refuses('rule', "$rule $again", invalid('redis_rate_limit', $parameter, $value, 'it only once'));
}
for my $again (qw(name=a burst=1 delay=1 cost=1 shards=1 phase=access)) {
    my ($parameter, $value) = split /=/, $again;
    refuses('rule', "zone=z algorithm=leaky_bucket limit=1 window=60 $again $again", invalid('redis_rate_limit', $parameter, $value, 'it only once'));
}
for my $flag (qw(aligned dry_run)) {
    my $rule = 'zone=z algorithm=fixed_window limit=1 window=60';
    refuses('rule', "$rule $flag $flag", invalid('redis_rate_limit', 'parameter', $flag, 'it only once'));
    refuses('rule', "$rule $flag=on",    invalid('redis_rate_limit', 'parameter', "$flag=on", 'no value'));
}

for my $value ('', qw(0 0s 0ms abc -1 1.5s 60sec 1s1m 367d 1y2d 99999999999999999999 $arg_window)) {
    for my $algorithm (qw(sliding_log concurrency)) {
        refuses(
            'rule',
            "zone=z algorithm=$algorithm limit=1 window=$value",
            invalid('redis_rate_limit', 'window', $value, 'a time from 1ms to 366d')
        );
    }
}
# Permits have to be renewed within their window.
for my $window (qw(1ms 10ms 199ms)) {
    refuses('rule', "zone=z algorithm=concurrency limit=3 window=$window", invalid('redis_rate_limit', 'window', $window, 'at least 200ms with concurrency'));
    accepts('rule', "zone=z algorithm=sliding_log limit=3 window=$window");
}
accepts('rule', 'zone=z algorithm=concurrency limit=3 window=200ms');
for my $value ('', qw(-1 +1 1000000001 99999999999999999999 abc 0x10 1e3 1.5 10r/s inf nan)) {
    my $rule     = 'zone=z algorithm=leaky_bucket window=60';
    my $expected = 'a whole number from 0 to 1000000000';
    refuses('rule', "$rule limit=$value", invalid('redis_rate_limit', 'limit', $value, $expected));
    refuses('rule', "$rule limit=1 $_=$value", invalid('redis_rate_limit', $_, $value, $expected)) for qw(burst delay cost);
}
refuses('rule', 'zone=z algorithm=leaky_bucket limit=1 window=60 delay=$arg_delay', invalid('redis_rate_limit', 'delay', '$arg_delay', 'a whole number'));
for my $number (qw(limit=1000001 cost=1001)) {
    my ($parameter, $value) = split /=/, $number;
    my $most  = $value - 1;
    my $words = join ' ', grep { !/^$parameter=/ } split ' ', $rule;
    refuses('rule', "$number $words", invalid('redis_rate_limit', $parameter, $value, "a whole number from 0 to $most with sliding_log"));
}
for my $parameter (qw(limit burst cost)) {
    my $words = join ' ', grep { !/^$parameter=/ } split ' ', 'zone=z algorithm=gcra window=60 limit=1';
    refuses('rule', "$words $parameter=\$no_such", qr/unknown "no_such" variable/);
    refuses('rule', "$words $parameter=5\$",       qr/invalid variable name/);
}

# --- blocks
my $blocks = 'zone=z algorithm=sliding_log limit=100 window=10';
accepts('rule', "$blocks block=$_") for qw(1s 15m 366d 1000ms 1500ms);
accepts('rule', "zone=z algorithm=concurrency limit=3 block=1m");
accepts('rule', "$blocks block=1m $_") for qw(dry_run shards=1 lease=off);
for my $value ('', qw(0 999ms 367d -1 off abc $arg_block)) {
    refuses('rule', "$blocks block=$value", invalid('redis_rate_limit', 'block', $value, 'a time from 1s to 366d, such as 15m'));
}
refuses('rule', "$blocks block=1m block=2m", invalid('redis_rate_limit', 'block', '2m', 'it only once'));
refuses('rule', "$blocks block=1m lease=auto", invalid('redis_rate_limit', 'lease', 'auto', 'off with block'));
refuses('rule', "$blocks block=1m shards=2", invalid('redis_rate_limit', 'shards', '2', '1 with block'));

# --- leases

my $lease = 'zone=z algorithm=fixed_window limit=100 window=10';
accepts('rule', "$lease lease=$_") for qw(off auto 1ms 2500ms 2s);
for my $value ('', qw(0 0s on 10001ms 11s -1 abc $arg_lease)) {
    refuses('rule', "$lease lease=$value", invalid('redis_rate_limit', 'lease', $value, 'off, auto or a time from 1ms to 10s'));
}
refuses('rule', "$lease lease=2501ms", invalid('redis_rate_limit', 'lease', '2501ms', 'at most 2500ms, a quarter of'));
refuses('rule', 'zone=z algorithm=fixed_window limit=$arg_limit window=10 lease=2501ms', invalid('redis_rate_limit', 'lease', '2501ms', 'at most 2500ms, a quarter of'));
accepts('rule', 'zone=z algorithm=gcra limit=$arg_limit window=10 lease=2501ms');
refuses('rule', 'zone=z algorithm=gcra limit=1000 window=1 lease=1ms', invalid('redis_rate_limit', 'lease', '1ms', 'off, for leases hold for at most a quarter of'));
refuses('rule', "$lease lease=auto lease=off", invalid('redis_rate_limit', 'lease', 'off', 'it only once'));
refuses('rule', "$lease lease=auto shards=2", invalid('redis_rate_limit', 'lease', 'auto', 'off with shards'));
refuses('rule', 'zone=z algorithm=concurrency limit=100 lease=auto', invalid('redis_rate_limit', 'parameter lease with algorithm', 'concurrency', 'fixed_window, sliding_log, sliding_window, token_bucket, gcra or leaky_bucket'));
my $leaky = 'zone=z algorithm=leaky_bucket limit=100 window=1 burst=50 lease=auto';
refuses('rule', "$leaky delay=49", invalid('redis_rate_limit', 'lease', 'auto', 'off, or a delay of at least the burst'));
accepts('rule', "$leaky delay=50");
accepts('rule', 'zone=z algorithm=leaky_bucket limit=100 window=1 burst=$arg_burst delay=49 lease=auto');
for my $few ('limit=15 window=10', 'limit=100 window=39ms') {
    warns('rule', "zone=z algorithm=sliding_log $few lease=auto", qr/redis_rate_limit: lease "auto" leases nothing, expected a capacity of at least 16/);
}
accepts('rule', 'zone=z algorithm=sliding_log limit=$arg_limit window=10 lease=auto');

for my $value ('', qw(sliding_logs SLIDING_LOG leaky)) {
    refuses(
        'rule',
        "zone=z algorithm=$value limit=1 window=60",
        invalid(
            'redis_rate_limit', 'algorithm', $value,
            'fixed_window, sliding_log, sliding_window, token_bucket, gcra, leaky_bucket or concurrency'
        )
    );
}
my @algorithms = qw(fixed_window sliding_log sliding_window token_bucket gcra leaky_bucket concurrency);
my %taken_by   = (
    'burst=1'          => 'token_bucket, gcra or leaky_bucket',
    'burst=$arg_burst' => 'token_bucket, gcra or leaky_bucket',
    'delay=0'          => 'leaky_bucket',
    'aligned'          => 'fixed_window',
);
for my $parameter (sort keys %taken_by) {
    my $name = $parameter =~ s/=.*//r;
    for my $algorithm (@algorithms) {
        my $words = "$parameter zone=z algorithm=$algorithm limit=1 window=60";
        if ($taken_by{$parameter} =~ /\b$algorithm\b/) {
            accepts('rule', $words);
        } else {
            refuses('rule', $words, invalid('redis_rate_limit', "parameter $name with algorithm", $algorithm, $taken_by{$parameter}));
        }
    }
}
# capacity * T / N: 3653 days are 10 years
for my $bucket (
    'token_bucket burst=10',
    'gcra burst=9',
    'leaky_bucket burst=9',
    map { 'token_bucket burst=' . 99_999_999 * $_ } 1 .. 10 # also where microseconds exceed 64 bits
    )
{
    my ($burst) = $bucket =~ /burst=(\d+)/;
    refuses(
        'rule',
        "zone=z limit=1 window=366d algorithm=$bucket",
        invalid('redis_rate_limit', 'burst', $burst, 'a bucket that fills, by limit and window, within 10 years')
    );
}
for my $value ('', qw(0 -1 65 1.5 $arg_shards)) {
    refuses('rule', "$rule shards=$value", invalid('redis_rate_limit', 'shards', $value, 'a whole number from 1 to 64'));
}
my %most_shards = (
    'sliding_log limit=7'                   => 7,
    'gcra limit=100'                        => 1,
    'gcra limit=100 burst=6'                => 7,
    'gcra limit=7 burst=100'                => 7,
    'token_bucket limit=100 burst=7'        => 7,
    'sliding_log limit=23 cost=3'           => 7,
    'token_bucket limit=100 burst=23 cost=3' => 7,
);
for my $spread (sort keys %most_shards) {
    my ($words, $most) = ("zone=z window=60 algorithm=$spread", $most_shards{$spread});
    refuses('rule', "$words shards=8", invalid('redis_rate_limit', 'shards', 8, "at most $most, so that each has room for a request"));
    warns('rule', "$words shards=$most", qr/redis_rate_limit: shards "7" leave room for \d+ at once in a shard/) if $most > 1;
}
# What matters is what passes at once in each shard, for it is full so often. The warning is of 16.
my $few = qr/redis_rate_limit: shards "64" leave room for 1 at once in a shard, and deny many requests of clients that keep to the limit, expected at most 4/;
warns('rule', 'zone=z algorithm=gcra limit=100000 window=1s burst=63 shards=64', $few);
warns('rule', 'zone=z algorithm=concurrency limit=64 shards=64',                 $few);
for my $spread ('gcra limit=100000 burst=1023', 'token_bucket limit=1024', 'sliding_log limit=1024', 'fixed_window limit=$arg_limit', 'gcra limit=100000 burst=$arg_burst') {
    accepts('rule', "zone=z window=1s algorithm=$spread shards=64");
}
warns('rule', 'zone=z window=1s algorithm=sliding_log limit=31 shards=2', qr/shards "2" leave room for 15 at once in a shard, .*expected at most 1/);
for my $value ('', 'a:b', 'a{b}', "n$long_name", "\xc3\xa4") {
    refuses('rule', qq($rule "name=$value"), invalid('redis_rate_limit', 'name', $value, $of_names));
    refuses(
        'rule',
        qq("zone=$value" algorithm=sliding_log limit=1 window=60),
        invalid('redis_rate_limit', 'zone', $value, $of_names)
    );
}
for my $value ('', qw(preaccess Access on)) {
    refuses('rule', "$rule phase=$value", invalid('redis_rate_limit', 'phase', $value, 'access or precontent'));
}
my $known = 'one of zone, algorithm, limit, burst, delay, cost, final_cost, window, timezone, starts, aligned, shards, lease, block, phase, name, dry_run';
for my $word (qw(z dry_runs nodelay rate=1 Limit=1)) {
    refuses('rule', "$rule $word", invalid('redis_rate_limit', 'parameter', $word =~ s{=.*}{}r, $known));
}
refuses('rule', "$rule burst", invalid('redis_rate_limit', 'parameter', 'burst', 'name=value'));

# --- the rules of a level

my $log  = "redis_rate_limit $rule";
my $gcra = 'redis_rate_limit zone=z algorithm=gcra limit=1';
my $once = 'each name once on a level';
refuse_all(
    location => (
        'redis_rate_limit;'                 => qr/invalid number of arguments in "redis_rate_limit"/,
        "redis_rate_limit off $rule;"       => invalid('redis_rate_limit', 'parameter', 'off', 'off alone on a level'),
        "$log off;"                         => invalid('redis_rate_limit', 'parameter', 'off', $known),
        "redis_rate_limit off; $log;"       => invalid('redis_rate_limit', 'parameter', 'zone=z', 'off alone on a level'),
        "$log; redis_rate_limit off;"       => invalid('redis_rate_limit', 'parameter', 'off', 'off alone on a level'),
        ('redis_rate_limit off;' x 2)       => invalid('redis_rate_limit', 'parameter', 'off', 'off alone on a level'),
        "limit_except GET { $log; }"        => qr/"redis_rate_limit" directive is not allowed here/,
        "$log; $log;"                       => invalid('redis_rate_limit', 'name', 'z/60s', $once),
        "$log name=a; $gcra window=1 name=a;" => invalid('redis_rate_limit', 'name', 'a', $once),
        "$log; $gcra window=1m;"            => invalid('redis_rate_limit', 'name', 'z/60s', $once),
        "$log; $gcra window=1 name=z/60s;"  => invalid('redis_rate_limit', 'name', 'z/60s', $once),
        "$log; $log phase=precontent;"      => invalid('redis_rate_limit', 'name', 'z/60s', $once),
        "$log; $log dry_run;"               => invalid('redis_rate_limit', 'name', 'z/60s', $once),
        'redis_rate_limit zone=z algorithm=concurrency limit=1; redis_rate_limit zone=z algorithm=concurrency limit=1 window=5;' =>
            invalid('redis_rate_limit', 'name', 'z/concurrency', $once),
        join(' ', map { "$log name=$_;" } 1 .. 13) =>
            invalid('redis_rate_limit', 'number of rules', 13, '12 of a phase on a level at most'),
        join(' ', map { "$log phase=precontent name=$_;" } 1 .. 13) =>
            invalid('redis_rate_limit', 'number of rules', 13, '12 of a phase on a level at most'),
    )
);

# --- what is odd, and passes

warns('rule', 'zone=z algorithm=token_bucket limit=5 window=1 burst=0', qr/redis_rate_limit: burst "0" is the size of a token_bucket, and denies every request/);
accepts('rule', 'zone=z algorithm=token_bucket limit=5 window=1 burst=1');
accepts('rule', 'zone=z algorithm=token_bucket limit=5 window=1 burst=0 cost=0');
accepts('rule', 'zone=z algorithm=gcra limit=5 window=1 burst=0');
my %most_cost = (
    'gcra limit=100'                       => [ 1,   'burst' ],
    'gcra limit=$arg_limit burst=3'        => [ 4,   'burst' ],
    'leaky_bucket limit=100 burst=3'       => [ 4,   'burst' ],
    'token_bucket limit=100'               => [ 100, 'burst' ],
    'token_bucket limit=100 burst=7'       => [ 7,   'burst' ],
    'token_bucket limit=$arg_limit burst=7' => [ 7,   'burst' ],
    map { ("$_ limit=5" => [ 5, 'limit' ]) } qw(fixed_window sliding_log sliding_window concurrency),
);
for my $words (sort keys %most_cost) {
    my ($most, $parameter) = $most_cost{$words}->@*;
    my $rule = "zone=z window=60 algorithm=$words";
    accepts('rule', "$rule cost=$most");
    my $cost    = $most + 1;
    my $message = qr/redis_rate_limit: cost "$cost" is more than the rule can ever grant, and denies every request, expected at most $most, or a larger $parameter in \S+nginx\.conf:\d+$/m;
    warns('rule', "$rule cost=$cost",         $message);
    warns('rule', "$rule cost=$cost dry_run", $message);
}
warns('rule', 'zone=z window=60 algorithm=sliding_log limit=8 shards=8 cost=9', qr/cost "9" is more than the rule can ever grant/);
accepts('rule', "zone=z window=60 algorithm=$_")
    for 'gcra limit=5 burst=$arg_burst cost=9', 'sliding_log limit=$arg_limit cost=1000', 'token_bucket limit=$arg_limit cost=1000000000', 'gcra limit=5 cost=$arg_cost',
    'fixed_window limit=0 cost=5', 'gcra limit=0 cost=5';

for my $burst ('', 0, 4) {
    my $words = 'zone=z algorithm=leaky_bucket limit=5 window=1' . ($burst eq '' ? '' : " burst=$burst");
    my $most  = $burst || 0;
    my $delay = $most + 1;
    warns('rule', "$words delay=$delay", qr/redis_rate_limit: delay "$delay" is larger than burst "$most", so that no request is held back, expected at most $most in \S+nginx\.conf:\d+$/m);
    accepts('rule', "$words delay=$most");
}
accepts('rule', 'zone=z algorithm=leaky_bucket limit=5 window=1 burst=$arg_burst delay=9');

my $fixed = 'redis_rate_limit zone=z algorithm=fixed_window limit=5 window=60';
warns(
    'location',
    "$fixed; location /a { $fixed aligned; } location /b { $fixed aligned; }",
    qr/redis_rate_limit: rules share the counter "z\/60s" of zone "z", some aligned and some not.* in \S+nginx\.conf:\d+$/m
);
accepts('location', "$fixed; location /a { $fixed; }");
accepts('location', "$fixed; location /a { $fixed aligned name=a; }");

# What shows only after all has been read.
refuses_line(
    around(location => "\n\nredis_rate_limit zone=nowhere algorithm=sliding_log limit=1 window=60;\n"),
    'nowhere', qr/redis_rate_limit: unknown zone "nowhere", expected one that a redis_rate_limit_zone line defines,/
);
my $other_algorithm = invalid('redis_rate_limit', 'name', 'z/60s', 'algorithm=sliding_log as its other rules of the zone have, or another name=');
refuses_line(around(location => "$log;\n location /a {\n $gcra window=60;\n }\n"), 'gcra', $other_algorithm);
# limit_req has one zone for a location with nodelay and one without.
my $leaky_for_all = sub ($first) { invalid('redis_rate_limit', 'name', 'z/1s', "algorithm=$first as its other rules of the zone have, or algorithm=leaky_bucket for all of them, with delay= as large as burst= where no request is to be held back, or another name=") };
for my $pair ([qw(gcra leaky_bucket)], [qw(leaky_bucket gcra)]) {
    my ($first, $second) = map { "redis_rate_limit zone=z algorithm=$_ limit=10 window=1 burst=5;" } @$pair;
    refuses_line(around(location => "$first\n location /a {\n $second\n }\n"), "algorithm=$pair->[1]", $leaky_for_all->($pair->[0]));
}
my $together = 'redis_rate_limit zone=z algorithm=leaky_bucket limit=10 window=1 burst=5';
accepts('location', "$together delay=5; location /a { $together; }");
refuses_line(
    around(location => "$log;") . "server { listen %PORT%; server_name other;\n $gcra window=1 name=z/60s;\n }\n",
    'gcra', $other_algorithm
);
refuses_line(
    around(location => "redis_rate_limit zone=z algorithm=sliding_log limit=10 window=60 shards=4;\n location /a {\n $log;\n }\n"),
    'limit=1 ', invalid('redis_rate_limit', 'shards', 1, 'shards=4 as the other rules of its counter have, or another name=')
);

# --- what is no mistake

for my $window (qw(60 60s 1m 500ms 1ms 1m30s 1h 366d)) {
    accepts('rule', "zone=z algorithm=sliding_log limit=1 window=$window");
}
for my $limit (qw(0 1 007 1000000)) {
    accepts('rule', "zone=z algorithm=sliding_log limit=$limit window=60");
}
for my $rule ('fixed_window limit=1000000000', 'fixed_window limit=0 aligned', 'sliding_window limit=1000000000',
    'token_bucket limit=0', 'token_bucket limit=1000000000 burst=1', 'gcra limit=0 burst=5', 'gcra limit=7 burst=1000000',
    'leaky_bucket limit=1000000000 burst=1000000000 delay=1000000000', 'leaky_bucket limit=1 burst=5 delay=5',
    'concurrency limit=1000000000', 'sliding_log limit=1000 cost=1000', 'fixed_window limit=1000000000 cost=1000000000', 'sliding_window limit=0 cost=0',
    'sliding_log limit=$arg_limit cost=$arg_cost', 'token_bucket limit=1${arg_limit}0 burst=$arg_burst cost=$1', 'gcra limit=1 burst=$arg_burst')
{
    accepts('rule', "zone=z algorithm=$rule window=60");
}
accepts('rule', 'zone=z algorithm=concurrency limit=1');
accepts('rule', "zone=z window=60 shards=8 algorithm=$_") for 'sliding_log limit=128', 'sliding_log limit=384 cost=3', 'sliding_log limit=0',
    'gcra limit=8 burst=127', 'gcra limit=1 burst=$arg_burst', 'concurrency limit=$arg_limit';
accepts('location', 'redis_rate_limit zone=z algorithm=gcra limit=64 burst=1023 window=60 shards=64; location /a { redis_rate_limit zone=z algorithm=gcra limit=1 window=60 name=a; }');
accepts('rule', "zone=z algorithm=$_ limit=1 window=365d burst=8") for qw(token_bucket gcra leaky_bucket);
accepts('rule', "$rule phase=$_ dry_run name=a") for qw(access precontent);
accepts('location', "$log; $gcra window=1;");
accepts('location', "$log name=a; $log name=b; $log;");
accepts('location', join ' ', map { ("$log name=$_;", "$log name=p$_ phase=precontent;") } 1 .. 12);
accepts('location', "$log; location /a { redis_rate_limit off; location /a/b { $log; if (\$arg_a) { $log; } } }");
accepts('location', "$log name=a; location /a { redis_rate_limit zone=z algorithm=sliding_log limit=5 window=5 name=a; }");
accepts('http', <<'END'); # a name in each of two zones
redis_rate_limit_zone $uri zone=a:1m;
redis_rate_limit_zone $uri zone=b:1m;
redis_rate_limit zone=a algorithm=gcra limit=1 window=1 name=n;
server { listen %PORT%; server_name other; redis_rate_limit zone=b algorithm=sliding_log limit=1 window=1 name=n; }
END
accepts('rule', "$rule name=$long_name");
accepts('rule', "window=60 limit=1 algorithm=sliding_log zone=z");
accepts('rule', 'off');

done_testing;
