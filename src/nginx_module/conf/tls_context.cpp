#include "nginx_module/conf/tls_context.hpp"

#include "nginx_module/conf/parameters.hpp"
#include "nginx_module/util.hpp"

namespace nginx_module {

#if (NGX_SSL)

TlsContext::~TlsContext() {
    if (ssl_.ctx != nullptr) {
        ngx_ssl_cleanup_ctx(&ssl_);
    }
}

std::unique_ptr<TlsContext> TlsContext::make(ngx_conf_t *cf, TlsSettings settings) {
    auto context = std::make_unique<TlsContext>(std::move(settings));
    return context->set_up(cf) ? std::move(context) : nullptr;
}

ngx_uint_t TlsContext::protocols() const {
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

bool TlsContext::set_trust(ngx_conf_t *cf) {
    if (!settings_.verifies) {
        return true;
    }
    ngx_str_t file = to_ngx(settings_.trusted_certificate);
    const auto depth = static_cast<ngx_int_t>(settings_.verify_depth);
    if (ngx_ssl_trusted_certificate(cf, &ssl_, &file, depth) != NGX_OK) {
        refuse(cf, backend_directive, "ssl_trusted_certificate", settings_.trusted_certificate,
               "a file of certificates in PEM format");
        return false;
    }
    if (settings_.trusted_certificate.empty() && SSL_CTX_set_default_verify_paths(ssl_.ctx) != 1) {
        refuse(cf, backend_directive, "ssl_trusted_certificate", "",
               "one, for the system's authorities cannot be read");
        return false;
    }
    return true;
}

bool TlsContext::set_certificate(ngx_conf_t *cf) {
    if (settings_.certificate.empty()) {
        return true;
    }
    ngx_str_t certificate = to_ngx(settings_.certificate);
    ngx_str_t key = to_ngx(settings_.certificate_key);
    if (ngx_ssl_certificate(cf, &ssl_, &certificate, &key, nullptr) != NGX_OK) {
        refuse(cf, backend_directive, "ssl_certificate", settings_.certificate,
               "a file of a certificate in PEM format, and its key in ssl_certificate_key");
        return false;
    }
    return true;
}

bool TlsContext::set_up(ngx_conf_t *cf) {
    ssl_.log = cf->log;
    if (ngx_ssl_create(&ssl_, protocols(), nullptr) != NGX_OK) {
        return false;
    }
    ngx_str_t ciphers = to_ngx(settings_.ciphers);
    if (ngx_ssl_ciphers(cf, &ssl_, &ciphers, 0) != NGX_OK) {
        refuse(cf, backend_directive, "ssl_ciphers", settings_.ciphers,
               "a list of ciphers for OpenSSL");
        return false;
    }
    return set_trust(cf) && set_certificate(cf);
}

#else

TlsContext::~TlsContext() = default;

std::unique_ptr<TlsContext> TlsContext::make(ngx_conf_t *cf, TlsSettings /*settings*/) {
    refuse(cf, backend_directive, "ssl", "on",
           "off, for this module was built without TLS; configure the build as its nginx, with "
           "--with-http_ssl_module");
    return nullptr;
}

#endif

} // namespace nginx_module
