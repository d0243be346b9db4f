# docs/kubernetes.md: its manifests are YAML, nginx takes their snippets and limits requests by them, and the
# converter of ingress-nginx's annotations prints what the page shows, and rules that limit as the annotations say.

use v5.36;
use lib 't/lib';
use Digest::SHA qw(sha256_hex);
use File::Temp qw(tempdir);
use HTTP::Tiny;
use IO::Socket::INET;
use RateLimit::Documentation qw(examples_of);
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;
use YAML::XS qw(Dump Load);

my $page    = RateLimit::Nginx::slurp('docs/kubernetes.md');
my $redis   = RateLimit::Redis->start_new;
my $backend = "redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }\n";
my $dir     = tempdir('kubernetes-XXXXXXXX', TMPDIR => 1, CLEANUP => 1);

sub statuses_of ($nginx, $address, $count, $path, %headers) {
    my $http = HTTP::Tiny->new(local_address => $address);
    return join ' ', map { $http->get($nginx->url($path), { headers => \%headers })->{status} } 1 .. $count;
}

# --- the manifests of the page

my @blocks = $page =~ /^```yaml\n(.*?)^```$/msg;
my @objects; # of all of them
for my $block (@blocks) {
    my @documents = eval { Load($block) };
    is($@, '', 'YAML: ' . ($block =~ /^kind: (\w+)/m ? $1 : 'values of a chart'));
    push @objects, @documents;
}

sub object ($kind, $has = sub { 1 }) {
    my ($object, @more) = grep { ($_->{kind} // '') eq $kind && $has->($_) } @objects;
    die 'there are ' . (@more + 1) . " of $kind\n" if !$object || @more;
    return $object;
}

# What the snippets of a Gateway Fabric's object have for a context.
sub snippet ($object, $context) { return (map { $_->{value} } grep { $_->{context} eq $context } $object->{spec}{snippets}->@*)[0] }

# A snippet of `http` whose names lead to this host. `$is_run`: Redis is that of the test, which has no users.
sub http_here ($snippet, $metrics_port, $is_run) {
    $snippet =~ s/kube-dns\.kube-system\.svc\.cluster\.local/127.0.0.1/ or die "no resolver\n";
    $snippet =~ s/9145/$metrics_port/g;
    if ($is_run) {
        $snippet =~ s/redis\.limits\.svc\.cluster\.local:6379;/${\$redis->address}; connect_timeout 5s; timeout 5s;/ or die "no server\n";
        $snippet =~ s/^ *(?:username|password_file) .*\n//mg;
    } else {
        $snippet =~ s{/etc/redis-rate-limit/password}{%DIR%/redis.password} or die "no password\n";
    }
    return $snippet;
}

# nginx with a location for each rule, which serves what a pair's second one says.
sub server (%rules) {
    my $locations = join '', map { "location /$_/ { $rules{$_}\nempty_gif; }\n" } sort keys %rules;
    return "server { listen %PORT%; $locations }\n";
}

sub is_taken ($http, $what, %options) {
    my $nginx = RateLimit::Nginx->new($http, %options);
    RateLimit::Nginx::write_file($nginx->dir . '/redis.password', "secret\n");
    my ($said, $accepted) = $nginx->test_configuration;
    ok($accepted, "nginx takes $what") or diag($said);
}

my $load = "load_module modules/ngx_http_redis_rate_limit_module.so;\n";

subtest 'NGINX Ingress Controller' => sub {
    my $data    = object('ConfigMap')->{data};
    my $ingress = object('Ingress', sub ($object) { exists $object->{metadata}{annotations}{'nginx.org/location-snippets'} });
    my %rules   = (
        all   => $data->{'location-snippets'},
        api   => $ingress->{metadata}{annotations}{'nginx.org/location-snippets'},
        route => object('VirtualServer')->{spec}{routes}[0]{'location-snippets'},
    );
    is($data->{'main-snippets'}, $load, 'the module is loaded on the main level');
    my $port = empty_port();
    is_taken(http_here($data->{'http-snippets'}, $port, 0) . server(%rules), 'the snippets');

    s/limit=\d+/limit=2/ for values %rules;
    $rules{api} =~ s/algorithm=gcra limit=\d+ window=1 burst=20/algorithm=gcra limit=1 window=1h burst=0/ or die 'no rule of gcra';
    my $nginx = RateLimit::Nginx->start_new(http_here($data->{'http-snippets'}, $port, 1) . server(%rules));
    is(statuses_of($nginx, '127.0.0.1', 3, '/all/'), '200 200 429', 'the limit of the ConfigMap');
    is(statuses_of($nginx, '127.0.0.2', 2, '/api/', 'X-Api-Key' => 'k'), '200 429', 'the second limit of an Ingress');
    is(statuses_of($nginx, '127.0.0.1', 3, '/route/'), '200 200 429', 'a route counts for itself');
    my $asked_as = sub ($host) {
        my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) // die "connect: $@";
        syswrite $socket, "GET /metrics HTTP/1.1\r\nHost: $host\r\nConnection: close\r\n\r\n";
        return join('', <$socket>) =~ m{^HTTP/1.1 (\d+)} ? $1 : 'nothing';
    };
    is($asked_as->("10.1.2.3:$port"), 200, 'metrics for who asks for an address');
    is($asked_as->("1.rebound.example:$port"), 'nothing', 'and not for a name');
    $nginx->stop;
};

subtest 'NGINX Gateway Fabric' => sub {
    my $policy = object('SnippetsPolicy');
    my $filter = object('SnippetsFilter');
    my %is_context = map { $_ => 1 } qw(main http http.server http.server.location);
    is(join(' ', grep { !$is_context{$_} } map { $_->{context} } map { $_->{spec}{snippets}->@* } $policy, $filter), '', 'contexts are those of the API');
    my $named = object('HTTPRoute')->{spec}{rules}[0]{filters}[0]{extensionRef};
    is("$named->{kind} $named->{name}", "$filter->{kind} $filter->{metadata}{name}", 'the route names the filter');
    is(snippet($policy, 'main'), $load, 'the module is loaded on the main level');

    my $rules = snippet($filter, 'http.server.location');
    is_taken(http_here(snippet($policy, 'http'), 0, 0) . server(coffee => $rules), 'the snippets');
    $redis->client->flushall;
    my $nginx = RateLimit::Nginx->start_new(http_here(snippet($policy, 'http'), 0, 1) . server(coffee => $rules =~ s/limit=100/limit=2/r));
    is(statuses_of($nginx, '127.0.0.1', 3, '/coffee/'), '200 200 429', 'the limit of the filter');
    $nginx->stop;
};

subtest 'the password' => sub {
    my ($values) = grep { $_->{controller} } @objects;
    my $name     = $values->{controller}{volumes}[0]{name};
    is($values->{controller}{volumes}[0]{secret}{secretName}, object('Secret')->{metadata}{name}, 'the Secret is mounted');
    my ($mount) = $values->{controller}{volumeMounts}->@*;
    is($mount->{name}, $name, 'by its name');
    my ($key) = keys object('Secret')->{stringData}->%*;
    my @files = $page =~ /password_file ([^;]+);/g;
    is_deeply(\@files, [ ("$mount->{mountPath}/$key") x 2 ], 'where the backends look for it');
};

# --- the converter

# What it prints, what it says on stderr, and its exit status.
sub convert ($manifests, @options) {
    RateLimit::Nginx::write_file("$dir/manifests", $manifests);
    my $printed = qx{tools/convert-ingress @options <$dir/manifests 2>$dir/said};
    return ($printed, RateLimit::Nginx::slurp("$dir/said") =~ s/^convert-ingress: //gmr, $? >> 8);
}

# Of `shop`, with annotations of ingress-nginx.
sub ingress ($name, %annotations) {
    return {
        apiVersion => 'networking.k8s.io/v1',
        kind       => 'Ingress',
        metadata   => {
            name        => $name,
            namespace   => 'shop',
            annotations => { map { (m{/} ? $_ : "nginx.ingress.kubernetes.io/$_") => $annotations{$_} } keys %annotations },
        },
        spec => { rules => [{ host => "$name.example.com", http => { paths => [{ path => '/', pathType => 'Prefix' }] } }] },
    };
}

# The text for `http`, and for each Ingress that of its locations.
sub parts ($printed) {
    my ($http, @locations) = split /^# --- locations of Ingress shop\//m, $printed;
    return ($http, map { /\A([^:]+): [^\n]*\n(.*)\z/s } @locations);
}

subtest 'the example of the page' => sub {
    my ($block) = grep { /limit-rps/ } @blocks;
    my ($shown) = map { $_->{text} } grep { $_->{text} =~ /^# --- http/m } examples_of('docs/kubernetes.md');
    my ($printed, $said, $status) = convert($block);
    is("$status $said", '0 ', 'is converted');
    is($printed, $shown, 'into what the page shows');

    # Each row of the table that has a value and a rule.
    my @rows = $page =~ /^\| (`[a-z-]+: "\d+"`.*?) \| `(algorithm=[^`]+)`/mg;
    is(scalar @rows, 8, 'rows of the table');
    while (my ($annotations, $rule) = splice @rows, 0, 2) {
        my %annotations = map { /\A([a-z-]+): "?([^"]+)"?\z/ } $annotations =~ /`([^`]+)`/g;
        like((convert(Dump(ingress('row', %annotations))))[0], qr/ \Q$rule\E;$/m, join ' ', %annotations);
    }
};

# nginx knows no case in the names of its variables: each Ingress keeps its own exemptions.
subtest 'names that are nearly the same' => sub {
    my %exempt = ('pay-d-api' => '127.0.0.2', 'pay.api' => '127.0.0.3', 'pay-api' => '127.0.0.4', 'pay--d.api' => '127.0.0.5', 'pay.d-api' => '127.0.0.6');
    my @names  = sort keys %exempt;
    my ($printed, $said, $status) = convert(join '', map { Dump(ingress($_, 'limit-rps' => 1, 'limit-burst-multiplier' => 0, 'limit-whitelist' => $exempt{$_})) } @names);
    is("$status $said", '0 ', 'are converted');
    my ($http, %rules) = parts($printed);
    my %variables = map { lc $_ => 1 } $http =~ /^geo (\S+)/mg;
    is(scalar keys %variables, scalar @names, 'with a variable each') or diag(join ' ', sort keys %variables);
    $redis->client->flushall;
    my $nginx = RateLimit::Nginx->start_new("variables_hash_bucket_size 256;\n$backend$http" . server(map { $_ => $rules{$_} =~ s/window=1s/window=1h/r } @names));
    for my $name (@names) {
        is(statuses_of($nginx, $exempt{$name}, 3, "/$name/"), '200 200 200', "$name: its own address is exempt");
        my ($other) = grep { $_ ne $name } @names;
        is(statuses_of($nginx, $exempt{$other}, 2, "/$name/"), '200 503', 'and that of another Ingress is not');
    }
    $nginx->stop;

    ($printed, $said, $status) = convert(join '', map { Dump(ingress('twice', 'limit-rps' => $_)) } 1, 2);
    is("$status $said", "1 Ingress shop/twice is not converted: there was one of that name before\n", 'the same name twice is refused');
    my $long = 'x' x 70;
    my $cut  = 'x' x 46 . '-' . substr sha256_hex("shop/$long"), 0, 12; # as its zone is called
    ($printed, $said, $status) = convert(join '', map { Dump(ingress($_, 'limit-rps' => 1)) } $long, $cut);
    is("$status $said", "1 Ingress shop/$cut is not converted: its zone shop/$cut is that of another Ingress\n", 'and so is the zone of another one');
    my %other = (ingress('api', 'limit-rps' => 1)->%*, metadata => { namespace => 'a', name => 's-b', annotations => { 'nginx.ingress.kubernetes.io/limit-rps' => 1, 'nginx.ingress.kubernetes.io/limit-whitelist' => '127.0.0.2' } });
    my $namespaces = Dump(\%other) . Dump({ %other, metadata => { $other{metadata}->%*, namespace => 'a-s', name => 'b' } });
    my %of_namespaces = map { lc $_ => 1 } (convert($namespaces))[0] =~ /^geo (\S+)/mg;
    is(scalar keys %of_namespaces, 2, 'names and namespaces are told apart');
};

subtest 'limits hold' => sub {
    my $application = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 5) // die "listen: $!"; # it never answers
    my @ingresses = (
        ingress('minute', 'limit-rpm' => 2, 'limit-whitelist' => '127.0.0.2, 192.0.2.0/24'),
        ingress('connections', 'limit-connections' => 1),
        ingress(
            'global',
            'global-rate-limit'               => 5,
            'global-rate-limit-window'        => '2m',
            'global-rate-limit-key'           => '${http_x_api_client}',
            'global-rate-limit-ignored-cidrs' => '127.0.0.2',
        ),
    );
    my ($printed, $said, $status) = convert(join('', map { Dump($_) } @ingresses));
    is("$status $said", '0 ', 'all are converted');
    my ($http, %rules) = parts($printed);
    is(join(' ', sort keys %rules), 'connections global minute', 'to locations of each');
    unlike($rules{global}, qr/_status/, 'the status of a global limit is 429');
    my $server = server(%rules) =~ s/(location .connections.*?)empty_gif/$1proxy_pass http:\/\/127.0.0.1:${\$application->sockport}/sr;
    $redis->client->flushall;
    my $nginx = RateLimit::Nginx->start_new($backend . $http . $server);

    is(statuses_of($nginx, '127.0.0.1', 12, '/minute/'), join(' ', (200) x 11, 503), 'the limit and five times it at once');
    is(statuses_of($nginx, '127.0.0.2', 13, '/minute/'), join(' ', (200) x 13), 'a listed address has no limit');

    my $first = $nginx->get_later('/connections/');
    ok(wait_until(sub { $redis->client->zcard('rl:{shop/connections:127.0.0.1}:concurrency:60000') }), 'a request is in flight');
    is($nginx->get('/connections/')->{status}, 503, 'and no second one');
    close $application;
    isnt($first->()->{status}, 503, 'when it ends');
    isnt($nginx->get('/connections/')->{status}, 503, 'another one is let in');

    is(statuses_of($nginx, '127.0.0.1', 6, '/global/', 'X-Api-Client' => 'a'), '200 200 200 200 200 429', 'a client has five');
    is(statuses_of($nginx, '127.0.0.3', 1, '/global/', 'X-Api-Client' => 'a'), '429', 'from all addresses');
    is(statuses_of($nginx, '127.0.0.3', 6, '/global/'), '200 200 200 200 200 429', 'without a key it is the address');
    is(statuses_of($nginx, '127.0.0.2', 6, '/global/', 'X-Api-Client' => 'a'), '200 200 200 200 200 200', 'and one that is ignored has no limit');

    $redis->end('KILL');
    is(statuses_of($nginx, '127.0.0.1', 6, '/global/', 'X-Api-Client' => 'b'), '200 200 200 200 200 200', 'a global limit lets pass without Redis');
    is(statuses_of($nginx, '127.0.0.3', 12, '/minute/'), join(' ', (200) x 11, 503), 'and the others hold');
    $nginx->stop;
};

sub rules_of (%annotations) {
    my @options = (delete $annotations{options}) // ();
    my (undef, %rules) = parts((convert(Dump(ingress('one', %annotations)), @options))[0]);
    return $rules{one} // '';
}

subtest 'numbers' => sub {
    like(rules_of('limit-rps' => 3, 'limit-burst-multiplier' => 2), qr/ limit=3 window=1s burst=6;$/m, 'a multiplier');
    like(rules_of('limit-rps' => 3, 'limit-burst-multiplier' => 0), qr/ limit=3 window=1s burst=0;$/m, 'that is 0');
    my %all = ('limit-rps' => 3, 'limit-rpm' => 60, 'limit-connections' => 4, 'global-rate-limit' => 100, 'global-rate-limit-window' => '1h1m1.9s');
    is_deeply([ rules_of(%all) =~ / (limit=.*);$/mg ], [ 'limit=4', 'limit=60 window=1m burst=300', 'limit=3 window=1s burst=15', 'limit=100 window=3661s' ], 'all together');
    is_deeply([ rules_of(%all, options => '--replicas=3') =~ / (limit=.*);$/mg ], [ 'limit=12', 'limit=180 window=1m burst=900', 'limit=9 window=1s burst=45', 'limit=100 window=3661s' ], 'of three replicas');
    unlike(rules_of(%all), qr/^redis_rate_limit_status/m, 'one status for both kinds');
    is(rules_of('limit-rps' => 0, 'limit-whitelist' => '10.0.0.0/8'), '', 'no limit, no rule');
    is(rules_of('limit-rate' => 10, 'limit-rate-after' => 100), "\nlimit_rate_after 100k;\nlimit_rate 10k;\n", 'rates of responses');
};

subtest 'networks and names' => sub {
    my $printed = (convert(Dump(ingress('one', 'limit-rps' => 1, 'limit-allowlist' => '192.0.2.77/24,2001:db8::1', 'limit-whitelist' => '10.0.0.0/8'))))[0];
    is(join(' ', $printed =~ /^    (\S+) 1;$/mg), '192.0.2.0/24 2001:db8::1/128', 'networks, and the newer annotation counts');

    my $long  = join '.', ('a-very-long-name') x 5;
    my $list  = Dump({ apiVersion => 'v1', kind => 'List', items => [ map { ingress($_, 'limit-rps' => 1, 'limit-whitelist' => '10.0.0.0/8') } 'a.b', 'a-b', $long, "$long-2" ] });
    my ($http, %rules) = parts((convert($list))[0]);
    is(scalar keys %rules, 4, 'a list of Ingresses');
    my @zones = $http =~ / zone=([^:]+):/g;
    is(join(' ', grep { length > 64 } @zones), '', 'a name that is too long is cut');
    is_taken("variables_hash_bucket_size 256;\n" . $http . server(%rules), 'zones and variables of all of them');
};

subtest 'what is no text' => sub {
    my $annotations = sub ($annotations) { my $ingress = ingress('odd'); $ingress->{metadata}{annotations} = $annotations; return $ingress };
    my $limits      = { map { ("nginx.ingress.kubernetes.io/$_->[0]" => $_->[1]) } [ 'limit-rps' => 1 ], [ 'limit-whitelist' => [ '127.0.0.1' ] ] };
    my %faults = (
        'Ingress shop/odd is not converted: limit-whitelist is a list, expected a text'                  => $annotations->($limits),
        'Ingress shop/odd is not converted: limit-rps is a mapping, expected a text'                     => $annotations->({ 'nginx.ingress.kubernetes.io/limit-rps' => { a => 1 } }),
        'Ingress shop/odd is not converted: its annotations are a list, expected a mapping'              => $annotations->([ 'limit-rps' ]),
        'Ingress shop/odd is not converted: its annotations are a text, expected a mapping'              => $annotations->('limit-rps'),
        'Ingress without a name is not converted: its metadata is a text, expected a mapping'            => { kind => 'Ingress', metadata => 'odd' },
        'Ingress without a name is not converted: its name is a mapping, expected a text'                => { kind => 'Ingress', metadata => { name => { a => 1 } } },
        'Ingress without a name is not converted: it has no name'                                        => { kind => 'Ingress' },
        'Ingress without a name is not converted: its namespace is a list, expected a text'              => { kind => 'Ingress', metadata => { name => 'odd', namespace => [] } },
    );
    for my $fault (sort keys %faults) {
        my ($printed, $said, $status) = convert(Dump($faults{$fault}) . Dump(ingress('right', 'limit-rps' => 1)));
        is("$status $said", "1 $fault\n", $fault);
        like($printed, qr/zone=shop\/right/, 'but the other Ingress is');
    }
    my $odd = ingress('odd', 'limit-rps' => 1);
    for my $spec ('text', { rules => 'text' }, { rules => [ 'text', { http => 'text' }, { http => { paths => [ 'text', { path => {} } ] } }, { host => [], http => { paths => [ {} ] } } ] }) {
        my ($printed, $said, $status) = convert(Dump({ %$odd, spec => $spec }));
        is("$status $said", '0 ', 'hosts and paths that are no texts do not matter');
        unlike($printed, qr/[A-Z]+\(0x/, 'and are not printed');
    }
    my ($printed, $said, $status) = convert(Dump({ kind => 'List', items => 'text' }) . Dump({ kind => 'List', items => [ 'text' ] }) . Dump({ kind => [] }) . Dump($odd));
    is("$status $said", '0 ', 'nor do objects that are none');
};

subtest 'canaries' => sub {
    my %canary = (canary => 'true', 'canary-weight' => 20);
    my ($printed, $said, $status) = convert(Dump(ingress('new', 'limit-rps' => 1, %canary)) . Dump(ingress('old', 'limit-rps' => 1)));
    is("$status $said", "0 Ingress shop/new is a canary: ingress-nginx takes the limits of the Ingress beside it, so its own are left out\n", 'a canary');
    my (undef, %rules) = parts($printed);
    is(join(' ', keys %rules), 'old', 'has no limits of its own');
    ($printed, $said, $status) = convert(Dump(ingress('new', 'limit-rps' => 1, canary => 'false')));
    is("$status $said", "0 Ingress shop/new: nginx.ingress.kubernetes.io/canary is not known here, and left out\n", 'which is none by "false"');
    like($printed, qr/zone=shop\/new/, 'and then has its limits');
};

subtest 'annotations of others' => sub {
    my %others = ('nginx.org/limit-req-rate' => '1r/s', 'haproxy.org/rate-limit-requests' => 1, 'ingress.example/limit-rpm' => 1, 'cert-manager.io/issuer' => 'a', 'kubernetes.io/ingress.class' => 'nginx');
    my ($printed, $said, $status) = convert(Dump(ingress('one', %others)));
    is("$status $said", '0 ' . join('', map { "Ingress shop/one: $_ is not of nginx.ingress.kubernetes.io, and left out\n" } sort grep { /limit/ } keys %others),
        'limits of other controllers are named, and what is no limit is not');
};

subtest 'what it cannot convert' => sub {
    my %faults = (
        'limit-rpm is "ten", expected a whole number'                            => { 'limit-rpm' => 'ten' },
        'limit-rps is "-1", expected a whole number'                             => { 'limit-rps' => -1 },
        'limit-whitelist has "10.0.0.0/33", expected an address or a CIDR'       => { 'limit-rps' => 1, 'limit-whitelist' => '192.0.2.1,10.0.0.0/33' },
        'limit-whitelist has "1; }", expected an address or a CIDR'              => { 'limit-rps' => 1, 'limit-whitelist' => '1; }' },
        'global-rate-limit-window is "soon", expected a time as 1m30s'           => { 'global-rate-limit' => 1, 'global-rate-limit-window' => 'soon' },
        'global-rate-limit-window is "900ms", less than a second: ingress-nginx does not limit by it' => { 'global-rate-limit' => 1, 'global-rate-limit-window' => '900ms' },
        'global-rate-limit has no global-rate-limit-window: ingress-nginx does not limit by it'       => { 'global-rate-limit' => 1 },
        'global-rate-limit-key is "$a;", expected variables, letters, digits, "-" and "_"' =>
            { 'global-rate-limit' => 1, 'global-rate-limit-window' => '1m', 'global-rate-limit-key' => '$a;' },
    );
    for my $fault (sort keys %faults) {
        my ($printed, $said, $status) = convert(Dump(ingress('wrong', $faults{$fault}->%*)) . Dump(ingress('right', 'limit-rps' => 1)));
        is("$status $said", "1 Ingress shop/wrong is not converted: $fault\n", $fault);
        my (undef, %rules) = parts($printed);
        is(join(' ', keys %rules), 'right', 'but the other Ingress is');
    }
    is_deeply([ convert(Dump(ingress("a b\nc", 'limit-rps' => 1))) ], [ '', "Ingress shop/a b\nc is not converted: its name is not one of Kubernetes\n", 1 ], 'a name');
    my ($printed, $said, $status) = convert(Dump(ingress('one', 'limit-rps' => 1, 'rewrite-target' => '/', 'other.example/limit-rps' => 2)));
    is("$status $said", "0 Ingress shop/one: nginx.ingress.kubernetes.io/rewrite-target is not known here, and left out\n" .
        "Ingress shop/one: other.example/limit-rps is not of nginx.ingress.kubernetes.io, and left out\n", 'annotations of other kinds are named');
    is_deeply([ convert("kind: Service\n") ], [ '', "there is no Ingress\n", 1 ], 'no Ingress');
    like((convert("a: [\n"))[1], qr/^this is no YAML: /, 'no YAML');
    is((convert('', '--replicas=0'))[2], 2, 'wrong usage');
};

done_testing;
