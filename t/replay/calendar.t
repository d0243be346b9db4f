# The replay of a year, with rules whose windows a calendar says: windows are those of the log's time.

use v5.36;
use lib 't/lib';
use File::Temp qw(tempdir);
use JSON::PP qw(decode_json);
use RateLimit::Nginx;
use Test::More;

my $program = $ENV{RATE_LIMIT_REPLAY} // 'build/cmake/redis-rate-limit-replay';
my $dir     = tempdir('replay-XXXXXXXX', TMPDIR => 1, CLEANUP => 1);

sub file ($name, $text) {
    RateLimit::Nginx::write_file("$dir/$name", $text);
    return "$dir/$name";
}

my @months = qw(Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec);
sub line ($month, $day, $time) {
    return sprintf qq{192.0.2.1 - - [%02d/%s/2026:%s +0000] "GET / HTTP/1.1" 200 12 "-" "curl"\n}, $day, $months[$month], $time;
}

# Returns the JSON of one rule, or what was complained of.
sub replayed ($log, $parameters, @arguments) {
    my $rules = file('rules.conf', "redis_rate_limit_zone \$remote_addr zone=plan:1m;\nredis_rate_limit zone=plan algorithm=fixed_window name=r $parameters;\n");
    my $text  = qx{$program --json - --rules $rules $log 2>$dir/errors};
    return $? == 0 ? decode_json($text)->{rules}{r} : { error => RateLimit::Nginx::slurp("$dir/errors") };
}

sub sees ($log, $parameters, $expected, $name) {
    my $rule = replayed($log, $parameters);
    is_deeply({ $rule->%{qw(passed rejected)}, none => $rule->{limits}{0} }, $expected, $name) or diag(explain($rule));
}

# One request in January, two in February, ... on the first days of the month.
my $year = file('year.log', join '', map { my $month = $_; map { line($month, 1 + $_, '12:00:00') } 0 .. $month } 0 .. 11);
sees($year, 'window=month limit=5',             { passed => 50, rejected => 28, none => 12 }, 'months');
sees($year, 'window=month limit=12',            { passed => 78, rejected => 0,  none => 12 }, 'a quota that is enough');
sees($year, 'window=quarter limit=10',          { passed => 36, rejected => 42, none => 33 }, 'quarters');
sees($year, 'window=year limit=70',             { passed => 70, rejected => 8,  none => 78 }, 'a year');
sees($year, 'window=month starts=10 limit=5',   { passed => 53, rejected => 25, none => 11 }, 'months from the 10th on');
sees($year, 'window=day limit=1',               { passed => 78, rejected => 0,  none => 1 },  'days');

# By the clocks of Berlin the second request is of the next month.
my $boundary = file('boundary.log', join '', line(0, 31, '22:59:59'), line(0, 31, '23:00:00'), line(1, 28, '22:59:59'), line(1, 28, '23:00:00'));
sees($boundary, 'window=month limit=1', { passed => 2, rejected => 2, none => 2 }, 'months of UTC');
my $berlin = replayed($boundary, 'window=month timezone=Europe/Berlin limit=1');
SKIP: {
    skip 'built without cctz' if ($berlin->{error} // '') =~ /built without/;
    is("$berlin->{passed} $berlin->{rejected} $berlin->{limits}{0}", '3 1 2', 'months of Berlin');
}

like(replayed($year, 'window=month timezone=Europe/Atlantis limit=1')->{error}, qr/invalid timezone "Europe\/Atlantis", expected /, 'an unknown zone is refused');
like(qx{$program --rules $dir/rules.conf $year 2>&1}, qr/invalid timezone/, 'whatever is printed');

my $rules = file('rules.conf', "redis_rate_limit_zone \$remote_addr zone=plan:1m;\nredis_rate_limit zone=plan algorithm=fixed_window limit=5 window=month starts=15;\n");
like(qx{$program --rules $rules $year 2>&1}, qr/^plan\/month +fixed_window limit=5 window=month starts=15$/m, 'the table tells the calendar');

done_testing;
