# "Browsers" of docs/recipes.md, in a browser: a page of another site reads what a 429 says, and preflights cost
# nothing.

use v5.36;
use lib 't/lib';
use RateLimit::Browser;
use RateLimit::Documentation qw(example_with http_level);
use RateLimit::Nginx;
use RateLimit::Redis;
use Test::More;

my $redis = RateLimit::Redis->start_new;

# Asks three times for what takes a preflight, where two requests are the limit, from a page of 127.0.0.2 or
# another address. Returns what the page sees of each answer.
sub seen_from_page ($recipe, $page_address) {
    $redis->client->flushall;
    my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
${\http_level($recipe)}
server {
    listen 127.0.0.2:%PORT%;
    listen 127.0.0.3:%PORT%;
    location / { default_type text/html; return 200 '<title>a page</title>'; }
    location = /favicon.ico { return 204; }
}
server {
    listen unix:%DIR%/application.sock;
    location / { add_header Access-Control-Allow-Origin *; return 200 'served'; }
}
END
    my $browser = RateLimit::Browser->new;
    $browser->open($nginx->url('/', $page_address));
    my $seen = $browser->value(<<"END");
(async () => {
    const seen = [];
    for (let i = 0; i < 3; ++i) {
        try {
            const answer = await fetch('${\$nginx->url('/api/')}', { method: 'PUT', headers: { 'Content-Type': 'application/json' }, body: '{}' });
            seen.push(answer.status + ' ' + (Number(answer.headers.get('Retry-After')) > 0));
        } catch (error) { seen.push(error.name); }
    }
    return seen.join(', ');
})()
END
    my $preflights = () = $nginx->access_log =~ /"OPTIONS \/api\//g;
    undef $browser; # which keeps connections to nginx
    cmp_ok($preflights, '>', 0, 'the browser asks first');
    $nginx->stop;
    return $seen;
}

my $recipe = example_with('docs/recipes.md', 'Access-Control-Expose-Headers');
$recipe =~ s/limit=100/limit=2/ or die 'no limit';
$recipe =~ s/http:\/\/127\.0\.0\.1:8081/http:\/\/unix:%DIR%\/application.sock/ or die 'no application';
$recipe =~ s/https:\/\/app\.example\.com/"http:\/\/127.0.0.2:%PORT%"/ or die 'no site';

is(seen_from_page($recipe, '127.0.0.2'), '200 false, 200 false, 429 true', 'an allowed page reads the 429 and its Retry-After');
is(seen_from_page($recipe, '127.0.0.3'), 'TypeError, TypeError, TypeError', 'another page reads nothing');
is(seen_from_page($recipe =~ s/add_header Access-Control-Allow-Origin   \$allowed_origin always/add_header Access-Control-Allow-Origin   \$allowed_origin/r, '127.0.0.2'), '200 false, 200 false, TypeError', 'without `always` a 429 is an error of the network');

done_testing;
