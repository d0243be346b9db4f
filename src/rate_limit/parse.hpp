// Numbers that users and upstream data write as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace rate_limit {

/// A whole decimal number, digits only, from 0 to `largest`; anything else is nothing: signs,
/// spaces, `0x10`, `1e3`, the empty text, numbers beyond 64 bits.
std::optional<uint64_t> parse_whole_number(std::string_view text, uint64_t largest);

} // namespace rate_limit
