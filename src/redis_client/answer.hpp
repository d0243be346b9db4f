// Redis's answer to a check: see lua/one_check.lua.
#pragma once

#include "check.hpp"

#include <span>
#include <string_view>

namespace redis_client {

/// How many bytes the answer for these charges has.
size_t answer_size(std::span<const Charge> charges);

/// Whether a check of a run failed: see lua/batch_of_checks.lua.
bool is_failure(std::string_view answer);

enum class AnswerState {
    good,
    impossible, // no state of ours leads to such numbers: somebody else wrote a key
    foreign,    // none of our scripts answers so
};

/// Reads an answer of that size into the charges: what each says, and whether it was made. None was
/// made if the answer is not good.
AnswerState read_answer(std::string_view answer, std::span<Charge> charges);

/// Whether an error is about the keys of its check and says nothing of Redis: a key holds another
/// type, or the script failed on what it holds. Lua words the latter `user_script:12: attempt
/// to...`.
bool is_error_of_keys(std::string_view error);

} // namespace redis_client
