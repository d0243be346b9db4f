package Soak::Tail;

# A file that grows, read on from where the last reading ended.

use v5.36;

sub new ($class, $path) { return bless { path => $path, file => 0, offset => 0 }, $class }

# Of another file in its place, all.
sub read_on ($self) {
    open my $file, '<:raw', $self->{path} or return '';
    my $number = (stat $file)[1];
    $self->@{qw(file offset)} = ($number, 0) if $number != $self->{file};
    seek $file, $self->{offset}, 0;
    my $bytes = do { local $/; readline $file } // '';
    $self->{offset} += length $bytes;
    return $bytes;
}

1;
