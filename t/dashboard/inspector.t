# redis_rate_limit_dashboard api=: the page's inspector in a browser, with the API behind it.

use v5.36;
use utf8;
use lib 't/lib';
use JSON::PP;
use RateLimit::Browser;
use RateLimit::Client;
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

binmode $_, ':utf8' for Test::More->builder->output, Test::More->builder->failure_output;

my $redis = RateLimit::Redis->start_new;
my $json  = JSON::PP->new->ascii->canonical->allow_nonref;
my $nginx = RateLimit::Nginx->start_new(<<"END", workers => 2);
redis_rate_limit_backend default { server ${\$redis->address}; connect_timeout 5s; timeout 5s; }
redis_rate_limit_zone \$http_x_key zone=clients:4m;
redis_rate_limit_zone \$http_x_key zone=hashed:1m show_keys=hash;
redis_rate_limit_zone \$binary_remote_addr zone=addresses:1m;
server {
    listen %PORT% reuseport;
    access_log off;
    location /limits/ { redis_rate_limit_dashboard api=/limits/api/; }
    location /limits/api/ { redis_rate_limit_api write; }
    location /reading/ { redis_rate_limit_dashboard api=/reading/api/; }
    location /reading/api/ { redis_rate_limit_api; }
    location /without/ { redis_rate_limit_dashboard; }
    location /astray/ { redis_rate_limit_dashboard api=/nothing/here/; }
    location /nothing/ { return 404; }
    location / {
        redis_rate_limit zone=clients algorithm=sliding_log limit=5 window=1h;
        redis_rate_limit zone=clients algorithm=gcra limit=100 window=1h burst=19 name=even;
        redis_rate_limit zone=clients algorithm=fixed_window limit=2 window=1h name=trial dry_run;
        redis_rate_limit zone=addresses algorithm=fixed_window limit=100000 window=1h;
        empty_gif;
    }
    location /probe { redis_rate_limit zone=clients algorithm=fixed_window limit=100000 window=1h name=probe; empty_gif; }
    location /hashed { redis_rate_limit zone=hashed algorithm=sliding_log limit=1 window=1h; empty_gif; }
}
END

my $site    = 'http://127.0.0.1:' . $nginx->port;
my $browser = RateLimit::Browser->new;
$browser->look(1280, 900, 'light');

# Loads the page anew, also where only what stands behind the # has changed.
sub visit ($path) { $browser->open($_) for 'about:blank', "$site$path" }

# The statuses of requests of a client, as `200 200 429`.
sub request ($key, $count = 1, $path = '/x') {
    return join ' ', map { $nginx->get($path, headers => { 'X-Key' => $key })->{status} } 1 .. $count;
}

# Whether requests that take nothing of what is looked at have that status in time.
sub obeys ($key, $status) {
    return wait_until(sub { request($key, 1, '/probe') == $status }, 5);
}

sub shown ($selector) { return ($browser->text($selector) // '') =~ s/\s+/ /gr }

sub shows ($selector, $pattern, $seconds = 30) {
    return wait_until(sub { shown($selector) =~ $pattern }, $seconds) // diag("$selector: ", shown($selector));
}

# As a person would have typed or chosen it.
sub enter ($selector, $value) {
    $browser->value(<<~"END");
        { const input = document.querySelector(${\$json->encode($selector)});
          input.value = ${\$json->encode($value)};
          for (const event of ['input', 'change']) input.dispatchEvent(new Event(event, { bubbles: true })); }
        END
}

# Clicks what the expression finds, as soon as the page has it.
sub click_on ($expression) {
    my $click = "(() => { try { const it = $expression; it.click(); return true; } catch { return false; } })()";
    wait_until(sub { $browser->value($click) }, 30) or die "nothing to click: $expression\n";
}

sub click ($selector) { click_on("document.querySelector(${\$json->encode($selector)})") }

# The one with this label.
sub click_button ($within, $label) {
    click_on("[...document.querySelectorAll('$within button')].find((button) => button.textContent === '$label')");
}

# Fields of a form by their labels, then its button.
sub submit ($form, %values) {
    for my $label (sort { ($b eq 'What') <=> ($a eq 'What') } keys %values) {
        my $at = $browser->value("[...document.querySelectorAll('$form label')].findIndex((label) => label.innerText.startsWith('$label'))");
        $browser->value("document.querySelectorAll('$form label')[$at].querySelector('input, select').id = 'current'");
        enter('#current', $values{$label});
        $browser->value("document.getElementById('current').removeAttribute('id')");
    }
    click("$form fieldset > button");
}

sub press ($key, %details) {
    $browser->call('Input.dispatchKeyEvent', type => $_, key => $key, %details) for qw(keyDown keyUp);
}

sub type_text ($text) { $browser->call('Input.insertText', text => $text) }

sub look_up ($zone, $key, $kind = 'text') {
    enter('#zone', $zone);
    enter('#key', $key);
    enter('#key-kind', $kind);
    click('#look-up button');
    wait_until(sub { $browser->value('!byId("client").hidden || byId("look-up-message").textContent !== ""') }, 10);
}

my $html = q{<img src="x" onerror="document.title='broken'">};

subtest 'without an API' => sub {
    visit("/without/");
    ok(shows('#health', qr/^(?:Redis answers|No Redis)/), 'the dashboard is there');
    is($browser->value('[byId("live"), byId("to-live")].map((each) => each.checkVisibility()).join()'), 'false,false', 'and no inspector');
    request($html, 6);
    ok(shows('#zones', qr/onerror/), 'keys that are rejected');
    is($browser->value('document.querySelectorAll("#zones a[href]").length'), 0, 'lead nowhere');
    unlike(join(' ', $browser->requests), qr/api/, 'nobody asks for an API');
};

subtest 'a client is looked up by keys alone' => sub {
    is(request('typed & +%41', 4), '200 200 200 200', 'its requests');
    visit("/limits/");
    ok(shows('#live', qr/Zone .* Key of a client/), 'there is an inspector');
    $browser->value('byId("to-live").focus()');
    press('Enter', text => "\r");
    type_text('typed & +%41');
    press('Enter', text => "\r");
    ok(shows('#client-title', qr/^typed & \+%41$/), 'the key that was typed');
    is($browser->value('document.activeElement.id'), 'client-title', 'has the focus');
    my $row = sub ($n) { shown("#client-rules tbody tr:nth-child($n)") };
    like($row->(1), qr{^clients/3600s sliding_log, limit 5 per 1 h 1 of 5 80 % in (?:1 h|5\d min \d+ s) passes ·$}, 'its rules');
    like($row->(2), qr{^even gcra, limit 100 per 1 h 1[67] of 20 (?:15|20) % in [12] min \d+ s passes ·$}, 'one of them a bucket');
    like($row->(3), qr{^trial fixed_window, limit 2 per 1 h, dry run 0 of 2 100 % in (?:1 h|5\d min \d+ s) would be denied for }, 'one of them a dry run');
    is($browser->value('document.querySelector("#client-rules .bar i").style.width'), '20%', 'as bars');
    is(shown('#client-state'), 'passes', 'what its next request comes to');
    is(shown('#client-used'), '100 % used', 'how much of the tightest rule is taken, as $redis_rate_limit_used of the request before has it');
    is(request('typed & +%41', 3), '200 429 429', 'more requests');
    ok(shows('#client-state', qr{^clients/3600s: denied for (?:1 h|5\d min \d+ s)$}), 'it is denied meanwhile');
    ok(shows('#client-rules tbody tr', qr/known to be denied$/),                       'out of the deny cache of this host');
    visit('/limits/' . $browser->value('location.hash'));
    ok(shows('#client-title', qr/^typed & \+%41$/), 'the address leads there again');
};

subtest 'a key that is rejected most leads to its client' => sub {
    visit("/limits/");
    ok(wait_until(sub { $browser->value('document.querySelectorAll("#zones a[href]").length > 0') }), 'it is a link');
    click_on('[...document.querySelectorAll("#zones a")].find((link) => link.textContent.includes("onerror"))');
    ok(shows('#client-title', qr/onerror/), 'to the inspector');
    is(shown('#client-title'), $html, 'which shows it as text');
    is($browser->value('byId("key").value'), $html, 'in the form, too');
    ok(shows('#client-state', qr/denied/), 'it is the client that is denied');
};

subtest 'ban' => sub {
    is(request('scanner', 1, '/probe'), '200', 'before');
    look_up('clients', 'scanner');
    submit('#client-form', What => 'ban', Lasts => 2, Note => $html);
    ok(shows('#client-message', qr/^Set: banned at all rules, for (?:2 h|1 h 59 min)\. All hosts obey within 2 s\.$/), 'what was set');
    ok(obeys('scanner', 429), 'the client is denied');
    ok(shows('#client-state', qr/^banned for 1 h 59 min$|^banned for 2 h$/), 'and is shown so');
    ok(shows('#client-overrides', qr/this client all rules banned in 1 h 59 min .*onerror.* 127\.0\.0\.1/), 'with what bans it');
    ok(shows('#overrides', qr/scanner all rules banned .*onerror/),                                'it is among those of the zone');
    ok(wait_until(sub { request('scanner', 5, '/probe'); shown('#verdicts-legend') =~ m{bans [1-9]} }), 'rejections by bans are counted as such');
    is($browser->value('document.querySelectorAll("main img").length'), 0, 'its note is text');
    click_button('#client-overrides', 'Delete');
    ok(shows('#client-message', qr/^Deleted: banned\. All hosts/), 'deleted');
    ok(obeys('scanner', 200), 'the client passes again');
    ok(shows('#client-overrides', qr/None: the configured numbers hold\./), 'nothing holds any more');
    unlike(shown('#overrides'), qr/scanner/, 'it is not among those of the zone');
    ok($browser->value('byId("live").contains(document.activeElement)'), 'the focus is not lost');
};

subtest 'other numbers' => sub {
    my $note = "ticket \x{202e}4711 \x{fc}";
    look_up('clients', 'customer');
    is($browser->value('clientForm.fields.burst.hidden'), JSON::PP::false, 'all rules: one of them takes a burst');
    submit('#client-form', What => 'numbers', Rule => 'clients/3600s', Limit => 7, Lasts => 90, Note => $note);
    ok(shows('#client-message', qr{^Set: limit 7 at clients/3600s, for 3 d 1[78] h\.}), 'set');
    is($browser->value('clientForm.fields.burst.hidden'), JSON::PP::true, 'a log has no burst');
    ok(wait_until(sub { $nginx->get('/x', headers => { 'X-Key' => 'customer' })->{headers}{'ratelimit-policy'} =~ m{"clients/3600s";q=7;} }, 5), 'requests have them');
    ok(shows('#client-rules tbody tr', qr/limit 7 per 1 h, changed for this client \d of 7/), 'so has the bar');
    click_button('#client-overrides', 'Change');
    is(
        $browser->value('["rule", "kind", "limit", "time", "unit", "note"].map((name) => clientForm[name].value).join("|")'),
        "clients/3600s|numbers|7|90|3600|$note", 'it can be changed'
    );
    submit('#client-form', Limit => 9);
    ok(shows('#client-overrides', qr{this client clients/3600s limit 9}), 'it is replaced');
    click('#reset');
    ok(shows('#client-message', qr/^Reset, \d counters? deleted: the full limit is there again\./), 'reset');
    ok(shows('#client-rules tbody tr', qr/ 9 of 9 0 % it is full passes/), 'all of it is there');
    submit('#client-form', What => 'exempt', Rule => '');
    ok(shows('#client-overrides', qr/this client all rules exempt: not counted/), 'exempt, beside it');
    ok(shows('#client-rules tbody tr:nth-child(2)', qr/not counted/), 'what is exempt is not counted');
    $browser->value('clientForm.unit.value = "null"; clientForm.showFields()');
    submit('#client-form', What => 'numbers', Limit => 3, Burst => 1);
    ok(shows('#client-message', qr/^Set: limit 3, burst 1 at all rules, until deleted\./), 'numbers of all rules, for ever');
};

subtest 'a rule for all clients' => sub {
    is(request('anybody', 2, '/probe'), '200 200', 'before');
    submit('#rule-form', Rule => 'probe', Limit => 1, Lasts => 1, Note => 'the database is slow');
    ok(shows('#rule-message', qr{^Set: limit 1 at probe, for 1 h\.}), 'set');
    ok(obeys('anybody', 429), 'everybody has it');
    ok(shows('#overrides', qr{all clients probe limit 1 in .* the database is slow}), 'it is listed');
    look_up('clients', 'anybody');
    ok(shows('#client-rules tbody tr:nth-child(4)', qr/^probe .* changed for all clients/), 'it is told of each client');
    unlike(shown('#client-overrides'), qr/Delete/, 'but is not deleted there');
    click_on('[...byId("overrides").tBodies[0].rows].find((row) => row.innerText.startsWith("all clients")).querySelectorAll("button")[1]');
    ok(shows('#overrides-message', qr/^Deleted: limit 1\./), 'deleted');
    ok(obeys('anybody', 200), 'everybody has the configured numbers again');
};

subtest 'keys of any bytes' => sub {
    my $long = 'long-' x 100;
    is(request($long, 1), '200', 'a long key');
    look_up('clients', $long);
    ok(shows('#client-rules tbody tr', qr/ 4 of 5 /), 'is the client that it says') or diag(shown('#look-up-message'));
    submit('#client-form', What => 'ban');
    ok(shows('#client-message', qr/^Set: banned/), 'and can be banned');
    ok(obeys($long, 429),                          'so it is');
    click('#reload');
    ok(shows('#overrides', qr/[0-9a-f]{64} all rules banned/), 'Redis has but its digest');
    click_on('[...byId("overrides").querySelectorAll("a")].find((link) => /key_sha256/.test(link.href))');
    ok(shows('#client-rules tbody tr', qr/ 4 of 5 /), 'which leads to the same client');
    click_button('#client-overrides', 'Delete');
    ok(obeys($long, 200), 'and can be deleted');

    my $client = RateLimit::Client->new($nginx); # HTTP::Tiny sends no such header
    my $ask    = sub { $client->send("GET /x HTTP/1.1\r\nHost: a\r\nX-Key: \xff\xfe<i>\\\r\n\r\n")->response->{status} };
    is($ask->(), 200, 'a key that is no UTF-8');
    look_up('clients', '%FF%FE<i>%5C', 'encoded');
    ok(shows('#client-rules tbody tr', qr/ 4 of 5 /), 'is found, percent-encoded');
    is(join(' ', map { $ask->() } 1 .. 6), '200 200 200 200 429 429', 'and rejected');
    ok(wait_until(sub { $browser->value('[...document.querySelectorAll("#zones a[href]")].some((link) => link.getAttribute("href").endsWith("key=%ff%fe%3Ci%3E%5c"))') }), 'its link has its bytes');
    look_up('addresses', 'nonsense');
    ok(shows('#look-up-message', qr/^The API does not take this \(400\): parameter "key", expected an IPv4 or IPv6 address\.$/), 'what is no address');
    look_up('addresses', '127.0.0.1');
    ok(shows('#client-rules tbody tr', qr/ of 100\s000 /), 'an address');
};

subtest 'a zone that hides its keys' => sub {
    request('secret', 3, '/hashed');
    ok(shows('#zones', qr/[0-9a-f]{12}/), 'shows hashes');
    is($browser->value('[...document.querySelectorAll("#zones a[href]")].filter((link) => /^[0-9a-f]{12}$/.test(link.textContent)).length'), 0, 'which lead nowhere');
    look_up('hashed', 'secret');
    ok(shows('#client-title', qr/^[0-9a-f]{12}$/), 'a key that the operator knows');
    submit('#client-form', What => 'exempt');
    ok(wait_until(sub { request('secret', 1, '/hashed') == 200 }, 2.5), 'can be exempt');
    ok(shows('#overrides', qr/[0-9a-f]{12} all rules exempt/), 'it is listed');
    unlike(shown('#overrides'), qr/Delete/, 'but not to be deleted by its hash');
    click_button('#client-overrides', 'Delete');
    ok(shows('#overrides', qr/None\./), 'by its key it is');
};

subtest 'many overrides' => sub {
    my $put = sub ($n) { $nginx->get("/limits/api/override?zone=clients&key=many-$n", method => 'PUT', headers => { 'Content-Type' => 'application/json' }, content => '{"ban": true}')->{status} };
    is(join(' ', grep { $_ != 200 } map { $put->($_) } 1 .. 520), '', 'are set');
    visit('/limits/#zone=clients');
    ok(wait_until(sub { $browser->value('!byId("more").hidden') }, 30), 'there is more than a page');
    my $rows = sub { $browser->value('byId("overrides").tBodies[0].rows.length') };
    cmp_ok($rows->(), '<=', 500, 'a page');
    wait_until(sub { $browser->value('byId("more").hidden') || do { click('#more'); 0 } }, 10);
    ok(wait_until(sub { $rows->() >= 520 }, 10), 'all pages') or diag($rows->());
    ok(shows('#overrides-count', qr/^52\d known to this host$/), 'their number');
    click('#overrides a[href*="many-519"]');
    ok(shows('#client-title', qr/^many-519$/), 'a key leads to its client');
};

subtest 'what goes wrong' => sub {
    look_up('clients', 'customer');
    submit('#client-form', What => 'ban', Lasts => 100_000);
    ok(shows('#client-message', qr/^The API does not take this \(400\): member "expires_in", expected .*\.$/), 'a time that is too long');
    my @answers = (
        403, { description => 'd' }, 'The API refuses this (403): d.',
        404, { description => 'd' }, 'The API does not know this (404): d.',
        413, { description => 'd' }, 'This is too long for the API (413): d.',
        415, { description => 'd' }, 'The API does not take this type (415): d.',
        502, { description => 'd' }, 'Redis has not done this (502): d.',
        502, { description => 'd', outcome => 'unknown' }, 'Redis has not answered (502): d. Nobody knows whether it is done; doing it again is safe.',
        507, { description => 'd' }, 'The zone has no room for this (507): d.',
        500, { description => '<b>' }, 'The API fails (500): <b>.',
        403, undef, 'nginx lets you not in: /limits/api/ was answered with 403.',
        500, undef, 'nginx fails: /limits/api/ was answered with 500.',
    );
    while (my ($status, $answer, $message) = splice @answers, 0, 3) {
        my $given = defined $answer ? $json->encode($answer) : 'undefined';
        is($browser->value("errorOf($status, $given).message"), $message, $message);
    }
    is($browser->value('(async () => { const real = fetch; fetch = async () => new Response("<p>"); try { await ask("GET", "zones") } catch (error) { return error.message } finally { fetch = real } })()'),
        '/limits/api/ answered with what is no JSON.', 'no JSON');
    $redis->stop;
    ok(shows('#look-up-message', qr/^Redis has not [\w ]+ \(502\): /), 'Redis is away');
    like($browser->value('byId("client").className'), qr/stale/, 'what is shown is old');
    click('#reset');
    ok(shows('#client-message', qr/^Redis has not [\w ]+ \(502\): /), 'nothing is reset');
    click('#reload');
    ok(shows('#overrides-message', qr/^Redis has not [\w ]+ \(502\): /), 'nor are overrides read');
    is(shown('#overrides tbody'), 'They are in Redis, and are not read yet.', 'which does not mean that there are none');
    like(shown('#overrides-count'), qr/^[1-9]\d* known to this host$/, 'for some hold here');
    $redis->restart;
    ok(wait_until(sub { $browser->value('byId("client").className') !~ /stale/ }, 30), 'until it is back');
    ok(shows('#overrides tbody', qr/^(?!They are in Redis)./), 'they are read then');
    is_deeply([ grep { !/status of (?:400|502) / } $browser->errors ], [], 'no other error on its console');
};

subtest 'an API that only reads' => sub {
    visit("/reading/#zone=clients&key=customer");
    ok(shows('#client-title', qr/^customer$/), 'shows the client that the address names');
    ok(shows('#read-only', qr/^This API only reads: its redis_rate_limit_api has no write, so nothing can be changed here\.$/), 'tells that it does');
    my $enabled = '[...document.querySelectorAll("#live .writes")].filter((control) => !control.matches(":disabled")).length';
    is($browser->value($enabled), 0, 'nothing can be written') or diag($browser->value($enabled));
    $browser->value('setAccess(true)');
    $browser->value('deleteOverride(clientMessage, "zone=clients&key=customer", { limit: 1, burst: null })');
    like(shown('#client-message'), qr/^The API does not allow this \(405\): /, 'a write') or diag(shown('#client-message'));
    is($browser->value($enabled), 0, 'which tells it, too');
    $browser->errors;
    visit("/astray/");
    ok(shows('#api-message', qr{^nginx has no API there: /nothing/here/ was answered with 404\.$}), 'no API where the directive says') or diag(shown('#api-message'));
    $browser->errors;
};

subtest 'a phone' => sub {
    $browser->look(390, 844, 'dark');
    visit("/limits/#zone=clients&key=" . 'w' x 600);
    ok(shows('#client-title', qr/^w+/), 'with a long key');
    is($browser->value('document.documentElement.scrollWidth'), 390, 'is wide enough');
    visit("/limits/#zone=nowhere&key=x");
    ok(shows('#look-up-message', qr/^There is no zone “nowhere”\.$/), 'a zone that is not there');
    is($browser->value('document.documentElement.scrollWidth'), 390, 'is wide enough');
    is_deeply([ $browser->errors ], [], 'no error on its console');
    like($browser->value('document.title'), qr/redis_rate_limit$/, 'no key and no note has become HTML');
    is_deeply([ grep { !m{^(?:\Q$site\E/|data:)} } $browser->requests ], [], 'no request to another host');
};

$nginx->stop;
done_testing;
