// Reads the answer of Redis to a check, as lua/one_check.lua writes it.
#pragma once

#include "redis_client/script/script.hpp"
#include "redis_client/session/check.hpp"

#include <chrono>
#include <optional>
#include <span>
#include <string_view>

namespace redis_client {

/// Returns how many bytes the answer for these charges has.
size_t answer_size(std::span<const Charge> charges);

/// Whether the answer says that a check of a batch failed: see lua/batch_of_checks.lua.
bool is_failure(std::string_view answer);

enum class AnswerState {
    good,
    impossible, // no state of ours leads to such numbers, so somebody else wrote a key
    foreign,    // none of our scripts gives such an answer
};

/// Reads an answer of that size into the charges: the verdict of each, and whether it was made. If
/// the answer is not good, none was made.
AnswerState read_answer(std::string_view answer, std::span<Charge> charges);

/// Reads the answer of peek_script(). Returns nothing if it is none.
std::optional<rate_limit::Verdict> read_peek_answer(std::string_view answer,
                                                    const rate_limit::Quota &quota, Blocks blocks);

/// Returns the time of Redis if an error says that it is in none of the windows of a calendar that
/// the check knew: see lua/fixed_window.lua.
std::optional<std::chrono::microseconds> time_without_window(std::string_view error);

/// Whether an error says that a node of a cluster does not serve the hash slot of a key, or not all
/// of it while it moves. The node may well serve others.
bool is_error_of_hash_slot(std::string_view error);

/// Whether an error says that the Redis is a replica, which takes no writes. Redis 6 hides the word
/// behind "ERR Error running script".
bool is_error_of_replica(std::string_view error);

/// Whether an error may be about nothing but writes. A check that writes nothing gets its verdict
/// meanwhile.
bool is_error_of_writes(std::string_view error);

/// Whether an error is about the keys of its check and says nothing of Redis: a key holds another
/// type, or the script failed on what a key holds. Lua says `user_script:12: attempt to...` then.
bool is_error_of_keys(std::string_view error);

} // namespace redis_client
