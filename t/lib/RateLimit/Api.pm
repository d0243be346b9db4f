package RateLimit::Api;

# An operator at the API of an nginx.

use v5.36;
use Exporter 'import';
use JSON::PP ();
use RateLimit::Nginx;

our @EXPORT_OK = qw(api query);

my $json = JSON::PP->new->utf8->allow_nonref;

# A query, percent-encoded: query(zone => 'per_ip', key => "\0").
sub query (@parameters) {
    my @pairs;
    while (my ($name, $value) = splice @parameters, 0, 2) {
        push @pairs, "$name=" . $value =~ s/([^A-Za-z0-9._~-])/sprintf '%%%02X', ord $1/ger;
    }
    return @pairs ? '?' . join '&', @pairs : '';
}

# { status, headers, json }, the last one undef where the content is no JSON. `request` is a method and
# what stands below /api/; options are a body, a hash or a text, and headers.
sub api ($nginx, $request, %options) {
    my ($method, $path) = split ' ', $request;
    my %headers = ($options{headers} // {})->%*;
    my @content;
    if (defined $options{body}) {
        @content = (content => ref $options{body} ? $json->encode($options{body}) : $options{body});
        $headers{'Content-Type'} //= 'application/json';
    }
    my $response = $nginx->get("/api/$path", method => $method, headers => \%headers, @content);
    my $decoded  = eval { $json->decode($response->{content} // '') };
    return { $response->%{qw(status headers content)}, json => $decoded };
}

1;
