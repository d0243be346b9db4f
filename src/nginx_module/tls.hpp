// TLS to a Redis, by nginx's own OpenSSL.
#pragma once

#include "ngx.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace nginx_module {

enum TlsVersion : unsigned { tls_1_0 = 1, tls_1_1 = 2, tls_1_2 = 4, tls_1_3 = 8 };

/// What the ssl_ lines of a backend say. Empty texts: not given.
struct TlsSettings {
    std::optional<bool> is_on; // off if nothing is said
    bool verifies = true;
    uint64_t verify_depth = 4;
    std::string name;                // in the place of the host's own
    std::string trusted_certificate; // else the system's
    std::string certificate;
    std::string certificate_key;
    std::string ciphers = "DEFAULT"; // OpenSSL's notation
    unsigned versions = tls_1_2 | tls_1_3;

    bool operator==(const TlsSettings &) const = default;
};

/// The TLS end of the connections to one host, of which there is one at a time. Each resumes the
/// session of the one before if the host allows it.
class TlsPeer {
  public:
    virtual ~TlsPeer() = default;

    enum class Handshake { going_on, done, failed };
    /// Begins it on a connection that was just made. While it goes on nginx owns the connection's
    /// handlers; then it calls `when_over`, and end_handshake() tells the outcome. nginx logs what
    /// failed.
    virtual Handshake begin_handshake(ngx_connection_t &connection,
                                      ngx_connection_handler_pt when_over) = 0;
    virtual Handshake end_handshake(const ngx_connection_t &connection) const = 0;

    /// Empty, or why the host is not who it ought to be, static text. Nothing may be sent to it
    /// then. After a handshake that is done.
    virtual std::string_view distrust(ngx_connection_t &connection) = 0;

    /// To be called before the connection is closed.
    virtual void shut_down(ngx_connection_t &connection) = 0;
};

/// What the connections of a backend have in common. Outlives its peers.
class TlsContext {
  public:
    virtual ~TlsContext() = default;

    /// `host` is the name or the address by which it is reached.
    virtual std::unique_ptr<TlsPeer> peer(std::string_view host) const = 0;
};

/// Null: told and refused.
std::unique_ptr<TlsContext> make_tls_context(ngx_conf_t *cf, TlsSettings settings);

} // namespace nginx_module
