package RateLimit::DenyCache;

# An nginx that tells where its verdicts come from.

use v5.36;
use Exporter 'import';
use List::Util qw(sum0);
use RateLimit::Nginx;

our @EXPORT_OK = qw(calls configuration location start_nginx told);

# The source of the verdict, and the worker, are told to the client. Options of zones by their
# names: z is the usual one. `server` is asked instead of that Redis.
sub start_nginx ($redis, $locations, %options) {
    return RateLimit::Nginx->start_new(configuration($redis, $locations, %options), workers => $options{workers} // 1);
}

sub configuration ($redis, $locations, %options) {
    my $server = $options{server} // $redis->address;
    my $z      = $options{z}      // 'zone=z:1m';
    return <<"END";
redis_rate_limit_backend default { server $server; connect_timeout 10s; timeout 10s; @{[ $options{backend} // '' ]} }
redis_rate_limit_zone \$arg_key $z      on_error=closed;
redis_rate_limit_zone \$arg_b   zone=b:1m on_error=closed;
redis_rate_limit_zone \$arg_key zone=off:1m   on_error=closed deny_cache=off;
redis_rate_limit_zone \$arg_key zone=short:1m on_error=closed deny_cache=200ms;
@{[ $options{http} // '' ]}
map \$arg_cost  \$cost  { default \$arg_cost;  '' 1; }
add_header X-Source \$redis_rate_limit_source always;
add_header X-Worker \$pid always;
keepalive_requests 1000000;
server {
    listen %PORT% reuseport;
    $locations
}
END
}

sub location ($path, @rules) {
    return "location $path { @{[ map { \"redis_rate_limit $_;\" } @rules ]} empty_gif; }";
}

# Status and source: `429 deny_cache`.
sub told ($nginx, $path) {
    my $response = $nginx->get($path);
    return "$response->{status} $response->{headers}{'x-source'}";
}

# So many scripts were called since the last time, which was of the same Redis.
sub calls ($redis) {
    state $before = 0;
    my $now   = sum0(values $redis->script_calls->%*);
    my $calls = $now - $before;
    $before = $now;
    return $calls;
}

1;
