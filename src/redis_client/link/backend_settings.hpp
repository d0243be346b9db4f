// The settings of a backend: a Redis and how to talk to it.
#pragma once

#include "rate_limit/enum_table.hpp"
#include "redis_client/control/live_store.hpp"
#include "redis_client/control/sentinel.hpp"
#include "redis_client/io/address.hpp"
#include "redis_client/link/backend_memory.hpp"
#include "redis_client/session/session_group.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace redis_client {

/// Which servers make up a Redis: one server, a master that Sentinels name, or a cluster.
enum class Mode : uint8_t { standalone, sentinel, cluster };

/// What differs between the modes, but for how a server is found.
struct ModeTraits {
    Mode mode;
    std::string_view name; // in configurations and metrics
    uint16_t port = 6379;  // of a server that is given without one
    bool has_one_server = false;
    bool asks_for_master = false; // its servers name the master: a replica is of no use
    bool has_hash_slots = false;  // each of its keys is on the node that has the key's hash slot
};

inline constexpr std::array mode_table = {
    ModeTraits{.mode = Mode::standalone, .name = "standalone", .has_one_server = true},
    ModeTraits{.mode = Mode::sentinel, .name = "sentinel", .port = 26379, .asks_for_master = true},
    ModeTraits{.mode = Mode::cluster, .name = "cluster", .has_hash_slots = true},
};
static_assert(rate_limit::is_in_order(mode_table, &ModeTraits::mode));

constexpr const ModeTraits &traits_of(Mode mode) {
    return mode_table[static_cast<size_t>(mode)];
}

struct BackendSettings {
    /// `an_index` is its place among the configuration's backends.
    BackendSettings(size_t an_index, std::string a_name)
        : index(an_index), name(std::move(a_name)) {}

    size_t index; // a worker finds its running backend by this
    std::string name;
    Mode mode = Mode::standalone;
    std::vector<ServerAddress> servers; // one Redis, the Sentinels, or some nodes of the cluster
    bool has_resolver = false;          // their names are looked up while the worker runs
    SentinelSettings sentinel;
    SessionSettings session;
    std::string prefix = "rl:";
    std::chrono::milliseconds connect_timeout{250};
    uint64_t identity = 0;               // a hash that no other Redis has
    std::optional<LiveStore> live_store; // a zone's backend has one
    const ModeTraits &traits() const { return traits_of(mode); }
    bool is_used() const { return !session.shapes.empty(); } // a rule uses it
    BackendMemory memory;
};

} // namespace redis_client
