# docs/at-night.md: its lines are run one after another, in the situations that its headings name, and show
# what the page says.

use v5.36;
use lib 't/lib';
use JSON::PP ();
use RateLimit::Documentation qw(example_with);
use RateLimit::Nginx;
use RateLimit::Redis;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $page  = 'docs/at-night.md';
my $redis = RateLimit::Redis->start_new;
my $site  = example_with($page, 'zone=per_customer:10m') =~ s/proxy_pass [^;]+;//r =~ s/listen 8080;/listen unix:%DIR%\/site.sock;\n    set_real_ip_from unix:;\n    real_ip_header X-Real-IP;/r;
my $nginx = RateLimit::Nginx->start_new(
    "redis_rate_limit_backend default { server ${\$redis->address}; }\n$site"
        . example_with($page, 'redis_rate_limit_api write') =~ s/127\.0\.0\.1:9145/127.0.0.1:%PORT%/gr =~ s{/var/log/nginx/}{}r,
    workers => 2,
);
my $socket = $nginx->dir . '/site.sock';

# The statuses of so many requests of a customer or an address: "200 429".
sub site ($count, %headers) {
    my @headers = map { ('-H', "$_: $headers{$_}") } sort keys %headers;
    open my $said, '-|', 'curl', '-s', '--unix-socket', $socket, '-w', '%{http_code} ', @headers, "http://site/[1-$count]", '-o', '/dev/null'
        or die "curl: $!";
    my $text = do { local $/; <$said> };
    return join ' ', split ' ', $text;
}

# [ language, text ] of the page's blocks, by heading.
my %blocks;
{
    my ($heading, $language, $text) = ('');
    for my $line (split /^/, RateLimit::Nginx::slurp($page)) {
        if    (defined $language && $line =~ /^```$/) { push $blocks{$heading}->@*, [ $language, $text ]; undef $language }
        elsif (defined $language)                     { $text .= $line }
        elsif ($line =~ /^```(\w*)$/)                 { ($language, $text) = ($1, '') }
        elsif ($line =~ /^##? (.*)$/)                 { $heading = $1 }
    }
}
my ($api) = map { $_->[1] =~ /^api=(\S+)$/ ? $1 : () } $blocks{'At night: what to do when ...'}->@*;
ok($api, "the lines begin with api=$api");

sub here ($text) { return $text =~ s/127\.0\.0\.1:9145/127.0.0.1:${\$nginx->port}/gr }

# Takes the next line of curl under the heading. Returns what it prints, as the page and as nginx has it,
# without what is another number each time.
my %at;
sub run_next ($heading) {
    my $of = $blocks{$heading};
    ++$at{$heading} while ($of->[ $at{$heading} //= 0 ] // die "nothing more in $heading")->[0] ne 'sh';
    my $command = $of->[ $at{$heading}++ ][1];
    open my $said, '-|', 'bash', '-c', here("set -e; exec 2>/dev/null; api=$api; $command") or die "bash: $!";
    my $text = do { local $/; <$said> } // '';
    close $said;
    is($?, 0, $command =~ s/\n.*//sr);
    my $shown = ($of->[ $at{$heading} ] // [''])->[0] eq 'json' ? $of->[ $at{$heading}++ ][1] : undef;
    return ($text, $shown);
}

sub general ($json) { return $json =~ s/("(?:reset|retry_after|updated_at)": )[\d.]+/$1T/gr }

sub shows ($heading) {
    my ($text, $shown) = run_next($heading);
    is(general($text), general($shown), 'shows what the page says');
}

sub policy_of (%headers) {
    my @headers = map { "-H '$_: $headers{$_}'" } sort keys %headers;
    return qx{curl -si --unix-socket $socket @headers http://site/} =~ /^RateLimit-Policy: (.*)\r$/m ? $1 : '';
}

subtest 'a customer is denied' => sub {
    my $heading  = 'A customer is denied';
    my %customer = ('X-API-Key' => 'k-3f0c9a1d', 'X-Real-IP' => '192.0.2.50');
    my %others   = map { $_ => { 'X-API-Key' => 'k-3f0c9a1d', 'X-Real-IP' => "192.0.2.$_" } } 60 .. 67;
    site(100, $others{$_}->%*) for sort keys %others;
    is(site(1, %customer), '429', 'its requests get 429');
    ok(wait_until(sub { my @all = map { site(1, %customer) } 1 .. 10; !grep { $_ ne '429' } @all }), 'on every worker');
    shows($heading);
    shows($heading);
    ok(wait_until(sub { site(1, %customer) eq '404' }), 'it is let in');
    shows($heading);
    ok(wait_until(sub { policy_of(%customer) =~ /"per_customer\/60s";q=6000;/ }), 'with a limit of its own');
};

subtest 'an attack' => sub {
    my $heading  = 'An attack';
    my %attacker = ('X-Real-IP' => '203.0.113.7');
    site(150, %attacker);
    my ($status) = run_next($heading);
    my $top = JSON::PP->new->decode($status)->{zones}{per_client}{top_rejected}[0]{key};
    is($top, '203.0.113.7', 'who is rejected most');
    shows($heading);
    ok(wait_until(sub { site(1, %attacker) eq '429' && policy_of(%attacker) eq '' }), 'is banned');
    shows($heading);
    ok(wait_until(sub { policy_of('X-Real-IP' => '192.0.2.99') =~ /"per_client";q=20;/ }), 'and all others are slower');
    run_next($heading);
    ok(wait_until(sub { policy_of('X-Real-IP' => '198.51.100.20') eq '' && site(1, 'X-Real-IP' => '198.51.100.20') eq '404' }), 'but for the probe');
    my ($list) = run_next($heading);
    is(scalar JSON::PP->new->decode($list)->{overrides}->@*, 3, 'all of it is listed');
    my ($text, $shown) = run_next($heading);
    is($text, $shown x 2, 'and taken back');
    ok(wait_until(sub { policy_of('X-Real-IP' => '192.0.2.99') =~ /"per_client";q=100;/ }), 'the limit is as before');
    like($nginx->error_log . RateLimit::Nginx::slurp($nginx->dir . '/limits-api.log'), qr/changing limits, by 127\.0\.0\.1: ban for 86400s, note 'scraper', zone "per_client", key "203\.0\.113\.7"\n/, 'the log has it');
};

subtest 'a limit is too low' => sub {
    my $heading = 'A limit is too low';
    run_next($heading);
    ok(wait_until(sub { policy_of('X-API-Key' => 'k-other') =~ /"per_customer\/60s";q=1200;/ }), 'all customers have more');
    my ($zones) = run_next($heading);
    my $rule = JSON::PP->new->decode($zones)->{zones}{per_customer}{rules}{'per_customer/60s'};
    is(join(' ', $rule->{limit}, $rule->{configured}{limit}, !!$rule->{overridden}), '1200 600 1', 'both numbers are told');
    shows($heading);
    ok(wait_until(sub { policy_of('X-API-Key' => 'k-other') =~ /"per_customer\/60s";q=600;/ }), 'and the configured limit is back');
};

subtest 'Redis is gone' => sub {
    my $heading = 'Redis is gone';
    $redis->kill_now;
    is(site(1, 'X-Real-IP' => '192.0.2.120'), '404', 'the site is up');
    my ($said)   = run_next($heading);
    my ($status) = map { $_->[1] =~ /^HTTP/ ? $_->[1] =~ s/\n//r : () } $blocks{$heading}->@*;
    my ($shown)  = map { $_->[0] eq 'json' ? $_->[1] : () } $blocks{$heading}->@*;
    like($said, qr{^\Q$status\E\r$}m, 'the API says so');
    is_deeply([ sort keys JSON::PP->new->decode($said =~ s/.*\r\n\r\n//sr)->%* ], [ sort keys JSON::PP->new->decode($shown)->%* ], 'as the page shows');
    is($said =~ s/.*\r\n\r\n//sr, $shown, 'in these words');
};

$nginx->stop;
done_testing;
