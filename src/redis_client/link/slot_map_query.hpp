// Asks the nodes of a cluster in turn for the slot map, over a connection that is closed when the
// map has come.
#pragma once

#include "redis_client/control/cluster_map.hpp"
#include "redis_client/link/control_link.hpp"
#include "redis_client/link/servers_in_turn.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace redis_client {

class SlotMapQuery final : ControlCommand {
  public:
    class Callbacks {
      public:
        /// The map has come from the node `host`.
        virtual void on_map(const ClusterMap &map, std::string_view host) = 0;
        /// No node has sent a map.
        virtual void on_no_map(const Fault &fault) = 0;

      protected:
        ~Callbacks() = default;
    };

    SlotMapQuery(Callbacks &callbacks, BackendContext &context);
    SlotMapQuery(const SlotMapQuery &) = delete;
    SlotMapQuery &operator=(const SlotMapQuery &) = delete;

    /// Fetches the map, and calls on_map() or on_no_map() later. Each fetch begins with another
    /// node, because one may know less than the others.
    void fetch();
    bool is_fetching() const { return is_fetching_; }

    /// Sets the nodes that may be asked beside the configured servers.
    void set_nodes(const std::vector<ServerAddress> &nodes) { servers_->set_others(nodes); }

    /// Returns the node that is asked, for logs.
    std::string_view text() const { return servers_->text(); }

  private:
    bool write(ByteQueue &out) const override;
    void on_reply(ReplyView reply) override;
    void on_failure(bool was_sent, const Fault &fault) override;

    void ask();
    void end(std::string_view problem);
    void on_timer();

    Callbacks &callbacks_;
    BackendContext &context_;
    ServersInTurn *servers_ = nullptr; // belongs to the link
    ControlLink link_;
    bool is_fetching_ = false;
    std::optional<ClusterMap> map_;
    std::string host_;             // of the node that has sent the map
    std::string problem_;          // why the last node has sent no map
    bool is_refused_ = false;      // it has refused the user
    bool all_refuse_ = false;      // as all nodes before it, since the fetch began
    std::unique_ptr<Timer> timer_; // expires when a node is done, or takes too long
};

} // namespace redis_client
