// Which master of a cluster serves which keys.
#pragma once

#include "endpoint.hpp"
#include "hash_slot.hpp"
#include "reply_tree.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace redis_client {

class ClusterMap {
  public:
    struct Master {
        Endpoint endpoint;   // an empty host: that of the node which was asked
        std::string address; // where the host is a name, and the node knows both; else empty
        HashSlotSet serves;
    };

    /// A cluster is made for so many nodes: see the specification that hash_slot.hpp names.
    static constexpr size_t most_masters = 1000;

    const std::vector<Master> &masters() const { return masters_; }

    /// Of the answer to CLUSTER SLOTS, https://redis.io/docs/latest/commands/cluster-slots. Nothing
    /// where it is none, where no node serves any hash slot, or where more masters do than there
    /// may be.
    static std::optional<ClusterMap> read(ReplyView slots);

  private:
    bool add(ReplyView range);

    std::vector<Master> masters_;
};

} // namespace redis_client
