package RateLimit::Wait;

# Waiting for a condition, never for a guessed time.

use v5.36;
use warnings;
use Exporter 'import';
use Time::HiRes qw(sleep time);

our @EXPORT_OK = qw(wait_until);

# Calls the code until it returns something true, which it returns; undef after so many seconds.
sub wait_until ($code, $seconds = 10) {
    my $deadline = time + $seconds;
    while (1) {
        my $result = $code->();
        return $result if $result;
        return undef if time > $deadline;
        sleep 0.01;
    }
}

1;
