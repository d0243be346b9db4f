# Problem details (RFC 9457) as the body of rejections: `redis_rate_limit_problem`.

use v5.36;
use lib 't/lib';
use IO::Uncompress::Gunzip qw(gunzip);
use JSON::PP ();
use MIME::Base64 qw(encode_base64);
use RateLimit::Api qw(api query);
use RateLimit::Client;
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis  = RateLimit::Redis->start_new;
my $nobody = empty_port();

# Rules that deny all need no counter.
sub deny ($name, $more = '') { return "redis_rate_limit zone=z algorithm=sliding_log limit=0 window=60 name=$name $more;" }
sub rule ($name, $limit, $more = '') { return "redis_rate_limit zone=z algorithm=sliding_log limit=$limit window=60 name=$name $more;" }

# Statuses that nginx does not send as they are: it closes the connection, or sends 400.
my @closing = (408, 444, 499);
my @own     = (494 .. 497);
my @sent    = (400, 401, 403, 404, 413, 418, 429, 451, 500, 503, 599);
my $statuses = join "\n", map { "location /status/$_ { redis_rate_limit_status $_; }" } @closing, @own, @sent;

# HTTP/2 is spoken at 127.0.0.2.
my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_backend nobody { server 127.0.0.1:$nobody; }
redis_rate_limit_zone \$arg_key zone=z:1m;
redis_rate_limit_zone \$arg_key zone=banned:1m;
redis_rate_limit_zone \$arg_key zone=asked:1m deny_cache=off;
redis_rate_limit_zone \$arg_down zone=down:1m backend=nobody on_error=closed;
redis_rate_limit_problem on;
default_type text/plain;
log_format sent '\$request_uri \$status \$body_bytes_sent';
access_log %DIR%/sent.log sent;
server {
    listen %PORT%;
    listen 127.0.0.2:%PORT% http2;
    add_header X-Always \$redis_rate_limit_status always;
    add_header X-Usual there;
    error_page 502 /for-another-status;

    location /several {
        ${\rule('one', 1)} ${\rule('three', 100)} ${\rule('two', 1)} ${\rule('trial', 1, 'dry_run')}
        empty_gif;
    }
    location /with    { ${\rule('same', 1)} empty_gif; }
    location /without { ${\rule('same', 1)} redis_rate_limit_problem off; empty_gif; }
    location /off { redis_rate_limit_problem off; ${\deny('d')} location /off/inherits { empty_gif; } location /off/on { redis_rate_limit_problem on; empty_gif; } }
    location /denied { ${\deny('d')} empty_gif; }
    location /dry-run { ${\deny('d')} redis_rate_limit_dry_run on; empty_gif; }
    location /status/ { ${\deny('d')} $statuses }
    location /zipped { ${\deny('d')} redis_rate_limit_status 403; gzip on; gzip_min_length 1; gzip_types application/problem+json; }

    location /phases { ${\rule('access', 100)} ${\deny('later', 'phase=precontent')} empty_gif; }
    location /redirected { ${\rule('outer', 100)} try_files /none /denied?key=a; }
    location /satisfy { ${\deny('d')} redis_rate_limit_status 403; satisfy any; allow all; auth_basic x; auth_basic_user_file none; empty_gif; }
    location /after { post_action \@after; empty_gif; }
    location \@after { ${\deny('after')} empty_gif; }

    location /page { ${\deny('d')} error_page 429 \@page; }
    location /page-200 { ${\deny('d')} error_page 429 =200 \@page; }
    location /page-own { ${\deny('d')} error_page 429 = \@page; }
    location /page-elsewhere { ${\deny('d')} error_page 429 https://elsewhere.example/; }
    location /page-503 { ${\deny('d')} error_page 503 \@page; }
    location /page-of-status { ${\deny('d')} redis_rate_limit_status 503; error_page 503 \@page; }
    location /page-denies { error_page 404 /within/once?key=a; root %DIR%/none; }
    location /page-denies-recursively { recursive_error_pages on; error_page 404 /within/again?key=a; root %DIR%/none; }
    location /within/once { ${\deny('d')} error_page 429 \@page; }
    location /within/again { ${\deny('d')} error_page 429 \@page; }
    location \@page { default_type text/html; return 429 page; }

    location /closed { redis_rate_limit zone=down algorithm=gcra limit=1 window=60; empty_gif; }
    location /asked { redis_rate_limit zone=asked algorithm=gcra limit=1 window=60 name=asked; empty_gif; }
    location /closed-and-denied {
        redis_rate_limit zone=down algorithm=gcra limit=1 window=60 name=down;
        redis_rate_limit zone=asked algorithm=gcra limit=1 window=60 name=asked;
        empty_gif;
    }
    location /banned {
        redis_rate_limit zone=banned algorithm=gcra limit=100 window=60 burst=100 name=first;
        redis_rate_limit zone=banned algorithm=gcra limit=100 window=60 burst=100 name=second;
        ${\rule('granting', 100)}
        empty_gif;
    }
    location /accelerated { proxy_pass http://unix:%DIR%/upstream.sock; }
    location /api/ { redis_rate_limit_problem off; redis_rate_limit_api write; }
}
server {
    listen unix:%DIR%/upstream.sock;
    add_header X-Accel-Redirect /denied?key=a;
    add_header Last-Modified 'Mon, 23 Nov 2026 00:00:00 GMT';
    add_header ETag '"stale"';
    add_header Accept-Ranges bytes;
    location / { default_type text/html; return 200 'a long page that is not sent'; }
}
END

my $type = 'https://iana.org/assignments/http-problem-types#quota-exceeded';
my $json = JSON::PP->new->utf8;

# The rules that a response names, after a look at all the rest of it.
sub violated ($response, $status = 429) {
    my $headers = $response->{headers};
    my $content = $response->{content} // $response->{body};
    return "$response->{status} $headers->{'content-type'}" if ($headers->{'content-type'} // '') ne 'application/problem+json';
    my $problem = $json->decode($content);
    my $as_expected =
           $response->{status} == $status
        && $headers->{'content-length'} == length $content
        && $problem->{type} eq $type
        && $problem->{title} eq 'Request cannot be satisfied as assigned quota has been exceeded'
        && $content =~ /"status": $status\b/ # a number
        && join(' ', sort keys %$problem) eq 'status title type violated-policies';
    return $as_expected ? join ' ', $problem->{'violated-policies'}->@* : "status $response->{status}: $content";
}

sub request ($head) { return "$head HTTP/1.1\r\nHost: h\r\n" }

subtest 'the rules that deny' => sub {
    my $answers = join ', ', map { violated($nginx->get('/several?key=a')) } 1 .. 3;
    is($answers, '200 image/gif, one two, one two', 'those of several that deny, and no dry run');
    is(violated($nginx->get('/denied?key=a')), 'd', 'a single one');
    is(violated($nginx->get('/phases?key=a')), 'later', 'not one of another phase that grants');
    is(violated($nginx->get('/redirected?key=a')), 'd', 'nor one before a redirect');
    is($nginx->get('/dry-run?key=a')->{status}, 200, 'a dry run denies nothing');
};

subtest 'the same but for the body' => sub {
    is($nginx->get('/with?key=same')->{status}, 200, 'what passes is not changed');
    my %response = map { $_ => $nginx->get("/$_?key=same") } qw(with without);
    my %headers  = map { $_ => { $response{$_}{headers}->%* } } keys %response;
    is(violated($response{with}), 'same', 'the policy');
    is($headers{with}{'ratelimit-policy'}, '"same";q=1;w=60', 'has the name that it has in the header');
    is(violated($response{without}), '429 text/html', 'off');
    for my $of (values %headers) {
        delete @{$of}{qw(content-type content-length date)};
        s/\b\d\d\b/seconds/ for @{$of}{qw(retry-after x-ratelimit-reset)}; # one may be a second later
        $of->{ratelimit} =~ s/t=\d\d/t=seconds/;
    }
    is_deeply($headers{with}, $headers{without}, 'headers');
    is($headers{with}{'retry-after'}, 'seconds', 'with Retry-After');
    is($headers{with}{'x-always'}, 'REJECTED', 'and those of add_header');
    ok(!exists $headers{with}{'x-usual'}, 'which this status has only with "always"');
    is(violated($nginx->get('/off?key=a')), '429 text/html', 'switched off');
    is(violated($nginx->get('/off/inherits?key=a')), '429 text/html', 'for inner locations, too');
    is(violated($nginx->get('/off/on?key=a')), 'd', 'unless they have their own');
};

subtest 'statuses' => sub {
    is(violated($nginx->get("/status/$_?key=a"), $_), 'd', "status $_") for @sent;
    is(RateLimit::Client->new($nginx)->send(request("GET /status/$_?key=a") . "\r\n")->response->{status}, 0, "status $_ ends the connection") for @closing;
    is(violated($nginx->get("/status/$_?key=a")), '400 text/html', "status $_ is nginx's own") for @own;
    is(violated($nginx->get('/satisfy?key=a'), 403), 'd', 'with "satisfy any"');
    is(violated($nginx->get('/satisfy?key=a', headers => { Authorization => 'Basic ' . encode_base64('a:b', '') }), 403), 'd', 'whatever else lets in');
};

subtest 'error_page wins' => sub {
    my $answer = sub ($path) { my $response = $nginx->get("$path?key=a"); "$response->{status} $response->{content}" };
    is($answer->('/page'),           '429 page', 'a page');
    is($answer->('/page-200'),       '200 page', 'with another status');
    is($answer->('/page-own'),       '429 page', 'with its own status');
    is($answer->('/page-of-status'), '503 page', 'of another status');
    is($nginx->get('/page-elsewhere?key=a')->{headers}{location}, 'https://elsewhere.example/', 'a redirect');
    is(violated($nginx->get('/page-503?key=a')), 'd', 'not a page for another status');
    is(violated($nginx->get('/page-denies?key=a')), 'd', 'nor where an error page is denied');
    is($answer->('/page-denies-recursively'), '429 page', 'unless these have theirs');
};

subtest 'without a verdict' => sub {
    my $closed = $nginx->get('/closed?down=a');
    is("$closed->{status} $closed->{headers}{'content-type'} $closed->{headers}{'x-always'}", '503 text/html ERROR_CLOSED', "nginx's own page");
    is($nginx->get('/asked?key=a')->{status}, 200, 'beside a rule that has a verdict');
    is(violated($nginx->get('/closed-and-denied?down=a&key=a')), 'asked', 'only that one is named');
};

subtest 'bans' => sub {
    is(api($nginx, 'PUT override' . query(zone => 'banned', key => 'x'), body => { ban => JSON::PP::true })->{status}, 200, 'an operator bans');
    ok(wait_until(sub { $nginx->get('/banned?key=x')->{status} == 429 }), 'which holds');
    my $response = $nginx->get('/banned?key=x');
    is(violated($response), 'first second', 'the rules that deny by it');
    ok(!exists $response->{headers}{'ratelimit-policy'}, 'which are in no header');
};

subtest 'what the deny cache knows' => sub {
    my $path = '/with?key=cached';
    is(join(', ', map { violated($nginx->get($path)) } 1 .. 3), '200 image/gif, same, same', 'is told alike');
};

subtest 'HEAD' => sub {
    my $client = RateLimit::Client->new($nginx);
    my $length = length $nginx->get('/denied?key=a')->{content};
    my $head   = $client->send(request('HEAD /denied?key=a') . "\r\n")->response('HEAD');
    is("$head->{status} $head->{headers}{'content-type'} $head->{headers}{'content-length'}", "429 application/problem+json $length", 'has the length');
    is(violated($client->send(request('GET /denied?key=a') . "\r\n")->response), 'd', 'and no body: the next response follows');
};

subtest 'requests with a body on a connection that is kept' => sub {
    my $client = RateLimit::Client->new($nginx);
    my $large  = 'x' x 300_000;
    my %body   = (
        'of a length' => "Content-Length: 300000\r\n\r\n$large",
        chunked       => "Transfer-Encoding: chunked\r\n\r\n" . (sprintf("%x\r\n%s\r\n", 30_000, 'y' x 30_000) x 10) . "0\r\n\r\n",
        short         => "Content-Length: 3\r\n\r\nabc",
    );
    for (sort keys %body) {
        is(violated($client->send(request('POST /denied?key=a'), $body{$_})->response), 'd', $_);
        is(violated($client->send(request('GET /denied?key=a'), "\r\n")->response), 'd', 'and the next request');
    }
    my $careful  = RateLimit::Client->new($nginx)->send(request('POST /denied?key=a'), "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    my $response = $careful->response;
    is(violated($response), 'd', 'a client that asks first is not told to go on');
    is(violated($careful->send('abc', request('GET /denied?key=a'), "\r\n")->response), 'd', 'and if it does, nothing breaks');
    is(violated(RateLimit::Client->new($nginx)->send("GET /denied?key=a HTTP/1.0\r\n\r\n")->response), 'd', 'HTTP/1.0');
};

subtest 'HTTP/2' => sub {
    my $ask = sub (@arguments) {
        my $said = qx{curl -s --http2-prior-knowledge @arguments 'http://127.0.0.2:${\$nginx->port}/denied?key=a'};
        my ($head, $content) = split /\r\n\r\n/, $said, 2;
        my ($status) = $head =~ m{^HTTP/2 (\d+)};
        return { status => $status, headers => { map { /^(\S+): (.*)/ ? (lc $1, $2) : () } split /\r\n/, $head }, content => $content // '' };
    };
    my $answer = $ask->('-i');
    is(violated($answer), 'd', 'GET');
    my $file = $nginx->dir . '/large';
    RateLimit::Nginx::write_file($file, 'x' x 300_000);
    my $frames = qx{nghttp -v -d $file 'http://127.0.0.2:${\$nginx->port}/denied?key=a' 2>&1}; # curl fails where nginx reads no body
    my $length = length $answer->{content};
    like($frames, qr/:status: 429\n.*recv DATA frame <length=$length, flags=0x01/s, 'POST');
    my $head = $ask->('-I');
    is("$head->{status} $head->{content}", '429 ', 'HEAD');
};

subtest 'other modules' => sub {
    my $zipped = $nginx->get('/zipped?key=a', headers => { 'Accept-Encoding' => 'gzip' });
    is($zipped->{headers}{'content-encoding'}, 'gzip', 'gzip');
    gunzip(\$zipped->{content} => \my $content);
    is_deeply($json->decode($content)->{'violated-policies'}, ['d'], 'of the same');
    my $accelerated = $nginx->get('/accelerated?key=a');
    is($accelerated->{status}, 429, 'what an upstream redirects to') or diag explain $accelerated;
    is(violated($accelerated), 'd', 'has the length of this body');
    ok(!exists $accelerated->{headers}{$_}, "and no $_ of the upstream") for qw(last-modified etag accept-ranges);
    is($nginx->get('/after?key=a')->{status}, 200, 'a post_action that is denied');
    ok($nginx->wait_for_log(qr/limiting requests, rule "after"/), 'has answered already');
};

subtest 'the access log' => sub {
    my $response = $nginx->get('/denied?key=log');
    my $line     = "/denied?key=log 429 " . length $response->{content};
    ok(wait_until(sub { RateLimit::Nginx::slurp($nginx->dir . '/sent.log') =~ /^\Q$line\E$/m }), 'has status and size');
};

$nginx->stop;
done_testing;
