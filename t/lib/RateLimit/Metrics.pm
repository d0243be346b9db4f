package RateLimit::Metrics;

# What /json and /metrics of an nginx tell.

use v5.36;
use Exporter 'import';
use JSON::PP qw(decode_json);
use JSON::Validator;
use List::Util qw(pairs);
use RateLimit::Nginx;
use Test::More;

our @EXPORT_OK = qw(metrics_of outcomes pending promtool request tops);

my $schema = JSON::Validator->new->schema('./docs/metrics.schema.json')->schema;

sub metrics_of ($nginx) {
    my $json = decode_json($nginx->get('/json')->{content});
    my @faults = $schema->validate($json);
    is("@faults", '', 'as the schema says') if @faults;
    return $json;
}

# The outcomes of a rule that are not 0: { passed => 5, ... }.
sub outcomes ($metrics, $zone, $rule) {
    my $counts = $metrics->{zones}{$zone}{rules}{$rule};
    return { map { $_ => $counts->{$_} } grep { !/^(?:algorithm|limit|window_seconds|calendar|timezone|starts|leases|settlements)$/ && $counts->{$_} > 0 } keys %$counts };
}

# top_rejected of keys, most rejections first.
sub tops (@counts) { return [ map { { key => $_->[0], rejected => $_->[1] } } pairs @counts ] }

sub pending ($nginx, $backend) { return metrics_of($nginx)->{backends}{$backend}{pending} }

# What promtool finds wrong with that text of /metrics.
sub promtool ($nginx, $text) {
    my $path = $nginx->dir . '/metrics.txt';
    RateLimit::Nginx::write_file($path, $text);
    return qx{promtool check metrics <$path 2>&1};
}

sub request ($nginx, $path, $count = 1) { $nginx->get($path) for 1 .. $count }

1;
