# redis_rate_limit_response_value changes no byte of a response: two servers with the same locations, of
# which one has the directive, answer alike, and each part of a stream as soon as it comes.

use v5.36;
use lib 't/lib';
use RateLimit::AnswerServer;
use RateLimit::Client;
use RateLimit::Http2;
use RateLimit::Nginx;
use Test::More;

my $text  = join '', map { chr(32 + $_ % 90) =~ s/["\\]/ /r } 1 .. 200_000;
my $model = RateLimit::AnswerServer->start_new(answers => { 'large.json' => qq({"text":"$text","usage":{"total_tokens":77}}) });

my $locations = <<"END";
root %DIR%/html;
location / { proxy_pass ${\$model->url}; }
location /unbuffered/ { proxy_buffering off; proxy_pass ${\$model->url}; }
location /in_files/ { proxy_buffers 4 4k; proxy_buffer_size 4k; proxy_busy_buffers_size 4k; proxy_pass ${\$model->url}; }
location /gzip/ { gzip on; gzip_types *; gzip_proxied any; gzip_min_length 1; proxy_pass ${\$model->url}; }
location /sub/ { sub_filter usage cost; sub_filter_types *; sub_filter_once off; proxy_pass ${\$model->url}; }
location /ssi/ { ssi on; ssi_types *; proxy_pass ${\$model->url}; }
location /ssi/page.json { ssi on; ssi_types *; }
location /charset/ { charset utf-8; source_charset koi8-r; charset_types *; proxy_pass ${\$model->url}; }
location /addition/ { add_before_body /file/chat.json; add_after_body /file/chat.json; addition_types *; proxy_pass ${\$model->url}; }
location /cached/ { proxy_cache cache; proxy_cache_key \$uri; proxy_force_ranges on; proxy_pass ${\$model->url}; }
location /file/ { }
location /zipped/ { gzip on; gzip_types *; gzip_min_length 1; alias %DIR%/html/file/; }
location /aio/ { aio threads; sendfile off; alias %DIR%/html/file/; }
location /direct/ { directio 512; sendfile off; alias %DIR%/html/file/; }
location /slow/ { limit_rate 4m; output_buffers 1 512; postpone_output 0; alias %DIR%/html/file/; }
location /slice/ { slice 1k; proxy_set_header Range \$slice_range; proxy_pass http://unix:%DIR%/origin.sock; }
location /grpc/ { grpc_pass grpc://unix:%DIR%/grpc.sock; }
location /error/ { error_page 404 /file/chat.json; try_files /none =404; }
location /accel/ { proxy_pass http://unix:%DIR%/origin.sock; }
END
my $nginx = RateLimit::Nginx->start_new(<<"END");
types { application/json json; text/event-stream sse; application/x-ndjson ndjson; }
charset_map koi8-r utf-8 { C0 D18E; }
proxy_cache_path %DIR%/cache keys_zone=cache:1m;
proxy_http_version 1.1;
sendfile on;
server {
    listen %PORT%;
    listen 127.0.0.3:%PORT% http2;
    redis_rate_limit_response_value \$tokens usage.total_tokens;
    $locations
}
server {
    listen 127.0.0.2:%PORT%;
    listen 127.0.0.4:%PORT% http2;
    $locations
}
server {
    listen unix:%DIR%/grpc.sock http2;
    location /grpc/ { alias %DIR%/html/file/; }
}
server {
    listen unix:%DIR%/origin.sock;
    root %DIR%/html;
    location /accel/ { add_header X-Accel-Redirect /file/chat.json; return 200 no; }
    location /slice/ { alias %DIR%/html/file/; }
}
END
my @names = map { m{([^/]+)$} } glob 't/answers/*';
$nginx->add_page("file/$_", RateLimit::Nginx::slurp("t/answers/$_")) for @names;
$nginx->add_page('file/large.json', qq({"text":"$text","usage":{"total_tokens":77}}));
$nginx->add_page('ssi/page.json', '{"a":<!--# include virtual="/file/chat.json" -->,"b":<!--# include virtual="/gzip/large.json" -->}');

# All of a response but what differs anyway: the date, and who was asked.
sub received ($host, $path, %options) {
    my $response = $nginx->get($path, host => $host, %options);
    my %headers  = $response->{headers}->%*;
    delete @headers{qw(date connection)};
    return join "\n", $response->{status}, (map { "$_: $headers{$_}" } sort keys %headers), '', $response->{content} // '';
}

sub is_unchanged ($path, %options) {
    my ($with, $without) = map { received($_, $path, %options) } qw(127.0.0.1 127.0.0.2);
    my $what = join ' ', $path, $options{method} // (), %{ $options{headers} // {} };
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    ok($with eq $without, $what) or diag substr($with, 0, 500), "\n--- without\n", substr($without, 0, 500);
}

for my $where ('', qw(/unbuffered /in_files /gzip /sub /ssi /charset /addition /cached /cached /file /zipped /aio /direct /slow /slice /grpc)) {
    is_unchanged("$where/$_") for qw(chat.json chat.sse local.ndjson large.json);
    is_unchanged("$where/large.json", headers => { 'Accept-Encoding' => 'gzip' });
    is_unchanged("$where/large.json", headers => { Range => 'bytes=1000-150000' });
    is_unchanged("$where/chat.json", headers => { Range => 'bytes=99999-' });
    is_unchanged("$where/chat.json", method => 'HEAD');
    is_unchanged("$where/$_?by=part") for qw(chat.sse chat.json);
}
is_unchanged($_) for qw(/ssi/page.json /error/ /accel/ /none /chat.sse?break=2&by=part);

subtest 'HTTP/2' => sub {
    my ($with, $without) = map { RateLimit::Http2->new($nginx, $_, window => 0) } qw(127.0.0.3 127.0.0.4);
    for my $path (qw(/chat.sse?by=part /file/large.json /unbuffered/large.json /gzip/large.json)) {
        my ($one, $other) = map { $_->content($_->request($path), 10_000) } $with, $without;
        ok(defined $one && $one eq $other, $path);
    }
};

# The upstream sends no more until the client has left.
subtest 'nothing is held back' => sub {
    for my $name (qw(chat.sse local.ndjson)) {
        for my $count (1, 2) {
            my $client = RateLimit::Client->new($nginx);
            $client->send("GET /unbuffered/$name?by=part&hold=$count HTTP/1.1\r\nHost: a\r\n\r\n");
            my ($first) = RateLimit::Nginx::slurp("t/answers/$name") =~ ($name =~ /sse/ ? qr/((?:.+\n\n){$count})/ : qr/((?:.+\n){$count})/);
            my $received = sub { $client->{input} =~ s/.*?\r\n\r\n//sr =~ s/(?:^|\r\n)[0-9a-f]+\r\n|\r\n$//gr };
            ok($client->read_until(sub { length $received->() >= length $first }), "$name: $count parts come");
            is($received->(), $first, 'as they are, while the upstream has more');
            $client->reset;
        }
    }
};

$nginx->stop;
done_testing;
