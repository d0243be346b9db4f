// The slot map of a cluster: which master serves which keys.
#pragma once

#include "redis_client/wire/endpoint.hpp"
#include "redis_client/wire/hash_slot.hpp"
#include "redis_client/wire/reply_tree.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace redis_client {

class ClusterMap {
  public:
    struct Master {
        Endpoint endpoint;   // an empty host stands for the host of the node that was asked
        std::string address; // if the host is a name and the node knows both; or else empty
        HashSlotSet serves;
    };

    /// A cluster is made for so many nodes: see the specification that redirect_error.hpp names.
    static constexpr size_t most_masters = 1000;

    const std::vector<Master> &masters() const { return masters_; }

    /// Reads the answer to CLUSTER SLOTS, https://redis.io/docs/latest/commands/cluster-slots.
    /// Returns nothing if it is no such answer, if no node serves any hash slot, or if there are
    /// more masters than there may be.
    static std::optional<ClusterMap> read(ReplyView slots);

  private:
    bool add(ReplyView range);

    std::vector<Master> masters_;
};

} // namespace redis_client
