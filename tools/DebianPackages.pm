package DebianPackages;

# What the documents of a release ask Debian's tools.

use v5.36;
use Exporter 'import';

our @EXPORT_OK = qw(lines_of purl);

# What a command prints. It has to succeed.
sub lines_of (@command) {
    open my $out, '-|', @command or die "$command[0]: $!\n";
    chomp(my @lines = <$out>);
    close $out or die "@command failed\n";
    return @lines;
}

# https://github.com/package-url/purl-spec
sub purl ($package, $version, $architecture) {
    my $in_purl = $version =~ s/([^\w.~-])/sprintf '%%%02X', ord $1/gaer;
    return "pkg:deb/debian/$package\@$in_purl?arch=$architecture";
}

1;
