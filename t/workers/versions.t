# A fleet of two versions: a host that has an older module beside one that has this one, and a host whose module is
# replaced while it serves. `make test-upgrade BASE=` builds the older one of a commit and names it in PREVIOUS_MODULE.

use v5.36;
use lib 't/lib';
use File::Copy qw(copy);
use File::Temp qw(tempdir);
use RateLimit::AccessLog qw($log_times count_statuses requests_of wait_for_requests);
use RateLimit::Api qw(api query);
use RateLimit::Load qw(start_load);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $previous = $ENV{PREVIOUS_MODULE} or plan skip_all => 'PREVIOUS_MODULE names no module of another version';
my $has_api  = RateLimit::Nginx::slurp($previous) =~ /redis_rate_limit_api/; # and leases: 0.1 has neither
my $redis    = RateLimit::Redis->start_new;

my %rules = (
    fixed_window   => 'algorithm=fixed_window limit=10 window=1h',
    aligned        => 'algorithm=fixed_window limit=10 window=366d aligned',
    sliding_log    => 'algorithm=sliding_log limit=10 window=1h',
    sliding_window => 'algorithm=sliding_window limit=10 window=366d',
    gcra           => 'algorithm=gcra limit=10 window=10h burst=9',
    token_bucket   => 'algorithm=token_bucket limit=10 window=10h',
    leased         => 'algorithm=token_bucket limit=10 window=10h lease=2s',
);
delete $rules{leased} if !$has_api;
my $zone      = 'redis_rate_limit_zone $arg_key zone=z:1m on_error=closed;';
my $backend   = "redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }";
my $locations = join "\n", map { "location /$_ { redis_rate_limit zone=z $rules{$_} name=$_; empty_gif; }" } sort keys %rules;

sub start_host ($more, %options) {
    my $api = $has_api || !$options{module} ? 'location /api/ { redis_rate_limit_api write; }' : '';
    return RateLimit::Nginx->start_new(<<"END_OF_HTTP", %options);
$log_times
$backend
$zone
server {
    listen %PORT%;
    $api
    $locations
    $more
}
END_OF_HTTP
}

# A new one has rules that the older version does not know.
my $old  = start_host('', module => $previous);
my $new  = start_host('location /day { redis_rate_limit zone=z algorithm=fixed_window limit=2 window=day name=day; empty_gif; }');
my @both = ($old, $new);

sub told ($nginx, $path) { return $nginx->get($path)->{status} }

for my $name (sort keys %rules) {
    my $passed = grep { told($both[ $_ % 2 ], "/$name?key=a") == 200 } 1 .. 24;
    is($passed, 10, "$name: both hosts together grant the limit");
}

# --- what operators set

for my $from ($has_api ? @both : ()) {
    my ($version, $limit) = $from == $old ? ('the older host', 3) : ('the newer host', 4);
    is(api($from, 'PUT rule' . query(zone => 'z', rule => 'fixed_window'), body => { limit => $limit })->{status}, 200, "$version takes an override");
    for my $host (@both) {
        my $obeys = wait_until(sub { ($host->get("/fixed_window?key=$limit$$")->{headers}{'ratelimit-policy'} // '') =~ /q=$limit\b/ });
        ok($obeys, "and the @{[ $host == $old ? 'older' : 'newer' ]} one obeys");
    }
}

# --- counters that the older version does not know

my $registry = 'rl:{live}:calendar_rules';
ok(wait_until(sub { $redis->client->exists($registry) }), 'the newer host has registered its calendar');
is($new->statuses('/day?key=a', 3), '200 200 429', 'which counts');
is(told($old, '/gcra?key=a'), 429, 'the client is denied by both');
if ($has_api) {
    is(api($old, 'DELETE key' . query(zone => 'z', key => 'a'))->{status}, 200, 'the older host resets the client');
    for my $host (@both) {
        ok(wait_until(sub { told($host, '/gcra?key=a') == 200 }), 'who may go on at both');
    }
    is(told($new, '/day?key=a'), 429, 'but for the calendar, which the older host does not know');
    ok($redis->client->exists($registry), 'and whose registration it leaves alone');
}
is(api($new, 'DELETE key' . query(zone => 'z', key => 'a'))->{status}, 200, 'the newer host resets the client');
ok(wait_until(sub { told($new, '/day?key=a') == 200 }), 'there, too');
$_->stop for @both;

# --- the module is replaced, under load

my $limit  = 300;
my $folder = tempdir(CLEANUP => 1);
for my $way (qw(reload USR2)) {
    subtest "the new module comes by $way" => sub {
        $redis->client->flushall;
        my $module = "$folder/module.so";
        copy($previous, $module) or die "copy: $!";
        my $nginx = start_host("location /limited { redis_rate_limit zone=z algorithm=sliding_log limit=$limit window=1h; empty_gif; }",
            module => $module, workers => 2, daemon => 1);
        my @load = map { start_load($nginx->url("$_?key=b"), connections => 4, close => 1) } '/gcra', '/limited';
        wait_for_requests($nginx, 500);
        unlink $module;
        copy(RateLimit::Nginx::module(), $module) or die "copy: $!";
        $way eq 'reload' ? $nginx->reload : $nginx->upgrade;
        wait_for_requests($nginx, 500);
        my ($all, $limited) = map { $_->finish } @load;
        is("$all->{broken} $limited->{broken}", '0 0', "each of $all->{requests} and $limited->{requests} requests got an answer");
        is_deeply([ sort keys count_statuses(requests_of($nginx))->%* ], [ 200, 429 ], 'no 5xx');
        is(scalar(grep { $_->{path} =~ m{^/limited} && $_->{status} == 200 } requests_of($nginx)), $limit, "of the others as many as the limit, $limit");
        $nginx->stop;
        unlink $module;
    };
}

done_testing;
