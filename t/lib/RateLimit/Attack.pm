package RateLimit::Attack;

# Plays the client who has read a page and wants more than its recipes promise: starts each recipe with a
# real nginx and Redis and an upstream that counts, makes moves against it, and compares what was served
# with the recipe's line `**Holds:**`.

use v5.36;
use Exporter 'import';
use IO::Compress::Gzip qw(gzip);
use List::Util qw(any max);
use RateLimit::Client;
use RateLimit::CountingUpstream;
use RateLimit::Documentation qw(examples_of http_level);
use RateLimit::Http2;
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use Time::HiRes qw(time);

our @EXPORT_OK = qw(addresses_of_a_network bearers breaches change compressed fields_of leaving scale_numbers);

my $http2_host = '127.0.0.3'; # where nginx of a recipe listens with http2

# What a promise counts, where the upstream has another name for it.
my %unit = (
    calls => 'requests', connections => 'requests', streams => 'requests', sockets => 'requests', queries => 'requests',
    'failed logins' => 'failures',
);

# Of whom the upstream counts it; else of the owner of a key.
my %whose = (address => 'address', 'whole address' => 'address', 'address without a key' => 'anonymous');

# --- moves: parts of requests

# A key in a field, as an upstream finds it: a prefix such as `Bearer` before it, blanks and tabs around it, and
# other bytes that languages take for blank, the field twice, and the key in other fields alone.
sub fields_of ($field, $key, @prefixes) {
    @prefixes = '' if !@prefixes;
    my @values = map { ("$_$key", "\t$_$key", "$_$key\t", " \t $_$key \t ") } @prefixes;
    my @others = grep { $_ ne $field } qw(Authorization X-API-Key X-Goog-Api-Key Api-Key);
    my @forms  = (
        (map { [ $field, $_ ] } @values),
        (map { [ $field, $_ ] } map { ("$prefixes[0]$key$_", "$_$prefixes[0]$key", "$prefixes[0]$key$_ $_") } "\xa0", "\x85", "\x0b", "\x0c"),
        [ $field, $values[0], $field, 'junk' ],
        [ $field, $values[0], $field, $values[0] ],
        [ $field, 'junk', $field, $values[0] ],
        [ $field, '', $field, $values[0] ],
        [],
    );
    push @forms, map { my $other = $_ eq 'Authorization' ? "Bearer $key" : $key; ([ $_, $other ], [ $field, 'junk', $_, $other ]) } @others;
    return (
        (map { +{ fields => $_ } } @forms),
        (map { +{ fields => [ $field, $_ ], http2 => 1 } } @values),
        { fields => [], query => "?key=$key" },
        map { +{ fields => [ $field, "$prefixes[0]invented-$_" ] } } 1 .. 3,
    );
}

sub bearers ($key) { return fields_of('Authorization', $key, 'Bearer ', 'bearer ', 'BEARER  ', "Bearer\t", "Bearer \t") }

# Moments at which a client leaves.
sub leaving (%request) {
    return map { +{ %request, leave => $_->[0], ask => join ',', grep { defined } $_->[1], $request{ask} } }
        [ 'at once' ], [ 'asked', 'wait=0.2' ], [ 'answered', 'stream,wait=0.2' ];
}

# A prompt of 80,000 bytes in 200, from a client that leaves.
sub compressed () {
    gzip(\('{"max_tokens":3000,"prompt":"' . 'x' x 80_000 . '"}'), \my $body);
    return map { +{ %$_, body => $body } } leaving();
}

# Those of the attacker's network, a /64.
sub addresses_of_a_network () { return map { +{ address => "2001:db8:a:a:$_" } } qw(:1 :2 a:b:c:d ffff::7) }

# --- a page

# Whether this nginx has the modules that a recipe uses.
my $reads_json = (RateLimit::Nginx->new('json_set $a $request_body a; server { listen %PORT%; }')->test_configuration)[1];

# `recipes`, if they are no examples of nginx: { place, text, promises }, see examples_of().
sub new ($class, $page, @recipes) {
    @recipes = grep { $_->{text} =~ /redis_rate_limit_zone|redis_rate_limit zone=/ } examples_of($page) if !@recipes;
    return bless { page => $page, recipes => \@recipes, redis => RateLimit::Redis->start_new, attacked => {} }, $class;
}

# The recipe with these words, in its text or its place.
sub recipe ($self, $words) {
    my @found = grep { index("$_->{place}\n$_->{text}", $words) >= 0 } $self->{recipes}->@*;
    die "$self->{page} has " . @found . " recipes with \"$words\"\n" if @found != 1;
    $self->{attacked}{ $found[0]{place} } = 1;
    return $found[0];
}

# Each recipe promises something, and was attacked. `exempt`: words of those that limit nobody.
sub all_attacked ($self, @exempt) {
    $self->recipe($_) for @exempt;
    is(join(' ', grep { !$self->{attacked}{$_} } map { $_->{place} } $self->{recipes}->@*), '', 'all recipes were attacked');
}

# A plan:
#
# - changes: pairs of a text of the recipe and another one for it; scale: numbers of the recipe and its
#   promise, and smaller ones for them; more: another text beside it
# - upstream: options of RateLimit::CountingUpstream
# - request: what all requests are: { method, path, query, fields, body, ask, address, from, leave, http2 }. moves:
#   parts of requests, of which each makes one another. rounds: how often all are made. together: how many
#   are made at once
# - innocents: what makes requests those of somebody else, of which the last one must be served; after:
#   code that is given nginx and the upstream, and returns what else it finds wrong
# - files: name => text of files beside nginx's configuration
#
# Tests that the recipe keeps its promise.
sub holds ($self, $words, %plan) {
    my $recipe = $self->recipe($words);
    subtest "$recipe->{place}: $words" => sub {
        plan skip_all => 'needs nginx 1.31.5 with its JSON module' if !$reads_json && $recipe->{text} =~ /json_set/;
        ok(scalar $recipe->{promises}->@*, 'says what it promises') or return;
        my ($breaches, $seen) = $self->attack($recipe, %plan);
        is(join('; ', @$breaches), '', 'keeps its promise');
        cmp_ok($seen->{served}, '>', 0, 'the attacker was served');
        ok($seen->{is_stopped}, 'and stopped') if !$plan{stops_nobody};
    };
}

# Tests that the attack finds a fault: the recipe with these changes, pairs of a text and another one.
sub finds ($self, $words, $fault, $changes, %plan) {
    my $recipe = $self->recipe($words);
    subtest "$recipe->{place}: $fault" => sub {
        plan skip_all => 'needs nginx 1.31.5 with its JSON module' if !$reads_json && $recipe->{text} =~ /json_set/;
        my ($breaches) = $self->attack($recipe, %plan, changes => [ @$changes, @{ $plan{changes} // [] } ]);
        isnt(join('; ', @$breaches), '', 'is found') and note(join '; ', @$breaches);
    };
}

sub change ($text, @changes) {
    while (my ($from, $to) = splice @changes, 0, 2) {
        $text =~ s/\Q$from\E/$to/g or die "the recipe has no \"$from\"\n$text";
    }
    return $text;
}

# A number of a promise by the plan's scale: it is one of the recipe, or comes of one, as the bound of
# gcra (burst and one more) and that of sliding_window (less than twice the limit).
sub scaled ($text, $number, $scale) {
    for my $form ([ $number, 0, 1 ], [ $number - 1, 1, 1 ], [ ($number + 1) / 2, -1, 2 ]) {
        my ($of_recipe, $more, $times) = @$form;
        next if $text !~ /(?<![\w.])\Q$of_recipe\E(?![\w.])/;
        return ($scale->{$of_recipe} // $of_recipe) * $times + $more;
    }
    die "the promise has $number, and the recipe has no such number\n";
}

# A recipe's text with smaller numbers.
sub scale_numbers ($text, $scale) { return $text =~ s/(?<![\w.])(\d+)(?![\w.])/$scale->{$1} \/\/ $1/ger }

sub start_nginx ($self, $recipe, $upstream, %plan) {
    my $text = http_level(scale_numbers(change($recipe->{text}, @{ $plan{changes} // [] }), $plan{scale} // {}));
    $text =~ s{127\.0\.0\.1:80\d\d(?=[/;])}{$upstream->address}ge;
    $text =~ s{^( *)listen %PORT%;\n}{$1listen %PORT%;\n$1listen $http2_host:%PORT% http2;\n}m;
    $text =~ s{(listen .*\n(?!.*listen))}{$1 location / { proxy_pass ${\$upstream->url}; }\n} if $text !~ m{location / \{} && $text !~ /proxy_pass|_pass|root /;
    my $addresses = $text =~ /set_real_ip_from/ ? '' : 'set_real_ip_from 127.0.0.0/8;';
    $self->{redis}->client->flushall;
    my $backend = "redis_rate_limit_backend default { server ${\$self->{redis}->address}; connect_timeout 5s; timeout 5s; }";
    my $nginx   = RateLimit::Nginx->new("$backend $addresses ${\($plan{more} // '')}\n$text");
    my %files   = %{ $plan{files} // {} };
    RateLimit::Nginx::write_file($nginx->dir . "/$_", $files{$_}) for keys %files;
    $nginx->start;
    return $nginx;
}

# The promises that were broken, in words, and the most that was counted of what they bound. `counts` are as
# those of RateLimit::CountingUpstream, after an attack of so many seconds.
sub breaches ($recipe, $counts, $seconds, $scale) {
    my (@breaches, @units);
    for my $promise ($recipe->{promises}->@*) {
        my $unit    = $promise->{open} ? 'open' : $unit{ $promise->{units} } // $promise->{units} =~ tr/ /_/r;
        my $whose   = $whose{ $promise->{who} } // 'owner';
        my $units   = $counts->{"$unit.$whose.attacker"} // 0;
        my $allowed = scaled($recipe->{text}, $promise->{most}, $scale) + $seconds * $promise->{rate};
        push @units, $units;
        push @breaches, "per $promise->{who}: $units $promise->{units}, promised are $allowed" if $units > $allowed;
    }
    return (\@breaches, max(@units));
}

# Returns the promises that were broken, in words, and what was seen.
sub attack ($self, $recipe, %plan) {
    my $upstream = RateLimit::CountingUpstream->start_new(%{ $plan{upstream} // {} });
    my $nginx    = $self->start_nginx($recipe, $upstream, %plan);
    my $attack   = { nginx => $nginx, upstream => $upstream, bytes => 0, is_stopped => 0, together => $plan{together} // 12 };
    my $begin    = time;
    for (1 .. $plan{rounds} // 2) {
        play($attack, map { +{ actor => 'attacker', %{ $plan{request} // {} }, %$_ } } @{ $plan{moves} // [{}] });
    }
    $plan{attack}->($attack) if $plan{attack};
    my $seconds  = time - $begin;
    my $counts   = $upstream->counts;
    $counts->{"bytes.$_.attacker"} = $attack->{bytes} for qw(address anonymous owner);
    my ($breaches, $served) = breaches($recipe, $counts, $seconds, $plan{scale} // {});
    my @breaches = @$breaches;
    $attack->{together} = 1; # who is no attacker asks for one thing after another
    if ($plan{innocents}) {
        my @statuses = play($attack, map { +{ actor => 'innocent', %{ $plan{request} // {} }, %$_ } } $plan{innocents}->@*);
        push @breaches, "somebody else is answered @statuses" if $statuses[-1] !~ /^2/;
    }
    push @breaches, $plan{after}->($attack) if $plan{after};
    $nginx->stop;
    return (\@breaches, { served => $served, is_stopped => $attack->{is_stopped} });
}

# Makes requests, some of them at once, and returns their statuses, 0 where there is none.
sub play ($attack, @requests) {
    my @statuses;
    while (my @now = splice @requests, 0, $attack->{together}) {
        my @open = map { begin($attack, $_) } @now;
        push @statuses, map { finish($attack, $_) } @open;
    }
    $attack->{is_stopped} ||= any { $_ eq '429' } @statuses;
    return @statuses;
}

sub fields_to_send ($request) {
    return (
        @{ $request->{fields} // [] },
        'X-Actor'   => $request->{actor},
        'X-Real-IP' => $request->{address} // ($request->{actor} eq 'attacker' ? '2001:db8:a:a::1' : '2001:db8:b:b::1'),
        length($request->{ask} // '') ? ('X-Ask' => $request->{ask}) : (),
    );
}

sub begin ($attack, $request) {
    my ($nginx, $upstream) = $attack->@{qw(nginx upstream)};
    my @fields = fields_to_send($request);
    my $path   = ($request->{path} // '/') . ($request->{query} // '');
    my $body   = $request->{body};
    my $method = $request->{method} // (defined $body ? 'POST' : 'GET');
    if ($request->{http2}) {
        my $client = RateLimit::Http2->new($nginx, $http2_host);
        my @lower  = map { $_ % 2 ? $fields[$_] : lc $fields[$_] } 0 .. $#fields;
        return { http2 => $client, stream => $client->request($path, method => $method, body => $body, fields => \@lower) };
    }
    my $client = RateLimit::Client->new($nginx, '127.0.0.1', from => $request->{from});
    my $lines  = join '', map { "$fields[$_ * 2]: $fields[$_ * 2 + 1]\r\n" } 0 .. $#fields / 2;
    $lines .= 'Content-Length: ' . length($body) . "\r\n" if defined $body;
    my $asked = ($request->{leave} // '') eq 'asked' ? $upstream->counts->{asked} : 0;
    $client->send("$method $path HTTP/1.1\r\nHost: a\r\nConnection: close\r\n$lines\r\n" . ($body // ''));
    my $leave = $request->{leave} // return { client => $client, method => $method };
    if ($leave eq 'asked') {
        wait_until(sub { $client->has_input || $upstream->counts->{asked} > $asked });
    } elsif ($leave eq 'answered') {
        $client->read_until(sub { $client->{input} =~ /\r\n\r\n.*\n/s });
    }
    $attack->{is_stopped} ||= $client->{input} =~ /^HTTP\S+ 429/;
    $client->reset;
    return { is_gone => 1 };
}

sub finish ($attack, $open) {
    return 0 if $open->{is_gone};
    if (my $http2 = $open->{http2}) {
        $http2->content($open->{stream});
        return 0;
    }
    my $client = $open->{client};
    $client->read_until(sub { 0 });
    my ($status) = $client->{input} =~ m{^HTTP/1\.\d (\d+)};
    $attack->{bytes} += length $client->{input} if ($status // 0) eq '200';
    return $status // 0;
}

1;
