// The link to a Redis Cluster: each command goes to the master that serves its hash slot.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/backend/cluster.hpp"
#include "nginx_module/backend/control_connection.hpp"
#include "nginx_module/backend/control_link.hpp"

#include <memory>
#include <string>
#include <vector>

namespace nginx_module {

class ClusterControlLink final : public ControlLink, ControlConnection::Callbacks {
  public:
    /// `cluster` knows which master serves which hash slots. It outlives the link.
    ClusterControlLink(const BackendConf &conf, Cluster &cluster, ngx_log_t *log);
    ~ClusterControlLink() override;

    void run(redis_client::ControlCommand &command) override;
    void cancel(const redis_client::ControlCommand &command) override;

  private:
    struct Node {
        std::string host;
        in_port_t port;
        std::unique_ptr<ControlConnection> connection;
    };

    bool redirect(ControlConnection &from, redis_client::ControlCommand &command,
                  const redis_client::Redirect &to) override;
    void on_fault() override;

    ControlConnection &connection_to(const ServerAddress &name);
    void on_timer();
    void set_timer();

    const BackendConf &conf_;
    Cluster &cluster_;
    ngx_log_t *log_;
    std::vector<Node> nodes_;
    std::vector<redis_client::ControlCommand *> waiting_; // while nobody serves their keys
    ngx_event_t timer_{};                                 // when to look for who does
};

} // namespace nginx_module
