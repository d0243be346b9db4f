# A client that chooses which rules of a location apply to it, by headers that are empty or not, does
# not choose how many scripts there are: neither a worker nor Redis grows.

use v5.36;
use lib 't/lib';
use RateLimit::Nginx;
use RateLimit::Processes;
use RateLimit::Redis;
use Test::More;

my @headers = map { "x-$_" } 'a' .. 'l';
my @algorithms = qw(fixed_window sliding_log sliding_window token_bucket gcra concurrency);
my $rules = 12;

my $redis = RateLimit::Redis->start_new;
my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
@{[ map { my $variable = 'http_' . tr/-/_/r; "redis_rate_limit_zone \$$variable zone=$_:1m on_error=closed;\n" } @headers ]}
server {
    listen %PORT%;
    location = /many {
        @{[ map { "redis_rate_limit zone=$headers[$_] algorithm=$algorithms[$_ % @algorithms] limit=5000 window=600@{[ $algorithms[$_ % @algorithms] eq 'gcra' ? ' burst=4999' : '' ]};\n" } 0 .. $rules - 1 ]}
        empty_gif;
    }
    location = /few {
        @{[ map { "redis_rate_limit zone=$headers[$_] algorithm=$algorithms[$_] limit=2 window=600 name=few-$_;\n" } 0 .. 3 ]}
        empty_gif;
    }
    location = /five {
        @{[ map { "redis_rate_limit zone=$headers[$_] algorithm=$algorithms[$_] limit=2 window=600 name=five-$_;\n" } 0 .. 3 ]}
        redis_rate_limit zone=$headers[5] algorithm=sliding_log limit=100 window=600 name=five-5 dry_run;
        empty_gif;
    }
}
END
my ($worker) = $nginx->workers;

# The headers of which the number has the bits.
sub subset ($number) { return map { $number >> $_ & 1 ? ($headers[$_] => 'me') : () } 0 .. $#headers }

sub scripts { return $redis->client->info('memory')->{number_of_cached_scripts} }

sub memory_kb { return RateLimit::Nginx::slurp("/proc/$worker/status") =~ /VmRSS:\s+(\d+)/ ? $1 : die 'no memory' }

subtest 'each subset of twelve rules' => sub {
    my ($scripts, $memory);
    my %statuses;
    for my $number (1 .. 2**$rules - 1) {
        my $response = $nginx->get('/many', headers => { subset($number) });
        ++$statuses{ $response->{status} };
        my $policies = () = $response->{headers}{'ratelimit-policy'} =~ /;q=/g;
        $policies == (() = sprintf('%b', $number) =~ /1/g) or fail("subset $number has $policies policies");
        ($scripts, $memory) = (scripts(), memory_kb()) if $number == 64;
    }
    is_deeply(\%statuses, { 200 => 2**$rules - 1 }, 'passes');
    is(scripts(), $scripts, 'without more scripts in Redis');
    # a sanitizer keeps what is freed for a while
    cmp_ok(memory_kb() - $memory, '<', 2048, 'nor more memory of the worker') if !RateLimit::Nginx::preload();
    is($redis->client->llen("rl:{$headers[1]:me}:sliding_log:600000"), 2**($rules - 1), 'and is charged where it applies');
};

for my $path ('/few', '/five') {
    subtest "$path: all or nothing" => sub {
        my $name = $path =~ s{/}{}r;
        my $client = sub (@of) { return { map { $headers[$_] => "$name-$of[$_]" } grep { defined $of[$_] } 0 .. $#of } };
        my $status = sub (@of) { return $nginx->get($path, headers => $client->(@of))->{status} };
        is(join(' ', map { $status->(undef, 'a', 'b') } 1 .. 3), '200 200 429', 'two of the rules');
        is($status->(undef, 'a', 'c'), 429, 'one of which has nothing left');
        is(join(' ', map { $status->(undef, undef, 'c') } 1 .. 3), '200 200 429', 'so that the other one was not charged');
        is(join(' ', map { $status->('d', 'd', 'd', 'd') } 1 .. 3), '200 200 429', 'all of them');
        is($status->(), 200, 'none');
    };
}

# Scripts that Redis has forgotten come again.
$redis->client->script_flush;
is($nginx->get('/many', headers => { subset(1365) })->{status}, 200, 'after SCRIPT FLUSH');

$nginx->stop;
done_testing;
