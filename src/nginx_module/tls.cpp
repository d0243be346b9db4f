#include "tls.hpp"

#include "parameters.hpp"
#include "util.hpp"

namespace nginx_module {

namespace {

constexpr const char *directive = "redis_rate_limit_backend";

#if (NGX_SSL)

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
    /// `expected` is who the certificate is to be of.
    Peer(ngx_ssl_t &context, bool verifies, std::string expected)
        : context_(context), verifies_(verifies), expected_(std::move(expected)) {}

    Handshake begin_handshake(ngx_connection_t &connection,
                              ngx_connection_handler_pt when_over) override;
    Handshake end_handshake(const ngx_connection_t &connection) const override;
    std::string_view distrust(ngx_connection_t &connection) override;
    void shut_down(ngx_connection_t &connection) override;

  private:
    bool prepare(ngx_connection_t &connection) const;
    std::string_view verify(SSL *ssl) const;

    ngx_ssl_t &context_;
    bool verifies_;
    std::string expected_;
    bool is_trusted_ = false; // the host of this connection
    Session session_;         // of one that was
};

bool Peer::prepare(ngx_connection_t &connection) const {
    constexpr size_t room = 512; // for nginx's ngx_ssl_connection_t
    connection.pool = ngx_create_pool(room, connection.log);
    if (connection.pool == nullptr ||
        ngx_ssl_create_connection(&context_, &connection, NGX_SSL_CLIENT) != NGX_OK) {
        return false;
    }
    SSL *ssl = connection.ssl->connection;
    // what could not be sent at once is sent again from where the output has moved to
    SSL_set_mode(ssl, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_ENABLE_PARTIAL_WRITE);
    return (session_ == nullptr || SSL_set_session(ssl, session_.get()) == 1) &&
           (is_address(expected_) || SSL_set_tlsext_host_name(ssl, expected_.c_str()) == 1);
}

/// A session says of its certificate what was said when it began: one of a host that was not
/// trusted is not kept, for its certificate may be renewed.
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
        // where it cannot be told at once it need not be
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

class Context final : public TlsContext {
  public:
    explicit Context(TlsSettings settings) : settings_(std::move(settings)) {}
    ~Context() override {
        if (ssl_.ctx != nullptr) {
            ngx_ssl_cleanup_ctx(&ssl_);
        }
    }
    Context(const Context &) = delete;
    Context &operator=(const Context &) = delete;

    bool set_up(ngx_conf_t *cf);

    std::unique_ptr<TlsPeer> peer(std::string_view host) const override {
        return std::make_unique<Peer>(ssl_, settings_.verifies,
                                      settings_.name.empty() ? std::string(host) : settings_.name);
    }

  private:
    ngx_uint_t protocols() const;
    bool set_trust(ngx_conf_t *cf);
    bool set_certificate(ngx_conf_t *cf);

    TlsSettings settings_;    // of which OpenSSL keeps texts
    mutable ngx_ssl_t ssl_{}; // nginx takes it as such, and leaves it as it is
};

ngx_uint_t Context::protocols() const {
    ngx_uint_t protocols = 0;
    constexpr std::pair<unsigned, ngx_uint_t> all[] = {{tls_1_0, NGX_SSL_TLSv1},
                                                       {tls_1_1, NGX_SSL_TLSv1_1},
                                                       {tls_1_2, NGX_SSL_TLSv1_2},
                                                       {tls_1_3, NGX_SSL_TLSv1_3}};
    for (const auto &[version, protocol] : all) {
        protocols |= (settings_.versions & version) != 0 ? protocol : 0;
    }
    return protocols;
}

bool Context::set_trust(ngx_conf_t *cf) {
    if (!settings_.verifies) {
        return true;
    }
    ngx_str_t file = to_ngx(settings_.trusted_certificate);
    const auto depth = static_cast<ngx_int_t>(settings_.verify_depth);
    if (ngx_ssl_trusted_certificate(cf, &ssl_, &file, depth) != NGX_OK) {
        refuse(cf, directive, "ssl_trusted_certificate", settings_.trusted_certificate,
               "a file of certificates in PEM format");
        return false;
    }
    if (settings_.trusted_certificate.empty() && SSL_CTX_set_default_verify_paths(ssl_.ctx) != 1) {
        refuse(cf, directive, "ssl_trusted_certificate", "",
               "one, for the system's authorities cannot be read");
        return false;
    }
    return true;
}

bool Context::set_certificate(ngx_conf_t *cf) {
    if (settings_.certificate.empty()) {
        return true;
    }
    ngx_str_t certificate = to_ngx(settings_.certificate);
    ngx_str_t key = to_ngx(settings_.certificate_key);
    if (ngx_ssl_certificate(cf, &ssl_, &certificate, &key, nullptr) != NGX_OK) {
        refuse(cf, directive, "ssl_certificate", settings_.certificate,
               "a file of a certificate in PEM format, and its key in ssl_certificate_key");
        return false;
    }
    return true;
}

bool Context::set_up(ngx_conf_t *cf) {
    ssl_.log = cf->log;
    if (ngx_ssl_create(&ssl_, protocols(), nullptr) != NGX_OK) {
        return false;
    }
    ngx_str_t ciphers = to_ngx(settings_.ciphers);
    if (ngx_ssl_ciphers(cf, &ssl_, &ciphers, 0) != NGX_OK) {
        refuse(cf, directive, "ssl_ciphers", settings_.ciphers, "a list of ciphers for OpenSSL");
        return false;
    }
    return set_trust(cf) && set_certificate(cf);
}

#endif

} // namespace

std::unique_ptr<TlsContext> make_tls_context(ngx_conf_t *cf, TlsSettings settings) {
#if (NGX_SSL)
    auto context = std::make_unique<Context>(std::move(settings));
    if (context->set_up(cf)) {
        return context;
    }
#else
    (void)settings;
    refuse(cf, directive, "ssl", "on",
           "off, for this module was built without TLS; configure the build as its nginx, with "
           "--with-http_ssl_module");
#endif
    return nullptr;
}

} // namespace nginx_module
