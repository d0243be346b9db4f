# What a Redis can say or do instead of deciding, each by a real one: its zone's policy holds, never
# a denial by the fault itself; one log line tells what happened and one that it is over, with the
# number of checks; recovery needs no hand.

use v5.36;
use lib 't/lib';
use RateLimit::Nginx;
use RateLimit::Process;
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(sleep time);

# Says yes when a command that says so is refused with this word.
sub refuses ($client, $word) {
    return sub { !defined eval { $client->llen('any') } && $@ =~ /$word/ };
}

# nginx's connection ends.
sub disconnect ($client) { $client->client('kill', 'type', 'normal', 'skipme', 'yes') }

my $secret = 'correct-horse';
my %child; # that makes a fault, by its name
my $relay; # before a Redis, of one fault

# begin and end of each fault, with its Redis and a client of it, and what the log says; and what
# more stands in redis.conf and in the backend's block.
my %fault = (
    # The kernel closes what a process had open, what came last first: nginx may be quick enough to
    # connect again to a listening socket that goes, too.
    killed => {
        says  => qr/connecting failed,.* \(111: Connection refused\)|the connection broke,.* \(104: Connection reset by peer\)/,
        begin => sub ($redis, $client) { $redis->kill_now },
        end   => sub ($redis, $client) { $redis->restart },
    },
    stopped => {
        says  => qr/no answer in time/,
        begin => sub ($redis, $client) { $redis->freeze },
        end   => sub ($redis, $client) { $redis->thaw },
    },
    garbage => {
        says  => qr/an unexpected reply/,
        begin => sub ($redis, $client) { $relay->replace_all("HTTP/1.1 400 Bad Request\r\n\r\n"); $relay->reset_all },
        end   => sub ($redis, $client) { $relay->replace_all('') },
    },
    oom => {
        says  => qr/error reply: .*OOM command not allowed/,
        begin => sub ($redis, $client) { $client->config_set('maxmemory', 1) },
        end   => sub ($redis, $client) { $client->config_set('maxmemory', 0) },
    },
    # A snapshot cannot take the place of a directory.
    misconf => {
        redis => { save => '3600 1' },
        says  => qr/error reply: .*MISCONF \w+ is configured to save/,
        begin => sub ($redis, $client) {
            mkdir $redis->tmpdir . '/dump.rdb' or die "mkdir: $!";
            save_snapshot($client, 'err');
        },
        end => sub ($redis, $client) {
            rmdir $redis->tmpdir . '/dump.rdb' or die "rmdir: $!";
            save_snapshot($client, 'ok');
        },
    },
    noreplicas => {
        says  => qr/error reply: .*NOREPLICAS Not enough good replicas to write/,
        begin => sub ($redis, $client) { $client->config_set('min-replicas-to-write', 1) },
        end   => sub ($redis, $client) { $client->config_set('min-replicas-to-write', 0) },
    },
    readonly => {
        says  => qr/error reply: .*READONLY You can't write against/,
        begin => sub ($redis, $client) { $client->replicaof('127.0.0.1', 1) },
        end   => sub ($redis, $client) { $client->replicaof('no', 'one') },
    },
    masterdown => {
        redis => { 'replica-serve-stale-data' => 'no' },
        says  => qr/error reply: MASTERDOWN Link with MASTER is down/,
        begin => sub ($redis, $client) { $client->replicaof('127.0.0.1', 1) },
        end   => sub ($redis, $client) { $client->replicaof('no', 'one') },
    },
    busy => {
        redis => { 'lua-time-limit' => 5 },
        says  => qr/error reply: BUSY \w+ is busy running a script/,
        begin => sub ($redis, $client) {
            $child{busy} = RateLimit::Process->run(sub { eval { $redis->client->eval('while true do end', 0) } });
            wait_until(refuses($client, 'BUSY')) or die 'not busy';
        },
        end => sub ($redis, $client) { $client->script_kill; delete $child{busy}; $client->ping },
    },
    # Each key takes a while to load.
    loading => {
        redis => { 'enable-debug-command' => 'yes', 'loading-process-events-interval-bytes' => 1024 },
        says  => qr/error reply: LOADING \w+ is loading the dataset in memory/,
        begin => sub ($redis, $client) {
            $client->debug('populate', 50_000);
            $client->config_set('key-load-delay', 1000); # microseconds
            $child{loading} = RateLimit::Process->run(sub { eval { $redis->client->debug('reload') } });
            wait_until(refuses($client, 'LOADING')) or die 'not loading';
        },
        end => sub ($redis, $client) { $client->config_set('key-load-delay', 0) },
    },
    noperm => {
        backend => "username limiter; password $secret;",
        says    => qr/error reply: NOPERM .*no permissions to run the 'evalsha' command/,
        begin   => sub ($redis, $client) { $client->acl('setuser', 'limiter', '-evalsha') },
        end     => sub ($redis, $client) { $client->acl('setuser', 'limiter', '+evalsha') },
    },
    'noperm-script' => {
        backend => "username limiter; password $secret;",
        says    => qr/error reply: .*(?:can't run this|no permissions to run the 'get')/,
        begin   => sub ($redis, $client) { $client->acl('setuser', 'limiter', '-get') },
        end     => sub ($redis, $client) { $client->acl('setuser', 'limiter', '+get') },
    },
    'noperm-login' => {
        backend => "username limiter; password $secret;",
        says    => qr/SCRIPT LOAD: NOPERM .*no permissions to run the 'script.*' command/,
        begin   => sub ($redis, $client) { $client->acl('setuser', 'limiter', '-script'); disconnect($client) },
        end     => sub ($redis, $client) { $client->acl('setuser', 'limiter', '+script') },
    },
    noauth => {
        says  => qr/SCRIPT LOAD: NOAUTH Authentication required/,
        begin => sub ($redis, $client) { $client->config_set('requirepass', $secret); disconnect($client) },
        end   => sub ($redis, $client) { $client->config_set('requirepass', '') },
    },
    wrongpass => {
        backend => "username limiter; password $secret;",
        says    => qr/AUTH: WRONGPASS,/,
        begin   => sub ($redis, $client) {
            $client->acl('setuser', 'limiter', "<$secret", '>battery-staple');
            disconnect($client);
        },
        end => sub ($redis, $client) { $client->acl('setuser', 'limiter', ">$secret") },
    },
    maxclients => {
        backend => "username limiter; password $secret;",
        says    => qr/connecting: ERR max number of clients reached/,
        begin   => sub ($redis, $client) { $client->config_set('maxclients', 1); disconnect($client) },
        end     => sub ($redis, $client) { $client->config_set('maxclients', 100) },
    },
);
delete $fault{loading} if RateLimit::Redis::major_version() < 7; # which cannot be told to take its time
my @names = sort keys %fault;

sub save_snapshot ($client, $outcome) {
    $client->bgsave;
    wait_until(sub {
        my $state = $client->info('persistence');
        return !$state->{rdb_bgsave_in_progress} && $state->{rdb_last_bgsave_status} eq $outcome;
    }) or die "the snapshot is not: $outcome";
}

for my $fault (@fault{@names}) {
    $fault->{server} = RateLimit::Redis->start_new(($fault->{redis} // {})->%*);
    $fault->{client} = $fault->{server}->client;
    $fault->{client}->acl('setuser', 'limiter', 'on', ">$secret", '~rl:*', '+@all');
    $fault->{address} = $fault->{server}->address;
}
$relay = RateLimit::Relay->start_new($fault{garbage}{server}->conf->{port});
$fault{garbage}{address} = "127.0.0.1:${\$relay->port}";

my $nginx = RateLimit::Nginx->start_new(<<"END");
add_header X-Source \$redis_rate_limit_source always;
redis_rate_limit_log_level info;
@{[ map { <<"BACKEND" } @names ]}
redis_rate_limit_backend $_ {
    server $fault{$_}{address};
    timeout 400ms;
    breaker failures=3 cooldown=300ms;
    @{[ $fault{$_}{backend} // '' ]}
}
redis_rate_limit_zone \$arg_key zone=$_-local:64k  backend=$_;
redis_rate_limit_zone \$arg_key zone=$_-open:64k   backend=$_ on_error=open;
redis_rate_limit_zone \$arg_key zone=$_-closed:64k backend=$_ on_error=closed;
BACKEND
server {
    listen %PORT%;
    @{[ map { my $name = $_; map { <<"LOCATION" } qw(local open closed) } @names ]}
    location /$name/$_ {
        redis_rate_limit zone=$name-$_ algorithm=fixed_window limit=3 window=600;
        empty_gif;
    }
LOCATION
}
END
my ($worker) = $nginx->workers;

# The worker's at this Redis.
sub connection ($name) { return join ' ', map { $_->{id} } $fault{$name}{server}->nginx_clients }

# An error is an answer like any other, but that of a replica.
sub keeps_connection ($fault) { return $fault->{says} =~ /error reply: (?!.*READONLY)/ }

my %without; # how many checks of each backend got no verdict

# `200 redis 2`
sub told ($name, $policy, $key) {
    my $response = $nginx->get("/$name/$policy?key=$key");
    my $source   = $response->{headers}{'x-source'};
    ++$without{$name} if $source ne 'redis' && $source ne 'deny_cache';
    return join ' ', $response->{status}, $source, $response->{headers}{'x-ratelimit-remaining'} // '-';
}

sub told_all ($name, $policy, $key, $count) {
    return join ', ', map { told($name, $policy, $key) } 1 .. $count;
}

sub fresh_key () {
    state $number = 0;
    return 'fresh-' . ++$number;
}

# The log's lines about this backend that say so.
sub lines ($name, $say) { return scalar(() = $nginx->error_log =~ /backend "$name" .*$say/g) }

sub is_over ($name) {
    return told($name, 'closed', fresh_key) =~ /^200 redis / && lines($name, 'works again') == lines($name, 'fails:');
}

ok(wait_until(sub { is_over($_) }), "$_: Redis decides") for @names;
is(told($_, 'local', 'known'), '200 redis 2', "$_: and counts") for @names;
my $started = time;
# From then on a lost connection is replaced without a word.
ok(wait_until(sub { time > $started + 1.1 }), 'connections have served for a second');
my %before     = map { $_ => lines($_, 'fails:') } @names;
my %connection = map { $_ => connection($_) } grep { keeps_connection($fault{$_}) } @names;
%without = ();

$fault{$_}{begin}->($fault{$_}->@{qw(server client)}) for @names;
for my $name (@names) {
    subtest "$name: while it lasts" => sub {
        ok(wait_until(sub { told($name, 'open', fresh_key) !~ /redis/ }), 'no verdict');
        is(told_all($name, 'local', 'known', 3), '200 local 1, 200 local 0, 429 local 0', 'local: the limit goes on');
        is(told_all($name, 'local', 'new', 4), '200 local 2, 200 local 1, 200 local 0, 429 local 0', 'local: of each client');
        is(told_all($name, 'open', 'new', 5), join(', ', ('200 none -') x 5), 'open: passes');
        is(told_all($name, 'closed', 'new', 5), join(', ', ('503 none -') x 5), 'closed: does not');
    };
}
sleep 1.3; # nothing is asked for so long that a connection could pass for a recovery
is(told($_, 'open', 'later'), '200 none -', "$_: goes on") for @names;
is(lines($_, 'works again'), $before{$_}, "$_: and nobody says that it is over") for @names;

$fault{$_}{end}->($fault{$_}->@{qw(server client)}) for @names;
for my $name (@names) {
    subtest "$name: when it is over" => sub {
        ok(wait_until(sub { is_over($name) }), 'Redis decides again');
        is(told_all($name, 'closed', 'again', 4), '200 redis 2, 200 redis 1, 200 redis 0, 429 redis 0', 'as before');
        is(lines($name, 'fails:'), $before{$name} + 1, 'one line told that it began');
        is(lines($name, 'works again'), $before{$name} + 1, 'one that it ended');
        is(lines($name, "works again, it failed for \\d+ ms, $without{$name} checks got no verdict"), 1, "of $without{$name} checks");
        my ($said) = $nginx->error_log =~ /.*backend "$name" at \S+ fails: (.*)/s;
        like((split /\n/, $said)[0], $fault{$name}{says}, 'and what it was');
        ok(wait_until(sub { connection($name) eq $connection{$name} }), 'on the same connection') if $connection{$name};
    };
}
unlike($nginx->error_log, qr/horse|staple/, 'the log tells no secret');
is(($nginx->workers)[0], $worker, 'the worker lives');
$nginx->stop;
$_->{server}->kill_now for @fault{@names}; # they take longer to leave one after another
done_testing;
