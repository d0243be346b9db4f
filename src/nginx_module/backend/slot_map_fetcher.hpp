// Fetches the slot map of a cluster. It asks the nodes in turn, over a connection that is closed
// when the map has come.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/backend/address_source.hpp"
#include "nginx_module/backend/connection.hpp"
#include "nginx_module/backend/servers_in_turn.hpp"
#include "nginx_module/conf/configuration.hpp"
#include "redis_client/control/cluster_query.hpp"

#include <string_view>
#include <vector>

namespace nginx_module {

class SlotMapFetcher final : AddressSource::Callbacks, Connection::Callbacks {
  public:
    class Callbacks {
      public:
        /// The map has come from the node `host`.
        virtual void on_map(const redis_client::ClusterMap &map, std::string_view host) = 0;
        /// No node has sent a map. `what` is static text, and `detail` is valid during the call.
        virtual void on_no_map(std::string_view what, std::string_view detail) = 0;

      protected:
        ~Callbacks() = default;
    };

    SlotMapFetcher(Callbacks &callbacks, const BackendConf &conf, ngx_log_t *log);
    ~SlotMapFetcher();
    SlotMapFetcher(const SlotMapFetcher &) = delete;
    SlotMapFetcher &operator=(const SlotMapFetcher &) = delete;

    /// Fetches the map, and calls on_map() or on_no_map(), perhaps before it returns. Each fetch
    /// begins with another node, because one may know less than the others.
    void fetch();
    bool is_fetching() const { return is_fetching_; }

    /// Sets the nodes that may be asked beside the configured servers.
    void set_nodes(const std::vector<ServerAddress> &nodes);

    /// Returns the node that is asked, for logs.
    std::string_view text() const { return servers_.current().text(); }

  private:
    void on_located() override;
    void on_not_located(std::string_view what, std::string_view detail) override;
    void on_moved() override {} // a ResolvedAddress never calls it
    void on_connected() override;
    void on_bytes(std::string_view bytes) override;
    void on_lost(const Connection::Loss &loss) override;
    void on_dismissed() override;
    redis_client::ByteQueue &output() override { return query_.output(); }

    void ask();
    void ask_next(std::string_view what, std::string_view detail);
    void stop();

    Callbacks &callbacks_;
    const BackendConf &conf_;
    ServersInTurn servers_;
    bool is_fetching_ = false;
    redis_client::ClusterQuery query_;
    Connection connection_;
    ngx_event_t timer_{}; // expires when one node takes too long
};

} // namespace nginx_module
