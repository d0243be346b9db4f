# What `nginx -t` says of stream's directives: it reads them as those of http, but for the phases and for
# the names that both share.

use v5.36;
use lib 't/lib';
use RateLimit::Nginx;
use RateLimit::Stream qw(new_stream);
use Test::More;

my $zone = 'redis_rate_limit_zone $remote_addr zone=z:1m;';
my $rule = 'redis_rate_limit zone=z algorithm=gcra limit=1 window=1';

sub said ($stream, %options) { return join '', (new_stream($stream, %options)->test_configuration)[0] }

sub refuses ($stream, $message, %options) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    like(said($stream, %options), qr/\[emerg\].*\Q$message\E/, $message);
}

sub accepts ($stream, $what, %options) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $said = said($stream, %options);
    ok($said =~ /test is successful/ && $said !~ /\[emerg\]|\[warn\]/, $what) or diag $said;
}

accepts("$zone server { listen unix:%DIR%/s; $rule; $rule name=late phase=preread; return x; }", 'rules of both phases');
accepts("$zone $rule; server { listen unix:%DIR%/s; return x; } server { listen unix:%DIR%/t; redis_rate_limit off; return x; }", 'inheritance, and off');
accepts("$zone redis_rate_limit_log_level warn; redis_rate_limit_dry_run on; server { listen unix:%DIR%/s; $rule; redis_rate_limit_dry_run off; return x; }",
    'levels of log lines and dry runs');

my $server = 'server { listen unix:%DIR%/s; return x; %s }';

sub in_server ($text) { return "$zone " . $server =~ s/%s/$text/r }

refuses(in_server("$rule phase=precontent;"), 'redis_rate_limit: invalid phase "precontent", expected access or preread');
refuses(in_server("$rule limit=2;"),          'redis_rate_limit: ');
refuses(in_server('redis_rate_limit zone=z algorithm=gcra limit=x window=1;'), 'redis_rate_limit: invalid limit "x"');
refuses(in_server('redis_rate_limit zone=y algorithm=gcra limit=1 window=1;'), 'redis_rate_limit: unknown zone "y"');
refuses(in_server('redis_rate_limit_log_level loud;'), 'redis_rate_limit_log_level: invalid level "loud"');
refuses(in_server("$rule; redis_rate_limit off;"),     'redis_rate_limit: invalid parameter "off", expected off alone on a level');
refuses(in_server('redis_rate_limit_headers off;'),    '"redis_rate_limit_headers" directive is not allowed here');
refuses($zone . $zone,                                  'redis_rate_limit_zone: invalid zone "z", expected each zone once');
refuses('redis_rate_limit_zone $remote_addr zone=z:1m backend=b;', 'redis_rate_limit_zone: unknown backend "b"');
refuses('redis_rate_limit_backend b { server 127.0.0.1; } redis_rate_limit_backend b { server 127.0.0.1; }',
    'redis_rate_limit_backend: invalid name "b", expected each backend once');
refuses(in_server('redis_rate_limit zone=z algorithm=gcra limit=1 window=1 cost=$redis_rate_limit_addr_129;'),
    'redis_rate_limit: invalid variable "$redis_rate_limit_addr_129"');
for my $variable (qw($redis_rate_limit_bearer $redis_rate_limit_field_x_api_key)) {
    refuses("redis_rate_limit_zone $variable zone=z:1m;", qq(redis_rate_limit: variable "$variable" is of requests, expected it in http));
}
accepts('map $remote_addr $redis_rate_limit_bearer { default x; } redis_rate_limit_zone $redis_rate_limit_bearer zone=z:1m;', 'a variable of that name that a map defines');
like(said("redis_rate_limit_zone $_ zone=z:1m;"), qr/\[warn\] .*redis_rate_limit_zone: key "$_" is the name of a variable/, "a warning: $_")
    for qw(remote_addr server_port redis_rate_limit_addr_48);
like(said("redis_rate_limit_backend other { server 127.0.0.1; } $zone"), qr/\[warn\] .*zone "z" has no backend= .* expected backend=other, or backend=default/, 'and of a backend that no zone has');

refuses($zone, 'is already declared for a different use', http => $zone);
accepts("redis_rate_limit_backend b { server 127.0.0.1; } redis_rate_limit_zone \$remote_addr zone=s:1m backend=b;",
    'backends of one name in http and stream',
    http => 'redis_rate_limit_backend b { server 127.0.0.1; } redis_rate_limit_zone $remote_addr zone=h:1m backend=b;');

done_testing;
