// A connection on nginx's event loop, with nginx's sockets and TLS.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/conf/tls_context.hpp"
#include "nginx_module/io/quiet_log.hpp"
#include "nginx_module/io/tls_peer.hpp"
#include "redis_client/io/connection.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

namespace nginx_module {

class NginxConnection final : public redis_client::Connection {
  public:
    /// If `tls` is null, connections are plain. `answer_timeout` is for how long an answer is
    /// waited for.
    NginxConnection(Callbacks &callbacks, ngx_log_t *log, const TlsContext *tls,
                    std::chrono::milliseconds answer_timeout);
    ~NginxConnection() override { disconnect(); }

    void open(const redis_client::Address &address, std::string_view host) override;
    void close() override { disconnect(); }
    bool is_open() const override { return connection_ != nullptr; }
    Stage stage() const override { return stage_; }
    void send_soon() override;
    void send_now() override { write(); }
    /// Also reads what nginx has not reported yet: timers run before posted events, and after a
    /// signal they run before nginx looks at its sockets.
    void read_now() override;
    void set_idle(bool idle) override;

  private:
    void disconnect();
    void set_handlers();
    void finish_connecting();
    void watch_peer();
    void continue_handshake(TlsPeer::Handshake handshake);
    void begin();
    void read();
    void write();
    redis_client::Fault broken() const;
    void lose(const redis_client::Fault &fault);

    Callbacks &callbacks_;
    QuietLog log_; // keeps messages back: a fault is logged once in an outage
    const TlsContext *tls_context_;
    const std::chrono::milliseconds answer_timeout_;
    std::unique_ptr<TlsPeer> tls_; // the TLS end of the connections to host_
    std::string host_;             // the host that was last connected to
    ngx_connection_t *connection_ = nullptr;
    Stage stage_ = Stage::connecting;
    bool is_local_ = false; // the address is a unix socket
};

} // namespace nginx_module
