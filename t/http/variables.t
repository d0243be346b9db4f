# Numbers that variables give to rules, and variables that tell what rules did.

use v5.36;
use lib 't/lib';
use IO::Socket::IP;
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis    = RateLimit::Redis->start_new;
my $nobody   = empty_port();
my $mapped   = empty_port();
my $has_ipv6 = IO::Socket::IP->new(LocalHost => '::1', Listen => 1);
my $ipv6     = $has_ipv6 ? "listen [::1]:%PORT%; listen [::]:$mapped ipv6only=off;" : '';

my @names = qw(status source rule limit remaining reset retry_after);
my $told  = join '|', map { "\$redis_rate_limit_$_" } @names;

# What may be given: to which algorithm, with what other numbers.
my %given = (
    limit       => 'gcra window=60 limit=$value',
    burst       => 'gcra window=60 limit=1000000 burst=$value',
    cost        => 'gcra window=60 limit=1 burst=10 cost=$value',
    'log-limit' => 'sliding_log window=60 limit=$value',
    'log-cost'  => 'sliding_log window=60 limit=10 cost=$value',
    'decade-limit' => 'gcra window=366d limit=$value burst=9',
    'decade-burst' => 'token_bucket window=366d limit=1 burst=$value',
);
my $locations = '';
for my $zone (qw(open closed)) {
    $locations .= <<"END" for sort keys %given;
location ~ (?s)^/$zone/$_/(?<value>.*)\$ {
    redis_rate_limit zone=beside algorithm=fixed_window limit=1000 window=1h name=beside;
    redis_rate_limit zone=$zone algorithm=$given{$_} name=$_;
    empty_gif;
}
END
}
my %changing = (
    (map { $_ => 'limit=$arg_n window=300d' } qw(fixed_window sliding_log sliding_window)),
    (map { $_ => 'limit=1 burst=$arg_n window=60' } qw(token_bucket gcra)),
    leaky_bucket => 'limit=1 burst=$arg_n delay=100 window=60',
);
for (sort keys %changing) {
    $locations .= "location /changing/$_ { redis_rate_limit zone=closed algorithm=$_ $changing{$_} name=$_; empty_gif; }\n";
}

my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_backend nobody { server 127.0.0.1:$nobody; }
redis_rate_limit_zone \$uri zone=open:1m   on_error=open;
redis_rate_limit_zone \$uri zone=closed:1m on_error=closed;
redis_rate_limit_zone \$uri zone=beside:1m on_error=closed;
redis_rate_limit_zone \$arg_client zone=clients:1m on_error=closed;
redis_rate_limit_zone \$redis_rate_limit_addr zone=addr:1m on_error=closed;
redis_rate_limit_zone \$uri zone=down-open:1m backend=nobody on_error=open;
redis_rate_limit_zone \$uri zone=down-closed:1m backend=nobody on_error=closed;
redis_rate_limit_headers ietf;
map \$arg_client \$limit_of_client { default 2; gold 4; staff ''; banned 0; }

log_format told '\$request_uri $told';
log_format time '\$redis_rate_limit_time \$request_time';
access_log %DIR%/told.log told;
add_header X-Told '$told' always;
add_header X-Time \$redis_rate_limit_time always;
add_header X-Addr \$redis_rate_limit_addr always;
set_real_ip_from 127.0.0.1;
set_real_ip_from unix:;
real_ip_header X-Real-IP;

server {
    listen %PORT%;
    $ipv6
    $locations
    location /priced { redis_rate_limit zone=clients algorithm=fixed_window limit=\$limit_of_client cost=\$arg_cost window=1h name=priced; empty_gif; }
    location /clients {
        redis_rate_limit zone=clients algorithm=fixed_window limit=\$limit_of_client window=1h name=client;
        redis_rate_limit zone=beside algorithm=fixed_window limit=1000 window=1h name=beside;
        empty_gif;
    }

    location /log { redis_rate_limit zone=closed algorithm=sliding_log limit=2 window=60; empty_gif; }
    location /delay {
        redis_rate_limit zone=closed algorithm=leaky_bucket limit=2 window=1 burst=1 name=delay;
        access_log %DIR%/told.log told;
        access_log %DIR%/time.log time;
        empty_gif;
    }
    location /page { redis_rate_limit zone=closed algorithm=gcra limit=1 window=60 name=page; error_page 429 = \@page; empty_gif; }
    location \@page { try_files /none =404; }
    location /several {
        redis_rate_limit zone=closed algorithm=fixed_window limit=4 window=60 name=four;
        redis_rate_limit zone=closed algorithm=fixed_window limit=2 window=50 name=two;
        redis_rate_limit zone=closed algorithm=fixed_window limit=2 window=40 name=short;
        empty_gif;
    }
    location /zero {
        redis_rate_limit zone=closed algorithm=fixed_window limit=5 window=60 name=beside-zero;
        redis_rate_limit zone=closed algorithm=fixed_window limit=0 window=60 name=zero;
        empty_gif;
    }
    location /none { empty_gif; }
    location /empty-key { redis_rate_limit zone=clients algorithm=fixed_window limit=0 window=60; empty_gif; }
    location /return { redis_rate_limit zone=closed algorithm=fixed_window limit=0 window=60 name=return; return 200; }
    location /down-open { redis_rate_limit zone=down-open algorithm=gcra limit=1 window=60 name=down; empty_gif; }
    location /down-closed { redis_rate_limit zone=down-closed algorithm=gcra limit=1 window=60 name=down; empty_gif; }
    location /down-beside {
        redis_rate_limit zone=down-open algorithm=gcra limit=1 window=60 name=down;
        redis_rate_limit zone=closed algorithm=fixed_window limit=2 window=60 name=up;
        empty_gif;
    }

    location /address { redis_rate_limit zone=addr algorithm=fixed_window limit=1 window=1h; empty_gif; }
    location /via-unix { proxy_pass http://unix:%DIR%/inner.sock:/; proxy_set_header X-Real-IP ''; add_header X-Outer outer; }
}
server {
    listen unix:%DIR%/inner.sock;
    location / { empty_gif; }
}
END

my @asked; # lines that told.log must have

sub asks ($path, %options) {
    my $response = $nginx->get($path, %options);
    push @asked, "$path " . ($response->{headers}{'x-told'} // '');
    return $response;
}

sub tells ($path, $status, $told, $what) {
    my $response = asks($path);
    is("$response->{status} $response->{headers}{'x-told'}", "$status $told", $what);
    return $response;
}

# The names of the rules that a response tells of.
sub rules ($response) { return join ' ', ($response->{headers}{'ratelimit-policy'} // '') =~ /"(.*?)"/g }

sub escaped ($text) { return $text =~ s/([^A-Za-z0-9.+-])/sprintf '%%%02X', ord $1/ger }

# --- numbers that variables give

subtest 'a limit for each client' => sub {
    my %statuses = (any => '200 200 429 429 429', gold => '200 200 200 200 429', staff => '200 200 200 200 200', banned => '429 429 429 429 429');
    for my $client (sort keys %statuses) {
        is($nginx->statuses("/clients?client=$client", 5), $statuses{$client}, $client);
    }
    is(rules($nginx->get('/clients?client=other')), 'client beside', 'rules with and without variables hold together');
    is($nginx->get('/priced?client=staff&cost=abc')->{status}, 200, 'an exemption holds beside another variable that is no number');
    unlike($nginx->error_log, qr/invalid cost "abc"/, 'which the log does not tell of');
    is($nginx->get('/priced?client=other&cost=abc')->{status}, 503, 'which else is one');
    my $passed = $nginx->get('/clients?client=staff');
    is(rules($passed), 'beside', 'an empty variable: this rule does not apply, the other does');
    # client: 2 + 4 + 5 of the first loop, and the two after it
    like($passed->{headers}{ratelimit}, qr/^"beside";r=987;/, 'and counts what passed');
};

my @no_numbers = (
    qw(abc -1 +5 0x10 1e3 inf nan 5.0 1_000 9007199254740993 1000000001 18446744073709551621), ' 5', '5 ', "5\n", ' ', "\xd9\xa5",
    'a' x 1000,
);

for my $parameter (qw(limit burst cost)) {
    subtest "what is no number: $parameter" => sub {
        for my $value (@no_numbers) {
            my $shown = substr escaped($value), 0, 30;
            my $open  = asks("/open/$parameter/" . escaped($value));
            is("$open->{status} " . rules($open), '200 beside', "$shown: the rule is not applied, the other is");
            my $closed = asks("/closed/$parameter/" . escaped($value));
            is("$closed->{status} $closed->{headers}{'x-told'}", "503 ERROR_CLOSED|none|$parameter||||", "$shown: closed");
            is(rules($closed), '', 'without headers');
        }
        for my $value (0, 7, '007', 1_000_000_000) {
            my $response = asks("/closed/$parameter/$value");
            isnt($response->{status}, 503, "$value is one");
        }
        is(rules(asks("/closed/$parameter/")), 'beside', 'an empty one');
    };
}

subtest 'numbers that an algorithm does not take' => sub {
    my %largest = ('log-limit' => 1_000_000, 'log-cost' => 1000, 'decade-burst' => 9);
    for my $parameter (sort keys %largest) {
        isnt($nginx->get("/closed/$parameter/$largest{$parameter}")->{status}, 503, "$parameter: $largest{$parameter}");
        is($nginx->get('/closed/' . $parameter . '/' . ($largest{$parameter} + 1))->{status}, 503, "$parameter: not one more");
        is($nginx->get('/open/' . $parameter . '/' . ($largest{$parameter} + 1))->{status}, 200, "$parameter: open");
    }
    is($nginx->get('/closed/decade-limit/1')->{status}, 503, 'a limit with which the bucket fills in more than 10 years');
    is($nginx->get('/closed/decade-limit/2')->{status}, 200, 'one with which it fills sooner');
};

# Whether the line comes when such a request is repeated.
sub logs ($path, $line, $what) {
    ok(wait_until(sub { asks($path); $nginx->error_log =~ /\[error\] .*\Qredis_rate_limit: invalid $line\E, client: / }), $what);
}

subtest 'in the log' => sub {
    logs('/open/limit/abc', 'limit "abc", expected a whole number from 0 to 1000000000, rule "limit"', 'value, expectation and rule');
    logs('/closed/burst/%22%0A' . 'x' x 100, 'burst "\x22\x0a' . 'x' x 62 . '", expected a whole number from 0 to 1000000000, rule "burst"', 'escaped, and cut');
    logs('/open/log-limit/1000001', 'limit "1000001", expected a whole number from 0 to 1000000, rule "log-limit"', "the largest of the algorithm");
    logs('/open/log-cost/1001', 'cost "1001", expected a whole number from 0 to 1000, rule "log-cost"', 'of costs');
    logs('/open/decade-burst/10', 'burst "10", expected a whole number from 0 to 9, rule "decade-burst"', 'what fills in 10 years');
    logs('/open/decade-limit/1', 'burst "9", expected a whole number from 0 to 8, rule "decade-limit"', 'also with gcra');
    my %lines;
    ++$lines{$_} for $nginx->error_log =~ /^(\S+ \S+) .* invalid/mg;
    is(join(' ', grep { $lines{$_} > 1 } keys %lines), '', 'at most one line a second');
};

for my $algorithm (sort keys %changing) {
    subtest "the numbers of $algorithm change" => sub {
        my $one_more = $algorithm =~ /gcra|leaky/ ? 1 : 0; # capacity: burst + 1
        my $left     = sub ($n) {
            my $response = $nginx->get("/changing/$algorithm?n=" . ($n - $one_more));
            return "$response->{status} " . ($response->{headers}{ratelimit} =~ /r=(\d+)/)[0];
        };
        is($left->(5), "200 $_", "of 5: $_ left") for 4, 3, 2;
        is($left->(3),  '429 0', 'none of 3');
        is($left->(10), '200 6', 'of 10 as many more');
    };
}

# --- what rules did

subtest 'of one rule' => sub {
    my $rule = 'closed/60s';
    my $time = tells('/log', 200, "PASSED|redis|$rule|2|1|60|", 'passed')->{headers}{'x-time'};
    like($time, qr/^\d+\.\d{6}$/, 'seconds, six decimals');
    cmp_ok($time, '>', 0, 'more than none');
    tells('/log', 200, "PASSED|redis|$rule|2|0|60|",     'the last one');
    tells('/log', 429, "REJECTED|redis|$rule|2|0|60|60", 'rejected');

    tells('/delay', 200, 'PASSED|redis|delay|2|1|1|',  'not delayed');
    tells('/delay', 200, 'DELAYED|redis|delay|2|0|1|', 'delayed');
    my $times = sub { [ split /\s/, RateLimit::Nginx::slurp($nginx->dir . '/time.log') ] };
    ok(wait_until(sub { $times->()->@* == 4 }), 'both are logged');
    my ($asking, $all) = $times->()->@[ 2, 3 ];
    cmp_ok($all - $asking, '>', 0.1, 'a delay is no time of the check');

    tells('/page', 200, 'PASSED|redis|page|1|0|60|',     'with an error_page');
    tells('/page', 404, 'REJECTED|redis|page|1|0|60|60', 'which knows why');

    tells('/zero', 429, 'REJECTED|none|zero|0|0|0|', 'a limit of 0: nobody is asked, no wait helps');
};

subtest 'of several rules the tightest' => sub {
    tells('/several', 200, 'PASSED|redis|two|2|1|50|',     'the smallest share left');
    tells('/several', 200, 'PASSED|redis|two|2|0|50|',     'the last one');
    tells('/several', 429, 'REJECTED|redis|two|2|0|50|50', 'of two that deny the one with the longest wait');
};

subtest 'without a verdict' => sub {
    tells('/down-open',   200, 'ERROR_OPEN|none|down||||',    'open');
    tells('/down-closed', 503, 'ERROR_CLOSED|none|down||||',  'closed');
    tells('/down-beside', 200, 'ERROR_OPEN|redis|up|2|1|60|', 'open, and one with a verdict');
    tells('/down-beside', 200, 'ERROR_OPEN|redis|up|2|0|60|', 'the last one');
    tells('/down-beside', 429, 'REJECTED|redis|up|2|0|60|60', 'which denies');
};

subtest 'without a rule' => sub {
    for my $path (qw(/none /empty-key /return)) {
        is(tells($path, 200, '||||||', $path)->{headers}{'x-time'}, undef, 'and no time');
    }
};

my $logged = sub { [ map { s/\|-/|/gr =~ s/ -/ /r } split /\n/, RateLimit::Nginx::slurp($nginx->dir . '/told.log') ] };
ok(wait_until(sub { grep { $_ eq $asked[-1] } $logged->()->@* }), 'the access log has all');
{
    my %is_logged = map { $_ => 1 } $logged->()->@*;
    is_deeply([ grep { !$is_logged{$_} } @asked ], [], 'and tells the same');
}

# --- the client's address

sub address_is ($address, $what, %options) {
    is($nginx->get('/none', %options)->{headers}{'x-addr'}, $address, $what);
}

subtest 'the address' => sub {
    my %address = (
        '203.0.113.7'             => '203.0.113.7',
        '::ffff:203.0.113.7'      => '203.0.113.7',
        '::ffff:0:1'              => '0.0.0.1',
        '2001:db8:1:2:3:4:5:6'    => '2001:db8:1:2::/64',
        '2001:db8:1:2::'          => '2001:db8:1:2::/64',
        '2001:0:0:1:ffff:ffff::1' => '2001:0:0:1::/64',
        '2001:db8:0:0:1::'        => '2001:db8::/64',
        '::203.0.113.7'           => '::/64',
        '64:ff9b::203.0.113.7'    => '203.0.113.7',
        '64:ff9b::'               => '0.0.0.0',
        '64:ff9b::1:203.0.113.7'  => '64:ff9b::/64',
        '64:ff9b:1::203.0.113.7'  => '64:ff9b:1::/64',
        '64:ff9b:0:1::203.0.113.7' => '64:ff9b:0:1::/64',
        '2001:0:cb00:7107:0:fbff:3fff:fdfe' => '2001:0:cb00:7107::/64',
        'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff' => 'ffff:ffff:ffff:ffff::/64',
    );
    address_is($address{$_}, $_, headers => { 'X-Real-IP' => $_ }) for sort keys %address;
    address_is('127.0.0.1', 'of the connection');
    is($nginx->get('/via-unix')->{headers}{'x-addr'}, 'unix:', 'of a unix socket');
    SKIP: {
        skip 'no IPv6 here', 2 if !$has_ipv6;
        address_is('::/64', 'IPv6', host => '[::1]');
        is(HTTP::Tiny->new->get("http://127.0.0.1:$mapped/none")->{headers}{'x-addr'}, '127.0.0.1', 'IPv4, mapped into IPv6');
    }
};

subtest 'the address as a key' => sub {
    my $status = sub ($address) { $nginx->get('/address', headers => { 'X-Real-IP' => $address })->{status} };
    is($status->('2001:db8:7:7::1'),         200, 'a network');
    is($status->('2001:db8:7:7:ffff::2'),    429, 'another address of it');
    is($status->('2001:db8:7:8::1'),         200, 'another network');
    is($status->('203.0.113.7'),             200, 'IPv4');
    is($status->('::ffff:203.0.113.7'),      429, 'the same, mapped');
    is($status->('64:ff9b::203.0.113.7'),    429, 'the same, translated (RFC 6052)');
    is($status->('64:ff9b::203.0.113.9'),    200, 'another, translated');
    is($status->('203.0.113.8'),             200, 'another');
    is(scalar(grep { $_ eq 'rl:{addr:2001:db8:7:7::/64}:fixed_window:3600000' } $redis->keys), 1, 'so it stands in Redis');
    like($nginx->error_log, qr/limiting requests, rule "addr\/3600s", key "2001:db8:7:7::\/64", retry/, 'and in the log');
};

$nginx->stop;
done_testing;
