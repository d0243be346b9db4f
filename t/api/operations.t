# What the operator's API does, row by row of its table, on two hosts with four workers in all: every host
# obeys within two seconds.

use v5.36;
use lib 't/lib';
use Digest::SHA qw(sha256_hex);
use JSON::PP ();
use List::Util qw(max min sum);
use MIME::Base64 qw(encode_base64);
use RateLimit::Api qw(api query);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(time);

my $redis = RateLimit::Redis->start_new;
my $rules = <<"END";
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$arg_key zone=z:1m deny_cache=1h;
redis_rate_limit_zone \$arg_key zone=hash:1m show_keys=hash;
redis_rate_limit_zone \$arg_key zone=off:1m show_keys=off;
redis_rate_limit_zone \$arg_key zone=slow:1m;
map \$arg_limit \$its_limit { default \$arg_limit; '' 7; }
server {
    listen %PORT%;
    location /log     { redis_rate_limit zone=z algorithm=sliding_log limit=3 window=60; empty_gif; }
    location /bucket  { redis_rate_limit zone=z algorithm=token_bucket limit=5 window=60 burst=10 cost=2 name=bucket; empty_gif; }
    location /both {
        redis_rate_limit zone=z algorithm=sliding_log limit=3 window=60;
        redis_rate_limit zone=z algorithm=token_bucket limit=5 window=60 burst=10 cost=2 name=bucket;
        empty_gif;
    }
    location /sharded { redis_rate_limit zone=z algorithm=fixed_window limit=8 window=60 shards=4 name=sharded; empty_gif; }
    location /varied  { redis_rate_limit zone=z algorithm=gcra limit=\$its_limit window=60 burst=2 name=varied; empty_gif; }
    location /trial   { redis_rate_limit zone=z algorithm=sliding_log limit=1 window=60 name=trial dry_run; empty_gif; }
    location /busy    { redis_rate_limit zone=z algorithm=sliding_log limit=100000 window=60 name=busy lease=1s; empty_gif; }
    location /flight  { redis_rate_limit zone=z algorithm=concurrency limit=2 name=flight; empty_gif; }
    location /hash    { redis_rate_limit zone=hash algorithm=sliding_log limit=3 window=60; empty_gif; }
    location /slow    { redis_rate_limit zone=slow algorithm=token_bucket limit=1000 window=1d burst=5000 name=slow; empty_gif; }
    location /off     { redis_rate_limit zone=off algorithm=sliding_log limit=3 window=60; empty_gif; }
    location /api/    { redis_rate_limit_api write; }
}
END
my @hosts = map { RateLimit::Nginx->start_new($rules, workers => 2) } 1, 2;
my ($here, $there) = @hosts;

# The promise: within 2 s, on every host; a host that is looked at takes no time by itself.
sub within_two_seconds ($condition, $what) {
    my $begun = time;
    ok(wait_until($condition, 5), $what);
    cmp_ok(time - $begun, '<', 2.5, 'in time');
}

sub of ($zone, $key, @more) { return query(zone => $zone, key => $key, @more) }
sub state_of ($host, $key, $zone = 'z') { return api($host, 'GET key' . of($zone, $key))->{json} }
sub rule_of ($host, $key, $rule, $zone = 'z') { return state_of($host, $key, $zone)->{rules}{$rule} }
sub statuses ($host, $path, $key, $count) { return $host->statuses("/$path?key=$key", $count) }
sub policies ($host, $path, $key) { return $host->get("/$path?key=$key")->{headers}{'ratelimit-policy'} }

subtest 'GET zones' => sub {
    my $answer = api($here, 'GET zones')->{json};
    my $zones  = $answer->{zones};
    ok($answer->{write}, 'whether the API writes');
    is_deeply([ sort keys %$zones ], [qw(hash off slow z)], 'all zones');
    is(join(' ', map { $zones->{$_}{show_keys} } sort keys %$zones), 'hash off on on', 'whether they show keys');
    is("$zones->{z}{context} $zones->{z}{backend}", 'http default', 'with their places and backends');
    my $told = $zones->{z}{rules};
    is_deeply([ sort keys %$told ], [ sort 'z/60s', qw(bucket sharded varied trial busy flight) ], 'and rules');
    is_deeply($told->{bucket}, {
        algorithm => 'token_bucket', window => 60, limit => 5, burst => 10, capacity => 10, cost => 2, shards => 1,
        dry_run => JSON::PP::false, overridden => JSON::PP::false, configured => { limit => 5, burst => 10, capacity => 10 },
    }, 'their numbers');
    is_deeply([ $told->{varied}->@{qw(limit burst capacity)} ], [ undef, 2, undef ], 'but for those of variables');
    ok($told->{trial}{dry_run}, 'a dry run');
    is($told->{sharded}{shards}, 4, 'shards');
};

subtest 'GET key' => sub {
    my $before = $redis->client->info('persistence')->{rdb_changes_since_last_save};
    my $state  = state_of($here, 'new');
    is_deeply([ sort keys %$state ], [qw(key key_encoded rules zone)], 'an answer');
    is(join(' ', $state->@{qw(zone key key_encoded)}), 'z new new', 'of this client');
    is_deeply($state->{rules}{bucket}, {
        algorithm => 'token_bucket', limit => 5, capacity => 10, remaining => 10, reset => 0, retry_after => undef,
        dry_run => JSON::PP::false, override => undef, denied_here => JSON::PP::false, leased_here => 0,
    }, 'who has made no request');
    is($state->{rules}{sharded}{remaining}, 8, 'shards are summed up');
    is_deeply([ $state->{rules}{varied}->@{qw(limit capacity remaining reset retry_after)} ], [ (undef) x 5 ], 'what a variable decides is not known');
    ok($state->{rules}{trial}{dry_run}, 'a dry run');
    my @own = grep { !/\{live\}/ } $redis->keys;
    is("@own", '', 'nothing is charged');

    statuses($here, 'log', 'k', 4);
    statuses($there, 'bucket', 'k', 3);
    my $granted_by_shards = grep { $_ eq '200' } split / /, statuses($here, 'sharded', 'k', 3);
    my $rules = state_of($there, 'k')->{rules};
    is(join(' ', $rules->{'z/60s'}->@{qw(limit capacity remaining)}), '3 3 0', 'used up');
    cmp_ok($rules->{'z/60s'}{retry_after}, '>', 50, 'with the time to wait');
    cmp_ok($rules->{'z/60s'}{reset}, '<=', 60, 'and until all is back');
    is($rules->{bucket}{remaining}, 4, 'a bucket');
    is($rules->{bucket}{retry_after}, undef, 'that would let a request pass');
    is($rules->{sharded}{remaining}, 8 - $granted_by_shards, 'shards');
    my %counters = map { $_ => $redis->client->dump($_) } grep { !/\{live\}/ } $redis->keys;
    state_of($_, 'k') for @hosts;
    my %after = map { $_ => $redis->client->dump($_) } grep { !/\{live\}/ } $redis->keys;
    is_deeply(\%after, \%counters, 'and nobody is charged for the question');
    my @denied = map { ${ \rule_of($_, 'k', 'z/60s')->{denied_here} } } @hosts;
    is("@denied", '1 0', 'one host denies without asking');
    statuses($here, 'bucket', 'k', 2);
    my $spent = rule_of($here, 'k', 'bucket');
    is($spent->{remaining}, 0, 'a bucket that is empty');
    cmp_ok($spent->{retry_after}, '>', 12, 'and its wait for a request of its cost');

    my $flight = rule_of($here, 'k', 'flight');
    is(join(' ', $flight->@{qw(limit remaining)}), '2 2', 'requests in flight');
    $here->get('/busy?key=lease') for 1 .. 20;
    ok(wait_until(sub { $here->get('/busy?key=lease'); rule_of($here, 'lease', 'busy')->{leased_here} > 0 }), 'units that this host has leased');
    is(rule_of($there, 'lease', 'busy')->{leased_here}, 0, 'and the other one has not');
};

subtest 'PUT and DELETE override' => sub {
    my $put = api($here, 'PUT override' . of('z', 'plan'), body => { limit => 5, expires_in => 3600, note => "ticket \x{e9} <b>" });
    is($put->{status}, 200, 'is written');
    my $told = $put->{json};
    is_deeply({ $told->%{qw(zone key key_encoded key_sha256 rule limit burst ban exempt expires_in note by)} }, {
        zone => 'z', key => 'plan', key_encoded => 'plan', key_sha256 => undef, rule => undef, limit => 5, burst => undef,
        ban => JSON::PP::false, exempt => JSON::PP::false, expires_in => 3600, note => "ticket \x{e9} <b>", by => '127.0.0.1',
    }, 'what there is now');
    cmp_ok(abs($told->{updated_at} - time), '<', 60, 'since now');
    is_deeply(rule_of($there, 'plan', 'z/60s')->{override}{note}, "ticket \x{e9} <b>", 'every host tells of it at once');
    within_two_seconds(sub { policies($_, 'log', 'plan') =~ /q=5;/ }, 'and obeys') for @hosts;
    like(policies($there, 'log', 'other'), qr/q=3;/, 'for this client alone');
    like(policies($there, 'bucket', 'plan'), qr/q=10;/, 'a bucket keeps its burst');
    is(rule_of($there, 'plan', 'bucket')->{capacity}, 10, 'as the API says');

    api($there, 'PUT override' . of('z', 'plan', rule => 'bucket'), body => { limit => 100, burst => 50 });
    within_two_seconds(sub { policies($_, 'bucket', 'plan') =~ /q=50;/ }, 'an override at one rule comes before') for @hosts;
    like(policies($here, 'log', 'plan'), qr/q=5;/, 'and is of this rule alone');
    is(join(' ', rule_of($here, 'plan', 'bucket')->@{qw(limit capacity)}), '100 50', 'with both numbers');
    api($here, 'PUT override' . of('z', 'plan', rule => 'bucket'), body => { burst => 40 });
    is(join(' ', rule_of($there, 'plan', 'bucket')->@{qw(limit capacity)}), '5 40', 'PUT replaces all of it');

    is_deeply(api($here, 'DELETE override' . of('z', 'plan', rule => 'bucket'))->{json}, { deleted => 1 }, 'it is deleted');
    is_deeply(api($here, 'DELETE override' . of('z', 'plan', rule => 'bucket'))->{json}, { deleted => 0 }, 'once');
    within_two_seconds(sub { policies($_, 'bucket', 'plan') =~ /q=10;/ }, 'and no host goes by it') for @hosts;
    like(policies($there, 'log', 'plan'), qr/q=5;/, 'the other one stays');

    api($here, 'PUT override' . of('z', 'variable'), body => { limit => 60 });
    within_two_seconds(sub { $_->get('/varied?key=variable&limit=none')->{status} == 200 }, 'a variable is not looked at') for @hosts;
    is(rule_of($here, 'variable', 'varied')->{limit}, 60, 'where an override has the number');
};

subtest 'an override that ends' => sub {
    api($here, 'PUT override' . of('z', 'soon'), body => { limit => 9, expires_in => 3 });
    within_two_seconds(sub { policies($_, 'log', 'soon') =~ /q=9;/ }, 'holds') for @hosts;
    my $left = rule_of($there, 'soon', 'z/60s')->{override}{expires_in};
    ok($left > 0 && $left <= 3, "for $left s more");
    ok(wait_until(sub { policies($_, 'log', 'soon') =~ /q=3;/ }), 'and ends') for @hosts;
    is(rule_of($here, 'soon', 'z/60s')->{override}, undef, 'for the API, too');
};

subtest 'bans and exemptions' => sub {
    is(statuses($here, 'both', 'bad', 1), '200', 'a client');
    api($there, 'PUT override' . of('z', 'bad'), body => { ban => \1, expires_in => 100, note => 'scraper' });
    within_two_seconds(sub { statuses($_, 'both', 'bad', 1) eq '429' }, 'is banned') for @hosts;
    my $state = rule_of($here, 'bad', 'z/60s');
    ok($state->{override}{ban}, 'as the API says');
    ok($state->{retry_after} > 90 && $state->{retry_after} <= 100, 'until then');
    api($there, 'PUT override' . of('z', 'bad'), body => { ban => \1 });
    is(rule_of($here, 'bad', 'z/60s')->{retry_after}, undef, 'or for ever');
    api($here, 'PUT override' . of('z', 'bad'), body => { exempt => \1 });
    within_two_seconds(sub { statuses($_, 'both', 'bad', 6) eq '200 200 200 200 200 200' }, 'is exempt') for @hosts;
    is(rule_of($here, 'bad', 'z/60s')->{retry_after}, undef, 'and would pass');
    api($here, 'DELETE override' . of('z', 'bad'));
    within_two_seconds(sub { defined policies($_, 'both', 'bad') }, 'is limited again') for @hosts;
};

subtest 'DELETE key' => sub {
    for my $host (@hosts) {
        statuses($host, 'log', 'full', 4);
        statuses($host, 'both', 'full', 2);
        statuses($host, 'sharded', 'full', 8);
        statuses($host, 'varied', 'full', 3);
    }
    is(statuses($_, 'log', 'full', 1), '429', 'a client is denied') for @hosts;
    my @counters = grep { /\{z:full/ } $redis->keys;
    cmp_ok(scalar @counters, '>=', 6, 'by these counters: ' . @counters);
    is_deeply(api($here, 'DELETE key' . of('z', 'full'))->{json}, { deleted => scalar @counters }, 'which are deleted');
    is(join(' ', grep { /\{z:full/ } $redis->keys), '', 'all of them');
    within_two_seconds(sub { statuses($there, 'log', 'full', 1) eq '200' }, 'the other host forgets, too');
    is(rule_of($here, 'full', 'z/60s')->{denied_here}, JSON::PP::false, 'and knows no denial');
    is_deeply(api($here, 'DELETE key' . of('z', 'nobody'))->{json}, { deleted => 0 }, 'a client without counters');
};

subtest 'counters of other hosts' => sub {
    my $rules_of_other = $rules =~ s/name=bucket/name=other/gr =~ s/shards=4/shards=3/r;
    my $other = RateLimit::Nginx->start_new($rules_of_other);
    is(statuses($other, 'bucket', 'far', 2), '200 200', 'a host with other rules');
    statuses($other, 'sharded', 'far', 6);
    my $registered = sub { grep { /other/ } $redis->client->hkeys('rl:{live}:rules') };
    ok(wait_until($registered), 'has registered them');
    my @counters = grep { /\{z:far/ } $redis->keys;
    is_deeply(api($here, 'DELETE key' . of('z', 'far'))->{json}, { deleted => scalar @counters }, 'they are deleted from here: ' . @counters);
    $other->stop;
};

subtest 'counters of no host' => sub {
    my ($now) = $redis->client->time;
    my @foreign = map { "z $_ 1" } 'gcra:' . '0' x 2000 . '60000', 'gcra:60000:' . 'n' x 2000, 'x' x 2000 . ':60000';
    $redis->client->hset('rl:{live}:rules', $_ => $now * 1e6) for @foreign, 'z gcra:60000 65', 'z gcra:60000 0', 'z gcra', "z \0:60000 1";
    statuses($here, 'log', 'foreign', 2);
    my @workers = $here->workers;
    is_deeply(api($here, 'DELETE key' . of('z', 'foreign'))->{json}, { deleted => 1 }, 'are left alone');
    is_deeply([ $here->workers ], \@workers, 'and do no harm');
    $redis->client->del('rl:{live}:rules');
};

# So many, and of such lengths, that the text ends in the middle of a name.
subtest 'counters that cannot be deleted' => sub {
    my ($now)     = $redis->client->time;
    my $algorithm = 'a' x 24;
    my $window    = 'quarter-28@' . 'Z' x 40;
    my @foreign   = sort((map { "$algorithm:$window:$_" . 'n' x 63 } 1, 2), "$algorithm:quarter-28:3" . 'n' x 47, "$algorithm:$window:4" . 'n' x 63);
    $redis->client->hset('rl:{live}:calendar_rules', "z $_ 1" => $now * 1e6) for @foreign;
    $redis->client->acl(qw(SETUSER default -unlink));
    my $told = api($here, 'DELETE key' . of('z', 'kept'));
    $redis->client->acl(qw(SETUSER default +unlink));
    is($told->{status}, 502, 'are an error');
    my $left = substr 'not deleted: ' . join(', ', @foreign), 0, 512;
    like($told->{json}{description}, qr/^\Q$left\E: Redis said: NOPERM/, 'which names as many as find room');
    $redis->client->del('rl:{live}:calendar_rules');
};

subtest 'PUT and DELETE rule' => sub {
    my $told = api($here, 'PUT rule' . query(zone => 'z', rule => 'z/60s'), body => { limit => 1, note => 'brake' })->{json};
    is_deeply([ $told->@{qw(key key_encoded key_sha256 rule limit)} ], [ undef, undef, undef, 'z/60s', 1 ], 'an override of all clients');
    within_two_seconds(sub { policies($_, 'log', 'anybody') =~ /q=1;/ }, 'holds') for @hosts;
    like(policies($there, 'log', 'plan'), qr/q=5;/, 'but for who has one of his own');
    my $zone = api($there, 'GET zones')->{json}{zones}{z};
    is(join(' ', $zone->{rules}{'z/60s'}->@{qw(limit overridden)}, $zone->{rules}{'z/60s'}{configured}{limit}), '1 1 3', 'the live numbers, and the configured ones');
    cmp_ok($zone->{overrides}, '>=', 2, 'and how many overrides there are');
    is(rule_of($there, 'anybody', 'z/60s')->{override}{note}, 'brake', 'a client is told of');
    is_deeply(api($here, 'DELETE rule' . query(zone => 'z', rule => 'z/60s'))->{json}, { deleted => 1 }, 'it is deleted');
    within_two_seconds(sub { policies($_, 'log', 'anybody') =~ /q=3;/ }, 'and the configured limit is back') for @hosts;
};

# A bucket of 5000 at one a day would take more than ten years to fill.
subtest 'a brake that the burst does not fit' => sub {
    is(api($here, 'PUT rule' . query(zone => 'slow', rule => 'slow'), body => { limit => 1 })->{status}, 200, 'is taken');
    within_two_seconds(sub { policies($_, 'slow', 'anybody') =~ /"slow";q=3653;/ }, 'and holds') for @hosts;
    is(join(' ', api($there, 'GET zones')->{json}{zones}{slow}{rules}{slow}->@{qw(limit burst capacity)}), '1 3653 3653', 'with the largest burst that does');
    is(join(' ', rule_of($there, 'somebody', 'slow', 'slow')->@{qw(limit capacity remaining)}), '1 3653 3653', 'which is told of a client, too');
};

subtest 'GET overrides' => sub {
    my @listed = api($there, 'GET overrides?zone=z')->{json}{overrides}->@*;
    is(join(' ', map { "$_->{key}=$_->{limit}" } @listed), 'plan=5 variable=60', 'the overrides of a zone, the last one last');
    is_deeply(api($here, 'GET overrides?zone=hash')->{json}, { overrides => [], cursor => undef }, 'none of another one');
    my $client = $redis->client;
    api($here, 'PUT override' . of('z', "many$_"), body => { limit => $_ }) for 1 .. 5;
    my @before = map { $_->{key} } api($here, 'GET overrides?zone=z')->{json}{overrides}->@*;
    is(scalar @before, 7, 'more of them');
    api($here, 'DELETE override' . of('z', "many$_")) for 1 .. 5;
    is(scalar api($here, 'GET overrides?zone=z')->{json}{overrides}->@*, 2, 'and less');
};

subtest 'show_keys' => sub {
    my $hash = substr sha256_hex('secret'), 0, 12;
    api($here, 'PUT override' . of($_, 'secret'), body => { limit => 2, expires_in => 600 }) for qw(hash off);
    for ([ hash => $hash ], [ off => '' ]) {
        my ($zone, $shown) = @$_;
        my ($listed) = api($here, "GET overrides?zone=$zone")->{json}{overrides}->@*;
        is_deeply([ $listed->@{qw(key key_encoded key_sha256)} ], [ $shown, $shown, undef ], "$zone: in a list");
        is_deeply([ state_of($here, 'secret', $zone)->@{qw(key key_encoded)} ], [ $shown, $shown ], 'and in the state');
        api($here, 'DELETE key' . of($zone, 'secret'));
    }
    my @lines = grep { /changing limits.*zone "(?:hash|off)"/ } split /\n/, $here->error_log;
    is(scalar(grep { /secret/ } @lines), 0, 'no log line has the key');
    is(scalar(grep { /zone "hash", key "$hash"/ } @lines), 2, 'but its hash');
};

subtest 'who did what' => sub {
    my $from = length $here->error_log;
    api($here, 'PUT override' . of('z', "a\n\"b"), body => { limit => 7, expires_in => 60, note => "for \"x\"\n" });
    api($here, 'PUT override' . of('z', 'a', rule => 'bucket'), body => { ban => \1 }, headers => { Authorization => 'Basic ' . encode_base64("al\tice:x", '') });
    api($here, 'DELETE override' . of('z', $_)) for "a\n\"b", 'a';
    api($here, 'DELETE override' . of('z', 'a', rule => 'bucket'));
    api($here, 'DELETE key' . query(zone => 'z', key_sha256 => 'F' x 64));
    api($here, 'PUT rule' . query(zone => 'z', rule => 'z/60s'), body => { limit => -1 });
    my @lines = map { /\[notice\] .*?(changing limits, .*)$/ ? $1 : () } split /\n/, substr $here->error_log, $from;
    is_deeply(\@lines, [
        q(changing limits, by 127.0.0.1: limit 7 for 60s, note 'for \x22x\x22\x0a', zone "z", key "a\x0a\x22b"),
        q(changing limits, by 127.0.0.1, user "al\x09ice": ban until deleted, zone "z", key "a", rule "bucket"),
        q(changing limits, by 127.0.0.1: delete the override, zone "z", key "a\x0a\x22b"),
        q(changing limits, by 127.0.0.1: delete the override, zone "z", key "a"),
        q(changing limits, by 127.0.0.1: delete the override, zone "z", key "a", rule "bucket"),
        q(changing limits, by 127.0.0.1: reset, zone "z", key_sha256 ") . 'f' x 64 . q(", 0 counters deleted),
    ], 'a line for each write, and none for what is refused');
};

$_->stop for @hosts;
done_testing;
