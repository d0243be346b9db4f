# nginx skips `allow`, `deny` and authentication for subrequests, so what shows keys answers none of them;
# and the API does not take a body away from subrequests that share it.

use v5.36;
use lib 't/lib';
use RateLimit::Api qw(api query);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis = RateLimit::Redis->start_new;
my $key   = query(zone => 'z', key => 'secret-client');
my %pages = (
    zones     => '/api/zones',
    key       => "/api/key$key",
    overrides => '/api/overrides?zone=z',
    json      => '/json',
    status    => '/dashboard/status.json',
);
my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$arg_key zone=z:1m;
log_format mirrored '\$uri \$request_body';
server {
    listen %PORT%;
    location /denied { redis_rate_limit zone=z algorithm=sliding_log limit=0 window=60 name=denied; empty_gif; }
    location /api/ { deny all; redis_rate_limit_api write; }
    location /dashboard/ { deny all; redis_rate_limit_dashboard; }
    location = /json { deny all; redis_rate_limit_metrics json; }
    location = /metrics { deny all; redis_rate_limit_metrics; }
    location /ssi/ { ssi on; ssi_types *; root %DIR%; }
    location /authorized { auth_request "/api/zones"; empty_gif; }
    location /added { add_before_body "/api/zones"; root %DIR%; }
    location /public/api/ {
        redis_rate_limit_api write;
        mirror /mirror;
        client_body_buffer_size 1k;
    }
    location = /mirror { internal; proxy_pass http://127.0.0.1:%PORT%/upstream\$request_uri; proxy_http_version 1.1; proxy_set_header Connection ""; }
    location /upstream { access_log %DIR%/mirrored.log mirrored; proxy_pass http://127.0.0.1:%PORT%/sink; }
    location /sink { return 204; }
}
END
my $included = sub ($path) {
    my $dir = $nginx->dir . '/ssi';
    mkdir $dir;
    RateLimit::Nginx::write_file("$dir/page", qq([<!--# include virtual="$path" -->]));
    return $nginx->get('/ssi/page')->{content};
};

$nginx->get('/denied?key=secret-client');
for my $name (sort keys %pages) {
    is($nginx->get($pages{$name})->{status}, 403, "$name: nobody may see it");
    my $content = $included->($pages{$name});
    unlike($content, qr/secret|"zones"|"rules"|"backends"/, 'and none does who includes it');
    like($content, qr/\[.*(?:403 Forbidden|"error": "subrequest")/s, 'for subrequests are refused');
}
is($nginx->get('/authorized')->{status}, 403, 'a subrequest that authorizes');
RateLimit::Nginx::write_file($nginx->dir . '/added', 'page');
unlike($nginx->get('/added')->{content}, qr/"zones"/, 'one that adds to a page');
like($included->('/metrics'), qr/nginx_redis_rate_limit/, 'what never has keys may be included');

subtest 'a body that a mirror shares' => sub {
    my $mirrored = sub { RateLimit::Nginx::slurp($nginx->dir . '/mirrored.log') };
    for my $size (50, 500, 3000) {
        my $body     = '{"limit": 5,' . ' ' x $size . '"note": "n"}';
        my $response = $nginx->get("/public/api/override$key", method => 'PUT', content => $body, headers => { 'Content-Type' => 'application/json' });
        is($response->{status}, 200, "a body of $size bytes is read") or diag $response->{content};
        my $logged = $body =~ s/"/\\x22/gr;
        ok(wait_until(sub { index($mirrored->(), $logged) >= 0 }), 'and mirrored whole') or diag $mirrored->();
    }
    my $long = $nginx->get("/public/api/override$key", method => 'PUT', content => ' ' x 5000, headers => { 'Content-Type' => 'application/json' });
    is($long->{status}, 413, 'one that is too long');
    ok(wait_until(sub { $mirrored->() =~ / {5000}/ }), 'is mirrored, too');
    is($nginx->get("/public/api/key$key", method => 'DELETE', content => '{"x": 1}')->{status}, 200, 'and one that is of no interest');
    ok(wait_until(sub { $mirrored->() =~ /\{\\x22x\\x22: 1\}/ }), 'is');
};

$nginx->stop;
done_testing;
