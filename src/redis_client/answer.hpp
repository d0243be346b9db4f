// Redis's answer to a check: see lua/frame.lua.
#pragma once

#include "check.hpp"

#include <span>
#include <string_view>

namespace redis_client {

/// How many bytes the answer for these charges has.
size_t answer_size(std::span<const Charge> charges);

/// Whether a check of a run failed: see lua/run.lua.
bool is_failure(std::string_view answer);

/// Reads an answer of that size into the charges: what each says, and whether it was made. False
/// where it is none of our scripts'; then none was made.
bool read_answer(std::string_view answer, std::span<Charge> charges);

} // namespace redis_client
