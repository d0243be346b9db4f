package RateLimit::Certificates;

# Certificates of a test's own, by openssl, in a directory that goes with the object.

use v5.36;
use File::Temp qw(tempdir);

# Makes a certification authority, which signs what issue() makes.
sub new ($class) {
    my $self = bless { dir => tempdir('certificates-XXXXXXXX', TMPDIR => 1, CLEANUP => 1) }, $class;
    chmod 0755, $self->{dir};
    $self->self_signed('authority', 'basicConstraints=critical,CA:TRUE');
    return $self;
}

sub certificate ($self, $name) { return "$self->{dir}/$name.pem" }
sub key ($self, $name)         { return "$self->{dir}/$name.key" }

sub openssl (@arguments) {
    my $said = qx{openssl @arguments 2>&1};
    die "openssl @arguments: $said" if $?;
}

my @new_key = ('-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-noenc');

sub self_signed ($self, $name, $extension) {
    openssl('req', '-x509', @new_key, '-days', 2, '-subj', "/CN=$name", '-addext', $extension,
        '-keyout', $self->key($name), '-out', $self->certificate($name));
    return $name;
}

# A certificate of this host: `IP:127.0.0.1` or `DNS:redis.test`. It is valid for so many days, from
# now on or until now. `from` is who signs it.
sub issue ($self, $name, $host, $days = 2, $from = $self) {
    openssl('req', '-new', @new_key, '-subj', "/CN=$name", '-addext', "subjectAltName=$host",
        '-keyout', $self->key($name), '-out', "$self->{dir}/$name.csr");
    openssl('x509', '-req', '-days', $days, '-in', "$self->{dir}/$name.csr", '-copy_extensions', 'copyall', '-CAcreateserial',
        '-CA', $from->certificate('authority'), '-CAkey', $from->key('authority'), '-out', $self->certificate($name));
    return $name;
}

# Settings for a redis-server that shows this certificate at $port, beside its plain port.
sub redis_settings ($self, $name, $port, %more) {
    return (
        'tls-port'         => $port,
        'tls-cert-file'    => $self->certificate($name),
        'tls-key-file'     => $self->key($name),
        'tls-ca-cert-file' => $self->certificate('authority'),
        'tls-auth-clients' => 'no',
        %more,
    );
}

1;
