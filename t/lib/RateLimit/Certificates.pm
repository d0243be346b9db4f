package RateLimit::Certificates;

# Certificates of a test's own, in a directory that goes with the object.

use v5.36;
use File::Temp qw(tempdir);
use IO::Socket::SSL::Utils qw(CERT_create KEY_create_ec PEM_cert2file PEM_key2file);

# Makes a certification authority, which signs what issue() makes.
sub new ($class) {
    my $self = bless { dir => tempdir('certificates-XXXXXXXX', TMPDIR => 1, CLEANUP => 1) }, $class;
    chmod 0755, $self->{dir};
    $self->{issuer} = [$self->make('authority', CA => 1)];
    return $self;
}

sub certificate ($self, $name) { return "$self->{dir}/$name.pem" }
sub key ($self, $name)         { return "$self->{dir}/$name.key" }

# Parameters are those of CERT_create; valid from an hour ago, for two.
sub make ($self, $name, %parameters) {
    my ($certificate, $key) = CERT_create(
        subject    => { commonName => $name },
        key        => KEY_create_ec(),
        not_before => time - 3600,
        not_after  => time + 3600,
        %parameters,
    );
    PEM_cert2file($certificate, $self->certificate($name));
    PEM_key2file($key, $self->key($name));
    return ($certificate, $key);
}

# A certificate of this host: `IP:127.0.0.1` or `DNS:redis.test`, or several.
sub issue ($self, $name, $host, %parameters) {
    $self->make($name, issuer => $self->{issuer}, ext => [{ sn => 'subjectAltName', data => $host }], %parameters);
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
