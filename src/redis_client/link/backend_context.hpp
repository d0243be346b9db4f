// What the links of one backend in one worker have in common.
#pragma once

#include "redis_client/io/world.hpp"
#include "redis_client/link/backend_log.hpp"
#include "redis_client/link/backend_memory.hpp"
#include "redis_client/link/backend_settings.hpp"
#include "redis_client/session/session_group.hpp"

#include <chrono>

namespace redis_client {

/// It outlives the links.
struct BackendContext {
    BackendContext(const BackendSettings &the_settings, World &the_world, BackendLog &the_log)
        : settings(the_settings),
          world(the_world),
          log(the_log),
          group(
              the_settings.session, [&the_world](auto bytes) { the_world.random_bytes(bytes); },
              [&the_world] { return the_world.unix_now(); }),
          counters(the_settings.memory, the_world) {}

    std::chrono::milliseconds now() const { return world.now(); }
    uint32_t random() const { return static_cast<uint32_t>(world.random()); }

    const BackendSettings &settings;
    World &world;
    BackendLog &log;
    SessionGroup group;
    WorkerCounters counters;
};

} // namespace redis_client
