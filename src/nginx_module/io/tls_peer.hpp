// TLS on the connections to one Redis, with nginx's own OpenSSL.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/conf/tls_context.hpp"

#include <memory>
#include <string_view>

namespace nginx_module {

/// The TLS end of the connections to one host. There is one connection at a time, and each resumes
/// the TLS session of the one before if the host allows it.
class TlsPeer {
  public:
    virtual ~TlsPeer() = default;

    enum class Handshake { going_on, done, failed };
    /// Begins the handshake on a new connection. While it is going on, nginx owns the connection's
    /// handlers. Then nginx calls `when_over`, and end_handshake() returns the outcome. nginx logs
    /// what failed.
    virtual Handshake begin_handshake(ngx_connection_t &connection,
                                      ngx_connection_handler_pt when_over) = 0;
    virtual Handshake end_handshake(const ngx_connection_t &connection) const = 0;

    /// Must be called after a handshake that is done. Returns why the host is not the expected one,
    /// as static text; then nothing may be sent to it. Returns an empty text if it is trusted.
    virtual std::string_view distrust(ngx_connection_t &connection) = 0;

    /// Must be called before the connection is closed.
    virtual void shut_down(ngx_connection_t &connection) = 0;
};

/// Makes the TLS end of connections to `host`, which is the name or the address by which it is
/// reached. The context must outlive it.
std::unique_ptr<TlsPeer> make_tls_peer(const TlsContext &context, std::string_view host);

} // namespace nginx_module
