# Other modules in the same nginx: nginx loads all of them into one scope of names, where a function of
# one module can take the place of another's. nchan has a hiredis of its own and exports it.

use v5.36;
use lib 't/lib';
use JSON::PP qw(decode_json);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

plan skip_all => "Debian's modules are for Debian's nginx" if $ENV{RATE_LIMIT_NGINX};

my $modules_dir = '/usr/lib/nginx/modules';

# Some need what another one defines: ndk comes before lua, and stream before its own modules.
my %rank = (nchan => 0, ndk => 1, stream => 2);

sub rank ($file) {
    my ($name) = $file =~ m{([^/]+)\.so$};
    return $rank{ $name =~ s/^ngx_|(?:_http)?_module$//gr } // 3;
}

my @neighbours = sort { rank($a) <=> rank($b) || $a cmp $b } grep { !/redis_rate_limit/ } glob "$modules_dir/*.so";
like($neighbours[0], qr/nchan/, 'nchan is the first of the neighbours');
cmp_ok(scalar @neighbours, '>=', 20, 'and one of many: ' . @neighbours);

my $redis = RateLimit::Redis->start_new;

# What lua says of the LuaJIT that Debian 13 gives it.
my $no_fault = qr/detected a LuaJIT version which is not OpenResty's/;

# nchan answers 503 until it has connected to Redis.
sub publish ($nginx) { return $nginx->get('/publish?key=publisher', method => 'POST', content => 'a message')->{status} }

sub limits_beside_neighbours ($when, %options) {
    subtest "neighbours are loaded $when" => sub {
        my $nginx = RateLimit::Nginx->start_new(<<"END", %options);
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed;
upstream channels {
    nchan_redis_server redis://${\$redis->address};
}
server {
    listen %PORT%;
    location / {
        redis_rate_limit zone=z algorithm=sliding_log limit=3 window=60;
        empty_gif;
    }
    location /problem {
        rewrite_by_lua_block {
            ngx.header.content_length = 5
            ngx.header.last_modified = 'Mon, 23 Nov 2026 00:00:00 GMT'
            ngx.header.etag = '"of lua"'
        }
        redis_rate_limit zone=z algorithm=sliding_log limit=0 window=60 name=problem;
        redis_rate_limit_problem on;
    }
    location /fields {
        rewrite_by_lua_block { ngx.req.set_header("X-Key", "of lua"); ngx.req.set_header("Authorization", "Bearer lua") }
        more_set_input_headers 'X-More: of more';
        add_header X-Fields "[\$redis_rate_limit_field_x_key] [\$redis_rate_limit_field_x_more] [\$redis_rate_limit_bearer]";
        empty_gif;
    }
    location = /publish {
        redis_rate_limit zone=z algorithm=sliding_log limit=100000 window=60;
        nchan_publisher;
        nchan_channel_id $when;
        nchan_redis_pass channels;
    }
}
END
        is($nginx->statuses("/?key=$when", 5), '200 200 200 429 429', 'the limit holds');
        is($redis->taken("rl:{z:$when}:sliding_log:60000"), 3, 'by what Redis has counted');
        my $problem = $nginx->get('/problem?key=a');
        is_deeply(decode_json($problem->{content})->{'violated-policies'}, ['problem'], 'a rejection has a body of its own');
        is($problem->{headers}{'content-length'}, length $problem->{content}, 'whatever length lua has set before');
        ok(!exists $problem->{headers}{$_}, "without the $_ of another body") for qw(last-modified etag);
        my $fields = sub (%headers) { $nginx->get('/fields', headers => \%headers)->{headers}{'x-fields'} };
        is($fields->('X-Key' => 'k', 'X-More' => 'm', Authorization => 'Bearer t'), '[k] [m] [t]', 'fields are those that the client sent');
        is($fields->(), '[] [] []', 'or none');
        ok(wait_until(sub { publish($nginx) == 202 }), 'nchan works with its own hiredis') or diag publish($nginx);
        $nginx->stop(expect => $no_fault);
    };
}

my $load_neighbours = join '', map { "load_module $_;\n" } @neighbours;
limits_beside_neighbours(before => (before => $load_neighbours));
limits_beside_neighbours(after  => (main   => $load_neighbours));

done_testing;
