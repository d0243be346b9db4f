# The recipe for OpenTelemetry with the real nginx-otel: what a collector gets of the requests. Run by
# tools/test-tracing, which builds nginx-otel.

use v5.36;
use lib 't/lib';
use Cwd qw(abs_path);
use JSON::PP qw(decode_json);
use RateLimit::Documentation qw(example_with http_level);
use RateLimit::Nginx;
use RateLimit::Redis;
use Test::More;

my $tracing   = $ENV{RATE_LIMIT_TRACING} // BAIL_OUT('run by tools/test-tracing');
my $redis     = RateLimit::Redis->start_new;
my $collector = open(my $spans, '-|', 'python3', 't/packages/collector.py') // die "python3: $!";
END { kill KILL => $collector if $collector }
chomp(my $collector_port = <$spans>);

my $example = example_with('docs/recipes.md', 'otel_span_attr');
$example =~ s/localhost:4317;/127.0.0.1:$collector_port; interval 100ms;/ or die "no endpoint\n$example";
$example =~ s/limit=100/limit=1/                                          or die "no limit\n$example";
my $nginx = RateLimit::Nginx->start_new(<<"END" . http_level($example), before => 'load_module ' . abs_path($tracing) . ';');
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
END
$nginx->get('/') for 1, 2;

# Of the next span, those that the recipe adds.
sub next_span () {
    local $SIG{ALRM} = sub { die "no span comes\n" };
    alarm 30;
    my $line = <$spans>;
    alarm 0;
    my $all = decode_json($line);
    return { map { $_ => $all->{$_} } grep { /^redis_rate_limit\./ } keys %$all };
}

for my $status (qw(PASSED REJECTED)) {
    my $span = next_span();
    like(delete $span->{'redis_rate_limit.time'}, qr/^0\.\d{6}$/, 'a span tells the time that the limit took');
    is_deeply($span, { 'redis_rate_limit.status' => $status, 'redis_rate_limit.rule' => 'per_client/60s', 'redis_rate_limit.source' => 'redis' }, "and that the request has $status");
}

$nginx->stop;
done_testing;
