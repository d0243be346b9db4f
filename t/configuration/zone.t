# What `nginx -t` says of redis_rate_limit_zone.

use v5.36;
use lib 't/lib';
use RateLimit::Configuration qw(accepts invalid refuse_all refuses warns $long_name $of_names);
use Test::More;

refuse_all(
    zone => (
        '$arg_key'                     => qr/invalid number of arguments in "redis_rate_limit_zone"/,
        '$arg_key backend=b'           => qr/redis_rate_limit_zone: missing "zone="/,
        '$arg_key zone=z:1m zone=y:1m' => invalid('redis_rate_limit_zone', 'zone', 'y:1m', 'it only once'),
        '$arg_key zone=z'              => invalid('redis_rate_limit_zone', 'zone', 'z', 'name:size'),
        '$arg_key zone=z:'             => invalid('redis_rate_limit_zone', 'zone', 'z:', 'a size'),
        '$arg_key zone=z:big'          => invalid('redis_rate_limit_zone', 'zone', 'z:big', 'a size'),
        '$arg_key zone=z:-1m'          => invalid('redis_rate_limit_zone', 'zone', 'z:-1m', 'a size'),
        '$arg_key zone=z:31k'          => invalid('redis_rate_limit_zone', 'zone', 'z:31k', 'a size of at least 32k'),
        '$arg_key zone=z:0'            => invalid('redis_rate_limit_zone', 'zone', 'z:0', 'a size of at least 32k'),
        '$arg_key zone=:1m'            => invalid('redis_rate_limit_zone', 'zone', ':1m', $of_names),
        '$arg_key zone=z:1m backend='  => invalid('redis_rate_limit_zone', 'backend', '', $of_names),
        '$arg_key zone=z:1m backend=a:b' => invalid('redis_rate_limit_zone', 'backend', 'a:b', $of_names),
        '$arg_key zone=z:1m on_error=' => invalid('redis_rate_limit_zone', 'on_error', '', 'local, open or closed'),
        '$arg_key zone=z:1m on_error=Open' => invalid('redis_rate_limit_zone', 'on_error', 'Open', 'local, open or closed'),
        (map { ("\$arg_key zone=z:1m local_limit=$_" => invalid('redis_rate_limit_zone', 'local_limit', $_, '1% to 100%')) } '', '%', '0%', '101%', '50', '-1%', '1.5%'),
        '$arg_key zone=z:1m rate=1r/s' => invalid('redis_rate_limit_zone', 'parameter', 'rate', 'one of zone, backend, '),
        '$arg_key zone=z:1m sync'      => invalid('redis_rate_limit_zone', 'parameter', 'sync', 'one of zone, backend, '),
        'zone=z:1m $arg_key'           => invalid('redis_rate_limit_zone', 'key', 'zone=z:1m', 'a key such as $remote_addr before the parameters'),
        '$no_such zone=z:1m'           => qr/unknown "no_such" variable/,
        '$arg_key zone=z:1m; redis_rate_limit_zone $uri zone=z:1m' =>
            invalid('redis_rate_limit_zone', 'zone', 'z', 'each zone once'),
    )
);
# Rules of one name count once, on whatever level they stand.
sub rules ($size, $count) {
    my $rule = 'redis_rate_limit zone=z algorithm=gcra limit=1 window=1';
    return "redis_rate_limit_zone \$arg_key zone=z:$size; server { listen %PORT%; $rule name=1; "
        . join('', map { "location /$_ { $rule name=$_; }" } 1 .. $count) . '}';
}
for my $zone ([ '32k', 16 ], [ '1m', 64 ], [ '2000k', 125 ]) {
    my ($size, $most) = @$zone;
    my $told = $size eq '1m' ? '1024k' : $size;
    accepts('http', rules($size, $most));
    my $needed = 16 * ($most + 1);
    refuses('http', rules($size, $most + 1), invalid('redis_rate_limit_zone', 'zone', "z:$told", "a size of at least ${needed}k for its ${\($most + 1)} rules in"));
    accepts('http', rules("${needed}k", $most + 1));
}
refuses('zone', '$arg_key zone=z:1m top=on', invalid('redis_rate_limit_zone', 'parameter', 'top', 'one of zone, backend, '));
for my $value ('', qw(x 0 0ms -1 -1s 1.5s 367d ON)) {
    refuses('zone', "\$arg_key zone=z:1m deny_cache=$value", invalid('redis_rate_limit_zone', 'deny_cache', $value, 'on, off or a time from 1ms to 366d'));
}
refuses('zone', '$arg_key zone=z:1m deny_cache=on deny_cache=off', invalid('redis_rate_limit_zone', 'deny_cache', 'off', 'it only once'));
for my $value ('', qw(5 ON)) {
    refuses('zone', "\$arg_key zone=z:1m top_keys=$value", invalid('redis_rate_limit_zone', 'top_keys', $value, 'on or off'));
}
accepts('zone', "\$arg_key zone=z:1m top_keys=$_") for qw(on off);
for my $value ('', qw(x sha256 HASH)) {
    refuses('zone', "\$arg_key zone=z:1m show_keys=$value", invalid('redis_rate_limit_zone', 'show_keys', $value, 'on, hash or off'));
}
refuses('zone', '$arg_key zone=z:1m show_keys=on show_keys=off', invalid('redis_rate_limit_zone', 'show_keys', 'off', 'it only once'));
accepts('zone', "\$arg_key zone=z:1m show_keys=$_") for qw(on hash off);
accepts('zone', "\$arg_key zone=z:1m top_keys=$_ show_keys=hash") for qw(on off);
accepts('zone', "\$arg_key zone=z:1m deny_cache=$_") for qw(on off 1ms 200ms 60 366d);
refuses(
    'zone',
    '$arg_key zone=z:1m backend=nowhere',
    qr/redis_rate_limit_zone: unknown backend "nowhere", expected one that a redis_rate_limit_backend line defines, in \S+nginx\.conf:\d+$/m
);

warns('zone', '"" zone=z:1m', qr/redis_rate_limit_zone: key "" is always empty, so that no request is counted, expected a key such as \$remote_addr in \S+nginx\.conf:\d+$/m);
accepts('zone', "$_ zone=z:1m") for 'all', '$arg_key', '"$arg_key$arg_b"', '" "';
accepts('zone', '$arg_key zone=z:32k');
accepts('zone', '$arg_key zone=z:1m backend=default on_error=closed');
accepts('zone', '$arg_key zone=z:1m on_error=local local_limit=1%');
accepts('zone', '$arg_key zone=z:1m local_limit=100% on_error=open');
accepts('zone', "\$arg_key zone=z:1m; redis_rate_limit_zone \$uri zone=$long_name:64k");
accepts('http', 'redis_rate_limit_zone $arg_key zone=z:1m; limit_req_zone $arg_key zone=z:1m rate=1r/s;');

done_testing;
