// TLS on the connections to one Redis, by nginx's own OpenSSL.
#pragma once

#include "../ngx.hpp"

#include "../conf/tls_context.hpp"

#include <memory>
#include <string_view>

namespace nginx_module {

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

/// Makes the TLS end of connections to `host`: the name or the address by which it is reached. The
/// context outlives it.
std::unique_ptr<TlsPeer> make_tls_peer(const TlsContext &context, std::string_view host);

} // namespace nginx_module
