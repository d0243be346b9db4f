# docker/monitoring: Prometheus's configuration and alerts, and the dashboard for Grafana, which name
# metrics that there are.

use v5.36;
use lib 't/lib';
use File::Temp qw(tempdir);
use JSON::PP qw(decode_json);
use RateLimit::Nginx;
use Test::More;

my $here = 'docker/monitoring';
my $dir  = tempdir('monitoring-XXXXXXXX', TMPDIR => 1, CLEANUP => 1);

sub promtool (@arguments) {
    my $said = qx{promtool @arguments 2>&1};
    is($?, 0, "promtool @arguments") or diag($said);
}

promtool('check config', "$here/prometheus.yaml");
promtool('check rules --lint-fatal', "$here/alerts.yaml");
promtool('test rules', 't/alerts.yaml');

# Grafana's variables stand for something that PromQL takes.
my $dashboard   = decode_json(RateLimit::Nginx::slurp("$here/grafana/redis_rate_limit.json"));
my @expressions = map { $_->{expr} } map { $_->{targets}->@* } $dashboard->{panels}->@*;
cmp_ok(scalar @expressions, '>', 10, 'the dashboard asks for something');
my $rules = "groups:\n- name: expressions\n  rules:\n";
while (my ($i, $expression) = each @expressions) {
    $expression =~ s/\$__rate_interval/1m/g;
    $expression =~ s/\$\w+/.*/g;
    $rules .= "  - record: expression$i\n    expr: >\n      $expression\n";
}
RateLimit::Nginx::write_file("$dir/expressions.yaml", $rules);
promtool('check rules', "$dir/expressions.yaml");

my $nginx = RateLimit::Nginx->start_new(<<'END');
redis_rate_limit_zone $remote_addr zone=z:1m;
server {
    listen %PORT%;
    location = /metrics { redis_rate_limit_metrics; }
    location / { redis_rate_limit zone=z algorithm=gcra limit=1 window=1; }
}
END
my %is_told = map { $_ => 1 } $nginx->get('/metrics')->{content} =~ /^# TYPE (\S+)/mg;
for my $file ("$here/alerts.yaml", "$here/grafana/redis_rate_limit.json", 't/alerts.yaml') {
    my %named = map { s/_(?:bucket|sum|count)$//r => 1 } RateLimit::Nginx::slurp($file) =~ /\b(nginx_redis_rate_limit_\w+)/g;
    ok(scalar %named, "$file names metrics");
    is(join(' ', grep { !$is_told{$_} } sort keys %named), '', 'that there are');
}

$nginx->stop;
done_testing;
