package Soak::Rules;

# The rules of the soak that are judged, one of each algorithm: 30 in 3 s, buckets hold 10.

use v5.36;
use Exporter 'import';

our @EXPORT_OK = qw(%judged $limit $window $capacity $permits $permits_window);

our ($limit, $window, $capacity) = (30, 3, 10);
our %judged = (
    first   => 'algorithm=fixed_window',
    aligned => 'algorithm=fixed_window aligned',
    log     => 'algorithm=sliding_log',
    sliding => 'algorithm=sliding_window',
    tokens  => "algorithm=token_bucket burst=$capacity",
    gcra    => 'algorithm=gcra burst=' . ($capacity - 1),
    leaky   => 'algorithm=leaky_bucket delay=9 burst=' . ($capacity - 1),
);

# Of the concurrency rule.
our ($permits, $permits_window) = (5, 2);

1;
