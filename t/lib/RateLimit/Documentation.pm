package RateLimit::Documentation;

# The configurations that the documentation has as examples, so that tests can run them.

use v5.36;
use Exporter 'import';
use RateLimit::Nginx;
use RateLimit::Port qw(empty_port);

our @EXPORT_OK = qw(examples_of example_with http_level promises_in stream_level);

# The examples of a page: { place, text, level, promises }, of which text is what stands in `http`, or in
# `stream` if that is the level, and promises are those that stand behind it, see promises_in(). A host that is only an example's is here, and has no secret.
sub examples_of ($file) {
    my $page = RateLimit::Nginx::slurp($file);
    my @examples;
    while ($page =~ /^```nginx\n(.*?)^```$/msg) {
        my ($text, $line, $rest) = ($1, 1 + (substr($page, 0, $-[1]) =~ tr/\n//), substr $page, $+[0]);
        $text =~ s/^load_module .*?^(?=(?:http|stream) \{)//ms; # the harness has its own
        my $level = $text =~ s/^(http|stream) \{\n(.*)^\}$/$2/ms ? $1 : 'http';
        $text =~ s/(?:redis|sentinel)(?:-\d)?\.example\.internal/127.0.0.1/g;
        $text =~ s/password_file\s+\S+;/password_file %DIR%\/redis.password;/g;
        $rest =~ s/^(?:#+ |```nginx).*//ms;
        push @examples, { place => "$file:$line", text => $text, level => $level, promises => [ promises_in($rest) ] };
    }
    return @examples;
}

my %seconds_of = (second => 1, minute => 60, hour => 3600, day => 86_400, month => 28 * 86_400);

# What the line `**Holds:**` of a text promises: { who, units, most, rate, open }. `most` is what one of
# these may have, `rate` what comes back of that in a second, 0 where it is the bound of a window, and `open`
# says that it is a bound of what there is at a time. The line is:
#
#   **Holds:** per WHO: CLAIM; CLAIM; per WHO: CLAIM.
#
# where a CLAIM is one of
#
#   at most N UNITS in any minute         (a day, 5 minutes, ...)
#   at most N UNITS at once, and N more in a minute
#   at most N UNITS at a time
sub promises_in ($text) {
    my ($line) = $text =~ /^\*\*Holds:\*\* (.*?)\.(?:\s|\z)/ms or return;
    $line =~ s/\s+/ /g;
    my ($who, @promises);
    for my $claim (split /; /, $line) {
        $who = $1 if $claim =~ s/^per ([^:]+): //;
        $claim =~ /^at most ([\d,]+) (.+?) (?:(at a time)|in (?:an?|any|one) (.+)|in (\d.+)|at once, and ([\d,]+) more in (?:an? )?(.+))$/ && defined $who
            or die "no promise: $claim\n";
        my ($most, $units, $open, $window, $windows, $more, $time) = ($1, $2, $3, $4, $5, $6, $7);
        my ($count, $unit) = ($time // $windows // $window // 'second') =~ /^(\d+ )?(.*?)s?$/;
        my $seconds = ($seconds_of{$unit} // die "no time: $claim\n") * ($count // 1);
        s/,//g for grep { defined } $most, $more;
        push @promises, { who => $who, units => $units, most => $most, rate => ($more // 0) / $seconds, open => defined $open };
    }
    return @promises;
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
    $text =~ s{/var/log/nginx/}{%DIR%/}g;
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
