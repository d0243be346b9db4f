# What `nginx -t` warns of: what is allowed, but probably not meant. Each warning says how to write what
# is probably meant, and how to write what stands there without a warning.

use v5.36;
use lib 't/lib';
use RateLimit::Configuration qw($nginx $rule accepts refuses warns);
use RateLimit::Nginx;
use Test::More;

# What is said of a whole `http`, and how many warnings of this module there are.
sub said ($http) {
    $nginx->configure($http);
    my ($said, $accepted) = $nginx->test_configuration;
    ok($accepted, 'accepted') or diag $said;
    return $said;
}

sub is_warned ($http, $pattern, $what) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $said     = said($http);
    my $warnings = () = $said =~ /\[warn\]/g;
    ok($warnings == 1 && $said =~ /\[warn\] .*$pattern/, "a warning: $what") or diag $said;
}

sub is_silent ($http, $what) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $said = said($http);
    unlike($said, qr/\[warn\]/, "none: $what");
}

subtest 'a backend that no zone has' => sub {
    my $other = 'redis_rate_limit_backend other { server 127.0.0.1:6380; }';
    my $more  = 'redis_rate_limit_backend default { server 127.0.0.1:6381; }';
    my $zone  = sub ($name, $parameters = '') { "redis_rate_limit_zone \$arg_key zone=$name:1m $parameters;" };
    my $expected = qr/redis_rate_limit_zone: zone "z" has no backend= and so counts in the default one, while no zone has the backend "other", expected backend=other, or backend=default if that is meant, in \S+nginx\.conf:\d+/;
    my $http = sub (@lines) { join("\n", @lines) . "\nserver { listen %PORT%; }" };
    is_warned($http->($other, $zone->('z')), $expected, 'the default is nowhere');
    is_warned($http->($more, $other, $zone->('z')), $expected, 'or is a block');
    is_warned($http->($zone->('y', 'backend=default'), $zone->('z'), $other), $expected, 'whatever the order');
    is_silent($http->($other, $zone->('z', 'backend=default')), 'the default is meant');
    is_silent($http->($other, $zone->('z', 'backend=other')), 'it has the backend');
    is_silent($http->($other, $zone->('z'), $zone->('y', 'backend=other')), 'another zone has it');
    is_silent($http->($other), 'there is no zone');
    is_silent($http->($more, $zone->('z')), 'the block is the default');
};

subtest 'a key that is the name of a variable' => sub {
    for my $key (qw(remote_addr binary_remote_addr Remote_Addr http_x_api_key arg_key redis_rate_limit_addr redis_rate_limit_bearer)) {
        warns('zone', "$key zone=z:1m", qr/redis_rate_limit_zone: key "$key" is the name of a variable but has none, so that all clients share a counter, expected "\$$key", or another text if that is meant, in \S+nginx\.conf:\d+/);
    }
    warns('http', 'map $uri $plan { default x; } redis_rate_limit_zone plan zone=z:1m;', qr/key "plan" is the name of a variable/);
    accepts('zone', "$_ zone=z:1m") for qw(all openai $remote_addr x$remote_addr http_ remote-addr per-host), '"all clients"', '"$remote_addr uri"';
};

subtest 'a password that looks like a variable' => sub {
    my $expected = qr/redis_rate_limit_backend: password is a variable, which has no value here, so that its name is the password, expected password_file, also for a password that is written so in \S+nginx\.conf:\d+/;
    warns('block', "password $_;", $expected) for '$pssst', '${pssst}', '"${REDIS_PASSWORD}"';
    warns('block', 'mode sentinel; sentinel_master m; sentinel_password $pw;', qr/: sentinel_password is a variable, .* expected sentinel_password_file,/);
    accepts('block', "password $_;") for qw(pssst a$pssst $a-b $), "'\$a b'";
    unlike(said(RateLimit::Configuration::around('block', 'password $pssst;')), qr/pssst/, 'it is not shown');
};

my $zone = 'redis_rate_limit_zone $arg_key zone=z:1m;';

subtest 'a rule beside a return' => sub {
    my $expected = qr/redis_rate_limit: a "return" beside the rule answers before it is applied, expected the answer in a location of its own to which try_files leads, or no rule here, in \S+nginx\.conf:\d+/;
    my $location = sub ($lines) { "$zone\nserver { listen %PORT%; location / { $lines } }" };
    is_warned($location->("redis_rate_limit $rule; $_"), $expected, $_)
        for 'return 200;', 'return 200 "$uri text\n";', 'return 301 /elsewhere;', 'set $a b; return 204;', 'rewrite ^/a /b; return 200;', 'rewrite ^/a /b last; return 403;', 'rewrite ^/a /b permanent; return 403;',
        'if ($arg_a) { return 403; } return 200;', 'if ($arg_a) { set $b "$uri$args"; return 403; } set $c $b; return 200;';
    is_warned($location->("return 200; redis_rate_limit $rule;"), $expected, 'before the rule');
    is_warned("$zone\nserver { listen %PORT%; redis_rate_limit $rule; return 200; }", $expected, 'of a server');
    is_silent($location->("redis_rate_limit $rule; $_"), $_)
        for 'if ($arg_a) { return 403; }', 'if ($arg_a) { return 403; } if ($arg_b) { return 404 "$uri"; } set $c d;', 'set $a b;', 'rewrite ^/a /b;', 'empty_gif;',
        'rewrite ^/a/(.*)$ /b/$1 break; return 403;', 'break; return 403;';
    is_silent("$zone\nserver { listen %PORT%; redis_rate_limit $rule; location /health { return 200; } location / { empty_gif; } }", 'inherited rules');
    is_silent($location->('redis_rate_limit off; return 200;'), 'none');
};

subtest 'a dashboard whose API is elsewhere' => sub {
    my $expected = qr{redis_rate_limit_dashboard: api "/limits/" of location "/dashboard/" leads to no API, expected the path of a location of this server with redis_rate_limit_api, or of one that passes requests on to it};
    my $server = sub (@locations) { "server { listen 127.0.0.1:%PORT%; location /dashboard/ { redis_rate_limit_dashboard api=/limits/; } @locations }" };
    is_warned($server->($_), $expected, $_)
        for '', 'location /api/ { redis_rate_limit_api; }', 'location /limits/ { }', 'location / { root /tmp; }', 'location /limits/x/ { redis_rate_limit_api; }',
        'location /limits/ { redis_rate_limit_metrics; }';
    is_warned($server->() . ' server { listen 127.0.0.1:%PORT%; server_name other; location /limits/ { redis_rate_limit_api; } }', $expected, 'of another server');
    is_silent($server->($_), $_)
        for 'location /limits/ { redis_rate_limit_api; }', 'location /limits/ { redis_rate_limit_api write; }', 'location /limits/ { proxy_pass http://127.0.0.1:1/; }',
        'location ~ ^/l { proxy_pass http://127.0.0.1:1; }', 'location / { proxy_pass http://127.0.0.1:1; }';
};

subtest 'an API by which everybody writes' => sub {
    my $expected = qr{redis_rate_limit_api: everybody can write by location "/api/", expected allow and deny, auth_basic, auth_request, ssl_verify_client, or a listen on an address of this host; or "allow all;" if everybody is meant};
    my $server = sub ($more, $listen = '%PORT%', $around = '') { "server { listen $listen; $around location /api/ { redis_rate_limit_api write; $more } }" };
    is_warned($server->(''), $expected, 'nothing guards it');
    is_warned($server->('', $_), $expected, $_) for '0.0.0.0:%PORT%', '127.0.0.1:%PORT%; listen *:%PORT%';
    is_silent($server->($_), $_)
        for 'allow 127.0.0.1; deny all;', 'allow all;', 'auth_basic operators; auth_basic_user_file users;', 'auth_request /auth;', 'internal;', 'limit_except GET { deny all; }', 'satisfy any;';
    is_silent($server->('', '%PORT%', $_), "server: $_") for 'allow 10.0.0.0/8; deny all;', 'auth_basic operators; auth_basic_user_file users;';
    is_silent($server->('', $_), "listen $_") for '127.0.0.1:%PORT%', '127.9.9.9:%PORT%', 'unix:%DIR%/api.sock', '127.0.0.1:%PORT%; listen unix:%DIR%/api.sock';
    is_silent($server->('', '[::1]:%PORT%'), 'listen [::1]') if qx(@{[ RateLimit::Nginx::binary ]} -V 2>&1) !~ /--without-ipv6/ && -e '/proc/net/if_inet6';
    is_silent('server { listen %PORT%; location /api/ { redis_rate_limit_api; } }', 'only reads');
};

done_testing;
