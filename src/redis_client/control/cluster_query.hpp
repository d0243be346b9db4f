// Asks one node of a cluster for the slot map.
#pragma once

#include "redis_client/control/cluster_map.hpp"
#include "redis_client/control/query.hpp"

#include <string>
#include <string_view>

namespace redis_client {

class ClusterQuery final : public Query {
  public:
    ClusterQuery(std::string username, std::string password);

    /// The connection is of no more use after the answer.
    Progress received(std::string_view bytes) { return read(bytes); }

    const ClusterMap &map() const { return map_; }

  private:
    void ask(ByteQueue &output) override;
    Progress take(ReplyView reply) override;

    ClusterMap map_;
};

} // namespace redis_client
