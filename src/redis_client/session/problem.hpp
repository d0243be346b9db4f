// What was wrong with a connection or with an answer of Redis, for logs.
#pragma once

#include "redis_client/io/unix_clock.hpp"
#include "redis_client/session/check.hpp"

#include <array>
#include <chrono>
#include <string_view>

namespace redis_client {

/// Our words, and the first words of Redis if there are some. They are not escaped, and valid until
/// the next problem or the next connection.
struct Problem {
    /// Redis itself, the keys of a check, or the clock of this host or of Redis, which differ.
    enum class Cause { redis, keys, clocks };

    std::string_view what;
    std::string_view redis_said;
    std::string_view checked; // what CheckCallbacks::describe() says, if Redis is not at fault
    Cause cause = Cause::redis;
};

/// Keeps the last problem of a session.
class ProblemNote {
  public:
    explicit ProblemNote(const UnixClock &clock) : clock_(clock) {}
    ProblemNote(const ProblemNote &) = delete;
    ProblemNote &operator=(const ProblemNote &) = delete;

    const Problem &last() const { return last_; }
    void forget() { last_ = {}; }

    void note(std::string_view what, std::string_view redis_said = {});
    /// The keys of the check are at fault.
    void note_of_keys(const Command &check, std::string_view what,
                      std::string_view redis_said = {});
    /// Redis has answered a check or another command with an error. `what` is told of it, unless
    /// the error says more.
    void note_error(const Command &command, std::string_view what, std::string_view error);
    /// Notes the checks of a batch that failed alone. `error` is what Redis said of the last one of
    /// them, if it said something.
    void note_failed_checks(const Command &first, std::string_view error);

  private:
    void note_of_clocks(const Command &check, std::chrono::microseconds redis_time);

    const UnixClock &clock_; // of this host
    Problem last_;
    std::array<char, 512> redis_said_; // of last_, since the reader's memory holds one reply
    std::array<char, 512> checked_;    // of last_
};

} // namespace redis_client
