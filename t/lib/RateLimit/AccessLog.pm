package RateLimit::AccessLog;

# Status and duration of each request, from an access log in a format of its own.

use v5.36;
use Exporter 'import';
use List::Util qw(max);
use RateLimit::Nginx;

our @EXPORT_OK = qw($log_times requests_of count_statuses percentile);

# For the `http` level: all requests are logged so.
our $log_times = <<'END';
log_format times '$msec $status $request_time $uri';
access_log %DIR%/times.log times;
END

# Those that ended from that time on: { time, status, seconds, path }.
sub requests_of ($nginx, $from = 0) {
    my @requests;
    for (split /\n/, RateLimit::Nginx::slurp($nginx->dir . '/times.log')) {
        my %request;
        @request{qw(time status seconds path)} = split ' ';
        push @requests, \%request if $request{time} >= $from;
    }
    return @requests;
}

# { 200 => ..., 503 => ... }, without the requests that a load generator left when it was ended.
sub count_statuses (@requests) {
    my %count;
    ++$count{ $_->{status} } for grep { $_->{status} != 499 } @requests;
    return \%count;
}

# Nearest rank, of the durations; 0 of none.
sub percentile ($percent, @requests) {
    my @sorted = sort { $a <=> $b } map { $_->{seconds} } @requests;
    return 0 if !@sorted;
    return $sorted[max(0, int(@sorted * $percent / 100 + 0.999999) - 1)];
}

1;
