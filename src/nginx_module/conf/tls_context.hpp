// What a backend's TLS connections have in common: its settings, and its certificates and keys.
// They are read with the configuration, because perhaps only root can read them.
#pragma once

#include "nginx_module/ngx.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace nginx_module {

enum TlsVersion : unsigned { tls_1_0 = 1, tls_1_1 = 2, tls_1_2 = 4, tls_1_3 = 8 };

/// What the ssl_ lines of a backend say. A text is empty if its line was not given.
struct TlsSettings {
    std::optional<bool> is_on; // no value: `ssl` is not given, and so off
    bool verifies = true;
    uint64_t verify_depth = 4;
    std::string name;                // verified instead of the host's own name
    std::string trusted_certificate; // if empty, the system's are used
    std::string certificate;
    std::string certificate_key;
    std::string ciphers = "DEFAULT"; // in OpenSSL's notation
    unsigned versions = tls_1_2 | tls_1_3;

    bool operator==(const TlsSettings &) const = default;
};

class TlsContext {
  public:
    /// Returns null if the settings are refused; the log says why.
    static std::unique_ptr<TlsContext> make(ngx_conf_t *cf, TlsSettings settings);

    explicit TlsContext(TlsSettings settings) : settings_(std::move(settings)) {}
    ~TlsContext();
    TlsContext(const TlsContext &) = delete;
    TlsContext &operator=(const TlsContext &) = delete;

    const TlsSettings &settings() const { return settings_; }
#if (NGX_SSL)
    const ngx_ssl_t &ssl() const {
        return ssl_;
    }
#endif

  private:
    TlsSettings settings_; // OpenSSL keeps pointers to some of its texts
#if (NGX_SSL)
    bool set_up(ngx_conf_t *cf);
    ngx_uint_t protocols() const;
    bool set_trust(ngx_conf_t *cf);
    bool set_certificate(ngx_conf_t *cf);

    ngx_ssl_t ssl_{};
#endif
};

} // namespace nginx_module
