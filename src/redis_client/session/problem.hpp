// What was wrong with a connection or with an answer of Redis, for logs.
#pragma once

#include "redis_client/session/check.hpp"

#include <array>
#include <string_view>

namespace redis_client {

/// Our words, and the first words of Redis if there are some. They are not escaped, and valid until
/// the next problem or the next connection.
struct Problem {
    std::string_view what;
    std::string_view redis_said;
    std::string_view checked; // what CheckCallbacks::describe() says, if keys are at fault
    bool is_of_keys = false;  // keys are at fault, not Redis
};

/// Keeps the last problem of a session.
class ProblemNote {
  public:
    ProblemNote() = default;
    ProblemNote(const ProblemNote &) = delete;
    ProblemNote &operator=(const ProblemNote &) = delete;

    const Problem &last() const { return last_; }
    void forget() { last_ = {}; }

    void note(std::string_view what, std::string_view redis_said = {});
    /// The keys of the check are at fault.
    void note_of_keys(const Command &check, std::string_view what,
                      std::string_view redis_said = {});
    /// Notes the checks of a batch that failed alone. `error` is what Redis said of the last one of
    /// them, if it said something.
    void note_failed_checks(const Command &first, std::string_view error);

  private:
    Problem last_;
    std::array<char, 512> redis_said_; // of last_, since the reader's memory holds one reply
    std::array<char, 512> checked_;    // of last_
};

} // namespace redis_client
