package RateLimit::AccessLog;

# What became of each request, from an access log in a format of its own.

use v5.36;
use Exporter 'import';
use Fcntl qw(SEEK_CUR SEEK_END);
use List::Util qw(max);
use RateLimit::Nginx;
use RateLimit::Wait qw(wait_until);

our @EXPORT_OK = qw($log_times requests_of wait_for_requests count_statuses percentile);

# For the `http` level: all requests are logged so.
our $log_times = <<'END';
log_format times '$msec $status $request_time $uri $connection $pid $redis_rate_limit_source $redis_rate_limit_remaining $redis_rate_limit_time';
access_log %DIR%/times.log times;
END

# Those that ended from that time on: { time, status, seconds, path, connection, worker, source,
# remaining, asking }, the last one in seconds, too.
sub requests_of ($nginx, $from = 0) {
    my @requests;
    for (split /\n/, RateLimit::Nginx::slurp($nginx->dir . '/times.log')) {
        my %request;
        @request{qw(time status seconds path connection worker source remaining asking)} = split / /;
        push @requests, \%request if $request{time} >= $from;
    }
    return @requests;
}

# Until so many more have ended.
sub wait_for_requests ($nginx, $count = 1) {
    open my $log, '<', $nginx->dir . '/times.log' or die "times.log: $!";
    seek $log, 0, SEEK_END;
    my $ended = 0;
    wait_until(sub {
        seek $log, 0, SEEK_CUR; # clears the end of the file
        $ended += () = readline $log;
        return $ended >= $count;
    }) or die "$ended requests have ended, expected $count\n";
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
