# What is told of zones: their rules, the keys that are rejected most, and their memory.

use v5.36;
use lib 't/lib';
use RateLimit::Client;
use RateLimit::Metrics qw(metrics_of outcomes promtool request tops);
use RateLimit::Nginx;
use RateLimit::Redis;
use Test::More;

my $redis = RateLimit::Redis->start_new;

subtest 'configurations' => sub {
    my $zone  = sub ($size) { "redis_rate_limit_zone \$arg_key zone=zone.of-all/NAMES_1:$size;" };
    my $rules = 'zone=zone.of-all/NAMES_1 window=500ms algorithm=gcra';
    my $http  = sub ($zones, $rules = '') {
        return "redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }\n"
            . "$zones server { listen %PORT%; location /json { redis_rate_limit_metrics json; }\n"
            . "location /metrics { redis_rate_limit_metrics prometheus; } $rules location / { empty_gif; } }";
    };
    my $nginx = RateLimit::Nginx->start_new($http->(''));
    is_deeply(metrics_of($nginx)->{zones}, {}, 'of no zone');
    is(promtool($nginx, $nginx->get('/metrics')->{content}), '', 'promtool is content');

    my $two = qq{redis_rate_limit $rules "limit=\\"a\\\\b\$arg_limit \xe4"; location /more { redis_rate_limit $rules limit=7; empty_gif; }};
    $nginx->configure($http->($zone->('1m'), $two));
    $nginx->reload;
    request($nginx, $_) for '/more?key=1', '/?key=1&limit=1';
    my $told = metrics_of($nginx)->{zones}{'zone.of-all/NAMES_1'};
    my $rule = $told->{rules}{'zone.of-all/NAMES_1/500ms'};
    is_deeply(
        [ $rule->@{qw(algorithm limit window_seconds passed invalid)} ],
        [ 'gcra', qq{"a\\b\$arg_limit \xe4}, 0.5, 1, 1 ],
        'two rules of one name are one, with the limit of the first'
    );
    is($told->{size_bytes}, 1 << 20, 'the size of the zone');

    $nginx->configure($http->($zone->('2m'), $two));
    $nginx->reload;
    is_deeply(outcomes(metrics_of($nginx), 'zone.of-all/NAMES_1', 'zone.of-all/NAMES_1/500ms'), {}, 'another size begins anew');
    $nginx->stop;
};

subtest 'the keys that are rejected most' => sub {
    my $site = sub (%options) {
        my %zones = (binary => '$binary_remote_addr', any => '$arg_key', cut => '$arg_key', off => '$arg_key');
        my $zones = join "\n", map { "redis_rate_limit_zone $zones{$_} zone=$_:1m deny_cache=off $options{$_};" } grep { $options{$_} } sort keys %zones;
        return "redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }\n$zones\n"
            . 'server { listen %PORT%; location /json { redis_rate_limit_metrics json; }'
            . join("\n", map { "location /$_ { redis_rate_limit zone=$_ algorithm=sliding_log limit=0 window=1h; empty_gif; }" } grep { $options{$_} } sort keys %zones)
            . ' location /twice { redis_rate_limit zone=any algorithm=gcra limit=1 window=2h cost=2; redis_rate_limit zone=any algorithm=gcra limit=1 window=3h cost=2;'
            . ' redis_rate_limit zone=any algorithm=gcra limit=1 window=2h cost=2 name=trial dry_run; empty_gif; }'
            . ' location /trial { redis_rate_limit zone=any algorithm=gcra limit=1 window=2h cost=2 dry_run; empty_gif; } }';
    };
    my %on = map { $_ => 'top_keys=on' } qw(binary any cut);
    my $nginx = RateLimit::Nginx->start_new($site->(%on, off => 'top_keys=off'));
    my $top = sub ($zone) { metrics_of($nginx)->{zones}{$zone}{top_rejected} };
    request($nginx, '/binary', 3);
    is_deeply($top->('binary'), tops('127.0.0.1' => 3), 'an address');
    request($nginx, "/any?key=$_") for '%00"\\', 'a', 'a';
    request($nginx, "/cut?key=" . 'x' x 64 . $_) for '', 'y', 'z' x 1000;
    is_deeply($top->('any'), tops('a' => 2, '%00\x22\x5c' => 1), 'most first, escaped as in log lines');
    my $cut = [ { tops('x' x 64 => 2)->[0]->%*, is_cut => JSON::PP::true }, tops('x' x 64 => 1)->@* ];
    is_deeply($top->('cut'), $cut, 'cut, beside one that is as long as those that are kept');
    request($nginx, '/off?key=a');
    is_deeply($top->('off'), [], 'none with top_keys=off');
    request($nginx, $_) for '/twice?key=twice', '/trial?key=trial';
    is_deeply([ grep { $_->{key} eq 'twice' || $_->{key} eq 'trial' } $top->('any')->@* ], tops(twice => 1), 'requests, whatever rules of the zone deny; none of a dry run');
    request($nginx, "/any?key=many-$_", 2) for 1 .. 120;
    my $many = $top->('any');
    is(@$many, 100, 'no more than 100');
    unlike($nginx->get('/metrics')->{content}, qr/many-/, 'none for Prometheus');

    $nginx->configure($site->(%on, off => 'top_keys=on', any => 'top_keys=off'));
    $nginx->reload;
    is_deeply($top->('cut'), $cut, 'they survive a reload');
    is_deeply($top->('off'), [], 'there were none');
    is_deeply($top->('any'), [], 'none any more');
    $nginx->configure($site->(%on));
    $nginx->reload;
    is_deeply($top->('any'), [], 'nor when they are wanted again');
    $nginx->stop;
};

subtest 'the memory of a zone' => sub {
    my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$arg_key zone=small:32k on_error=open;
server {
    listen %PORT%;
    location /json { redis_rate_limit_metrics json; }
    location / { redis_rate_limit zone=small algorithm=sliding_log limit=1 window=1h; empty_gif; }
}
END
    my $client = RateLimit::Client->new($nginx);
    my $deny   = sub (@keys) {
        $client->send("GET /?key=$_ HTTP/1.1\r\nHost: a\r\n\r\n")->response for map { ($_, $_) } @keys;
        return metrics_of($nginx)->{zones}{small};
    };
    my $first = $deny->();
    is_deeply([ $first->@{qw(size_bytes entries evictions)} ], [ 32768, 0, 0 ], 'nothing at first');
    my $ten = $deny->(1 .. 10);
    is_deeply([ $ten->@{qw(entries evictions)} ], [ 10, 0 ], 'a denial is an entry');
    is($ten->{used_bytes}, $first->{used_bytes} + 660, 'of 66 bytes');
    my $many = $deny->(11 .. 500);
    is($many->{entries} + $many->{evictions}, 500, 'where there is no room, each evicts one');
    cmp_ok($many->{evictions}, '>', 100, "$many->{evictions} were evicted");
    cmp_ok($many->{used_bytes}, '<', 32768, 'and less is used than there is');
    $nginx->stop;
};

done_testing;
