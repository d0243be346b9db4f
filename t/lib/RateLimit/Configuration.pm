package RateLimit::Configuration;

# What `nginx -t` says of a configuration that has one line or block in question.

use v5.36;
use Exporter 'import';
use RateLimit::Nginx;
use Test::More;

our @EXPORT_OK = qw(accepts around invalid refuse_all refuses refuses_line warns $long_name $nginx $of_names $rule $secret);

our $nginx     = RateLimit::Nginx->new(''); # is never started
our $secret    = 'pssst';                   # is never told
our $rule      = 'zone=z algorithm=sliding_log limit=1 window=60';
our $long_name = 'n' x 64;
our $of_names  = '1 to 64 of A-Za-z0-9._/-';

# The whole of `http`, by the place where the text in question stands.
my %around = (
    http => sub ($text) { "$text\nserver { listen %PORT%; }" },
    zone => sub ($words) { "redis_rate_limit_zone $words;\nserver { listen %PORT%; }" },
    rule => sub ($words) {
        "redis_rate_limit_zone \$arg_key zone=z:1m;\nserver { listen %PORT%; redis_rate_limit $words; }";
    },
    location => sub ($text) {
        "redis_rate_limit_zone \$arg_key zone=z:1m;\nserver { listen %PORT%; location / { $text } }";
    },
    block => sub ($lines) {
        "redis_rate_limit_backend b { $lines }\n"
            . 'redis_rate_limit_zone $arg_key zone=z:1m backend=b;'
            . "\nserver { listen %PORT%; }";
    },
);

sub around ($place, $text) { return $around{$place}($text) }

# What is said, and whether it is accepted.
sub test ($place, $text) {
    $nginx->configure(around($place, $text));
    return $nginx->test_configuration;
}

sub refuses ($place, $text, $message) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my ($said, $accepted) = test($place, $text);
    my $as_expected = !$accepted && $said =~ /\[emerg\].*$message/ && $said !~ /$secret/;
    ok($as_expected, "refused: $place: $text") or diag $said;
}

sub accepts ($place, $text) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my ($said, $accepted) = test($place, $text);
    ok($accepted && $said !~ /\[warn\] redis_rate_limit/, "accepted: $place: $text") or diag $said;
}

sub warns ($place, $text, $message) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my ($said, $accepted) = test($place, $text);
    my $warnings = () = $said =~ /\[warn\]/g;
    ok($accepted && $warnings == 1 && $said =~ /\[warn\] .*$message/, "accepted with a warning: $place: $text") or diag $said;
}

sub refuse_all ($place, @cases) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    while (my ($text, $message) = splice @cases, 0, 2) {
        refuses($place, $text, $message);
    }
}

# A mistake of a single parameter's value has one form of message.
sub invalid ($directive, $what, $value, $expected) {
    return qr/\Q$directive: invalid $what "$value", expected $expected\E/;
}

# What shows only after all has been read tells where it stands: on the one line with this text.
sub refuses_line ($http, $text, $message) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    $nginx->configure($http);
    my @lines = split /\n/, RateLimit::Nginx::slurp($nginx->dir . '/nginx.conf');
    my ($line) = grep { $lines[ $_ - 1 ] =~ /$text/ } 1 .. @lines;
    my ($said, $accepted) = $nginx->test_configuration;
    ok(!$accepted && $said =~ /$message in \S+nginx\.conf:$line$/m, "refused, and the line is told: $text") or diag $said;
}

1;
