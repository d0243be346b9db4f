// A session whose checks of one turn share a script run.
#pragma once

#include "session_test.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace redis_client {

class SessionBatchesTest : public SessionTest {
  protected:
    using Keys = std::vector<std::string>;

    static inline const WireWords log_arguments =
        check_arguments(quota_of(Algorithm::sliding_log), false);
    static inline const WireWords window_arguments =
        check_arguments(quota_of(Algorithm::fixed_window), false);

    /// Of a rule without variables.
    static Asked of_log(const std::string &key) {
        Asked one = asked(key);
        one.arguments = &log_arguments;
        return one;
    }

    static Asked of_window(const std::string &key) {
        return {.quota = quota_of(Algorithm::fixed_window),
                .redis_key = "rl:{z:" + key + "}:fixed_window:60000",
                .arguments = &window_arguments};
    }

    static WireCommand run_of_logs(const Keys &keys, bool in_full = false) {
        const Script &run = script_of_runs();
        WireCommand command = {in_full ? "EVAL" : "EVALSHA", in_full ? run.source : run.sha1,
                               std::to_string(keys.size())};
        for (const std::string &key : keys) {
            command.push_back("rl:{z:" + key + "}:sliding_log:60000");
        }
        command.insert(command.end(), {"100", "1", "60000000", "72501"});
        return command;
    }

    /// Of one check in a run of logs, before it becomes a part of the reply.
    static std::string with_left(int64_t remaining) {
        return packed({time_of_redis, remaining, 0, 0, 0});
    }

    static inline const std::string failed = std::string(size_t{5} * 8, '\xff');
    static inline const std::string wrong_type =
        "WRONGTYPE Operation against a key holding the wrong kind of value";

    Command *ask_log(Listener &listener, const std::string &key) {
        return ask_in_turn(listener, {of_log(key)});
    }

    /// On a connection that is ready: one run of three.
    void ask_three() {
        log_in();
        checks_ = {ask_log(a_, "a"), ask_log(b_, "b"), ask_log(c_, "c")};
    }

    std::array<Command *, 3> checks_{};
};

} // namespace redis_client
