# Values from responses over HTTP/3: each answer arrives as it was, and is looked at.

use v5.36;
use lib 't/lib';
use RateLimit::Certificates;
use RateLimit::Nginx;
use RateLimit::Process;
use RateLimit::Wait qw(wait_until);
use Test::More;

qx(@{[ RateLimit::Nginx::binary ]} -V 2>&1) =~ /http_v3_module/ or plan skip_all => 'this nginx speaks no HTTP/3';
qx(curl --version) =~ /\bHTTP3\b/ or plan skip_all => 'this curl speaks no HTTP/3';

my $trust = RateLimit::Certificates->new;
$trust->issue('nginx', 'IP:127.0.0.1');
my $nginx = RateLimit::Nginx->start_new(<<"END");
ssl_certificate ${\$trust->certificate('nginx')};
ssl_certificate_key ${\$trust->key('nginx')};
types { application/json json; text/event-stream sse; application/x-ndjson ndjson; }
log_format used '\$server_protocol \$uri \$used';
access_log %DIR%/used.log used;
server {
    listen %PORT%;
    listen 127.0.0.1:%PORT% quic;
    redis_rate_limit_response_value \$used usage.total_tokens|eval_count;
    location / { root %DIR%; }
}
END
my %used = ('chat.json' => 42, 'chat.sse' => 21, 'local.ndjson' => 282, 'large.json' => 77);
for my $path (sort keys %used) {
    my $body = $path eq 'large.json' ? '{"text":"' . 'x' x 300_000 . '","usage":{"total_tokens":77}}' : RateLimit::Nginx::slurp("t/answers/$path");
    RateLimit::Nginx::write_file($nginx->dir . "/$path", $body);
    my $received = $nginx->dir . '/received';
    my $client   = RateLimit::Process->execute(
        $nginx->dir . '/curl', qw(curl --http3-only --silent --max-time 30 --cacert), $trust->certificate('authority'),
        '--output', $received, 'https://127.0.0.1:' . $nginx->port . "/$path",
    );
    ok($client->wait_for_end, "$path comes") or diag RateLimit::Nginx::slurp($nginx->dir . '/curl');
    ok(RateLimit::Nginx::slurp($received) eq $body, '... as it is');
    my $logged = sub { (RateLimit::Nginx::slurp($nginx->dir . '/used.log') =~ m{^HTTP/3\.0 /\Q$path\E (.*)$}m)[0] };
    ok(wait_until(sub { defined $logged->() }), '... and is logged');
    is($logged->(), $used{$path}, '... with what it used');
}

$nginx->stop;
done_testing;
