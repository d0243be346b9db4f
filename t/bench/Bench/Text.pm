package Bench::Text;

# Numbers as reports show them.

use v5.36;
use Exporter 'import';

our @EXPORT_OK = qw(number percent plural short_number);

sub number ($number) { return sprintf('%.0f', $number) =~ s/(?<=\d)(?=(?:\d{3})+$)/,/gr }

sub plural ($number, $what) { return number($number) . " $what" . ($number == 1 ? '' : 's') }

sub percent ($share, $digits = 0) { return sprintf "%.${digits}f %%", 100 * $share }

# Without the zeros at its end.
sub short_number ($number, $digits) { return sprintf("%.${digits}f", $number) =~ s/\.?0+$//r }

1;
