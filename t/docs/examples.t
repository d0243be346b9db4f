# What the documentation promises of its examples: each is run, with smaller numbers where it takes
# fewer requests to see, beside what the page says of it.

use v5.36;
use lib 't/lib';
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use HTTP::Tiny;
use IO::Select;
use JSON::PP qw(decode_json);
use MIME::Base64 qw(encode_base64);
use RateLimit::Client;
use RateLimit::Documentation qw(example_with examples_of http_level);
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use RateLimit::Server;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $readme    = 'README.md';
my $deploying = 'docs/deploying.md';
my $recipes   = 'docs/recipes.md';
my $redis     = RateLimit::Redis->start_new;
my $backend   = "redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }\n";

# What is changed in an example: pairs of its text and another one for it.
sub change ($example, @changes) {
    while (my ($from, $to) = splice @changes, 0, 2) {
        $example =~ s/\Q$from\E/$to/g or die "the example has no \"$from\"\n$example";
    }
    return $example;
}

sub start_nginx ($example, %options) {
    $redis->client->flushall;
    return RateLimit::Nginx->start_new($backend . http_level($example), %options);
}

# The statuses of requests from another address of this host.
sub statuses_of ($nginx, $address, $count, $path = '/') {
    my $http = HTTP::Tiny->new(local_address => $address);
    return join ' ', map { $http->get($nginx->url($path))->{status} } 1 .. $count;
}

# nginx takes the last `map` of a variable for all of them, and says nothing.
subtest 'examples that stand beside each other' => sub {
    my %text;
    for my $file ($readme, glob 'docs/*.md') {
        for my $example (examples_of($file)) {
            my $plain = $example->{text} =~ s/#.*//gr =~ s/\s+/ /gr;
            $text{$2}{"$1$3"}{$file} = 1 while $plain =~ /((?:map|geo) [^{}]*?)(\$\w+) (\{.*?\})/g;
            $text{$1}{$2}{$file} = 1 while $plain =~ /\bjson_set (\$\w+) (.*?);/g;
        }
    }
    cmp_ok(scalar keys %text, '>', 20, 'variables');
    is(join('; ', map { "$_ in " . join ' and ', map { join ' ', sort keys %$_ } values $text{$_}->%* } grep { values $text{$_}->%* > 1 } sort keys %text), '', 'have one text each');
};

subtest 'keys that are secrets' => sub {
    my @shown;
    for my $file ($readme, glob 'docs/*.md') {
        my $page = RateLimit::Nginx::slurp($file);
        push @shown, map { "$file: $_" } grep { !/show_keys=(?:hash|off)/ } $page =~ /^ *(redis_rate_limit_zone +\S*\$redis_rate_limit_(?:bearer|field_\w+)\S* [^;]*)/mg;
    }
    is(join("\n", @shown), '', 'are not shown in logs and pages');
};

subtest 'the first configuration' => sub {
    my $nginx = start_nginx(change(example_with($readme, 'listen 8080'), 8080, '%PORT%'));
    my $page  = RateLimit::Nginx::slurp($readme);
    my %told  = ($page =~ /shows that requests are counted:\n\n```\n(.*?)```/s)[0] =~ /^(\S+): (.+)$/mg;
    is(scalar keys %told, 5, 'headers that the page shows');
    my $headers = $nginx->get('/')->{headers};
    is_deeply({ map { $_ => $headers->{lc $_} } keys %told }, \%told, 'are those of the first response');
    my ($key) = $page =~ /`(rl:\{per_ip:127\S+)`/;
    is(join(' ', $redis->keys), $key, 'and so is the key in Redis');
    unlike($nginx->statuses('/', 99), qr/429/, '100 requests pass');
    is($nginx->statuses('/', 2), '429 429', 'and no more');
    $nginx->stop;
};

# An address, a balancer and an API key, in files of which Debian's nginx.conf includes each.
subtest 'three usual needs' => sub {
    my $example = example_with($readme, '/etc/nginx/conf.d/limits.conf');
    my $nginx   = start_nginx(
        change(
            $example,
            '10.0.0.0/8'            => '127.0.0.1',
            '80 default_server'     => '%PORT%',
            'limit=100 '            => 'limit=3 ',
            'http://127.0.0.1:8081' => 'http://unix:%DIR%/upstream.sock:',
        ) . 'server { listen unix:%DIR%/upstream.sock; return 200 "key=$http_x_api_key"; }'
    );
    my $from = sub ($address, %fields) { $nginx->get('/api/', headers => { 'X-Forwarded-For' => $address, %fields }) };
    is(join(' ', map { $from->("2001:db8:1:2::$_")->{status} } 1 .. 4), '200 200 200 429', 'each network of IPv6 has a limit');
    is($from->('192.0.2.1')->{status}, 200, 'and each other client behind the balancer');
    is(join(' ', map { $from->("192.0.2.$_", 'X-API-Key' => 'k')->{headers}{'x-ratelimit-remaining'} } 10, 11), '2 2', 'a key is counted');
    like($from->('192.0.2.12', 'X-API-Key' => 'k')->{headers}{ratelimit}, qr/"per_key\/60s";r=47;/, 'over all addresses');
    is($from->('192.0.2.13', 'X-API-Key' => 'k')->{content}, 'key=k', 'and reaches the application');
    is($from->('192.0.2.14', 'X-API-Key' => [ 'k', 'other' ])->{content}, 'key=', 'which gets none of two');
    is($nginx->get('/', headers => { 'X-Forwarded-For' => '192.0.2.1' })->{headers}{'x-ratelimit-remaining'}, 1, 'what is not of the API is counted, too');
    $nginx->stop;

    my $debian = '/etc/nginx/nginx.conf';
    plan skip_all => "no $debian" if !-f $debian;
    my $dir = tempdir(CLEANUP => 1);
    my %text = map { /^(\S+)\n(.*)/s } grep { length } split /^# \/etc\/nginx\//m, $example;
    $text{'modules-enabled/90-redis-rate-limit.conf'} = 'load_module ' . abs_path(RateLimit::Nginx::module()) . ";\n";
    is(join(' ', sort keys %text), 'conf.d/limits.conf modules-enabled/90-redis-rate-limit.conf sites-enabled/default', 'three files');
    like(RateLimit::Nginx::slurp($readme), qr{/etc/nginx/\Q$_\E\b}, "the page names $_") for sort keys %text;
    make_path(map { "$dir/" . dirname($_) } keys %text);
    RateLimit::Nginx::write_file("$dir/$_", $text{$_} =~ s/listen 80 /listen 127.0.0.1:${\empty_port()} /r) for keys %text;
    RateLimit::Nginx::write_file("$dir/nginx.conf",
        RateLimit::Nginx::slurp($debian) =~ s{/etc/nginx/(?!mime)}{$dir/}gr =~ s{/run/|/var/log/nginx/}{$dir/}gr =~ s/^user .*//mr);
    my $binary = RateLimit::Nginx::binary();
    my $said   = qx{$binary -t -e $dir/error.log -c $dir/nginx.conf 2>&1};
    is($?, 0, "Debian's nginx.conf takes them") or diag($said);
    unlike($said, qr/redis_rate_limit/, 'without a warning') or diag($said);
    is(() = qx{$binary -T -e $dir/error.log -c $dir/nginx.conf 2>&1} =~ m{^# configuration file $dir/(?:conf\.d|sites-enabled|modules-enabled)/}mg, 3, 'all three');
};

# A page of another site can make its own name lead to this host, and a browser then lets it read what
# is answered.
subtest 'servers for operators' => sub {
    my @examples = grep { $_->{text} =~ /127\.0\.0\.1:9145/ } map { examples_of($_) } $readme, glob 'docs/*.md';
    my $only = example_with('docs/metrics.md', 'redis_rate_limit_api write');
    is(join(' ', map { $_->{place} } grep { index($_->{text}, $only) < 0 } @examples), '', 'all pages have the one of docs/metrics.md');
    cmp_ok(scalar @examples, '>=', 3, 'there are some');
    for my $example (@examples) {
        my $nginx  = start_nginx(change($example->{text}, '127.0.0.1:9145', '127.0.0.1:%PORT%'));
        my ($path) = grep { index($example->{text}, "location $_ ") >= 0 || index($example->{text}, "location = $_ ") >= 0 } '/metrics', '/limits/', '/limits/api/';
        $path .= 'zones' if $path eq '/limits/api/';
        my $status = sub ($host) { RateLimit::Client->new($nginx)->send("GET $path HTTP/1.1\r\nHost: $host\r\n\r\n")->response->{status} };
        my $port   = $nginx->port;
        is($status->($_), 200, "$example->{place}: tells who asks for $_") for "127.0.0.1:$port", "localhost:$port";
        is($status->($_), 0, "$example->{place}: says nothing to $_") for "rebound.example:$port", 'rebound.example', "127.0.0.1.rebound.example:$port";
        if ($example->{text} =~ m{location /limits/ } && $example->{text} =~ m{redis_rate_limit_api}) {
            my $page = RateLimit::Client->new($nginx)->send("GET /limits/ HTTP/1.1\r\nHost: localhost\r\n\r\n")->response;
            like($page->{body}, qr{<body data-api="/limits/api/">}, "$example->{place}: the dashboard has an inspector");
        }
        $nginx->stop;
    }
};

my $limited = 'redis_rate_limit zone=%s algorithm=sliding_log limit=1 window=60; empty_gif;';

# In the place of an application.
my @served = ('proxy_pass http://127.0.0.1:8081' => 'empty_gif');
my @served_with_fields = ('proxy_pass       http://127.0.0.1:8081' => 'empty_gif');

subtest 'exceptions by address' => sub {
    my $nginx = start_nginx(change(example_with($recipes, 'geo $is_our_own'), '10.0.0.0/8', '127.0.0.2', 'limit=100', 'limit=1', @served));
    is(statuses_of($nginx, $_, 2), '200 429', "$_ is limited") for qw(127.0.0.1 127.0.0.3);
    is(statuses_of($nginx, '127.0.0.2', 3), '200 200 200', 'our own host is not');
    $nginx->stop;
};

subtest 'hot keys' => sub {
    my $example = change(example_with($recipes, 'lease=auto'), @served_with_fields, 'server {', 'server { listen %PORT%; location /json { redis_rate_limit off; redis_rate_limit_metrics json; }');
    my $nginx = start_nginx($example);
    my $busy  = RateLimit::Client->new($nginx);
    $busy->send(map { "GET / HTTP/1.1\r\nHost: a\r\nX-Api-Key: k\r\n\r\n" } 1 .. 900);
    is(scalar(grep { $busy->response->{status} == 200 } 1 .. 900), 900, 'all pass');
    my $zones = decode_json($nginx->get('/json')->{content})->{zones};
    my %saved = map { %{ $zones->{$_}{rules} } } keys %$zones;
    cmp_ok($saved{$_}{leases}{requests}, '>', 450, "$_: $saved{$_}{leases}{requests} of 900 requests by leases") for sort keys %saved;
    $nginx->stop;
};

subtest 'plans and costs' => sub {
    my $example = change(example_with($recipes, 'requests_per_hour'), 'http://127.0.0.1:8081', 'http://unix:%DIR%/auth.sock:');
    my $nginx   = start_nginx(<<"END");
$example
server {
    listen unix:%DIR%/auth.sock;
    add_header X-User \$http_name;
    add_header X-Plan \$http_plan;
    location / { return 204; }
}
END
    my $told = sub (%options) {
        my $headers = $nginx->get('/v1/', %options)->{headers};
        return join ' ', map { $headers->{"x-ratelimit-$_"} // 'none' } qw(limit remaining);
    };
    is($told->(headers => { name => 'a' }),                   '100 99',     'without a plan');
    is($told->(headers => { name => 'a' }, method => 'POST'), '100 94',     'a POST costs five');
    is($told->(headers => { name => 'b', plan => 'gold' }),   '10000 9999', 'another plan');
    is($told->(headers => { name => 'c', plan => 'staff' }),  'none none',  'one without a limit');
    $nginx->stop;
};

subtest 'a limit that is tried first' => sub {
    my $nginx = start_nginx(change(example_with($deploying, 'redis_rate_limit_dry_run on'), 'limit=100', 'limit=1', '/var/log/nginx/', ''));
    my @responses = map { $nginx->get('/') } 1, 2;
    is(join(' ', map { $_->{status} } @responses), '404 404', 'rejects nobody');
    is(join(' ', grep { /ratelimit|retry/ } map { keys $_->{headers}->%* } @responses), '', 'and shows nothing');
    my $lines = sub { join ', ', RateLimit::Nginx::slurp($nginx->dir . '/limits.log') =~ /(\S+ \S+ \S+)$/mg };
    my $tried = 'PASSED per_client/60s redis, REJECTED_DRY_RUN per_client/60s redis';
    ok(wait_until(sub { $lines->() eq $tried }), 'but to the log') or diag($lines->());

    my ($expression) = RateLimit::Nginx::slurp($deploying) =~ /^ *```promql\n(.*?)^ *```$/ms;
    my $rules = $nginx->dir . '/rules.yaml';
    RateLimit::Nginx::write_file($rules, "groups:\n- name: docs\n  rules:\n  - record: share\n    expr: |\n" . $expression =~ s/^ */      /gmr);
    my $said = qx{promtool check rules $rules 2>&1};
    is($?, 0, 'Prometheus understands the query') or diag($said);
    $nginx->stop;
};

subtest 'behind a balancer' => sub {
    my $nginx = start_nginx(change(example_with($recipes, 'set_real_ip_from'), '10.0.0.0/8', '127.0.0.1', 'limit=100', 'limit=1', @served));
    my $from  = sub ($address) { $nginx->get('/', headers => { 'X-Forwarded-For' => $address })->{status} };
    is(join(' ', map { $from->($_) } qw(192.0.2.1 192.0.2.2 192.0.2.1)), '200 200 429', 'clients are told apart');
    is(join(' ', map { $from->("2001:db8:1:2::$_") } 1, 2), '200 429', 'and those of IPv6 by their network');
    my $other = HTTP::Tiny->new(local_address => '127.0.0.2', default_headers => { 'X-Forwarded-For' => '192.0.2.3' });
    is(join(' ', map { $other->get($nginx->url)->{status} } 1, 2), '200 429', 'whoever is no balancer');
    is($from->('192.0.2.3'), 200, 'takes nothing from the client that it names');
    $nginx->stop;
};

subtest 'a translator of its own' => sub {
    my $nginx = start_nginx('set_real_ip_from 127.0.0.1; ' . change(example_with($recipes, '$is_translated'), 'limit=100', 'limit=1', @served));
    my $from  = sub ($address) { $nginx->get('/', headers => { 'X-Real-IP' => $address })->{status} };
    is(join(' ', map { $from->("2001:db8:64::$_") } qw(192.0.2.1 192.0.2.2 192.0.2.1)), '200 200 429', 'its clients are told apart');
    is(join(' ', map { $from->("2001:db8:1:2::$_") } 1, 2), '200 429', 'and others by their network');
    $nginx->stop;
};

subtest 'networks of IPv6' => sub {
    my $example = change(example_with($recipes, '$redis_rate_limit_addr_56'), 'limit=1000', 'limit=4', 'limit=100 ', 'limit=1 ', 'limit=400 ', 'limit=2 ', @served);
    my $nginx = start_nginx("set_real_ip_from 127.0.0.1; $example");
    my $from  = sub ($address) {
        my $response = $nginx->get('/', headers => { 'X-Real-IP' => $address });
        my @used_up  = ($response->{headers}{ratelimit} // '') =~ /"(\w+)\/60s";r=0/g;
        return "$response->{status} @used_up";
    };
    is($from->('2001:db8:1:1::1'),   '200 per_64',               'the first address of a /64');
    is($from->('2001:db8:1:1::2'),   '429 per_64',               'no second one');
    is($from->('2001:db8:1:2::1'),   '200 per_64 per_56',        'another /64');
    is($from->('2001:db8:1:3::1'),   '429 per_56',               'no third one of its /56');
    is($from->('2001:db8:1:101::1'), '200 per_64',               'another /56');
    is($from->('2001:db8:1:201::1'), '200 per_64 per_48',        'and one more');
    is($from->('2001:db8:1:301::1'), '429 per_48',               'no other one of the /48');
    my $calls = sub { my $calls = $redis->script_calls; $calls->{eval} + $calls->{evalsha} };
    my $before = $calls->();
    is($from->('2001:db8:2::1'),     '200 per_64',               'another /48');
    is($calls->() - $before, 1, 'by one call of Redis');
    is(join(', ', map { $from->('203.0.113.7') } 1, 2), '200 per_64, 429 per_64', 'an IPv4 client');
    $nginx->stop;
};

subtest 'limit_req beside it' => sub {
    my $nginx = start_nginx(change(example_with($deploying, 'limit_req '), 'rate=200r/s', 'rate=1r/m', 'burst=200', 'burst=1'));
    is($nginx->statuses('/', 3), '404 404 503', 'limit_req rejects');
    is($redis->taken('rl:{per_client:127.0.0.1}:sliding_log:60000'), 2, 'what Redis is not asked for');
    $nginx->stop;
};

subtest 'auth_basic' => sub {
    my $nginx = start_nginx(change(example_with($deploying, 'auth_basic '), @served));
    RateLimit::Nginx::write_file($nginx->dir . '/users', "alice:{PLAIN}right\n");
    my $try = sub ($user, $password) {
        return $nginx->get('/private/', headers => { Authorization => 'Basic ' . encode_base64("$user:$password", '') })->{status};
    };
    is($try->('alice', 'right'), 200, 'a user is let in');
    is(join(' ', map { $try->('bob', "guess$_") } 1 .. 9), join(' ', (401) x 9), 'guesses are refused');
    is($try->('alice', 'right'), 429, 'and counted before the password is looked at');
    my @counted = map { /\{(.*)\}/ } $redis->keys;
    is("@counted", 'per_address:127.0.0.1 per_user:alice', 'but not as requests of the user that they name');
    $nginx->stop;
};

subtest 'proxy_cache' => sub {
    my $nginx = start_nginx(<<'END');
proxy_cache_path %DIR%/cache keys_zone=pages:1m;
redis_rate_limit_zone $remote_addr zone=per_ip:1m;
server {
    listen %PORT%;
    location / {
        redis_rate_limit zone=per_ip algorithm=sliding_log limit=10 window=60;
        proxy_cache pages;
        proxy_cache_valid 1m;
        add_header X-Cache $upstream_cache_status;
        proxy_pass http://unix:%DIR%/upstream.sock:;
    }
}
server {
    listen unix:%DIR%/upstream.sock;
    location / { return 200 "page\n"; }
}
END
    my @headers = map { $nginx->get('/')->{headers} } 1, 2;
    is(join(' ', map { "$_->{'x-cache'} $_->{'x-ratelimit-remaining'}" } @headers), 'MISS 9 HIT 8', 'each request is counted, and told of itself');
    $nginx->stop;
};

subtest 'an answer of its own' => sub {
    my $nginx = start_nginx(change(example_with($recipes, 'error_page 429 @limited'), 'limit=100', 'limit=1'));
    $nginx->get('/');
    my $response = $nginx->get('/');
    is("$response->{status} $response->{headers}{'content-type'}", '429 application/json', 'with the status');
    is_deeply(decode_json($response->{content}), { error => 'too many requests', retry_after => $response->{headers}{'retry-after'} }, 'and the headers');
    $nginx->stop;
};

# A server that answers each request with the `X-Rate-Limit` that it got, and its own name.
sub application ($name) { return "server { listen unix:%DIR%/$name.sock; location / { return 200 '$name \$http_x_rate_limit'; } }" }

my $has_zones = do {
    my $nginx = RateLimit::Nginx->new(http_level('redis_rate_limit zone=per_ip algorithm=fixed_window limit=1 window=day timezone=Europe/Berlin;'));
    ($nginx->test_configuration)[1];
};

subtest 'windows of a calendar' => sub {
    plan skip_all => 'built without cctz' if !$has_zones;
    my $nginx   = start_nginx(example_with('docs/directives.md', 'window=month'));
    my $headers = $nginx->get('/', headers => { 'X-Api-Key' => 'a' })->{headers};
    like($headers->{'ratelimit-policy'}, qr{^"plan/month";q=100000;w=(?:2419200|2505600|2592000|2678400), "plan/day";q=10000;w=(?:82800|86400|90000)$}, 'a month and a day');
    $nginx->stop;
};

subtest 'plans by month' => sub {
    plan skip_all => 'built without cctz' if !$has_zones;
    my $nginx  = start_nginx(change(example_with($recipes, '$calls_per_month'), 'default 1000', 'default 3', @served_with_fields));
    my $of_key = sub ($key) { $nginx->get('/api/', headers => { 'X-Api-Key' => $key }) };
    my $policy = sub ($key) { $of_key->($key)->{headers}{'ratelimit-policy'} // 'none' };
    like($policy->('k-3f0c9a1d'), qr{^"plan/month";q=1000000;w=\d+, "pace";q=101;w=3$}, 'the quota of the tier');
    like($policy->('k-77b2e4d0'), qr{^"plan/month";q=50000;}, 'of another one');
    is($policy->('k-unknown'), 'none', 'and nobody else has one');
    is(join(' ', map { $of_key->('k-51c8aa02')->{status} } 1 .. 4), '200 200 200 429', 'the free tier is used up');
    my $denied = $of_key->('k-51c8aa02')->{headers};
    my ($left) = $denied->{ratelimit} =~ m{^"plan/month";r=0;t=(\d+)};
    is($denied->{'retry-after'}, $left, 'until the month is over');
    ok((grep { $_ eq 'rl:{plan:initech}:fixed_window:month@Europe/Berlin' } $redis->keys), 'by this counter');
    $nginx->stop;
};

subtest 'several billing days' => sub {
    my $nginx  = start_nginx(change(example_with($recipes, '$from_the_fifteenth'), @served_with_fields));
    my $policy = sub ($key) { $nginx->get('/', headers => { 'X-Api-Key' => $key })->{headers}{'ratelimit-policy'} // 'none' };
    like($policy->('k-3f0c9a1d'), qr{^"billed/month";q=1000;w=\d+$}, 'one customer has this rule');
    like($policy->('k-77b2e4d0'), qr{^"mid-month";q=50000;w=\d+$},   'another one that one');
    is(join(' ', $redis->keys), 'rl:{billed:acme}:fixed_window:month rl:{billed:globex}:fixed_window:month-15:mid-month', 'of counters of their own');
    $nginx->stop;
};

subtest 'plans by API key' => sub {
    my $nginx = start_nginx(change(example_with($recipes, '$nobodys_address'), 'limit=30', 'limit=2', @served_with_fields));
    my $ask   = sub (@key) { $nginx->get('/api/', headers => { @key ? ('X-API-Key' => $key[0]) : () }) };
    my $told  = sub (@key) { $ask->(@key)->{headers}{'ratelimit-policy'} };
    is($told->('k-3f0c9a1d'), '"per_customer/60s";q=6000;w=60', 'a plan of its own');
    is($told->('k-77b2e4d0'), '"per_customer/60s";q=60;w=60',   'the usual plan');
    is($told->(),             '"anonymous/60s";q=2;w=60',       'none');
    $redis->client->flushall;
    is(join(' ', map { $ask->("made-up-$_")->{status} } 1 .. 3), '200 200 429', 'keys that are made up are counted by address');
    is(join(' ', $redis->keys), 'rl:{anonymous:127.0.0.1}:token_bucket:60000', 'and have no counter');
    $nginx->stop;
};

# An upstream that answers what the query asks for.
my $answering = <<'END';
server {
    listen unix:%DIR%/upstream.sock;
    add_header X-Tokens-Used $arg_tokens;
    location / { return 200 "whatever it is\n"; }
    location = /login { if ($arg_password != right) { return 401; } return 204; }
}
END
my @to_upstream = ('http://127.0.0.1:8081', 'http://unix:%DIR%/upstream.sock');

subtest 'failed logins' => sub {
    my $nginx = start_nginx($answering . change(example_with($recipes, '$failed_login'), @to_upstream));
    is($nginx->statuses('/login?password=right', 12), join(' ', (204) x 12), 'logins that succeed');
    is($nginx->statuses('/login?password=wrong', 10), join(' ', (401) x 10), 'ten that fail');
    is($nginx->statuses('/login?password=right', 1), '429', 'are enough');
    $nginx->stop;
};

subtest 'tokens' => sub {
    my $nginx = start_nginx($answering . change(example_with($recipes, '$upstream_http_x_tokens_used'), @to_upstream));
    my $left  = sub { $nginx->get('/v1/', headers => { authorization => 'Bearer none' })->{headers}{'x-ratelimit-remaining'} };
    my $ask   = sub ($tokens) { $nginx->get("/v1/?tokens=$tokens", headers => { authorization => 'Bearer a' })->{headers}{'x-ratelimit-remaining'} };
    cmp_ok($ask->(90_000), '>=', 92_000, 'a reservation');
    ok(wait_until(sub { my $rest = $ask->(500); $rest < 12_000 && $rest > 0 }), 'and what it was in the end');
    $nginx->stop;
};

subtest 'tokens in a trailer' => sub {
    my $nginx = start_nginx(change(example_with($recipes, '$upstream_trailer_x_tokens'),
            'listen 8080 http2', 'listen %PORT% http2', 'grpc://127.0.0.1:50051', 'grpc://unix:%DIR%/grpc.sock') . <<'END');
server {
    listen unix:%DIR%/grpc.sock http2;
    location / { add_trailer X-Tokens $arg_tokens; return 200 "a stream\n"; }
}
END
    my $ask = sub ($tokens) { (qx{nghttp -v -H 'authorization: Bearer a' ${\$nginx->url("/inference.Model/?tokens=$tokens")}} =~ /x-ratelimit-remaining: (\d+)/)[0] };
    cmp_ok($ask->(90_000), '>=', 92_000, 'a reservation');
    ok(wait_until(sub { my $rest = $ask->(500); $rest < 12_000 && $rest > 0 }), 'and what the trailer says in the end');
    $nginx->stop;
};

subtest 'what the cache cannot answer' => sub {
    my $nginx = start_nginx($answering . change(example_with($recipes, '$asked_origin'), @to_upstream,
            '/var/cache/nginx/api', '%DIR%/cache', 'window=1s', 'window=1d'));
    is($nginx->statuses('/page', 150), join(' ', (200) x 150), 'a page that the cache has');
    is($nginx->statuses("/page?$_", 1), '200', 'another one') for 1 .. 100;
    ok(wait_until(sub { $nginx->get('/page')->{status} == 429 }), 'the limit is of those');
    $nginx->stop;
};

subtest 'bytes a day' => sub {
    my $nginx = start_nginx(change(example_with($recipes, 'final_cost=$bytes_sent'), 'limit=1000000000', 'limit=6000', 'cost=50000000', 'cost=1300', 'proxy_pass       http://127.0.0.1:8081', 'root %DIR%/html'));
    $nginx->add_page('downloads/file', 'x' x 1000);
    my %key = (headers => { 'x-api-key' => 'k' });
    is($nginx->get('/downloads/file', %key)->{status}, 200, 'a download') for 1 .. 4;
    ok(wait_until(sub { $nginx->get('/downloads/file', %key)->{status} == 429 }), 'and the end of them');
    $nginx->stop;
};

my $migrating = 'docs/migrating.md';

subtest 'with and without nodelay' => sub {
    my $nginx = start_nginx("add_header X-Status \$redis_rate_limit_status always;\n" . change(example_with($migrating, 'zone=shared'), 'limit=10 ', 'limit=2 '));
    is($nginx->statuses('/api/', 5), join(' ', (404) x 5), 'none is held back');
    is(scalar(grep { /^rl:\{shared:/ } $redis->keys), 1, 'there is one counter');
    is($nginx->get('/')->{headers}{'x-status'}, 'DELAYED', 'which holds the requests of the other location back');
    $nginx->stop;
};

subtest 'an allowlist of limit_req' => sub {
    my $zone  = change(example_with($migrating, 'geo $is_limited'), '192.0.2.0/24', '127.0.0.2');
    my $nginx = start_nginx("$zone server { listen %PORT%; location / { ${\sprintf $limited, 'limited'} } }");
    is(statuses_of($nginx, '127.0.0.1', 2), '200 429', 'others are limited');
    is(statuses_of($nginx, '127.0.0.2', 2), '200 200', 'its own are not');
    ok($nginx->wait_for_log(qr/key "127\.0\.0\.1"/), 'addresses are shown as such');
    $nginx->stop;
};

subtest 'a page with a Retry-After of its own' => sub {
    my $nginx = start_nginx(<<"END");
redis_rate_limit_zone \$remote_addr zone=per_ip:1m;
server {
    listen %PORT%;
    error_page 429 /429.html;
    location = /429.html { add_header Retry-After 7 always; return 429; }
    location / { redis_rate_limit_headers off; ${\sprintf $limited, 'per_ip'} }
}
END
    $nginx->get('/');
    is(scalar $nginx->get('/')->{headers}{'retry-after'}->@*, 2, 'there are two, so that it has to go');
    $nginx->stop;
};

subtest 'logins' => sub {
    my $nginx = start_nginx(
        change(example_with($recipes, '$who_logs_in'), 'http://127.0.0.1:8081', 'http://unix:%DIR%/usual.sock:') . application('usual'));
    my $attempts = sub ($count) { join ' ', map { $nginx->get('/login', method => 'POST')->{status} } 1 .. $count };
    is($nginx->statuses('/login', 20), join(' ', (200) x 20), 'the form is not counted');
    is($attempts->(6), '200 200 200 200 200 429', 'attempts are');
    is($redis->taken('rl:{login:127.0.0.1}:sliding_log:86400000'), 5, 'and the rejected one takes nothing of the day');
    $nginx->stop;
};

subtest 'out for longer than the window' => sub {
    my $nginx = start_nginx(
        change(example_with($recipes, 'name=scanners'), 'http://127.0.0.1:8081', 'http://unix:%DIR%/usual.sock:', 'limit=300 window=1m', 'limit=3 window=200ms') . application('usual'));
    my $denied;
    ok(wait_until(sub { ($denied = $nginx->get('/'))->{status} == 429 }), 'who sends too much');
    is($denied->{headers}{'retry-after'}, 3600, 'is out for an hour');
    select undef, undef, undef, 0.5;
    is($nginx->get('/')->{status}, 429, 'also when the windows are over');
    is(statuses_of($nginx, '127.0.0.2', 1), 200, 'another client is not');
    $nginx->stop;
};

subtest 'crawlers' => sub {
    my $nginx = start_nginx(change(example_with($recipes, '$crawler_pace'), 'burst=20', 'burst=1', 'window=1 ', 'window=1h ', 'root /srv/www' => 'empty_gif', @served));
    my $from = sub ($address, $agent, $path = '/') {
        return HTTP::Tiny->new(local_address => $address, agent => $agent)->get($nginx->url($path))->{status};
    };
    my @google = map { "Mozilla/5.0 (compatible; $_/2.1)" } 'Googlebot', 'GOOGLEBOT', 'googlebot';
    is(join(' ', map { $from->("127.0.0.$_", $google[$_ - 1]) } 1 .. 3), '200 200 429', 'one limit for all addresses and ways to write its name');
    is($from->('127.0.0.1', 'bingbot'), 200, 'another crawler has its own');
    is(join(' ', map { $from->('127.0.0.1', $_) } 'GPTBot', 'CCBot', 'ClaudeBot'), '200 200 429', 'some share one');
    is(join(' ', map { $from->('127.0.0.1', 'Firefox') } 1 .. 5), join(' ', (200) x 5), 'who is no crawler has none');
    is($from->('127.0.0.1', 'GPTBot', '/robots.txt'), 200, 'robots.txt can always be read');
    is_deeply([ sort map { /^rl:\{crawlers:(.*)\}/ } $redis->keys ], [qw(bingbot googlebot training)], 'three keys');
    $nginx->stop;
};

subtest 'soft limits' => sub {
    my $example = change(example_with($recipes, 'name=soft'),
        'http://127.0.0.1:8081', 'http://unix:%DIR%/usual.sock:', 'limit=600', 'limit=3', 'limit=300', 'limit=1');
    my $nginx = start_nginx($example . application('usual'));
    my @responses = map { $nginx->get('/', headers => { 'X-Rate-Limit' => 'forged' }) } 1 .. 4;
    is(join(', ', map { $_->{content} } @responses[0 .. 2]), 'usual PASSED, usual REJECTED_DRY_RUN, usual REJECTED_DRY_RUN', 'the application is told');
    is($responses[3]{status}, 429, 'until the hard limit');
    $nginx->stop;

    $example = change(example_with($recipes, '$application'), 'burst=50', 'burst=1', 'window=1 ', 'window=1h ',
        map { ("127.0.0.1:808$_->[0]" => "unix:%DIR%/$_->[1].sock") } [ 1, 'usual' ], [ 2, 'spare' ]);
    $nginx = start_nginx($example . application('usual') . application('spare'));
    is(join(' ', map { $nginx->get('/')->{content} =~ s/ //r } 1 .. 4), 'usual usual spare spare', 'or other servers answer');
    $nginx->stop;
};

# What a client of HTTP/2 gets, frame by frame.
sub frames ($nginx) {
    my $url = $nginx->url('/service/Method');
    return qx{nghttp -v -H 'content-type: application/grpc' -H 'te: trailers' -H ':method: POST' $url 2>&1};
}

subtest 'gRPC' => sub {
    my $example = change(example_with($recipes, '@resource_exhausted'),
        'listen 8080', 'listen %PORT%', 'burst=200', 'burst=1', 'window=1 ', 'window=1h ', 'grpc://127.0.0.1:50051', 'grpc://unix:%DIR%/grpc.sock');
    my $nginx = start_nginx($example . "server { listen unix:%DIR%/grpc.sock http2; location / { return 204; } }");
    like(frames($nginx), qr/:status: 204$/m, 'a call passes');
    my $rejected = frames($nginx);
    my ($head, @trailers) = $rejected =~ /^\[[^\n]*\] recv \(stream_id=\d+\) (\S+: [^\n]*)$/mg;
    is($head, ':status: 200', 'the next one has the status that gRPC expects');
    my @frames = $rejected =~ /recv (HEADERS|DATA) frame <length=\d+, flags=0x(\w+)/g;
    my ($last_type, $last_flags) = @frames[-2, -1];
    is($last_type, 'HEADERS', 'and trailers') or diag($rejected);
    ok(hex($last_flags) & 1, 'which end it');
    my %told = map { split /: /, $_, 2 } @trailers;
    is("$told{'content-type'} $told{'grpc-status'} $told{'grpc-message'}", 'application/grpc 8 rate limit exceeded', 'that say RESOURCE_EXHAUSTED');
    is(join(' ', map { /^(?:content-type|grpc-status)/ ? /^([^:]+)/ : () } @trailers), 'content-type grpc-status', 'in this order');
    ok($told{'retry-after'}, 'with the headers of the module as metadata');
    $nginx->stop;
};

# Accepts each request to become a WebSocket, and keeps it open until the test says `drop`.
sub start_websockets () {
    return RateLimit::Server->start(sub ($listener, $control) {
        my $select = IO::Select->new($listener, $control);
        my @sockets;
        while (my @ready = $select->can_read) {
            for my $socket (@ready) {
                if ($socket == $listener) {
                    my $client = $listener->accept or next;
                    sysread $client, my $request, 65536;
                    syswrite $client, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n";
                    push @sockets, $client;
                } else {
                    readline $control // return;
                    @sockets = ();
                    syswrite $control, "open=0\n";
                }
            }
        }
    });
}

subtest 'WebSockets' => sub {
    my $server  = start_websockets;
    my $example = change(example_with($recipes, '$connection_header'), '127.0.0.1:8081', $server->address, 'limit=10', 'limit=2');
    my $nginx   = start_nginx($example);
    my $open    = sub {
        my $client = RateLimit::Client->new($nginx);
        my $status = $client->send("GET /ws/ HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")->response->{status};
        return ($client, $status);
    };
    my ($first, $status_of_first) = $open->();
    my ($second, $status_of_second) = $open->();
    is("$status_of_first $status_of_second", '101 101', 'two are open');
    is(($open->())[1], 429, 'a third is not opened');
    $first->close;
    ok(wait_until(sub { ($open->())[1] == 101 }), 'until a client closes one');
    $server->command('drop');
    ok(wait_until(sub { !grep { /:concurrency:/ } $redis->keys or $redis->client->zcard('rl:{sockets:127.0.0.1}:concurrency:60000') == 0 }),
        'and when the server closes them all permits are free');
    $nginx->stop;
};

# nginx-otel reads the variables of a span when the request ends: as a log does.
subtest 'attributes of spans' => sub {
    my $example    = example_with($recipes, 'otel_span_attr');
    my %attribute  = $example =~ /^ *otel_span_attr (\S+) +(\S+);$/mg;
    my @names      = sort keys %attribute;
    is("@names", join(' ', map { "redis_rate_limit.$_" } qw(rule source status time)), 'four of them');
    $example =~ s/^ *otel_exporter \{.*?^ *\}\n|^ *otel_[^\n]*\n//msg;
    my $nginx = start_nginx("log_format span '${\join ' ', map { \"$_=$attribute{$_}\" } @names}'; access_log span.log span;" . change($example, 'limit=100', 'limit=1'));
    $nginx->get('/') for 1, 2;
    my $end = 'redis_rate_limit.time=0\.\d{6}\n';
    my @spans = map { qr/redis_rate_limit.rule=per_client\/60s redis_rate_limit.source=redis redis_rate_limit.status=$_ $end/ } qw(PASSED REJECTED);
    ok(wait_until(sub { RateLimit::Nginx::slurp($nginx->dir . '/span.log') =~ /\A$spans[0]$spans[1]\z/ }), 'hold what happened')
        or diag(RateLimit::Nginx::slurp($nginx->dir . '/span.log'));
    $nginx->stop;
};

subtest 'a new module' => sub {
    my $module = RateLimit::Nginx::slurp(RateLimit::Nginx::module);
    my $built  = RateLimit::Nginx::slurp('VERSION') =~ s/\n//r;
    my $next   = $built =~ s/\d$/x/r;
    my $dir    = tempdir('module-XXXXXXXX', TMPDIR => 1, CLEANUP => 1);
    my $put    = sub ($version) { # as install does: another file under the same name
        RateLimit::Nginx::write_file("$dir/new.so", $module =~ s/\Q$built\E(?=\n\0)/$version/gr);
        rename "$dir/new.so", "$dir/module.so" or die "module.so: $!";
    };
    $put->($built);
    my $nginx = RateLimit::Nginx->start_new(<<'END', module => "$dir/module.so", daemon => 1);
redis_rate_limit_zone $remote_addr zone=z:1m;
server { listen %PORT%; location /json { redis_rate_limit_metrics json; } }
END
    my $version = sub { decode_json($nginx->get('/json')->{content})->{version} };
    $put->($next);
    $nginx->reload;
    is($version->(), $built, 'is not taken by a reload');
    $nginx->upgrade;
    is($version->(), $next, 'but by a new process');
    $nginx->stop;
};

subtest 'make install' => sub {
    my ($place) = RateLimit::Nginx::slurp($readme) =~ / make install +# as root, without a package: into (\S+)$/m;
    my $root    = tempdir('root-XXXXXXXX', TMPDIR => 1, CLEANUP => 1);
    local @ENV{qw(MAKEFLAGS MAKELEVEL)}; # of the make that runs the tests
    my $said = qx{make install DESTDIR=$root 2>&1};
    is($?, 0, 'succeeds') or diag($said);
    is(join(' ', glob "$root$place/*"), join(' ', map { "$root$place/ngx_${_}_redis_rate_limit_module.so" } qw(http stream)), 'puts both modules where the page says');
};

# The settings for redis.conf that have these words.
sub redis_settings ($words) {
    my ($block) = grep { /$words/ } RateLimit::Nginx::slurp('docs/operating.md') =~ /^```\n(.*?)^```$/msg;
    return map { split ' ', $_, 2 } split /\n/, $block;
}

subtest 'settings of Redis' => sub {
    my $alone = RateLimit::Redis->start_new(redis_settings('min-replicas'), redis_settings('save'));
    my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$alone->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$remote_addr zone=z:1m on_error=closed;
server { listen %PORT%; location / { redis_rate_limit zone=z algorithm=gcra limit=1 window=1; empty_gif; } }
END
    is($nginx->get('/')->{status}, 503, 'a master without a replica decides nothing');
    like($nginx->error_log, qr/fails: error reply: .*NOREPLICAS /, 'and says so');
    $nginx->stop;
};

subtest 'in and out by a reload' => sub {
    my $with    = http_level('redis_rate_limit zone=per_ip algorithm=sliding_log limit=1 window=60; location / { empty_gif; }');
    my $nginx   = RateLimit::Nginx->new('server { listen %PORT%; location / { empty_gif; } }', daemon => 1);
    my $file    = $nginx->dir . '/nginx.conf';
    my $without = RateLimit::Nginx::slurp($file) =~ s/^load_module .*\n//mr;
    RateLimit::Nginx::write_file($file, $without);
    $nginx->start;
    for my $time ('once', 'twice') {
        $redis->client->flushall;
        $nginx->configure($backend . $with);
        $nginx->reload;
        is($nginx->statuses('/', 2), '200 429', "it is there $time");
        RateLimit::Nginx::write_file($file, $without);
        $nginx->reload;
        is($nginx->statuses('/', 2), '200 200', 'and gone');
    }
    ok(wait_until(sub { $redis->nginx_clients == 0 }), 'with its connections');
    $nginx->stop;
};

subtest 'a new password' => sub {
    my @changes = RateLimit::Nginx::slurp($deploying) =~ /^ *ACL (SETUSER limiter .+)$/mg;
    is(scalar @changes, 2, 'two commands');
    my $client = $redis->client;
    $client->acl(qw(SETUSER limiter on >secret ~* +@all));
    my $nginx = RateLimit::Nginx->new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; username limiter; password_file %DIR%/redis.password; connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$remote_addr zone=z:1m on_error=closed;
server { listen %PORT%; location / { redis_rate_limit zone=z algorithm=sliding_log limit=10 window=60; empty_gif; } }
END
    RateLimit::Nginx::write_file($nginx->dir . '/redis.password', "secret\n");
    $nginx->start;
    is($nginx->get('/')->{status}, 200, 'the old one');
    $client->acl(split ' ', $changes[0]);
    RateLimit::Nginx::write_file($nginx->dir . '/redis.password', "new-secret\n");
    $nginx->reload;
    is($nginx->get('/')->{status}, 200, 'both');
    $client->acl(split ' ', $changes[1]);
    is($nginx->get('/')->{status}, 200, 'a connection that is open stays');
    $nginx->reload;
    is($nginx->get('/')->{status}, 200, 'the new one alone');
    unlike($nginx->error_log, qr/fails/, 'no check was without a verdict');
    $nginx->stop;
};

done_testing;
