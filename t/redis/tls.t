# TLS to Redis: to whom it belongs is verified before anything is said; what cannot be trusted is an
# outage that the log explains, and never spoken to in plain text.

use v5.36;
use lib 't/lib';
use RateLimit::Certificates;
use RateLimit::Dns;
use RateLimit::Load qw(start_requests);
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);
use RateLimit::Redis;
use RateLimit::Relay;
use RateLimit::TlsRelay;
use RateLimit::Wait qw(wait_until);
use Test::More;

my $certificates = RateLimit::Certificates->new;
my $strangers    = RateLimit::Certificates->new;
$certificates->issue('address', 'IP:127.0.0.1');
$certificates->issue('name',    'DNS:redis.test');
$certificates->issue('expired', 'IP:127.0.0.1', not_after => time - 1);
$certificates->issue('client',  'DNS:nginx.test');
$certificates->issue('stranger', 'IP:127.0.0.1', issuer => $strangers->{issuer});
$certificates->issue('self', 'IP:127.0.0.1', issuer => undef);

my $trusted = 'ssl on; ssl_trusted_certificate ' . $certificates->certificate('authority') . ';';
my $secret  = 'correct-horse';

# A Redis behind a certificate, whose TLS port is {tls}.
sub redis_with ($certificate, %settings) {
    my $port  = empty_port();
    my $redis = RateLimit::Redis->start_new($certificates->redis_settings($certificate, $port, %settings), requirepass => $secret);
    return { redis => $redis, tls => $port };
}

sub start_nginx ($lines, $patience = 'connect_timeout 500ms;', %options) {
    my $http = delete $options{http} // '';
    return RateLimit::Nginx->start_new(<<"END", %options);
$http
redis_rate_limit_backend default { $lines password $secret; $patience }
redis_rate_limit_zone \$arg_key zone=open:1m   on_error=open;
redis_rate_limit_zone \$arg_key zone=closed:1m on_error=closed deny_cache=off;
redis_rate_limit_log_level info;
server {
    listen %PORT%;
    location /open   { redis_rate_limit zone=open   algorithm=sliding_log limit=2 window=60; empty_gif; }
    location /closed { redis_rate_limit zone=closed algorithm=sliding_log limit=2 window=60; empty_gif; }
    location /many   { redis_rate_limit zone=closed algorithm=sliding_log limit=1000 window=60; empty_gif; }
}
END
}

sub limits ($name, $lines, $http = '') {
    my $nginx = start_nginx($lines, 'connect_timeout 5s; timeout 5s;', http => $http);
    is($nginx->statuses('/closed?key=' . $name =~ s/\W//gr, 3), '200 200 429', "$name: the limit holds");
    unlike($nginx->error_log, qr/fails/, "$name: from the first request on");
    $nginx->stop;
}

sub refuses ($name, $lines, $said) {
    my $nginx = start_nginx($lines);
    is($nginx->statuses('/open?key=a', 3), '200 200 200', "$name: open passes");
    is($nginx->get('/closed?key=a')->{status}, 503, "$name: closed does not");
    my $log = $nginx->error_log;
    like($log, $said, "$name: the log tells why");
    is(scalar(() = $log =~ / fails: /g), 1, "$name: once");
    $nginx->stop;
}

my %with   = map { $_ => redis_with($_) } qw(address name expired stranger self);
my %server = map { $_ => "server 127.0.0.1:$with{$_}{tls};" } keys %with;

subtest 'whom to trust' => sub {
    my $dns = RateLimit::Dns->start_new('redis.test' => '127.0.0.1');
    limits('an address',        "$server{address} $trusted");
    limits('a name by itself',  "server redis.test:$with{name}{tls}; $trusted", $dns->resolver);
    limits('a name that is given', "$server{name} $trusted ssl_name redis.test;");
    limits('anybody',           "$server{self} ssl on; ssl_verify off;");
    limits('TLS 1.2',           "$server{address} $trusted ssl_protocols TLSv1.2;");
    limits('TLS 1.3',           "$server{address} $trusted ssl_protocols TLSv1.3;");
    limits('a cipher',          "$server{address} $trusted ssl_protocols TLSv1.2; ssl_ciphers ECDHE-ECDSA-AES128-GCM-SHA256;");
    {
        local $ENV{SSL_CERT_FILE} = $certificates->certificate('authority');
        limits("the system's", "$server{address} ssl on;");
    }
};

subtest 'whom not to' => sub {
    refuses('expired',        "$server{expired} $trusted",                      qr/fails: TLS verification failed: certificate has expired,/);
    refuses('other address',  "$server{name} $trusted",                         qr/fails: TLS verification failed: the certificate is of another host,/);
    refuses('other name',     "$server{address} $trusted ssl_name redis.test;", qr/fails: TLS verification failed: the certificate is of another host,/);
    refuses('other authority', "$server{stranger} $trusted",                    qr/fails: TLS verification failed: (?:unable to|self.signed)/);
    refuses('of itself',      "$server{self} $trusted",                         qr/fails: TLS verification failed: self.signed certificate,/);
    refuses("not the system's", "$server{address} ssl on;",                     qr/fails: TLS verification failed: (?:unable to|self.signed)/);
    refuses('no version in common', "$server{address} $trusted ssl_protocols TLSv1.1; ssl_ciphers DEFAULT\@SECLEVEL=0;",
        qr/fails: the TLS handshake failed: SSL_do_handshake\(\) failed \(SSL: error:.*protocol version/);
};

subtest 'a client that shows a certificate' => sub {
    my $strict = redis_with('address', 'tls-auth-clients' => 'yes');
    my $shown  = 'ssl_certificate ' . $certificates->certificate('client') . '; ssl_certificate_key ' . $certificates->key('client') . ';';
    limits('shown', "server 127.0.0.1:$strict->{tls}; $trusted $shown");
    refuses('none', "server 127.0.0.1:$strict->{tls}; $trusted", qr/fails: .*certificate required/);

    my $relay = RateLimit::Relay->start_new($strict->{tls});
    my $nginx = start_nginx("server 127.0.0.1:${\$relay->port}; $trusted $shown");
    is($nginx->get('/closed?key=first')->{status}, 200, 'a verdict');
    ok(wait_until(sub { $strict->{redis}->followers == 1 }), 'and a connection for live limits');
    my $full = $relay->counts->{replied};
    $relay->reset_all;
    ok(wait_until(sub { $nginx->get('/closed?key=' . rand)->{status} == 200 }), 'and on the next connection');
    ok(wait_until(sub { $strict->{redis}->followers == 1 }), 'for live limits, too');
    my $counts = $relay->counts;
    is($counts->{accepted}, 4, 'each is one');
    cmp_ok($counts->{replied} - $full, '<', $full - 500, 'that resumes the session: no certificate is shown again');
    $nginx->stop;
};

# By TLS 1.2, for by TLS 1.3 no session comes about where the client leaves at once.
subtest 'a certificate that is renewed' => sub {
    my $relay = RateLimit::TlsRelay->start_new($with{address}{redis}->conf->{port}, $certificates, 'expired', 'address');
    my $nginx = start_nginx($relay->server . " $trusted ssl_protocols TLSv1.2;");
    ok($nginx->wait_for_log(qr/fails: TLS verification failed: certificate has expired,/), 'is not trusted while it has expired');
    ok(wait_until(sub { $nginx->get('/closed?key=' . rand)->{status} == 200 }), 'and is afterwards, though the server would resume the session');
    $nginx->stop;
};

# Redis takes a greeting for the beginning of a command, and waits for its end.
subtest 'a Redis without TLS' => sub {
    refuses('a plain port', "server ${\$with{address}{redis}->address}; $trusted", qr/fails: no connection in time: in the TLS handshake,/);
};

subtest 'another service without TLS' => sub {
    my $other = RateLimit::Nginx->start_new('server { listen %PORT%; }');
    refuses('HTTP', "server 127.0.0.1:${\$other->port}; $trusted",
        qr/fails: the TLS handshake failed: SSL_do_handshake\(\) failed \(SSL: error:.*wrong version number/);
    $other->stop;
};

subtest 'a handshake that stalls' => sub {
    my $relay = RateLimit::Relay->start_new($with{address}{tls});
    $relay->hold;
    my $nginx = start_nginx("server 127.0.0.1:${\$relay->port}; $trusted");
    ok($nginx->wait_for_log(qr/fails: no connection in time: in the TLS handshake,/), 'is given up');
    is($nginx->get('/open?key=stalled')->{status}, 200, 'open passes');
    $relay->release;
    ok(wait_until(sub { $nginx->get('/closed?key=' . rand)->{status} == 200 }), 'verdicts when it goes on');
    $nginx->stop;
};

# More than fits into a record, and into the socket while Redis stands still.
subtest 'many checks at once' => sub {
    my $redis = $with{address}{redis};
    my $nginx = start_nginx("$server{address} $trusted", 'connect_timeout 5s; timeout 5s;');
    is($nginx->get('/many?key=first')->{status}, 200, 'a verdict');
    $redis->freeze;
    my @later = map { $nginx->get_later("/many?key=$_" . 'm' x 100) } 1 .. 300;
    $redis->thaw;
    my %statuses;
    ++$statuses{$_->()->{status}} for @later;
    is_deeply(\%statuses, { 200 => 300 }, 'each has its verdict');
    is(start_requests($nginx->url('/many?key=all'), 3000)->finish->{passed}, 1000, 'exactly the limit passes');
    $nginx->stop;
};

done_testing;
