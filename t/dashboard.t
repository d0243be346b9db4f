# redis_rate_limit_dashboard: what it answers, and the page in a browser.

use v5.36;
use lib 't/lib';
use Digest::SHA qw(sha256_base64);
use JSON::PP qw(decode_json);
use RateLimit::Browser;
use RateLimit::Client;
use RateLimit::Nginx;
use RateLimit::Process;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis = RateLimit::Redis->start_new;
my $nginx = RateLimit::Nginx->start_new(<<"END", workers => 2);
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$arg_key zone=per_ip:1m;
server {
    listen %PORT% reuseport;
    location /limits/ { access_log off; redis_rate_limit_dashboard; }
    location / {
        redis_rate_limit zone=per_ip algorithm=sliding_log limit=20 window=1s;
        redis_rate_limit zone=per_ip algorithm=sliding_log limit=5 window=1s name=stricter dry_run;
        empty_gif;
    }
}
END

# Of the texts of elements.
sub hashes ($page, $tag) {
    return join ' ', map { "'sha256-" . sha256_base64($_) . "='" } $page =~ m{<$tag>(.*?)</$tag>}sg;
}

subtest 'answers' => sub {
    my $page = $nginx->get('/limits/');
    is("$page->{status} $page->{headers}{'content-type'}", '200 text/html; charset=utf-8', 'the page');
    is(
        $page->{headers}{'content-security-policy'},
        "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
            . "; style-src ${\hashes($page->{content}, 'style')}; script-src ${\hashes($page->{content}, 'script')}",
        'that asks no other host'
    );
    unlike($page->{content}, qr/\w+\.(?:css|js)\b/, 'with its style and script in it');
    is_deeply([ $page->{headers}->@{qw(cache-control x-content-type-options referrer-policy)} ], [qw(no-store nosniff no-referrer)], 'and other headers');

    my $status = $nginx->get('/limits/status.json');
    is(join(' ', $status->{status}, $status->{headers}->@{qw(content-type cache-control)}), '200 application/json no-store', 'its data');
    is_deeply([ keys decode_json($status->{content})->{zones}->%* ], ['per_ip'], 'are those of redis_rate_limit_metrics json');
    is($nginx->statuses("/limits/$_", 1), 404, "nothing at $_") for qw(x status.json/ status.jso index.html);

    my $client = RateLimit::Client->new($nginx);
    my $ask    = sub ($method, $path) { $client->send("$method $path HTTP/1.1\r\nHost: a\r\n\r\n")->response($method) };
    for my $path (qw(/limits/ /limits/status.json)) {
        my ($get, $head) = map { $ask->($_, $path) } qw(GET HEAD);
        is_deeply([ map { $_->@{qw(status)}, $_->{headers}{'content-length'} } $get, $head ], [ (200, length $get->{body}) x 2 ], "$path: GET and HEAD");
        is(join(' ', map { $ask->($_, $path)->{status} } qw(POST PUT DELETE OPTIONS PATCH)), join(' ', (405) x 5), 'nothing else');
    }
    my $redirect = $ask->('GET', '/limits');
    like("$redirect->{status} $redirect->{headers}{location}", qr{^301 http://[^/]+/limits/$}, 'its address without the slash leads to it');
};

subtest 'in a browser' => sub {
    my $site    = 'http://127.0.0.1:' . $nginx->port;
    my $browser = RateLimit::Browser->new;
    my $shows   = sub ($selector, $pattern, $seconds = 10) { wait_until(sub { ($browser->text($selector) // '') =~ $pattern }, $seconds) };
    my $load    = RateLimit::Process->execute($nginx->dir . '/load.log', qw(wrk -t1 -c4 -d60 -s), 't/lib/paced.lua', $site);

    $browser->look(1280, 900, 'light');
    $browser->open("$site/limits/");
    ok($shows->('#health', qr/^Redis answers, rejecting [1-9]/), 'tells that Redis answers, and what is rejected');
    ok($shows->('#checked', qr/[1-9]/), 'numbers move under load');
    ok($shows->('#outcomes-legend', qr/rejected [1-9]/), 'by outcome');
    ok($shows->('#zones', qr/^key-1\t[1-9]/m), 'the key that is rejected most') or diag($browser->text('#zones'));
    ok($shows->('#trials', qr/^Dry run stricter: would reject [1-9].* in force of its zone reject [1-9]/), 'what a dry run would do');
    my $looks = sub { $browser->value('looks.length') };
    ok(wait_until(sub { $looks->() >= 5 }), 'each second again');
    screenshots($browser, light => [ 1280, 900, 'light' ], dark => [ 1280, 900, 'dark' ], narrow => [ 390, 844, 'light' ]);
    is($browser->value('document.documentElement.scrollWidth'), 390, 'fits on a phone');

    $redis->stop;
    ok($shows->('#health', qr/^Redis .default. (?:is down|does not answer)/, 3), 'an outage of Redis shows within 3 s') or diag($browser->text('#health'));
    ok($shows->('#sources', qr/this host alone [1-9]/), 'and that this host decides alone');
    screenshots($browser, outage => [ 1280, 900, 'dark' ]);
    is_deeply([ $browser->errors ], [], 'no error on its console');
    is_deeply([ grep { !m{^(?:\Q$site\E/limits/|data:)} } $browser->requests ], [], 'no request to another host');

    $nginx->stop;
    ok($shows->('#health', qr/^nginx does not answer: status\.json cannot be fetched/, 5), 'that there is no data shows, too');
    screenshots($browser, stale => [ 1280, 900, 'light' ]);
};

# For people to look at.
sub screenshots ($browser, %views) {
    for my $view (sort keys %views) {
        $browser->look($views{$view}->@*);
        $browser->screenshot("build/dashboard-$view.png");
    }
}

done_testing;
