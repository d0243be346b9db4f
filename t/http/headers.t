# Rate-limit headers: which, on which responses, and that they are ours alone.

use v5.36;
use lib 't/lib';
use RateLimit::Nginx;
use RateLimit::Redis;
use Test::More;

my $redis = RateLimit::Redis->start_new;
my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$uri\$arg_key zone=z:1m;
server {
    listen %PORT%;
    redis_rate_limit zone=z algorithm=sliding_log limit=2 window=60 name=r;

    location /off { redis_rate_limit_headers off; empty_gif; }
    location /x { redis_rate_limit_headers x; empty_gif; }
    location /ietf { redis_rate_limit_headers ietf; empty_gif; }
    location /x-ietf { redis_rate_limit_headers x ietf; empty_gif; }
    location /default { empty_gif; }

    location /waits/ {
        redis_rate_limit zone=z algorithm=fixed_window limit=1 window=1h;
        redis_rate_limit_problem on;
        location /waits/on    { redis_rate_limit_headers x ietf retry_after=on; }
        location /waits/off   { redis_rate_limit_headers x ietf retry_after=off; location /waits/off/inherits { } }
        location /waits/alone { redis_rate_limit_headers off retry_after=off; add_header Retry-After own always; }
        location /waits/30s   { redis_rate_limit_headers x ietf retry_after=30s; location /waits/30s/inherits { } location /waits/30s/other { redis_rate_limit_headers x ietf; } }
        location /waits/1500ms { redis_rate_limit_headers x ietf retry_after=1500ms; }
        location /waits/2h    { redis_rate_limit_headers x ietf retry_after=2h; }
        location /waits/none  { redis_rate_limit zone=z algorithm=fixed_window limit=0 window=1h; redis_rate_limit_headers x ietf retry_after=30s; }
        location /waits/dry   { redis_rate_limit zone=z algorithm=fixed_window limit=0 window=1h dry_run; redis_rate_limit_headers x ietf retry_after=30s; empty_gif; }
        location /waits/proxied { error_page 429 /waits/upstream; }
        location /waits/upstream { redis_rate_limit off; redis_rate_limit_headers x ietf retry_after=off; proxy_pass http://unix:%DIR%/upstream.sock:/; }
        add_header X-Wait \$redis_rate_limit_retry_after always;
        empty_gif;
    }
    location /page { add_header X-Own own always; }
    location /error { try_files /none =500; }
    location /proxied { proxy_pass http://unix:%DIR%/upstream.sock:/; }
    location /proxied-off { redis_rate_limit off; proxy_pass http://unix:%DIR%/upstream.sock:/; }
    location /unreachable { proxy_pass http://unix:%DIR%/no.sock; }

    location /to-page { error_page 429 /sorry.html; empty_gif; }
    location /to-other { error_page 429 =503 /sorry.html; empty_gif; }
    location /to-name { error_page 429 \@sorry; empty_gif; }
    location /to-site { error_page 429 http://elsewhere.example/; empty_gif; }
    location /to-upstream { error_page 429 /proxied-off/; empty_gif; }
    location = /sorry.html { internal; redis_rate_limit off; }
    location \@sorry { add_header X-Own own; return 200 "named\\n"; }

    location /ms { redis_rate_limit zone=z algorithm=sliding_log limit=5 window=500ms; empty_gif; }
    location /1ms { redis_rate_limit zone=z algorithm=sliding_log limit=5 window=1ms; empty_gif; }
    location /90s { redis_rate_limit zone=z algorithm=sliding_log limit=5 window=1m30s; empty_gif; }
    location /none { redis_rate_limit zone=z algorithm=sliding_log limit=0 window=60; empty_gif; }
    location /unlimited { redis_rate_limit off; empty_gif; }
}
server {
    listen unix:%DIR%/upstream.sock;
    add_header X-RateLimit-Limit 1000;
    add_header X-RateLimit-Remaining 999;
    add_header X-RateLimit-Reset 998;
    add_header x-ratelimit-used 997;
    add_header RateLimit-Policy '"upstream";q=1000;w=1';
    add_header ratelimit '"upstream";r=999';
    add_header Retry-After 7;
    return 200 "upstream\\n";
}
END
$nginx->add_page('page'       => "a page\n");
$nginx->add_page('sorry.html' => "sorry\n");

my @names = qw(x-ratelimit-limit x-ratelimit-remaining x-ratelimit-reset ratelimit-policy ratelimit retry-after);

# The rate-limit headers of a response, those that are there.
sub headers ($response) {
    return { map { defined $response->{headers}{$_} ? ($_ => $response->{headers}{$_}) : () } @names };
}

sub x ($limit, $remaining, $reset) {
    return ('x-ratelimit-limit' => $limit, 'x-ratelimit-remaining' => $remaining, 'x-ratelimit-reset' => $reset);
}

sub ietf ($policy, $state) { return ('ratelimit-policy' => $policy, 'ratelimit' => $state) }

my @passes  = (x(2, 1, 60), ietf('"r";q=2;w=60', '"r";r=1;t=60'));
my @refuses = (x(2, 0, 60), ietf('"r";q=2;w=60', '"r";r=0;t=60'), 'retry-after' => 60);

sub answers ($path, $status, $headers, $what, %options) {
    my $response = $nginx->get($path, %options);
    is($response->{status}, $status, "$what: $status");
    is_deeply(headers($response), {@$headers}, 'and its headers');
    return $response;
}

sub exhaust ($path) { $nginx->get($path) for 1 .. 2 }

# --- the families

my %family = (
    off       => [],
    x         => [x(2, 1, 60)],
    ietf      => [ietf('"r";q=2;w=60', '"r";r=1;t=60')],
    'x-ietf'  => \@passes,
    default   => \@passes,
    unlimited => [],
);
for my $name (sort keys %family) {
    answers("/$name", 200, $family{$name}, "headers $name");
}
exhaust('/off');
answers('/off', 429, [ 'retry-after' => 60 ], 'Retry-After is of HTTP, not of a family');

# --- on every status

answers('/page?key=200', 200, \@passes, 'a page');
answers('/page?key=206', 206, \@passes, 'a range', headers => { Range => 'bytes=0-1' });
answers('/page?key=416', 416, \@passes, 'a range that is not there', headers => { Range => 'bytes=99-' });
answers('/page-none',    404, \@passes, 'no page');
answers('/error',        500, \@passes, 'an error');
answers('/unreachable',  502, \@passes, 'an upstream that is not there');
answers('/default?key=405', 405, \@passes, 'a method that is not allowed', method => 'POST');
answers(
    '/page?key=304', 304, \@passes, 'a page that was not modified',
    headers => { 'If-Modified-Since' => $nginx->get('/page')->{headers}{'last-modified'} }
);
answers(
    '/page?key=412', 412, \@passes, 'a response that a filter of nginx replaces',
    headers => { 'If-Match' => '"other"' }
);
answers('/page?key=HEAD', 200, \@passes, 'HEAD', method => 'HEAD');
exhaust('/page?key=HEAD');
answers('/page?key=HEAD', 429, \@refuses, 'HEAD', method => 'HEAD');
is($nginx->get('/page?key=own')->{headers}{'x-own'}, 'own', 'add_header adds its own');
exhaust('/page?key=own');
is($nginx->get('/page?key=own')->{headers}{'x-own'}, 'own', 'also to a refusal');

# --- over an upstream's

my $proxied = answers('/proxied', 200, [ @passes, 'retry-after' => 7 ], "ours replace an upstream's, but for Retry-After");
is($proxied->{headers}{'x-ratelimit-used'}, 997, 'other headers of an upstream stay');
exhaust('/proxied');
answers('/proxied', 429, \@refuses, 'refused before the upstream');
is($nginx->get('/proxied-off')->{headers}{'x-ratelimit-limit'}, 1000, "where nothing is counted the upstream's stay");

# --- on pages of error_page

my %page = (
    '/to-page'     => [ 429, "sorry\n" ],
    '/to-other'    => [ 503, "sorry\n" ],
    '/to-name'     => [ 429, "named\n" ],
    '/to-site'     => [ 302, '302 Found' ],
    '/to-upstream' => [ 429, "upstream\n" ],
);
for my $path (sort keys %page) {
    my ($status, $content) = $page{$path}->@*;
    exhaust($path);
    like(answers($path, $status, \@refuses, "error_page $path")->{content}, qr/$content/, 'and its page');
}

# --- Retry-After that is bounded or left out

sub wait_in ($path) {
    $nginx->get($path);
    return $nginx->get($path);
}
for my $path (qw(on 2h off off/inherits 30s 30s/inherits 30s/other 1500ms)) {
    my $response = wait_in("/waits/$path");
    my $headers  = headers($response);
    my $wait     = delete $headers->{'retry-after'};
    my $expected = { 'on' => '3\d\d\d', '2h' => '3\d\d\d', '30s/other' => '3\d\d\d', '1500ms' => '2' }->{$path} // ($path =~ /^30s/ ? '30' : 'none');
    like($wait // 'none', qr/^(?:$expected)$/, "$path: Retry-After");
    is($headers->{'x-ratelimit-remaining'}, 0, 'the other fields stay');
    like($headers->{'x-ratelimit-reset'}, qr/^3\d\d\d$/, 'with their times');
    like($headers->{ratelimit}, qr/;r=0;t=3\d\d\d$/, 'of both families');
    like($response->{headers}{'x-wait'}, qr/^3\d\d\d$/, 'and so does the variable') if $path !~ m{/};
    like($response->{content}, qr/"violated-policies"/, 'and the body');
}
is_deeply(headers(wait_in('/waits/alone')), { 'retry-after' => 'own' }, 'the field is left to add_header');
is(wait_in('/waits/proxied')->{headers}{'retry-after'}, 7, 'or to an upstream');
is(headers(wait_in('/waits/none'))->{'retry-after'}, undef, 'where no waiting helps there is none');
is_deeply(headers(wait_in('/waits/dry')), {}, 'nor of a dry run');

# --- values

answers('/ms',  200, [ x(5, 4, 1),  ietf('"z/500ms";q=5;w=1', '"z/500ms";r=4;t=1') ], 'a window of 500ms, rounded up');
answers('/1ms', 200, [ x(5, 4, 1),  ietf('"z/1ms";q=5;w=1',   '"z/1ms";r=4;t=1') ],   'of 1ms');
answers('/90s', 200, [ x(5, 4, 90), ietf('"z/90s";q=5;w=90',  '"z/90s";r=4;t=90') ],  'of 90s');
answers('/none', 429, [ x(0, 0, 0), ietf('"z/60s";q=0;w=60',  '"z/60s";r=0') ], 'a limit of 0: waiting does not help');

$nginx->stop;
done_testing;
