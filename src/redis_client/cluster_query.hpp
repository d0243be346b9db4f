// One node of a cluster is asked for the map.
#pragma once

#include "cluster_map.hpp"
#include "query.hpp"

#include <string>
#include <string_view>

namespace redis_client {

class ClusterQuery final : public Query {
  public:
    ClusterQuery(std::string username, std::string password);

    /// With the answer the connection has served.
    Progress received(std::string_view bytes) { return read(bytes); }

    const ClusterMap &map() const { return map_; }

  private:
    void ask(ByteQueue &output) override;
    Progress take(ReplyView reply) override;

    ClusterMap map_;
};

} // namespace redis_client
