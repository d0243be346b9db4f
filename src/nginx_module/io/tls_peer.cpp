#include "nginx_module/io/tls_peer.hpp"

#include <string>
#include <utility>

namespace nginx_module {

#if (NGX_SSL)

namespace {

struct FreeSession {
    void operator()(SSL_SESSION *session) const { SSL_SESSION_free(session); }
};
using Session = std::unique_ptr<SSL_SESSION, FreeSession>;

struct FreeCertificate {
    void operator()(X509 *certificate) const { X509_free(certificate); }
};
using Certificate = std::unique_ptr<X509, FreeCertificate>;

bool is_address(const std::string &host) {
    in6_addr address;
    return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
           inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

class Peer final : public TlsPeer {
  public:
    /// `expected` is the name or the address that the certificate must be for.
    Peer(const ngx_ssl_t &context, bool verifies, std::string expected)
        : context_(context), verifies_(verifies), expected_(std::move(expected)) {}

    Handshake begin_handshake(ngx_connection_t &connection,
                              ngx_connection_handler_pt when_over) override;
    Handshake end_handshake(const ngx_connection_t &connection) const override;
    std::string_view distrust(ngx_connection_t &connection) override;
    void shut_down(ngx_connection_t &connection) override;

  private:
    bool prepare(ngx_connection_t &connection) const;
    std::string_view verify(SSL *ssl) const;

    const ngx_ssl_t &context_;
    bool verifies_;
    std::string expected_;
    bool is_trusted_ = false; // the host of this connection is verified
    Session session_;         // from a connection to a verified host
};

bool Peer::prepare(ngx_connection_t &connection) const {
    constexpr size_t room = 512; // enough for nginx's ngx_ssl_connection_t
    connection.pool = ngx_create_pool(room, connection.log);
    auto *context = const_cast<ngx_ssl_t *>(&context_); // nginx only reads it
    if (connection.pool == nullptr ||
        ngx_ssl_create_connection(context, &connection, NGX_SSL_CLIENT) != NGX_OK) {
        return false;
    }
    SSL *ssl = connection.ssl->connection;
    // What could not be sent at once is sent again, though the output may have moved in memory.
    SSL_set_mode(ssl, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_ENABLE_PARTIAL_WRITE);
    return (session_ == nullptr || SSL_set_session(ssl, session_.get()) == 1) &&
           (is_address(expected_) || SSL_set_tlsext_host_name(ssl, expected_.c_str()) == 1);
}

/// Resumes the last session that was kept. A resumed session keeps the verdict on its certificate
/// from when it began. So the session of a host that was not trusted is not kept: the host's
/// certificate may be renewed.
TlsPeer::Handshake Peer::begin_handshake(ngx_connection_t &connection,
                                         ngx_connection_handler_pt when_over) {
    is_trusted_ = false;
    if (!prepare(connection)) {
        return Handshake::failed;
    }
    const ngx_int_t result = ngx_ssl_handshake(&connection);
    if (result == NGX_AGAIN) {
        connection.ssl->handler = when_over;
        return Handshake::going_on;
    }
    return end_handshake(connection);
}

TlsPeer::Handshake Peer::end_handshake(const ngx_connection_t &connection) const {
    return connection.ssl->handshaked != 0 ? Handshake::done : Handshake::failed;
}

std::string_view Peer::distrust(ngx_connection_t &connection) {
    const std::string_view problem = verifies_ ? verify(connection.ssl->connection) : "";
    is_trusted_ = problem.empty();
    return problem;
}

std::string_view Peer::verify(SSL *ssl) const {
    if (const long result = SSL_get_verify_result(ssl); result != X509_V_OK) {
        return X509_verify_cert_error_string(result);
    }
    const Certificate certificate(SSL_get_peer_certificate(ssl));
    if (certificate == nullptr) {
        return "it has no certificate";
    }
    const int matches =
        is_address(expected_)
            ? X509_check_ip_asc(certificate.get(), expected_.c_str(), 0)
            : X509_check_host(certificate.get(), expected_.data(), expected_.size(), 0, nullptr);
    return matches == 1 ? std::string_view() : "the certificate is of another host";
}

void Peer::shut_down(ngx_connection_t &connection) {
    if (connection.ssl != nullptr) {
        if (is_trusted_) {
            session_.reset(SSL_get1_session(connection.ssl->connection));
        }
        connection.ssl->no_wait_shutdown = 1;
        // If the peer cannot be notified at once, it need not be notified.
        if (ngx_ssl_shutdown(&connection) == NGX_AGAIN) {
            SSL_free(connection.ssl->connection);
            connection.ssl = nullptr;
        }
    }
    if (connection.pool != nullptr) {
        ngx_destroy_pool(connection.pool);
        connection.pool = nullptr;
    }
}

} // namespace

std::unique_ptr<TlsPeer> make_tls_peer(const TlsContext &context, std::string_view host) {
    const TlsSettings &settings = context.settings();
    return std::make_unique<Peer>(context.ssl(), settings.verifies,
                                  settings.name.empty() ? std::string(host) : settings.name);
}

#else // without TLS no configuration has a context

std::unique_ptr<TlsPeer> make_tls_peer(const TlsContext & /*context*/, std::string_view /*host*/) {
    return nullptr;
}

#endif

} // namespace nginx_module
