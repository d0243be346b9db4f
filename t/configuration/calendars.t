# What `nginx -t` says of windows that a calendar says.

use v5.36;
use lib 't/lib';
use File::Basename qw(dirname);
use File::Copy qw(copy);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use RateLimit::Configuration qw(accepts around invalid refuses refuses_line warns $nginx);
use Test::More;

my $month = 'zone=z algorithm=fixed_window limit=5 window=month';

$nginx->configure(around('rule', "$month timezone=Europe/Berlin"));
my ($said) = $nginx->test_configuration;
my $has_zones = $said !~ /built without/;

accepts('rule', "zone=z algorithm=fixed_window limit=5 window=$_") for qw(day week month quarter year);
accepts('rule', "zone=z algorithm=fixed_window limit=5 window=$_ starts=28") for qw(month quarter year);
accepts('rule', "$month starts=1 timezone=UTC cost=2 final_cost=\$arg_final name=plan dry_run phase=precontent");
accepts('rule', 'zone=z algorithm=fixed_window limit=5000 window=month shards=4');
accepts('rule', 'zone=z algorithm=fixed_window limit=5000 window=month lease=auto');
accepts('rule', "$month block=1h");
accepts('rule', 'zone=z algorithm=fixed_window limit=$arg_limit window=day');

refuses('rule', 'zone=z algorithm=fixed_window limit=5 window=fortnight',
    invalid('redis_rate_limit', 'window', 'fortnight', 'a time from 1ms to 366d, such as 60s, or day, week, month, quarter or year'));
for my $algorithm (qw(sliding_log sliding_window token_bucket gcra leaky_bucket concurrency)) {
    refuses('rule', "zone=z algorithm=$algorithm limit=5 window=month",
        invalid('redis_rate_limit', 'parameter window=month with algorithm', $algorithm, 'fixed_window'));
}
refuses('rule', "$month aligned", invalid('redis_rate_limit', 'parameter', 'aligned', 'it without window=month, which is aligned by itself'));
my $alone = 'it beside window=day, week, month, quarter or year alone';
refuses('rule', "zone=z algorithm=fixed_window limit=5 window=30d aligned $_", invalid('redis_rate_limit', split(/=/, $_), $alone))
    for qw(timezone=UTC timezone=Europe/Berlin);
# Whoever follows the message is not refused again.
refuses('rule', "zone=z algorithm=fixed_window limit=5 window=$_ starts=2",
    invalid('redis_rate_limit', 'starts', 2, 'it beside window=month, quarter or year alone')) for qw(day week 30d), '60 aligned';
refuses('rule', "$month starts=$_", invalid('redis_rate_limit', 'starts', $_, 'a day of the month from 1 to 28')) for '', qw(0 29 -1 x 1.5 $arg_starts);
refuses('rule', "$month $_ $_", invalid('redis_rate_limit', split(/=/, $_), 'it only once')) for qw(starts=2 timezone=UTC);

for my $name ('', qw(localtime posixrules Factory posix/UTC right/UTC ../UTC /etc/localtime Europe/ /Berlin Europe//Berlin $arg_zone zone.tab Fixed/UTC+01:00:00), 'x' x 41) {
    refuses('rule', "$month timezone=$name", invalid('redis_rate_limit', 'timezone', $name, 'the name of a time zone, such as Europe/Berlin'));
}
my $expected = $has_zones ? "a time zone of the system's tz database" : 'UTC, for this module was built without the library cctz';
refuses('rule', "$month timezone=$_", invalid('redis_rate_limit', 'timezone', $_, $expected)) for qw(Europe/Atlantis europe/berlin Europe leapseconds);

# The rules of one zone and name.
sub two_rules ($first, $second, $zone = 'z') {
    return <<"END";
redis_rate_limit_zone \$arg_key zone=z:1m;
redis_rate_limit_zone \$arg_key zone=other:1m;
server {
    listen %PORT%;
    location /a { redis_rate_limit zone=z algorithm=fixed_window limit=5 $first; }
    location /b { redis_rate_limit zone=$zone algorithm=fixed_window limit=9 $second; }
}
END
}
sub accepts_both ($first, $second, $zone = 'z') {
    $nginx->configure(two_rules($first, $second, $zone));
    my ($told, $accepted) = $nginx->test_configuration;
    ok($accepted && $told !~ /\[warn\] redis/, "accepted: $first and $second") or diag($told);
}
accepts_both('window=month', 'window=month starts=1 timezone=UTC');
accepts_both('window=month', 'window=month starts=2', 'other');
accepts_both('window=month', 'window=month starts=2 name=later');
accepts_both('window=month', 'window=year');
refuses_line(two_rules('window=month', 'window=month starts=15'), 'limit=9',
    qr/invalid name "z\/month", expected window month as its other rules of the zone have, not month-15: give one a name=/);
# A rule of seconds may have the name, too, wherever it stands.
for my $windows ([ '1d', 'month' ], [ 'month', '1d' ]) {
    my $others = join ' ', map { "redis_rate_limit zone=z algorithm=fixed_window limit=5 window=$windows->[$_] name=plan; } location /of$_ {" } 0, 1;
    refuses_line("redis_rate_limit_zone \$arg_key zone=z:1m; server { listen %PORT%; location /a { $others \n redis_rate_limit zone=z algorithm=fixed_window limit=9 window=month starts=15 name=plan; } }",
        'limit=9', qr/invalid name "plan", expected window month as its other rules of the zone have, not month-15: give one a name=/);
}
refuses('location', 'redis_rate_limit zone=z algorithm=fixed_window limit=5 window=month; redis_rate_limit zone=z algorithm=fixed_window limit=5 window=month starts=2;',
    invalid('redis_rate_limit', 'name', 'z/month', 'each name once on a level: give one of the rules another name='));

SKIP: {
    skip 'built without cctz' if !$has_zones;
    accepts('rule', "$month timezone=$_") for qw(Europe/Berlin America/Argentina/Buenos_Aires Etc/GMT+12);
    refuses_line(two_rules('window=day', 'window=day timezone=Asia/Tokyo'), 'limit=9', qr/expected window day as its other rules of the zone have, not day\@Asia\/Tokyo: give one a name=/);
    accepts_both('window=day', 'window=day timezone=Asia/Tokyo name=tokyo');
}

# Time zones with and without their old names, as Debian 12 and 13 have them: cctz looks in TZDIR. What the old names
# are links to stands in the files of the system.
SKIP: {
    skip 'built without cctz' if !$has_zones;
    skip 'the system has no list of links' if !-e '/usr/share/zoneinfo/tzdata.zi' || !-e '/usr/share/zoneinfo/zone.tab';
    my $database = tempdir('zones-XXXXXXXX', TMPDIR => 1, CLEANUP => 1);
    my %zones = ('America/Los_Angeles' => ['US/Pacific'], 'Asia/Kolkata' => ['Asia/Calcutta'], 'Europe/Prague' => ['Europe/Bratislava'], 'Etc/GMT' => ['GMT', 'Etc/GMT+0']);
    for my $name (keys %zones) {
        make_path("$database/" . dirname($name));
        copy("/usr/share/zoneinfo/$name", "$database/$name") or die "$name: $!";
    }
    local $ENV{TZDIR} = $database;

    refuses('rule', "$month timezone=US/Pacific", invalid('redis_rate_limit', 'timezone', 'US/Pacific', 'America/Los_Angeles, of which it is an old name that this system does not have'));
    refuses('rule', "$month timezone=Asia/Calcutta", invalid('redis_rate_limit', 'timezone', 'Asia/Calcutta', 'Asia/Kolkata, of which it is an old name that this system does not have'));
    refuses('rule', "$month timezone=$_", invalid('redis_rate_limit', 'timezone', $_, $expected)) for qw(US Pacific Europe/Bratislava US/Hawaii);

    for my $name (keys %zones) {
        for my $link ($zones{$name}->@*) {
            make_path("$database/" . dirname($link));
            symlink("$database/$name", "$database/$link") or die "$link: $!";
        }
    }
    warns('rule', "$month timezone=US/Pacific", quotemeta 'timezone "US/Pacific" is an old name that not every system has (Debian 13 has it in tzdata-legacy), expected America/Los_Angeles, with which clients begin a fresh window');
    accepts('rule', "$month timezone=$_") for qw(America/Los_Angeles Asia/Kolkata Europe/Bratislava GMT Etc/GMT+0);
}

done_testing;
