#include "parse.hpp"

#include <charconv>

namespace rate_limit {

std::optional<uint64_t> parse_whole_number(std::string_view text, uint64_t largest) {
    uint64_t number = 0;
    const char *end = text.data() + text.size();
    const auto [stopped_at, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{} || stopped_at != end || number > largest) {
        return std::nullopt;
    }
    return number;
}

} // namespace rate_limit
