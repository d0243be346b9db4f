# Budgets that answers use up: final_cost by a redis_rate_limit_response_value. Each request reserves 500
# units, and keeps what its answer tells; or all of them, where the answer does not tell.

use v5.36;
use lib 't/lib';
use RateLimit::AnswerServer;
use RateLimit::Client;
use RateLimit::Metrics qw(metrics_of);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $redis = RateLimit::Redis->start_new;
my $model = RateLimit::AnswerServer->start_new;

sub locations ($algorithm, $more) {
    my $rule = "zone=z algorithm=$algorithm limit=100000 window=100h$more name=$algorithm";
    return <<"END";
location /$algorithm/ { redis_rate_limit $rule cost=500 final_cost=\$tokens; proxy_pass ${\$model->url}; }
location /$algorithm/redirected/ {
    redis_rate_limit $rule cost=500 final_cost=\$tokens;
    error_page 402 = \@other;
    proxy_intercept_errors on;
    proxy_pass ${\$model->url};
}
location /$algorithm/peek { redis_rate_limit $rule cost=0; empty_gif; }
END
}

my $nginx = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$arg_key zone=z:1m on_error=closed deny_cache=off;
redis_rate_limit_response_value \$tokens
    usage.total_tokens|usage.input_tokens+usage.output_tokens|message.usage.input_tokens+usage.output_tokens;
types { application/json json; }
proxy_http_version 1.1;
proxy_buffering off;
server {
    listen %PORT%;
    @{[ locations('fixed_window', '') . locations('token_bucket', '') ]}
    location \@other { rewrite ^ /chat.json break; proxy_pass ${\$model->url}; }
    location /rejected/ {
        redis_rate_limit zone=z algorithm=fixed_window limit=10 window=100h cost=50 final_cost=\$tokens name=rejected;
        error_page 429 /answer.json;
        proxy_pass ${\$model->url};
    }
    location /answer.json { root %DIR%/html; }
    location /json { redis_rate_limit_metrics json; }
}
END
$nginx->add_page('answer.json', '{"usage":{"total_tokens":3}}');

sub taken ($algorithm, $key) { return 100_000 - $nginx->get("/$algorithm/peek?key=$key")->{headers}{'x-ratelimit-remaining'} }

sub is_taken ($algorithm, $key, $expected, $what) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    ok(wait_until(sub { taken($algorithm, $key) == $expected }), "$what: $expected") or diag(taken($algorithm, $key));
}

sub leave ($path) {
    my $client = RateLimit::Client->new($nginx);
    $client->send("GET $path HTTP/1.1\r\nHost: a\r\n\r\n");
    $client->read_until(sub { $client->{input} =~ /data: \{/ });
    $client->reset;
    return;
}

for my $algorithm (qw(fixed_window token_bucket)) {
    subtest $algorithm => sub {
        my %used = ('chat.json' => 42, 'chat.sse?by=part' => 21, 'messages.json' => 40, 'messages.sse?by=part' => 40, 'messages_again.sse?by=part' => 1080, 'chat_without_usage.sse?by=part' => 500);
        for my $name (sort keys %used) {
            my $key = $name =~ s/\W/_/gr;
            $nginx->get("/$algorithm/$name" . ($name =~ /\?/ ? '&' : '?') . "key=$key");
            is_taken($algorithm, $key, $used{$name}, $name);
        }
        $nginx->get("/$algorithm/redirected/x.json?status=402%20No&key=redirected");
        is_taken($algorithm, 'redirected', 42, 'what an error_page answers');
        my $client = RateLimit::Client->new($nginx);
        $client->send("GET /$algorithm/messages.sse?key=broken&by=part&break=4 HTTP/1.1\r\nHost: a\r\n\r\n");
        ok(!$client->read_until(sub { 0 }), 'is cut off');
        is_taken($algorithm, 'broken', 500, 'an upstream that breaks off');
    };
}

# The input tokens stand in the first event, the output tokens in the last but one.
subtest 'clients that leave' => sub {
    leave('/fixed_window/messages.sse?by=part&hold=1&key=first');
    ok(wait_until(sub { $nginx->access_log =~ /key=first / }), 'have left');
    is_taken('fixed_window', 'first', 500, 'after the first event: nothing comes back');
    $nginx->get('/fixed_window/messages.sse?by=part&key=last');
    is_taken('fixed_window', 'last', 40, 'what came later has been settled');
    is_taken('fixed_window', 'first', 500, 'and still nothing has come back');
};

subtest 'a request that is rejected' => sub {
    my $before = metrics_of($nginx)->{zones}{z}{rules}{rejected}{settlements};
    my $response = $nginx->get('/rejected/chat.json?key=rejected');
    is("$response->{status} $response->{content}", '429 {"usage":{"total_tokens":3}}', 'has an answer with a value');
    $nginx->get('/fixed_window/chat.json?key=after');
    is_taken('fixed_window', 'after', 42, 'a later one is settled');
    is_deeply(metrics_of($nginx)->{zones}{z}{rules}{rejected}{settlements}, $before, 'and it is not');
};

$nginx->stop;

subtest 'a reservation that no number settles' => sub {
    my $reserved = RateLimit::Nginx->start_new(<<"END");
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 10s; timeout 10s; }
redis_rate_limit_zone \$arg_key zone=reserved:1m;
redis_rate_limit_response_value \$tokens usage.total_tokens;
server {
    listen %PORT%;
    location /reserved/ { redis_rate_limit zone=reserved algorithm=fixed_window limit=1000000 window=1d cost=10 final_cost=\$tokens; proxy_pass ${\$model->url}; }
    location / { proxy_pass ${\$model->url}; }
}
END
    my $warnings = sub { scalar(() = $reserved->error_log =~ /\[warn\] .*redis_rate_limit_response_value: the response of type/g) };
    $reserved->get("/$_") for 'chat_without_usage.sse', map { "reserved/$_" } 'chat_without_usage.sse', 'chat_without_usage.sse?key=k&status=503', 'chat.json?key=k';
    is($warnings->(), 0, 'of no request, of none that is counted, of an error, and of one that tells its usage nothing is said');
    $reserved->get('/reserved/chat_without_usage.sse?key=k');
    my $warning = qr/\[warn\] .*: the response of type "text\/event-stream[^"]*" has no number for \$tokens, so that the reservation stays/;
    ok($reserved->wait_for_log($warning), 'else the log tells it');
    $reserved->get("/reserved/$_&key=k") for 'chat.json?type=application/vnd.amazon.eventstream', 'cohere_rerank.json?a=b';
    is($warnings->(), 1, 'once a minute');
    $reserved->stop;

    $reserved->start;
    $reserved->get('/reserved/chat.json?type=application/vnd.amazon.eventstream&key=k');
    ok($reserved->wait_for_log(qr/the response of type "application\/vnd\.amazon\.eventstream" has no number for \$tokens/), 'also of a type that is not read');
    $reserved->stop;
};

done_testing;
