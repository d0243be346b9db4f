// What operators have set, as Redis stores it: overrides, resets, and the rules that hosts have
// configured. All keys are below `<prefix>{live}:`, in one hash slot; see lua/live.lua.
#pragma once

#include "../rate_limit/live_limits.hpp"
#include "byte_queue.hpp"
#include "reply_tree.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace redis_client {

/// What a record is about: an override of a client, of a client at a rule or of a rule, or a reset
/// of a client (which has no rule).
struct LiveName {
    std::string_view zone;
    std::string_view encoded_key; // empty: for all clients
    std::string_view rule;        // empty: for all rules of the zone
    bool is_reset = false;
};

/// A record as lists and answers show it.
struct LiveOverride {
    rate_limit::Override what;
    std::chrono::microseconds updated_at{0};
    std::string by;   // who wrote it, as `address user`
    std::string note; // up to 128 bytes
};

/// The state of the store that a host knows.
struct LiveHead {
    std::string epoch; // of random digits; empty: nothing was ever written
    uint64_t version = 0;
    uint64_t floor = 0; // changes up to this version may be missing: what they say was purged
};

/// One change, as pages of changes list it. A tombstone removes an override.
struct LiveChange {
    LiveName name; // refers to the reply
    uint64_t version;
    bool is_tombstone;
    rate_limit::Override what;
};

} // namespace redis_client
