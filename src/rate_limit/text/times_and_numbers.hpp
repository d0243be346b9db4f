// Numbers, times and sizes read from text.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rate_limit {

/// Reads a whole decimal number from 0 to `largest`, of digits only. Returns nothing for any other
/// text: signs, spaces, `0x10`, `1e3`, the empty text, numbers beyond 64 bits.
std::optional<uint64_t> parse_whole_number(std::string_view text, uint64_t largest);

/// Reads a whole decimal number of any length, of digits only, but no more than `largest`.
std::optional<uint64_t> parse_saturated_number(std::string_view text, uint64_t largest);

/// Reads a time as nginx's directives write it, such as `1m30s` or `500ms`; without a unit it is in
/// seconds. It is negative if the text is none. As nginx's ngx_parse_time() does, it takes the
/// units in descending order, from weeks down, and spaces behind each.
std::chrono::milliseconds parse_time(std::string_view text);

/// Reads a size in bytes as nginx's directives write it, such as `512k` or `10m`.
std::optional<size_t> parse_size(std::string_view text);

} // namespace rate_limit
