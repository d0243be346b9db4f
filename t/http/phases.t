# Rules before and after authentication: each applied once, where it belongs, whatever way a request
# takes; and no rule opens what authentication closes.

use v5.36;
use lib 't/lib';
use MIME::Base64 qw(encode_base64);
use RateLimit::Nginx;
use RateLimit::Redis;
use Test::More;
use Time::HiRes qw(time);

sub rule ($name, $limit, $more = '', $zone = 'z') {
    return "redis_rate_limit zone=$zone algorithm=sliding_log limit=$limit window=60 name=$name $more;";
}
sub access ($limit = 10, @more)     { return rule('access', $limit, @more) }
sub precontent ($limit = 10, @more) { return rule('precontent', $limit, "phase=precontent @more") }

my $redis = RateLimit::Redis->start_new;
my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_backend gone { server unix:/no/redis; }
redis_rate_limit_zone \$http_x_case zone=z:1m on_error=closed;
redis_rate_limit_zone \$http_x_case\$user zone=user:1m on_error=closed;
redis_rate_limit_zone \$http_x_case zone=gone:1m backend=gone on_error=closed;
auth_basic_user_file %DIR%/users;
server {
    listen %PORT%;
    set \$user '';

    location / { ${\access()} ${\precontent()} }
    location = /sorry { ${\rule('sorry', 10)} ${\rule('sorry-late', 10, 'phase=precontent')} }
    location /late/ { ${\precontent(2)} index page; }

    location = /try-page { ${\precontent()} try_files /none /page; }
    location = /try-named { ${\precontent()} try_files /none \@named; }
    location \@named { ${\rule('named', 10, 'phase=precontent')} try_files /page =404; }
    location = /404 { ${\precontent()} error_page 404 /page; try_files /none =404; }
    location = /429 { ${\precontent(1)} error_page 429 /sorry; try_files /page =404; }
    location = /429-early { ${\access(1)} ${\precontent()} error_page 429 /sorry; try_files /page =404; }
    location = /503 { ${\access()} ${\rule('late', 10, 'phase=precontent', 'gone')} error_page 503 /sorry; try_files /page =404; }
    location = /to-limited { redis_rate_limit off; error_page 404 = /limited; try_files /none =404; }
    location = /limited { ${\access(1)} ${\precontent(2)} try_files /page =404; }

    location = /both { ${\access(5)} ${\precontent(2)} empty_gif; }
    location = /delayed {
        redis_rate_limit zone=z algorithm=leaky_bucket limit=10 window=1 burst=5 phase=precontent;
        empty_gif;
    }
    location = /delayed-page {
        redis_rate_limit zone=z algorithm=leaky_bucket limit=10 window=1 burst=5 phase=precontent;
        try_files /page =404;
    }
    location = /slot {
        redis_rate_limit zone=z algorithm=concurrency limit=1;
        ${\precontent(1)}
        empty_gif;
    }

    location = /basic { ${\access(4)} ${\precontent(2)} auth_basic realm; try_files /page =404; }
    location /any/ {
        satisfy any;
        location = /any/basic { ${\access(4)} ${\precontent(2)} deny all; auth_basic realm; try_files /page =404; }
        location = /any/allow { ${\access(4)} ${\precontent(2)} allow all; auth_basic realm; try_files /page =404; }
        location = /any/401 {
            ${\access(2)} ${\precontent(1)}
            redis_rate_limit_status 401; allow all; auth_basic realm; try_files /page =404;
        }
        location = /any/403 { ${\access(1)} redis_rate_limit_status 403; allow all; try_files /page =404; }

        location = /any/delayed {
            redis_rate_limit zone=z algorithm=leaky_bucket limit=10 window=1 burst=5;
            deny all; try_files /page =404;
        }
        location = /any/none/deny  { deny all; try_files /page =404; }
        location = /any/none/basic { auth_basic realm; try_files /page =404; }
        location = /any/off/deny   { redis_rate_limit off; deny all; try_files /page =404; }
        location = /any/off/basic  { redis_rate_limit off; auth_basic realm; try_files /page =404; }
        location = /any/empty/deny  { ${\access(0)} ${\precontent(0)} deny all; try_files /page =404; }
        location = /any/empty/basic { ${\access(0)} ${\precontent(0)} auth_basic realm; try_files /page =404; }
    }

    location = /auth {
        auth_request /auth-answer;
        auth_request_set \$user \$upstream_http_x_user;
        ${\rule('address', 6)}
        ${\rule('user', 2, 'phase=precontent', 'user')}
        try_files /page =404;
    }
    location = /auth-answer { internal; ${\rule('answer', 0, 'phase=precontent')} proxy_pass http://unix:%DIR%/upstream.sock; }

    location = /ssi { ${\precontent()} ssi on; ssi_types *; }
    location = /part { ${\rule('part', 0, 'phase=precontent')} }
    location = /mirror { ${\precontent()} mirror /mirrored; try_files /page =404; }
    location = /mirrored { ${\rule('mirrored', 0, 'phase=precontent')} proxy_pass http://unix:%DIR%/upstream.sock; }
}
server {
    listen unix:%DIR%/upstream.sock;
    add_header X-User \$http_x_name;
    location / {
        if (\$http_x_name = '') { return 401; }
        return 204;
    }
}
END
RateLimit::Nginx::write_file($nginx->dir . '/users', "me:{PLAIN}right\n");
$nginx->add_page($_ => "$_\n") for qw(page sorry part);
$nginx->add_page(ssi => 'before <!--# include virtual="/part" --> after');
mkdir $nginx->dir . '/html/late';
$nginx->add_page('late/page' => "late/page\n");

my $case = 0;

# Sends requests as one client, of whom nothing is known yet.
sub responses ($path, @headers_of_each) {
    ++$case;
    return map { $nginx->get($path, headers => { %$_, 'X-Case' => $case }) } @headers_of_each;
}

sub statuses (@arguments) { return join ' ', map { $_->{status} } responses(@arguments) }

# What the last client was charged, by the names of rules.
sub charges {
    return join ' ', map { /^rl:\{\w+:$case(\w*)\}:sliding_log:.*:([\w-]+)$/ ? ($1 && "$1:") . "$2=" . $redis->taken($_) : () } $redis->keys;
}

sub counts ($path, $statuses, $charges, $what) {
    is(statuses($path, map { {} } split ' ', $statuses), $statuses, "$what: $statuses");
    is(charges(), $charges, "charged: $charges");
}

# --- redirects

counts('/page',       '200 200', 'access=2 precontent=2', 'both phases');
counts('/late/',      '200 200 429', 'precontent=2', 'an index: each request once');
counts('/try-page',   '200', 'access=1 precontent=1', 'try_files: the rule that is left');
counts('/try-named',  '200', 'named=1 precontent=1', 'try_files to a named location');
counts('/404',        '404', 'access=1 precontent=1', 'error_page 404');
counts('/to-limited', '200 429', 'access=1 precontent=1', 'error_page 404 to a location with rules of both');
counts('/429',        '200 429 429', 'precontent=1', 'error_page 429 into a limited location');
counts('/429-early',  '200 429 429', 'access=1 precontent=1', 'what access denies does not reach precontent');
counts('/503',        '503 503', 'access=2', 'no verdict in precontent');
is((responses('/503', {}))[0]{content}, "sorry\n", 'with its page');

# --- rules of both phases

counts('/both', '200 200 429 429 429 429', 'access=5 precontent=2', 'access stays charged where precontent denies');
{
    my @responses = responses('/both', ({}) x 6);
    my @told = map { "$_->{headers}{'x-ratelimit-limit'} $_->{headers}{'x-ratelimit-remaining'} $_->{headers}{ratelimit}" } @responses;
    is($told[0], '2 1 "access";r=4;t=60, "precontent";r=1;t=60', 'headers tell of both');
    is($told[2], '2 0 "access";r=2;t=60, "precontent";r=0;t=60', 'the denying one is the tightest');
    is($told[5], '5 0 "access";r=0;t=60', 'denied in the access phase: of that alone');
}
{
    my $began = time;
    is(statuses('/delayed', ({}) x 3), '200 200 200', 'a delay in precontent');
    cmp_ok(time - $began, '>=', 0.19, 'is one');
}
is(statuses('/delayed-page', ({}) x 3), '200 200 200', 'after which try_files runs');
counts('/slot', '200 429 429', 'precontent=1', 'a slot is given back where precontent denies');

# --- authentication

my %right = (Authorization => 'Basic ' . encode_base64('me:right', ''));
my %wrong = (Authorization => 'Basic ' . encode_base64('me:wrong', ''));

is(statuses('/basic', {}, {%wrong}, {%right}, {%right}, {%right}), '401 401 200 200 429', 'auth_basic between the phases');
is(charges(), 'access=4 precontent=2', 'charged: access by all, precontent by those it lets in');
is(statuses('/any/basic', {}, {%wrong}, {%right}, {%right}, {%right}), '401 401 200 200 429', 'satisfy any, by credentials');
is(charges(), 'access=4 precontent=2', 'charged: the same');
is(statuses('/any/basic', {%right}, {%right}, {%right}, {}, {}), '200 200 429 401 429', 'a denial in precontent lets nobody in');
is(statuses('/any/allow', {}, {%wrong}, {}, {}, {}), '200 200 429 429 429', 'satisfy any, by address');
is(charges(), 'access=4 precontent=2', 'charged: the same');
is(statuses('/any/401', {}, {}, {}), '200 401 401', 'a limiter\'s 401 is not outvoted in either phase');
is(charges(), 'access=2 precontent=1', 'charged: the same');
is(statuses('/any/403', {}, {}, {%right}), '200 403 403', 'nor its 403');
is(statuses('/any/delayed', ({}) x 3), '403 403 403', 'satisfy any, deny all: a request that was held back is not let in');
for (['none', 'no rule'], ['off', 'redis_rate_limit off'], ['empty', 'rules whose key is empty']) {
    my ($location, $what) = @$_;
    is($nginx->get("/any/$location/deny")->{status},  403, "satisfy any, $what: deny all closes");
    is($nginx->get("/any/$location/basic")->{status}, 401, "satisfy any, $what: auth_basic closes");
    is($nginx->get("/any/$location/basic", headers => {%right})->{status}, 200, 'and the right password opens');
}

my @me  = ({ 'X-Name' => 'me' }) x 3;
my @you = ({ 'X-Name' => 'you' }) x 3;
is(statuses('/auth', {}, @me, $you[0], {}, $you[0]), '401 200 200 429 200 401 429', 'auth_request, and a limit for each user');
is(charges(), 'me:user=2 you:user=1 address=6', 'charged: users by their names, others not at all');

# --- subrequests

counts('/ssi', '200', 'precontent=1', 'SSI');
is($nginx->get('/ssi', headers => { 'X-Case' => $case })->{content}, "before part\n after", 'whose parts no rule denies');
counts('/mirror', '200', 'precontent=1', 'mirror');
unlike($nginx->error_log, qr/rule "(?:part|mirrored|answer)"/, 'no rule of a subrequest has denied');

$nginx->stop;
done_testing;
