# docs/token-budgets.md: its configurations keep to what the page says of them.

use v5.36;
use lib 't/lib';
use RateLimit::AnswerServer;
use RateLimit::Client;
use RateLimit::Documentation qw(example_with examples_of http_level);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $page  = 'docs/token-budgets.md';
my $redis = RateLimit::Redis->start_new;
my $model = RateLimit::AnswerServer->start_new;
my $reads_json = (RateLimit::Nginx->new('client_body_early_read on; json_set $a $request_body a; server { listen %PORT%; }')->test_configuration)[1];

# What a client asks for stands in its path, which the page's locations have not.
sub start_nginx ($example) {
    $redis->client->flushall;
    my $backend = "redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }\n";
    my $text    = http_level($example);
    $text =~ s{proxy_pass(\s+)http://127\.0\.0\.1:8081;}{proxy_pass$1${\$model->url};}g or die "$example has no upstream";
    $text =~ s{127\.0\.0\.1:8082}{unix:%DIR%/auth.sock:}
        and $text .= 'server { listen unix:%DIR%/auth.sock; add_header X-Team $http_x_team; add_header X-User $http_x_user; location / { return 204; } }';
    $text =~ s{location /v1/chat/completions}{location /v1/};
    $text = "redis_rate_limit_response_value \$tokens usage.total_tokens;\n$text" if $text !~ /\$tokens/;
    return RateLimit::Nginx->start_new("$backend log_format told '\$arg_id [\$tokens] \$upstream_addr'; access_log %DIR%/told.log told; $text");
}

my $asked = 0;

# Asks as a client with that key; returns the response, and what is left of the budget with no reservation.
sub ask ($nginx, $key, $path, %options) {
    ++$asked;
    my $id = $path =~ /\?/ ? "&id=$asked" : "?id=$asked";
    my $response = $nginx->get("/v1/$path$id", headers => { authorization => "Bearer $key", 'x-team' => 'team', 'x-user' => $key, %{ $options{headers} // {} } }, %{ $options{more} // {} });
    wait_until(sub { RateLimit::Nginx::slurp($nginx->dir . '/told.log') =~ /^$asked /m });
    return $response;
}

# The units of a window's counter.
sub taken ($pattern) {
    my @keys = grep { /$pattern/ } $redis->keys;
    return @keys == 1 ? (unpack 'dd', $redis->client->get($keys[0]))[1] : scalar(@keys) . ' counters';
}

sub is_taken ($pattern, $expected, $what) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    ok(wait_until(sub { taken($pattern) eq $expected }), "$what: $expected") or diag(taken($pattern), ' ', join ' ', $redis->keys);
}

subtest 'a budget per key and day' => sub {
    my $nginx = start_nginx(example_with($page, "final_cost=\$charged;\n\n        client_max_body_size 16k;                   #"));
    my $response = ask($nginx, 'a', 'chat.json');
    is("$response->{status} $response->{content}", '200 ' . RateLimit::Nginx::slurp('t/answers/chat.json'), 'an answer');
    is($response->{headers}{'x-ratelimit-remaining'}, 980_000, 'the headers have the reservation');
    is_taken(qr/tokens:a\}/, 42, 'a whole answer');
    ask($nginx, 'b', 'chat.sse?by=part');
    is_taken(qr/tokens:b\}/, 21, 'a streamed one');
    ask($nginx, 'c', 'chat_without_usage.sse?by=part');
    is_taken(qr/tokens:c\}/, 20_000, 'one that does not tell');
    my $client = RateLimit::Client->new($nginx);
    $client->send("GET /v1/chat.sse?by=part&hold=1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer d\r\n\r\n");
    ok($client->read_until(sub { $client->{input} =~ /data: .*\n\n/ }), 'the first event of one');
    $client->reset;
    ok(wait_until(sub { $model->counts->{left} == 1 }), 'which a client leaves');
    ask($nginx, 'e', 'chat.json', headers => { 'Accept-Encoding' => 'gzip', Range => 'bytes=0-10' });
    is_taken(qr/tokens:e\}/, 42, 'a client that asks for less');
    is_taken(qr/tokens:d\}/, 20_000, 'who has left keeps the reservation');
    my $before = $model->counts->{requests};
    my ($counter) = grep { /tokens:a\}/ } $redis->keys;
    my $client_of_redis = $redis->client;
    my $state = $client_of_redis->get($counter);
    substr($state, 8, 8) = pack 'd', 980_001; # as if so many had been used
    $client_of_redis->set($counter, $state);
    my $refused = ask($nginx, 'a', 'chat.json');
    is($refused->{status}, 429, 'without room for the reservation a request is refused');
    cmp_ok($refused->{headers}{'retry-after'}, '>', 0, 'with the time to wait');
    is($model->counts->{requests}, $before, 'and the upstream not asked');
    $nginx->stop;
};

# The page's expressions by the APIs, and the answers that they are for.
subtest 'where answers tell their usage' => sub {
    my ($block)    = RateLimit::Nginx::slurp($page) =~ /These\s+are\s+for\s+common\s+APIs:\n\n```\n(.*?)^```$/ms;
    my %expression = $block =~ /^# (\S.*?)(?:, also .*?|, in lines of JSON)?\n(\S+)$/mg;
    my %used = (
        'chat completions' => { 'chat.json' => 42, 'chat.sse' => 21, 'chat_without_usage.sse' => '-' },
        'messages'  => { 'messages.json' => 40, 'messages.sse' => 40, 'messages_again.sse' => 1080, 'messages_zero.sse' => 40 },
        'responses' => { 'responses.json' => 123, 'responses.sse' => 48 },
        'generateContent' => { 'generate.json' => 34, 'generate.sse' => 34 },
        'chat of local model servers' => { 'local.ndjson' => 308, 'local_cached.ndjson' => 282, 'local_embed.json' => 8 },
    );
    is_deeply([ sort keys %expression ], [ sort keys %used ], 'the page has all');
    my @apis = sort keys %used;
    my $locations = join '', map { "location /$_/ { redis_rate_limit_response_value \$tokens $expression{$apis[$_]}; proxy_pass ${\$model->url}; }\n" } 0 .. $#apis;
    my $nginx = RateLimit::Nginx->start_new("log_format told '\$uri [\$tokens]'; access_log %DIR%/told.log told; proxy_buffering off; proxy_http_version 1.1; server { listen %PORT%; $locations }");
    my $gateway = start_nginx(example_with($page, 'tokens_evaluated'));
    for my $api (0 .. $#apis) {
        for my $name (sort keys $used{ $apis[$api] }->%*) {
            my $used = $used{ $apis[$api] }{$name};
            $nginx->get("/$api/$name?by=part");
            ok(wait_until(sub { RateLimit::Nginx::slurp($nginx->dir . '/told.log') =~ m{^/$api/\Q$name\E \[$used\]$}m }), "$apis[$api]: $name: $used");
            ask($gateway, "key", "$name?by=part");
            like(RateLimit::Nginx::slurp($gateway->dir . '/told.log'), qr/^$asked \[$used\]/m, 'and by the expression for all of them');
        }
    }
    # Others that the page names, which have no expression of their own there.
    my %more = (
        'groq.json' => 68, 'groq.sse' => 57, 'converse.json' => 658,
        'cohere.json' => 90, 'cohere_floats.json' => 90, 'cohere.sse' => 76, 'cohere_v1.ndjson' => 68, 'cohere_embed.json' => 12,
        'workers.json' => 37, 'workers.sse' => 38, 'watson.json' => 64, 'watson.sse' => 52,
        'completion.json' => 26, 'completion.sse' => 26,
        'router.sse' => 177, 'search.sse' => 31, 'hits.sse' => 16, 'embeddings.json' => 8,
    );
    for my $name (sort keys %more) {
        ask($gateway, 'key', "$name?by=part");
        like(RateLimit::Nginx::slurp($gateway->dir . '/told.log'), qr/^$asked \[$more{$name}\]/m, "the gateway: $name: $more{$name}");
    }
    my %tested = map { $_ => 1 } 'cohere_rerank.json', keys %more, map { keys %$_ } values %used;
    is(join(' ', grep { !$tested{$_} } map { s{.*/}{}r } glob 't/answers/*'), '', 'all answers are tried');
    my $warning = qr/\[warn\] .* the response of type "application\/json" has no number for \$tokens, so that the reservation stays/;
    $gateway->stop;
    $gateway->start;
    ask($gateway, 'key', 'cohere_rerank.json');
    like(RateLimit::Nginx::slurp($gateway->dir . '/told.log'), qr/^$asked \[-\]/m, 'what tells no tokens has none');
    ok($gateway->wait_for_log($warning), 'which the log tells');
    $_->stop for $nginx, $gateway;
};

subtest "a team's and a user's budget" => sub {
    my $nginx = start_nginx(example_with($page, 'zone=per_team:10m'));
    ask($nginx, $_, 'chat.json') for qw(u v);
    is_taken(qr/per_team:team\}/, 84, 'the team has used what both have');
    is_taken(qr/per_user:u\}/, 42, 'a user what it has');
    my $policy = ask($nginx, 'u', 'chat.json')->{headers}{'ratelimit-policy'};
    is($policy, '"per_team/86400s";q=10000000;w=86400, "per_user/86400s";q=1000000;w=86400', 'and is told of both');
    $nginx->stop;
};

sub post ($nginx, $body) { return ask($nginx, 'k', 'chat.json', more => { method => 'POST', content => $body }) }

# What the attack of t/recipes/token_budgets.t does not see: that what is right passes, and what is reserved.
subtest 'bodies that are read' => sub {
    plan skip_all => 'needs nginx 1.31.5 with its JSON module' if !$reads_json;
    my $nginx = start_nginx(example_with($page, '$is_silent_stream'));
    is(post($nginx, '{"stream": true, "messages": []}')->{status}, 400, 'a stream that would not tell is refused');
    is(post($nginx, '{"stream": true, "stream_options": {"include_usage": false}}')->{status}, 400, 'and one that says so');
    is(post($nginx, '{"stream": true, "stream_options": {"include_usage": true}}')->{status}, 200, 'one that will is not');
    is(post($nginx, '{"messages": [{"content": "\"stream\": true"}]}')->{status}, 200, 'nor is a whole answer');
    $nginx->stop;

    $nginx = start_nginx(example_with($page, 'json_set $max_tokens'));
    my $response = post($nginx, '{"model": "small-1", "max_tokens": 300}');
    is("$response->{status} $response->{headers}{'x-ratelimit-remaining'}", '200 982600', 'what it may use is reserved');
    is_taken(qr/per_model:k%20small-1\}/, 42, 'and what was used is settled, by key and model');
    is_taken(qr/per_key:k\}/, 42, 'and by the key alone');
    is(post($nginx, '{"model": "large-1", "max_tokens": 9999}')->{headers}{'ratelimit'} =~ /"per_model\/86400s";r=(\d+)/ ? $1 : '', 973_600, 'another model reserves more');
    is(post($nginx, $_)->{status}, 400, "$_ is refused") for '{"model": "small-1"}', '{"model": "mine-1", "max_tokens": 5}', '{"max_tokens": 5}', '', '{}', '[]', '{"model": "a b", "max_tokens": 5}', '{"model": "small-1", "max_tokens": 4000}';
    is(post($nginx, '{"model": "small-1", "max_tokens": 5, "x": "' . 'x' x 16_000 . '"}')->{status}, 200, 'a large body fits');
    is(post($nginx, '{"model": "small-1", "max_tokens": 5, "x": "' . 'x' x 17_000 . '"}')->{status}, 413, 'a larger one is refused');
    $nginx->stop;

    $nginx = start_nginx(example_with($page, 'json_set $rpc_tool') =~ s{location = /mcp}{location /v1/}r);
    my $policy = sub ($body) { post($nginx, $body)->{headers}{'ratelimit-policy'} };
    is($policy->('{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "report"}}'), '"per_tool/60s";q=5;w=60, "per_key/60s";q=200;w=60', 'a tool with a limit of its own');
    is($policy->('{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search"}}'), '"per_tool/60s";q=60;w=60, "per_key/60s";q=200;w=60', 'another one');
    is($policy->('{"jsonrpc": "2.0", "id": 1, "result": {}}'), '"per_key/60s";q=200;w=60', 'an answer of the client');
    $nginx->stop;
};

done_testing;
