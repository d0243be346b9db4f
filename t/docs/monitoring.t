# docker/monitoring: Prometheus's configuration and alerts, and the dashboard for Grafana, which name
# metrics, labels and buckets that there are.

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
promtool('test rules', 't/docs/alerts.yaml');

my $page = RateLimit::Nginx::slurp('docs/metrics.md');
like($page, qr/^\| `$_` \|/m, "docs/metrics.md tells when $_ fires") for RateLimit::Nginx::slurp("$here/alerts.yaml") =~ /- alert: (\w+)/g;

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
my $metrics = $nginx->get('/metrics')->{content};
my %is_told = map { $_ => 1 } $metrics =~ /^# TYPE (\S+)/mg;
my @values  = $metrics =~ /\b(?:outcome|class|le)="([^"]+)"/g;
for my $file ("$here/alerts.yaml", "$here/grafana/redis_rate_limit.json", 't/docs/alerts.yaml') {
    my $text  = RateLimit::Nginx::slurp($file);
    my %named = map { s/_(?:bucket|sum|count)$//r => 1 } $text =~ /\b(nginx_redis_rate_limit_\w+)/g;
    ok(scalar %named, "$file names metrics");
    is(join(' ', grep { !$is_told{$_} } sort keys %named), '', 'that there are');

    my @matched = map { split /[|]/ } $text =~ /\b(?:outcome|class|le)=~?\\?"([^"\\+]+)/g; # no +Inf
    my @unknown = grep { my $pattern = $_; !grep { /^$pattern$/ } @values } @matched;
    is(join(' ', @unknown), '', 'with values of labels that there are');
}

my $alerts = RateLimit::Nginx::slurp("$here/alerts.yaml");
my ($quantile_threshold) = $alerts =~ /histogram_quantile\([^>]+> ([\d.]+)/;
like($metrics, qr/le="\Q$quantile_threshold\E"/, 'a quantile is compared with the end of a bucket');
my ($job) = RateLimit::Nginx::slurp("$here/prometheus.yaml") =~ /job_name: (\w+)/;
like($alerts, qr/up\{job="$job"\}/, 'and what is scraped is missed when it is gone');

my $examples = RateLimit::Nginx::slurp('t/docs/alerts.yaml');
my @unseen   = grep { $examples !~ /alertname: $_\n +exp_alerts:(?: &\w+)?\n +- exp_labels/ } $alerts =~ /alert: (\w+)/g;
is(join(' ', @unseen), '', 'every alert has an example of when it fires');

$nginx->stop;
done_testing;
