// What the nodes of a simulated cluster know of who serves which hash slots, and how they answer by
// that. A node may hear late of what has changed.
#pragma once

#include "redis_client/wire/hash_slot.hpp"
#include "simulation/network.hpp"
#include "simulation/redis/simulated_redis.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace simulation {

class ClusterNodes final : public SimulatedRedis::Cluster {
  public:
    /// A master that serves hash slots, and the replica that may take its place.
    struct Shard {
        SimulatedRedis *master;
        SimulatedRedis *replica;
    };
    /// A hash slot whose keys go from one node to another.
    struct Move {
        SimulatedRedis *from;
        SimulatedRedis *to;
    };
    /// How the nodes speak.
    struct Manner {
        bool asks_for_any_missing_key = false; // as Redis 7.0 does; later ones say TRYAGAIN
        bool hides_hosts = false; // a node is named without its host, which is that of all
    };
    static constexpr uint8_t nobody = 255;

    ClusterNodes(Network &network, Manner manner)
        : network_(network), counts_(network.counts), manner_(manner) {}

    /// Adds a shard, and gives all hash slots in equal parts to those that there are. All nodes
    /// know it.
    void add(const Shard &shard);
    std::vector<Shard> &shards() { return shards_; }
    SimulatedRedis &master_of(uint16_t hash_slot) const {
        return *shards_[owners_[hash_slot]].master;
    }
    void give(uint16_t hash_slot, uint8_t shard) {
        owners_[hash_slot] = shard;
        ++moved_[hash_slot];
    }

    /// The node hears of all that has changed.
    void inform(const SimulatedRedis &node);
    /// The node believes that this shard serves the hash slot, or nobody.
    void mislead(const SimulatedRedis &node, uint16_t hash_slot, uint8_t shard);

    std::map<uint16_t, Move> moves;

    std::optional<std::string> refuse(SimulatedRedis &node, Server::Peer &peer,
                                      Words keys) override;
    std::string slots(const SimulatedRedis &node) override;

  private:
    using Owners = std::array<uint8_t, redis_client::hash_slots>;
    struct View {
        const SimulatedRedis *of;
        Owners owners;
        std::vector<const SimulatedRedis *> masters; // of the shards
    };

    View &view_of(const SimulatedRedis &node);
    void judge_redirect(Server::Peer &peer, uint16_t hash_slot, const SimulatedRedis &to);
    std::string redirect(const char *kind, uint16_t hash_slot, const SimulatedRedis &to) const;
    std::string named(const SimulatedRedis &node) const;

    Network &network_;
    FaultCounts &counts_;
    Manner manner_;
    std::vector<Shard> shards_;
    Owners owners_{};
    std::vector<View> views_;
    std::map<uint16_t, uint64_t> moved_; // how often
};

} // namespace simulation
