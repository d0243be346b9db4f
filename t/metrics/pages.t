# Every counter is on every page: what nginx tells as JSON is what the schema has, and the dashboard shows it;
# what it tells Prometheus stands in docs/metrics.md, and Grafana or an alert asks for it.

use v5.36;
use lib 't/lib';
use JSON::PP qw(decode_json);
use List::Util qw(uniq);
use RateLimit::Nginx;
use Test::More;

# What no graph asks for, and why.
my %not_drawn = (
    backend_reconnects_total => 'a connection that came back is no trouble: what failed meanwhile is drawn',
    leases_total             => 'requests granted by leases are drawn',
    lease_units_total        => 'so they are: what became of single units is for who looks for them',
);

# What the dashboard leaves out, and why.
my $by_requests = 'requests that leases have granted are drawn';
my $by_bans     = 'rejections by bans are drawn by rule';
my %not_shown   = (
    nginx_version  => 'it is in the head of every response',
    script_reloads => 'each is in the log',
    timezone       => 'the window is drawn with its calendar',
    starts         => 'so it is',
    (map { ("leases.$_" => $by_requests) } qw(taken units used returned expired)),
    'overrides.count'      => 'the inspector lists them',
    'overrides.rejections' => $by_bans,
    'overrides.dropped'    => 'an alert watches them',
);

# Objects of which it takes each member by whatever name it has.
my %is_taken_whole = map { $_ => 1 } qw(errors latency_seconds settlements);

# Members that rules of other windows do not have.
my %only_of_calendars = map { $_ => 1 } qw(calendar timezone starts);

my $nginx = RateLimit::Nginx->start_new(<<'END');
redis_rate_limit_zone $remote_addr zone=z:1m;
server {
    listen %PORT%;
    location = /metrics { redis_rate_limit_metrics; }
    location = /json    { redis_rate_limit_metrics json; }
    location / {
        redis_rate_limit zone=z algorithm=gcra limit=1 window=1 name=r;
        redis_rate_limit zone=z algorithm=fixed_window limit=1 window=month;
    }
}
END
my $json       = decode_json($nginx->get('/json')->{content});
my $prometheus = $nginx->get('/metrics')->{content};
$nginx->stop;

my $schema = decode_json(RateLimit::Nginx::slurp('docs/metrics.schema.json'));

sub resolved ($part) {
    my ($name) = ($part->{'$ref'} // '') =~ m{^#/definitions/(\w+)$};
    return $name ? $schema->{definitions}{$name} : $part;
}

# The members that the schema has, and those that the JSON has: both by their paths, with `*` for a name that
# the configuration gives.
sub paths_of_schema ($part, $path = '') {
    $part = resolved($part);
    my $named = $part->{properties} // (ref $part->{additionalProperties} ? { '*' => $part->{additionalProperties} } : {});
    return %$named ? map { paths_of_schema($named->{$_}, "$path.$_") } keys %$named : $path;
}

sub paths_of_json ($part, $schema, $path = '') {
    $schema = resolved($schema);
    return $path if ref $part ne 'HASH';
    return map { paths_of_json($part->{$_}, $schema->{properties}{$_} // {}, "$path.$_") } keys %$part if $schema->{properties};
    return map { paths_of_json($_, $schema->{additionalProperties}, "$path.*") } values %$part;
}

my @paths = uniq(sort(paths_of_json($json, $schema)));
is_deeply(\@paths, [ sort(paths_of_schema($schema)) ], 'the schema has what nginx tells');

for my $definition (sort keys $schema->{definitions}->%*) {
    my $part = $schema->{definitions}{$definition};
    next if !$part->{properties};
    my @members = grep { !$only_of_calendars{$_} } sort keys $part->{properties}->%*;
    is_deeply([ sort($part->{required}->@*) ], \@members, "it requires all of a $definition");
}

my $page    = join '', map { RateLimit::Nginx::slurp($_) } glob 'dashboard/*.js';
my @members = map { s/\.\*$//r =~ /((?:[a-z]+\.)?\w+)$/ } grep { !/\.(\w+)\.\w+$/ || !$is_taken_whole{$1} } @paths;
is(join(' ', grep { !$not_shown{$_} && $page !~ /\b\Q$_\E\b/ } @members), '', 'the dashboard shows each member');
is(join(' ', grep { my $object = $_; $page !~ /\b$object\b/ } sort keys %is_taken_whole), '', 'and what it takes as a whole');

my @families = $prometheus =~ /^# TYPE nginx_redis_rate_limit_(\S+)/mg;
cmp_ok(scalar @families, '>', 15, 'Prometheus is told of families');
my $docs = RateLimit::Nginx::slurp('docs/metrics.md');
is(join(' ', grep { $docs !~ /\| .*`nginx_redis_rate_limit_\Q$_\E`.* \|/ } @families), '', 'each has a row in docs/metrics.md');
my $drawn = join '', map { RateLimit::Nginx::slurp("docker/monitoring/$_") } 'alerts.yaml', 'grafana/redis_rate_limit.json';
is(join(' ', grep { !$not_drawn{$_} && $drawn !~ /\bnginx_redis_rate_limit_\Q$_\E(?:_bucket|_count|_sum)?\b/ } @families), '', 'and is drawn, or watched');

# The values of labels stand in docs/metrics.md, too.
my %values = map { $_ => 1 } $prometheus =~ /\b(?:outcome|class|fate|result)="([^"]+)"/g;
is(join(' ', grep { $docs !~ /`\Q$_\E`/ } sort keys %values), '', 'so is each value of a label');

done_testing;
