package RateLimit::Documentation;

# The configurations that the documentation has as examples, so that tests can run them.

use v5.36;
use Exporter 'import';
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);

our @EXPORT_OK = qw(examples_of example_with http_level stream_level);

# The examples of a page: { place, text, level }, of which text is what stands in `http`, or in `stream` if
# that is the level. A host that is only an example's is here, and has no secret.
sub examples_of ($file) {
    my $page = RateLimit::Nginx::slurp($file);
    my @examples;
    while ($page =~ /^```nginx\n(.*?)^```$/msg) {
        my ($text, $line) = ($1, 1 + (substr($page, 0, $-[1]) =~ tr/\n//));
        $text =~ s/^load_module .*?^(?=(?:http|stream) \{)//ms; # the harness has its own
        my $level = $text =~ s/^(http|stream) \{\n(.*)^\}$/$2/ms ? $1 : 'http';
        $text =~ s/(?:redis|sentinel)(?:-\d)?\.example\.internal/127.0.0.1/g;
        $text =~ s/password_file\s+\S+;/password_file %DIR%\/redis.password;/g;
        push @examples, { place => "$file:$line", text => $text, level => $level };
    }
    return @examples;
}

# The text of the one that has these words.
sub example_with ($file, $words) {
    my @found = grep { index($_->{text}, $words) >= 0 } examples_of($file);
    die "$file has " . @found . " examples with \"$words\"\n" if @found != 1;
    return $found[0]{text};
}

# With what stands around a fragment in `http`: a zone if it names one, and a server, on the test's port.
sub http_level ($text) {
    my $is_fragment = $text !~ /^\s*(?:server|redis_rate_limit_zone|redis_rate_limit_backend|geo|log_format)\b/m;
    my $zone = $text =~ /redis_rate_limit zone=/ && $text !~ /redis_rate_limit_zone/
        ? "redis_rate_limit_zone \$remote_addr zone=per_ip:10m;\n" : '';
    $text = "server {\n$text}\n" if $is_fragment;
    $text =~ s/^( *server \{)\n(?!\s*listen)/$1\n    listen %PORT%;\n/mg;
    return $zone . $text;
}

# The same of an example in `stream`: its servers listen on ports of this host that are free, and are told
# as pairs of the port that the example has and that one.
sub stream_level ($text) {
    my %port = map { $_ => empty_port() } $text =~ /^\s*listen (\d+)/mg;
    $text =~ s/^(\s*listen )(\d+)/${1}127.0.0.1:$port{$2}/mg;
    $text =~ s{/var/log/nginx/}{%DIR%/}g;
    return ($text, %port);
}

1;
