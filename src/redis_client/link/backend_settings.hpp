// The settings of a backend: a Redis and how to talk to it.
#pragma once

#include "redis_client/control/live_store.hpp"
#include "redis_client/control/sentinel.hpp"
#include "redis_client/io/address.hpp"
#include "redis_client/link/backend_memory.hpp"
#include "redis_client/session/session_group.hpp"

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
/// The modes as configurations and metrics name them, in the order of Mode.
inline constexpr std::string_view mode_names[] = {"standalone", "sentinel", "cluster"};

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
    uint64_t identity = 0;                                   // a hash that no other Redis has
    std::optional<LiveStore> live_store;                     // a zone's backend has one
    bool is_used() const { return !session.shapes.empty(); } // a rule uses it
    BackendMemory memory;
};

} // namespace redis_client
