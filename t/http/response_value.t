# redis_rate_limit_response_value: which bodies are read, whoever made them; which directives count; and
# what the variable is, and when. What stands in a body is the business of t/unit/rate_limit/response.

use v5.36;
use lib 't/lib';
use IO::Compress::Gzip qw(gzip);
use RateLimit::AnswerServer;
use RateLimit::Client;
use RateLimit::Http2;
use RateLimit::Nginx;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $large = '{"text":"' . 'y' x 300_000 . '","usage":{"total_tokens":77},"more":"' . 'z' x 300_000 . '"}';
gzip(\'{"usage":{"total_tokens":5}}' => \my $gzipped);
my $model = RateLimit::AnswerServer->start_new(answers => { 'large.json' => $large, 'gzipped.json' => $gzipped, 'counted.json' => '{"usage":{"total_tokens":TOKENS}}', 'empty.json' => '' });

my $directive = 'redis_rate_limit_response_value';
my $nginx     = RateLimit::Nginx->start_new(<<"END", workers => 1);
map \$request_uri \$id { ~\\bid=(?<found>r\\d+) \$found; }
log_format used escape=json '\$id [\$tokens|\$other|\$cost]';
access_log %DIR%/used.log used;
proxy_cache_path %DIR%/cache keys_zone=cache:1m;
map \$tokens \$cost { volatile; '' unknown; default 'cost \$tokens'; }
map \$tokens \$cached_cost { '' unknown; default 'cost \$tokens'; }
types { application/json json; text/event-stream sse; application/x-ndjson ndjson; text/html html; }
$directive \$tokens usage.total_tokens|response.usage.total_tokens;
proxy_http_version 1.1;
sendfile on;
server {
    listen %PORT%;
    listen 127.0.0.2:%PORT% http2;
    root %DIR%/html;
    location / { proxy_pass ${\$model->url}; }
    location /unbuffered/ { proxy_buffering off; proxy_pass ${\$model->url}; }
    location /in_files/ { proxy_buffers 4 4k; proxy_buffer_size 4k; proxy_busy_buffers_size 4k; proxy_pass ${\$model->url}; }
    location /http10/ { proxy_http_version 1.0; proxy_pass ${\$model->url}; }
    location /gzip/ { gzip on; gzip_types *; gzip_proxied any; gzip_min_length 1; proxy_pass ${\$model->url}; }
    location /gunzip/ { gunzip on; proxy_pass ${\$model->url}; }
    location /sub/ { sub_filter usage cost; sub_filter_types *; sub_filter_once off; proxy_pass ${\$model->url}; }
    location /ssi/ { ssi on; ssi_types *; proxy_pass ${\$model->url}; }
    location /ssi/outer.json { ssi on; ssi_types *; }
    location /addition/ { add_before_body /file/before.json; addition_types *; proxy_pass ${\$model->url}; }
    location /mirror/ { mirror /file/other.json; proxy_pass ${\$model->url}; }
    location /cached/ { proxy_cache cache; proxy_cache_key \$uri; proxy_force_ranges on; proxy_pass ${\$model->url}; }
    location /file/ { }
    location /aio/ { aio threads; sendfile off; }
    location /html/ { default_type text/html; types { } }
    location /if/ { if (\$arg_id) { add_header X-If yes; } proxy_pass ${\$model->url}; }
    location /read_before/ { add_header X-Tokens "<\$tokens \$cost \$cached_cost>"; proxy_pass ${\$model->url}; }
    location /set_before/ { set \$early "<\$tokens>"; proxy_pass ${\$model->url}; }
    location /status/ { return 200 '{"usage":{"total_tokens":9}}'; default_type application/json; }
    location = /status/204 { default_type application/json; return 204; }
    location /error/ { error_page 404 /file/error.json; try_files /none =404; }
    location /error_status/ { error_page 402 = \@error; proxy_intercept_errors on; proxy_pass ${\$model->url}; }
    location \@error { default_type application/json; return 200 '{"usage":{"total_tokens":10}}'; }
    location /accel/ { proxy_pass http://unix:%DIR%/accel.sock; }
    location /posted/ { post_action /after; proxy_pass ${\$model->url}; }
    location = /after { $directive \$other usage.total_tokens; proxy_pass ${\$model->url}/counted.json?tokens=99; }
    location /inherits/ {
        $directive \$other a.b;
        location /inherits/none { proxy_pass ${\$model->url}; }
        location /inherits/own { $directive \$tokens usage.completion_tokens; $directive \$other usage.prompt_tokens; proxy_pass ${\$model->url}; }
        proxy_pass ${\$model->url};
    }
    location /to_other/ { rewrite ^/to_other(.*) /other\$1 last; }
    location /other/ { $directive \$other usage.total_tokens; proxy_pass ${\$model->url}; }
    location /by_index/ { index chat.json; }
    location /slice/ { slice 1k; proxy_set_header Range \$slice_range; proxy_pass http://unix:%DIR%/accel.sock; }
    location /open/ { $directive \$tokens usage.total_tokens; proxy_pass ${\$model->url}; }
    location /grpc/ { grpc_pass grpc://unix:%DIR%/grpc.sock; }
}
server {
    listen unix:%DIR%/grpc.sock http2;
    access_log off;
    root %DIR%/html;
    location /grpc/ { rewrite ^/grpc(.*) /file\$1 break; }
}
server {
    listen unix:%DIR%/accel.sock;
    access_log off;
    root %DIR%/html;
    location /accel/ { default_type application/json; add_header X-Accel-Redirect /file/chat.json; return 200 '{"usage":{"total_tokens":1}}'; }
    location /slice/ { }
}
END
for my $name (map { m{([^/]+)$} } glob 't/answers/*') {
    $nginx->add_page("$_/$name", RateLimit::Nginx::slurp("t/answers/$name")) for qw(file aio html slice by_index);
}
$nginx->add_page('file/large.json',    $large);
$nginx->add_page('aio/large.json',     $large);
$nginx->add_page('slice/large.json',   $large);
$nginx->add_page('file/error.json',    '{"usage":{"total_tokens":11}}');
$nginx->add_page('file/before.json',   '{"usage":{"total_tokens":12}}');
$nginx->add_page('file/other.json',    '{"usage":{"total_tokens":13}}');
$nginx->add_page('ssi/outer.json',     '{"usage":{"total_tokens":14},"a":<!--# include virtual="/file/before.json" -->}');

my $requests = 0;

sub with_id ($path) {
    ++$requests;
    return $path . ($path =~ /\?/ ? '&' : '?') . "id=r$requests";
}

# What the log has of the last request: $tokens, $other and $cost.
sub logged () {
    my $line = wait_until(sub { RateLimit::Nginx::slurp($nginx->dir . '/used.log') =~ /^r$requests \[(.*)\]$/m && $1 });
    return $line || 'nothing';
}

sub used ($path, %options) {
    my $response = $nginx->get(with_id($path), %options);
    return logged() =~ s/\|.*//r;
}

my %used = (
    'chat.json' => 42, 'chat.sse' => 21, 'chat_without_usage.sse' => '', 'responses.json' => 123, 'responses.sse' => 48, 'large.json' => 77,
);

subtest 'whoever made the body' => sub {
    for my $where ('', qw(/unbuffered /in_files /http10 /gzip /sub /ssi /mirror /addition /cached /cached /if)) {
        is(used("$where/$_"),         $used{$_}, "$where/$_") for sort keys %used;
        is(used("$where/$_?by=part"), $used{$_}, "$where/$_ in parts") for grep { !/large/ } sort keys %used;
    }
    for my $where (qw(/file /aio)) {
        is(used("$where/$_"), $used{$_}, "$where/$_") for grep { $where eq '/file' || /large/ } sort keys %used;
    }
    is(used('/ssi/outer.json'),         14, 'not that of a subrequest');
    is(used('/status/'),                9,  'of return');
    is(used('/error/'),                 11, 'of error_page');
    is(used('/error_status/chat.json?status=402%20No'), 10, 'and of a named location');
    is(used('/accel/'),                 42, 'of X-Accel-Redirect');
    is(used('/grpc/chat.json'),         42, 'of a gRPC upstream');
    is(used('/by_index/'),              42, 'of an index');
    is(used('/posted/chat.json'),       42, 'not that of post_action');
    is(used('/local.ndjson'),           '', 'of a path that it does not have');
    is(used('/empty.json'),             '', 'none');
    is(used('/chat.sse?by=part&break=3'),       '', 'of one that breaks off');
    is(used('/chat.sse?by=part&break=4'),       21, 'behind the usage');
};

subtest 'its type' => sub {
    for my $type ('application/json;charset=utf-8', 'application/problem%2Bjson', 'Application/JSON') {
        is(used("/chat.json?type=$type"), 42, $type);
    }
    is(used("/chat.json?type=$_"), '', $_) for 'text/plain', 'text/html', 'application/octet-stream', 'text/event-stream', 'application/x-ndjson';
    is(used("/chat.sse?type=application/json"), '', 'events that say they are one text');
    is(used('/html/chat.json'), '', 'a file of another type');
};

subtest 'bodies that are not whole' => sub {
    my %range = (headers => { Range => 'bytes=0-2000' });
    is(used('/file/chat.json', headers => { Range => 'bytes=200-' }), '', 'a range of a file');
    is(used('/file/chat.json', %range),                               '', 'also if it has all');
    is(used('/file/chat.json', headers => { Range => 'bytes=0-2000', 'If-Range' => '"other"' }), 42, 'not one that is not served');
    is(used('/file/chat.json', headers => { Range => 'bytes=99999-' }), '', 'nor one that does not exist');
    is(used('/cached/chat.json', headers => { Range => 'bytes=200-' }), '', 'a range of what is cached');
    is(used('/chat.json?status=206%20Partial'),                       '', 'one that the upstream has answered');
    is(used('/file/chat.json', headers => { Range => 'bytes=0-9,20-900' }), '', 'several');
    is(used('/file/chat.json', method => 'HEAD'), '', 'HEAD');
    is(used('/chat.json', method => 'HEAD'),      '', 'HEAD of an upstream');
    is(used('/cached/anew/chat.json', method => 'HEAD'), '', 'HEAD that fills the cache');
    is(used('/cached/anew/chat.json'),               42, 'which a GET then has');
    is(used('/status/204'),                       '', 'a status without a body');
    my $etag = $nginx->get('/file/chat.json')->{headers}{etag};
    is($nginx->get(with_id('/file/chat.json'), headers => { 'If-None-Match' => $etag })->{status}, 304, 'a file that has not changed');
    is(logged(), '||unknown', 'is not told');
    is($nginx->get(with_id('/slice/large.json'))->{content}, $large, 'slices are joined');
};

subtest 'encoded bodies' => sub {
    is(used('/gzipped.json?encoding=gzip'), '', 'are not read');
    my $warning = qr/\[warn\] .*redis_rate_limit_response_value: the response has Content-Encoding "gzip" and is not read, expected none: proxy_set_header Accept-Encoding "";/;
    ok($nginx->wait_for_log($warning), 'which is told with a remedy');
    is(used('/gunzip/gzipped.json?encoding=gzip'), '', 'also where gunzip decodes them');
    is($nginx->get('/gunzip/gzipped.json?encoding=gzip')->{content}, '{"usage":{"total_tokens":5}}', 'which it does');
    is(used('/chat.json?encoding=br'), '', 'of any encoding');
    is(scalar(() = $nginx->error_log =~ /$warning/g), 1, 'once a minute');
    unlike($nginx->error_log, qr/Content-Encoding "br"/, 'whatever the encoding');
};

subtest 'what is no number' => sub {
    is(used('/counted.json?tokens=%22many%22'), '', 'is ignored');
    my $line = qr/\[error\] .*redis_rate_limit_response_value: the response has no whole number at usage\.total_tokens, which is ignored/;
    ok($nginx->wait_for_log($line), 'and logged');
    my $before = time;
    used('/counted.json?tokens=-1') for 1 .. 20;
    my $lines = () = $nginx->error_log =~ /$line/g;
    cmp_ok($lines, '<=', 2 + time - $before, "once a second: $lines");
    is(used('/counted.json?tokens=99999999999'), 1_000_000_000, 'more than a thousand million counts as that');
    is(used('/counted.json?tokens=null'), '', 'null is as if it were not there');
};

subtest 'directives' => sub {
    is($nginx->get(with_id('/inherits/own/chat.json'))->{status}, 200, 'of a level of its own');
    is(logged(), '23|19|cost 23', 'count there');
    $nginx->get(with_id('/inherits/none/chat.json'));
    is(logged(), '||unknown', 'and none of the levels outside');
    $nginx->get(with_id('/to_other/chat.json'));
    is(logged(), '|42|unknown', 'those of the location that sends the response count');
    $nginx->get(with_id('/posted/chat.json'));
    is(logged(), '42||cost 42', 'not those of post_action');
};

subtest 'a variable that is read before' => sub {
    my $response = $nginx->get(with_id('/read_before/chat.json'));
    is($response->{headers}{'x-tokens'}, '< unknown unknown>', 'is empty');
    is(logged(), '42||cost 42', 'and right in the end');
    is(used('/set_before/chat.json'), 42, 'whoever read it');
};

subtest 'a client that leaves' => sub {
    my $leave = sub ($path, $parts) {
        my $client = RateLimit::Client->new($nginx);
        $client->send('GET ' . with_id("$path?by=part&hold=$parts") . " HTTP/1.1\r\nHost: a\r\n\r\n");
        $client->read_until(sub { $parts <= (() = $client->{input} =~ /^data: .+\n\n/mg) });
        $client->reset;
        return logged() =~ s/\|.*//r;
    };
    is($leave->('/unbuffered/chat.sse', 1), '', 'before the usage is told');
    is($leave->('/unbuffered/responses.sse', 2), '', 'or one event before');
    is($leave->('/unbuffered/responses.sse', 3), 48, 'or behind it');
};

subtest 'HTTP/2' => sub {
    my $client = RateLimit::Http2->new($nginx, '127.0.0.2', window => 0);
    for my $path ('/chat.sse?by=part', '/unbuffered/responses.sse?by=part', '/file/large.json') {
        my ($name) = $path =~ m{/(\w+\.\w+)(?:\?|$)};
        my $content = $client->content($client->request(with_id($path)), 10_000);
        is(length $content, length($name eq 'large.json' ? $large : RateLimit::Nginx::slurp("t/answers/$name")), "$path: all of it");
        is(logged() =~ s/\|.*//r, $used{$name}, "$path: is read");
    }
};

subtest 'a connection that is kept' => sub {
    my $client = RateLimit::Client->new($nginx);
    for my $case (['/chat.json', 42], ['/status/204', ''], ['/file/error.json', 11], ['/gzipped.json?encoding=gzip', ''], ['/responses.json', 123]) {
        my ($path, $expected) = @$case;
        $client->send('GET ' . with_id($path) . " HTTP/1.1\r\nHost: a\r\n\r\n")->response;
        is(logged() =~ s/\|.*//r, $expected, $path);
    }
};

$nginx->stop;
done_testing;
