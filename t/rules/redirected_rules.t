# A request that nginx leads from one location to another meets rules of one counter that differ:
# the stricter one holds, whichever comes first, and no unit is charged twice.

use v5.36;
use lib 't/lib';
use List::Util qw(pairs);
use RateLimit::Nginx;
use RateLimit::Redis;
use Test::More;

my $redis = RateLimit::Redis->start_new;

sub rule ($text, $zone = 'z') { return "redis_rate_limit zone=$zone $text;" }

my @locations;

# A location that leads to another one; each has a rule of the same counter. Returns the counter's name.
sub pair ($outer, $inner, %options) {
    my $name = 'case' . (1 + @locations);
    my $zone = $options{zone} // 'z';
    my $more = $options{outer} // '';
    push @locations, "location = /$name { ${\rule(qq($outer name=$name), $zone)} $more try_files /none /inner/$name?\$args; }\n"
        . "location = /inner/$name { ${\rule(qq($inner name=$name), $zone)} try_files /page =404; }";
    return $name;
}

my %by_algorithm = (
    (map { $_ => pair("algorithm=$_ limit=1000 window=600", "algorithm=$_ limit=3 window=600") }
        qw(fixed_window sliding_log sliding_window token_bucket concurrency)),
    gcra         => pair('algorithm=gcra limit=1000 window=600 burst=999', 'algorithm=gcra limit=3 window=600 burst=2'),
    leaky_bucket => pair('algorithm=leaky_bucket limit=1000 window=600 burst=999 delay=999', 'algorithm=leaky_bucket limit=3 window=600 burst=2 delay=2'),
);
my %sharded = map { $_ => pair("algorithm=$_ limit=4000 window=600 shards=2", "algorithm=$_ limit=4 window=600 shards=2") }
    qw(fixed_window token_bucket);

my $log      = 'algorithm=sliding_log window=600';
my $tokens   = 'algorithm=token_bucket window=600';
my $dry_run  = pair("$log limit=3 dry_run", "$log limit=3");
my $level    = pair("$log limit=3", "$log limit=3", outer => 'redis_rate_limit_dry_run on;');
my $peek     = pair("$log limit=3 cost=0", "$log limit=3");
my $dearer   = pair("$log limit=10", "$log limit=10 cost=4");
my $never    = pair("$log limit=10", "$log limit=3 cost=4");
my $cheaper  = pair("$log limit=4 cost=2", "$log limit=10");
my $laxer    = pair("$log limit=3", "$log limit=1000");
my $variable = pair("$log limit=\$arg_outer", "$log limit=\$arg_inner");
my $bucket   = pair("$tokens limit=10", "$tokens limit=10 cost=5");
my $held     = pair("algorithm=leaky_bucket limit=1 window=2 burst=9 delay=9", "algorithm=leaky_bucket limit=1 window=2 burst=9");
my $passes   = pair("algorithm=leaky_bucket limit=1 window=2 burst=9 delay=8", "algorithm=leaky_bucket limit=1 window=2 burst=9 delay=9");
my $local    = pair("$log limit=1000", "$log limit=3", zone => 'local');
my $local_bucket = pair("$tokens limit=1000", "$tokens limit=3", zone => 'local');
my $by_uri   = pair("$log limit=1000", "$log limit=3", zone => 'by_uri');

my @ways = (dropped => 'try_files /none /strict', kept => 'try_files /none /strict?$args', named => 'error_page 404 = @strict', page => 'error_page 404 = /strict');
my $by_argument = join '', map {
    my ($way, $lead) = @$_;
    my $strict = rule("$log limit=3 name=$way", 'by_argument') . ' try_files /page =404;';
    "location /$way/ { ${\rule(qq($log limit=1000 name=$way), 'by_argument')} ${\($lead =~ s/strict/strict_$way/r)}; }\n"
        . "location = /strict_$way { $strict }\nlocation \@strict_$way { $strict }\n";
} pairs @ways;

my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_backend gone { server unix:/no/redis; }
redis_rate_limit_zone \$http_x_case zone=z:1m on_error=closed;
redis_rate_limit_zone \$http_x_case zone=local:1m backend=gone;
redis_rate_limit_zone \$http_x_case\$uri zone=by_uri:1m on_error=closed;
redis_rate_limit_zone \$arg_k zone=by_argument:1m on_error=closed;
limit_req_zone \$arg_k zone=lax:1m rate=1000r/s;
limit_req_zone \$arg_k zone=strict:1m rate=1r/m;
add_header X-Told \$redis_rate_limit_status always;
server {
    listen %PORT%;
    @locations
    $by_argument
    location /other/ { limit_req zone=lax burst=9; try_files /none /other_strict?\$args; }
    location = /other_strict { limit_req zone=strict; try_files /page =404; }
    location = /accel { ${\rule("$log limit=1000 name=accel")} proxy_pass http://unix:%DIR%/upstream.sock; }
    location = /accelerated { internal; ${\rule("$log limit=3 name=accel")} try_files /page =404; }
    location /index/ { ${\rule("$log limit=1000 name=index")} index page; }
    location = /index/page { ${\rule("$log limit=3 name=index")} try_files /index/page =404; }
    location /named {
        ${\rule("$log limit=3 name=inherited")}
        location = /named { redis_rate_limit_dry_run on; error_page 404 = \@named; }
        location = /named/own { try_files /page =404; }
    }
    location \@named { ${\rule("$log limit=3 name=inherited")} try_files /page =404; }
    location /level {
        ${\rule("$log limit=3 name=level")}
        location = /level { redis_rate_limit_dry_run on; try_files /none /level/enforced; }
        location = /level/enforced { try_files /page =404; }
    }
}
server {
    listen unix:%DIR%/upstream.sock;
    location = /accel { add_header X-Accel-Redirect /accelerated; return 204; }
}
END
$nginx->add_page(page => "page\n");
mkdir $nginx->dir . '/html/index';
$nginx->add_page('index/page' => "index\n");

my $client = 0;

# Of so many requests of one client, of whom nothing was known before.
sub statuses ($path, $count) {
    ++$client;
    return join ' ', map { $nginx->get($path, headers => { 'X-Case' => $client })->{status} } 1 .. $count;
}

sub taken ($name) { return $redis->taken("rl:{z:$client}:sliding_log:600000:$name") }

subtest 'a stricter rule behind a laxer one' => sub {
    for my $algorithm (grep { $_ ne 'concurrency' } sort keys %by_algorithm) {
        my $name = $by_algorithm{$algorithm};
        is(statuses("/inner/$name", 5), '200 200 200 429 429', "$algorithm: by itself");
        is(statuses("/$name",       5), '200 200 200 429 429', "$algorithm: behind the laxer one");
    }
    is(statuses("/$by_algorithm{concurrency}", 5), '200 200 200 200 200', 'concurrency: a request takes one permit, and gives it back');
    is(statuses('/accel',  5), '200 200 200 429 429', 'X-Accel-Redirect');
    is(statuses('/index/', 5), '200 200 200 429 429', 'index');
    is(statuses('/named',  5), '200 200 200 429 429', 'error_page to a named location');
};

subtest 'charged once' => sub {
    is(statuses("/$by_algorithm{sliding_log}", 2), '200 200', 'two requests');
    is(taken($by_algorithm{sliding_log}), 2, 'take two units');
    is(statuses("/$dearer", 3), '200 200 429', 'the larger cost counts');
    is(taken($dearer), 9, 'once: 4 + 4, and 1 that the laxer rule took of the request that was denied');
    is(statuses("/$cheaper", 3), '200 200 429', 'a smaller cost of a laxer rule');
    is(taken($cheaper), 4, 'is not charged');
    is(statuses("/$bucket", 3), '200 200 429', 'a larger cost of a bucket');
    is(statuses("/$never", 2), '429 429', 'a cost above the capacity is never granted');
};

subtest 'what the earlier rule did not enforce' => sub {
    is(statuses("/$_->[1]", 5), '200 200 200 429 429', $_->[0])
        for ['a dry run', $dry_run], ['a location in dry run', $level], ['the same rule, which is enforced here', 'level'], ['a peek', $peek];
    is(statuses("/$laxer", 5), '200 200 200 429 429', 'a laxer rule behind a stricter one changes nothing');
    is(taken($laxer), 3, 'and charges nothing');
};

subtest 'what the earlier rule did not hold back' => sub {
    my $told = sub ($path) {
        ++$client;
        return join ' ', map { $nginx->get($path, headers => { 'X-Case' => $client })->{headers}{'x-told'} } 1 .. 2;
    };
    is($told->("/inner/$held"), 'PASSED DELAYED', 'a rule without delay= holds the second request back');
    is($told->("/$held"),       'PASSED DELAYED', 'also behind the same rule with delay=');
    is($told->("/$passes"),     'PASSED PASSED',  'a larger delay= behind a smaller one changes nothing');
};

subtest 'numbers of variables' => sub {
    is(statuses("/$variable?outer=1000&inner=3", 5), '200 200 200 429 429', 'stricter');
    is(statuses("/$variable?outer=3&inner=1000", 5), '200 200 200 429 429', 'laxer');
    is(statuses("/$variable?outer=3&inner=",     5), '200 200 200 429 429', 'exempt');
};

subtest 'on this host alone' => sub {
    is(statuses("/$local",        5), '200 200 200 429 429', 'sliding_log');
    is(statuses("/$local_bucket", 5), '200 200 200 429 429', 'token_bucket');
};

subtest 'shards' => sub {
    for my $algorithm (sort keys %sharded) {
        my $passed = () = statuses("/$sharded{$algorithm}", 30) =~ /200/g;
        is($passed, 4, "$algorithm: as many as the shards of the stricter rule have");
    }
};

is(statuses("/$by_uri", 5), '200 200 200 429 429', 'another key behind the redirect is charged in full');

subtest 'a key out of the query' => sub {
    my $all     = join ' ', (200) x 5;
    my $limited = '200 200 200 429 429';
    is(statuses('/dropped/?k=1', 5), $all,     'is empty where the query is dropped');
    is(statuses('/page/?k=1',    5), $all,     'as by error_page');
    is(statuses('/kept/?k=1',    5), $limited, 'holds where the query is kept');
    is(statuses('/named/?k=1',   5), $limited, 'or the location has a name');
    is(statuses('/other/?k=1',   5), $all,     'limit_req applies no second limit');
};

subtest 'headers' => sub {
    my $name = $by_algorithm{sliding_log};
    ++$client;
    my $ask  = sub { $nginx->get("/$name", headers => { 'X-Case' => $client }) };
    my $headers = $ask->()->{headers};
    is($headers->{'x-ratelimit-limit'},     3, 'are those of the stricter rule');
    is($headers->{'x-ratelimit-remaining'}, 2, 'with what it has left');
    is($headers->{'ratelimit-policy'}, qq("$name";q=3;w=600), 'each name stands once');
    $ask->() for 1 .. 2;
    my $denied = $ask->();
    is($denied->{status}, 429, 'denied');
    like($denied->{headers}{'retry-after'}, qr/^(?:599|600)$/, 'both rules grant after that time');
};

$nginx->stop;
done_testing;
