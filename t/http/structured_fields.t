# RateLimit and RateLimit-Policy are lists of RFC 9651, of items as
# draft-ietf-httpapi-ratelimit-headers-11 has them, for each kind of rule and any name.

use v5.36;
use lib 't/lib';
use RateLimit::Nginx;
use RateLimit::Redis;
use Test::More;

my @names = ('a', '0', '10.0.0.0/8', '-', '_', './-_', 'n' x 64, '9Z' x 32);
my @rules = (
    'fixed_window limit=1000000000 window=1ms',
    'fixed_window limit=0 window=60',
    'sliding_log limit=1 window=366d',
    'sliding_window limit=2 window=999ms',
    'token_bucket limit=1 window=1 burst=300000000', # nearly ten years
    'token_bucket limit=1000000000 window=1 burst=1',
    'gcra limit=300 window=1 burst=1000000000',
    'leaky_bucket limit=3 window=1 burst=2 delay=2',
    'concurrency limit=3',
);

my $redis     = RateLimit::Redis->start_new;
my $locations = '';
for my $n (0 .. $#names) {
    for my $i (0 .. $#rules) {
        $locations .= "location = /of/$i/$n { redis_rate_limit zone=z$i algorithm=$rules[$i] name=$names[$n]; empty_gif; }\n";
    }
}
my $zones = join "\n", map { "redis_rate_limit_zone \$uri zone=z$_:32k on_error=closed;" } 0 .. $#rules, 'all';
my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
$zones
server {
    listen %PORT%;
    $locations
    location = /all {
        @{[ map { "redis_rate_limit zone=zall algorithm=sliding_log limit=5 window=60 name=$_;" } @names ]}
        redis_rate_limit zone=zall algorithm=concurrency limit=5;
        empty_gif;
    }
}
END

# A list whose items are strings with parameters: [ string, { key => value } ] each. Strict, where
# RFC 9651 lets a sender choose. Undef where it is none.
sub parse_list ($field) {
    my @items;
    pos($field) = 0;
    while (1) {
        $field =~ /\G"((?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"/gc or return undef;
        my ($string, %parameters) = $1;
        while ($field =~ /\G;([a-z*][a-z0-9_.*-]*)=(?:(-?\d{1,15})|"([\x20-\x21\x23-\x5b\x5d-\x7e]*)")/gc) {
            return undef if exists $parameters{$1};
            $parameters{$1} = $2 // $3;
        }
        push @items, [ $string, \%parameters ];
        return \@items if $field =~ /\G\z/gc;
        $field =~ /\G, /gc or return undef;
    }
}

# Both fields, parsed; the test fails where one is no list.
sub fields ($path) {
    my $headers = $nginx->get($path)->{headers};
    my @fields  = map { $headers->{$_} // '' } qw(ratelimit-policy ratelimit);
    my @lists   = map { parse_list($_) } @fields;
    ok($lists[0] && $lists[1], "lists: $path") or diag join "\n", @fields;
    return @lists;
}

for my $i (0 .. $#rules) {
    subtest $rules[$i] => sub {
        for my $n (0 .. $#names) {
            for (1 .. 2) { # granted and, of some, denied
                my ($policies, $limits) = fields("/of/$i/$n");
                is(@$policies . @$limits, '11', 'one item each');
                my ($policy, $limit) = ($policies->[0], $limits->[0]);
                is("$policy->[0] $limit->[0]", "$names[$n] $names[$n]", 'of its name');
                my $known = $rules[$i] =~ /^concurrency/ ? 'q qu' : 'q w';
                is(join(' ', sort keys $policy->[1]->%*), $known, "policy: $known");
                cmp_ok($policy->[1]{w} // 1, '>=', 1, 'a window of a second at least');
                like(join(' ', sort keys $limit->[1]->%*), qr/^r( t)?$/, 'limit: r, and perhaps t');
                cmp_ok($limit->[1]{r}, '<=', $policy->[1]{q}, 'r is at most q');
                cmp_ok($limit->[1]{t} // 1, '>=', 1, 't is a second at least, or left out');
            }
        }
    };
}

subtest 'many rules' => sub {
    my ($policies, $limits) = fields('/all');
    my $all = join ' ', @names, 'zall/concurrency';
    is(join(' ', map { $_->[0] } @$policies), $all, 'policies in the order of the rules');
    is(join(' ', map { $_->[0] } @$limits),   $all, 'limits too');
};

$nginx->stop;
done_testing;
