package RateLimit::TreeCopy;

# A copy of the tree, in which a tool changes files and builds them: for tools/run-mutants and tools/find-mistakes.

use v5.36;
use Exporter 'import';
use File::Basename qw(dirname);
use File::Path qw(make_path);

our @EXPORT_OK = qw(copy_tree lines_of slurp write_file);

# undef where there is no such file.
sub slurp ($path) {
    open my $file, '<:raw', $path or return undef;
    local $/;
    return <$file> // '';
}

sub write_file ($path, $text) {
    make_path(dirname($path));
    open my $file, '>:raw', $path or die "$path: $!";
    print $file $text;
    close $file or die "$path: $!";
}

sub lines_of ($command) { return split /\n/, qx{$command} }

# Makes the copy as the tree is now, without what Git ignores. What is the same already keeps its time, so that
# little is compiled. Whether anything was not the same.
sub copy_tree ($tree) {
    my %here       = map { $_ => 1 } grep { -f } lines_of('git ls-files --cached --others --exclude-standard');
    my $is_changed = 0;
    for my $file (sort keys %here) {
        my $text = slurp($file);
        next if ($text // '') eq (slurp("$tree/$file") // "\0");
        write_file("$tree/$file", $text);
        chmod +(stat $file)[2] & 07777, "$tree/$file";
        $is_changed = 1;
    }
    for my $file (map { s{^\Q$tree\E/}{}r } lines_of("find '$tree' -path '$tree/build' -prune -o -type f -print")) {
        next if $here{$file};
        unlink "$tree/$file";
        $is_changed = 1;
    }
    return $is_changed;
}

1;
