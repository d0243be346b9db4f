# Which requests are counted: each client request once per rule, wherever nginx sends it on its
# way; and a limiter that lets a request pass says nothing of who may come in.

use v5.36;
use lib 't/lib';
use MIME::Base64 qw(encode_base64);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

sub rule ($name, $limit = 10, $zone = 'z') {
    return "redis_rate_limit zone=$zone algorithm=sliding_log limit=$limit window=60 name=$name;";
}

# The key is a header of the client's, which stays with its request through all redirects.
my $redis = RateLimit::Redis->start_new;
my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_backend gone { server unix:/no/redis; }
redis_rate_limit_zone \$http_x_case zone=z:1m;
redis_rate_limit_zone \$http_x_case zone=unreachable:1m backend=gone on_error=closed;

server {
    listen %PORT%;
    ${\rule('all')}

    location / { }
    location = /page { ${\rule('page')} }
    location = /sorry { ${\rule('sorry')} }
    location \@named { ${\rule('named')} try_files /page =404; }

    location /index/ { index page; }
    location /indexed/ { ${\rule('index')} index /page; }

    location = /try-page { ${\rule('try')} try_files /none /page; }
    location = /try-named { ${\rule('try')} try_files /none \@named; }
    location = /try-all { try_files /none /index/; }
    location = /try-shared { ${\rule('page', 5)} try_files /none /page; }
    location = /try-unlimited { redis_rate_limit off; try_files /none /page; }

    location = /accel { ${\rule('accel')} proxy_pass http://unix:%DIR%/upstream.sock; }

    location = /rewrite-last { ${\rule('rewrite')} rewrite ^ /page last; }
    location = /rewrite-break { ${\rule('rewrite')} rewrite ^ /page break; }
    location = /return { ${\rule('return', 0)} return 200 "returned\\n"; }

    location = /404-page { ${\rule('404')} error_page 404 /page; }
    location = /404-refused { ${\rule('404')} error_page 404 /limited; }
    location = /404-named { ${\rule('404')} error_page 404 = \@named; }
    location = /limited { ${\rule('limited', 1)} try_files /page =404; }

    location = /429-page { ${\rule('429', 1)} error_page 429 /sorry; try_files /page =404; }
    location = /429-named { ${\rule('429', 1)} error_page 429 \@named; try_files /page =404; }
    location = /429-itself { ${\rule('429', 1)} error_page 429 /429-itself; try_files /page =404; }
    location = /429-recursive {
        ${\rule('429', 1)}
        recursive_error_pages on;
        error_page 429 /429-recursive;
        error_page 404 /sorry;
    }
    location = /503-page { ${\rule('503', 1, 'unreachable')} error_page 503 /sorry; }

    location = /ssi { ${\rule('ssi')} ssi on; ssi_types *; }
    location = /mirror { ${\rule('mirror')} mirror /mirrored; try_files /page =404; }
    location = /mirrored { ${\rule('mirrored')} proxy_pass http://unix:%DIR%/upstream.sock; }

    location = /auth { ${\rule('auth', 2)} auth_request /auth-answer; try_files /page =404; }
    location = /auth-answer { internal; ${\rule('answer', 1)} proxy_pass http://unix:%DIR%/upstream.sock; }

    location /any/ {
        satisfy any;
        location = /any/deny { ${\rule('any', 2)} deny all; try_files /page =404; }
        location = /any/allow { ${\rule('any', 2)} allow all; auth_basic realm; try_files /page =404; }
        location = /any/basic { ${\rule('any', 2)} deny all; auth_basic realm; try_files /page =404; }
    }
    location = /all/basic { ${\rule('any', 2)} allow all; auth_basic realm; try_files /page =404; }
    auth_basic_user_file %DIR%/users;
}
server {
    listen unix:%DIR%/upstream.sock;
    access_log %DIR%/upstream.log;
    location = /accel { add_header X-Accel-Redirect /page; return 204; }
    location = /auth-answer {
        if (\$http_x_user = nobody) { return 401; }
        if (\$http_x_user = enemy) { return 403; }
        return 204;
    }
    location / { return 204; }
}
END
RateLimit::Nginx::write_file($nginx->dir . '/users', "me:{PLAIN}right\n");
$nginx->add_page($_ => "$_\n") for qw(page sorry);
$nginx->add_page(ssi => 'before <!--# include virtual="/page" --><!--# include virtual="/none" --> after');
mkdir $nginx->dir . '/html/index';
$nginx->add_page('index/page' => "index/page\n");

my $case = 0;

# Sends requests as one client, of whom nothing is known yet.
sub statuses ($path, @headers_of_each) {
    ++$case;
    return join ' ', map { $nginx->get($path, headers => { %$_, 'X-Case' => $case })->{status} } @headers_of_each;
}

# What the last client was charged, by the names of rules.
sub charges {
    return join ' ', map { /^rl:\{\w+:$case\}.*:(\w+)$/ ? "$1=" . $redis->taken($_) : () } $redis->keys;
}

sub counts ($path, $statuses, $charges, $what) {
    is(statuses($path, map { {} } split ' ', $statuses), $statuses, "$what: $statuses");
    is(charges(), $charges, "charged: $charges");
}

# --- internal redirects

counts('/page',          '200 200', 'page=2',         'two requests');
counts('/index/',        '200',     'all=1',          'an index under the same rule');
counts('/indexed/',      '200',     'index=1 page=1', 'an index under another rule');
counts('/try-page',      '200',     'page=1 try=1',   'try_files to another location');
counts('/try-named',     '200',     'named=1 try=1',  'try_files to a named location');
counts('/try-all',       '200',     'all=1',          'three locations under one inherited rule');
counts('/try-shared',    '200',     'page=1',         'two rules of one counter');
counts('/try-unlimited', '200',     'page=1',         'from an unlimited location to a limited one');
counts('/accel',         '200',     'accel=1 page=1', 'X-Accel-Redirect');

# --- before the access phase

counts('/rewrite-last',  '200',     'page=1',         'a location that rewrites to another is none for the limiter');
counts('/rewrite-break', '200',     'rewrite=1',      'a location that rewrites for itself');
counts('/return',        '200 200', '',               'a location that returns');

# --- error pages

counts('/404-page',      '404',             '404=1 page=1',    'error_page 404');
counts('/404-named',     '200',             '404=1 named=1',   'error_page 404 to a named location');
counts('/404-refused',   '404 429 429',     '404=3 limited=1', 'error_page 404 to a location that refuses');
counts('/429-page',      '200 429 429',     '429=1',           'no rule applies to the page of a refusal');
counts('/429-named',     '200 429 429',     '429=1',           'nor to one at a named location');
counts('/429-itself',    '200 429 429',     '429=1',           'nor to one at the location itself');
counts('/429-recursive', '404 404 404',     '429=1 sorry=1',   'nor with recursive_error_pages, where the last error shows');
counts('/503-page',      '503 503',         '',                'nor to that of a request refused without a verdict');
is($nginx->get('/503-page', headers => { 'X-Case' => $case })->{content}, "sorry\n", 'which is shown');

# --- subrequests

counts('/ssi', '200', 'ssi=1', 'SSI');
like($nginx->get('/ssi')->{content}, qr/before page\n.*404 Not Found.* after/s, 'with all that it includes');

counts('/mirror', '200', 'mirror=1', 'mirror');
ok(wait_until(sub { RateLimit::Nginx::slurp($nginx->dir . '/upstream.log') =~ /mirrored/ }), 'mirrored');
is(charges(), 'mirror=1', 'and still charged: mirror=1');

is(
    statuses('/auth', { 'X-User' => 'nobody' }, { 'X-User' => 'enemy' }, {}, { 'X-User' => 'nobody' }),
    '401 403 429 429', 'auth_request decides on what the limiter lets pass'
);
is(charges(), 'auth=2', 'charged: auth=2');
counts('/auth', '200 200 429', 'auth=2', 'auth_request grants');

# --- satisfy

my %right = (Authorization => 'Basic ' . encode_base64('me:right', ''));
my %wrong = (Authorization => 'Basic ' . encode_base64('me:wrong', ''));

counts('/any/deny',  '403 403 429', 'any=2', 'a limiter that lets pass does not satisfy');
counts('/any/allow', '200 200 429', 'any=2', 'one that refuses is not outvoted by an address');
is(statuses('/any/allow', {%wrong}, {}, {%right}), '200 200 429', 'nor by credentials');
is(statuses('/any/basic', {}, {%wrong}, {}), '401 401 429', 'no credentials, no entry');
is(charges(), 'any=2', 'charged: any=2');
is(statuses('/any/basic', {%right}, {%right}, {%right}), '200 200 429', 'with credentials: entry, unless it is too much');
is(statuses('/all/basic', {}, {%right}, {%right}, {}), '401 200 429 429', 'the same with satisfy all');

$nginx->stop;
done_testing;
