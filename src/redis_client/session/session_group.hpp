// What the sessions of one backend in one worker have in common: their settings, their scripts, and
// the commands and permits that move from one to another with the keys of a cluster.
#pragma once

#include "redis_client/io/unix_clock.hpp"
#include "redis_client/object_pool.hpp"
#include "redis_client/script/script.hpp"
#include "redis_client/session/breaker.hpp"
#include "redis_client/session/check.hpp"
#include "redis_client/session/permits.hpp"
#include "redis_client/session/settlement.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace redis_client {

struct SessionSettings {
    std::string username; // empty: AUTH with the password alone
    std::string password; // empty: no AUTH
    uint64_t database = 0;
    bool needs_master = false;       // a replica is of no use
    std::vector<ScriptShape> shapes; // of most checks; their scripts are loaded at login
    std::vector<ScriptShape>
        rare_shapes; // of other checks; their scripts are loaded when they are needed
    std::chrono::milliseconds timeout{100}; // of one check, from asking to its verdict
    // Algorithms of which requests settle their cost, or leases give units back; their scripts are
    // loaded at login.
    std::vector<rate_limit::Algorithm> settled;
    // The most checks that all sessions may have at once, and the most settlements.
    size_t max_pending = 16384;
    Breaker::Settings breaker; // of each session
};

/// The group outlives its sessions.
struct SessionGroup {
    SessionGroup(SessionSettings a_settings, RandomBytes a_random_bytes, UnixClock a_unix_clock)
        : SessionGroup(std::move(a_settings), ScriptLibrary(), std::move(a_random_bytes),
                       std::move(a_unix_clock)) {}
    /// Of the settings' shapes, only the scripts are made that these do not have.
    SessionGroup(SessionSettings a_settings, ScriptLibrary a_scripts, RandomBytes a_random_bytes,
                 UnixClock a_unix_clock)
        : settings(std::move(a_settings)),
          random_bytes(std::move(a_random_bytes)),
          unix_clock(std::move(a_unix_clock)),
          scripts(std::move(a_scripts)) {
        std::ranges::for_each(settings.shapes, [&](const auto &shape) { scripts.add(shape); });
        std::ranges::for_each(settings.rare_shapes, [&](const auto &shape) { scripts.add(shape); });
    }
    SessionGroup(const SessionGroup &) = delete;
    SessionGroup &operator=(const SessionGroup &) = delete;

    const SessionSettings settings;
    const RandomBytes random_bytes; // for the names of permits
    const UnixClock unix_clock;     // for the windows of calendars
    ScriptLibrary scripts;
    ObjectPool<Command> commands;
    size_t background_commands = 0; // how many of the commands are such
    ObjectPool<Permit> permits;
    ObjectPool<Settlement> settlements;
    uint64_t renewals = 0; // the number of the last one
    size_t leases = 0;     // how many leases are held that their owner may give back
};

} // namespace redis_client
