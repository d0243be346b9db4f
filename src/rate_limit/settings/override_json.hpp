// The JSON by which an operator sets an override, such as
// `{"limit": 1000, "burst": 50, "expires_in": 3600, "note": "ticket 4711"}`.
#pragma once

#include "rate_limit/tables/live_limits.hpp"

#include <chrono>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

namespace rate_limit {

inline constexpr std::chrono::seconds longest_override = std::chrono::hours{24 * 366};
inline constexpr size_t longest_note = 128; // bytes

struct OverrideDraft {
    Override what; // without expires_at, which Redis's clock decides
    std::optional<std::chrono::seconds> expires_in;
    std::string_view note; // of valid UTF-8
};

/// What is wrong with the text.
struct OverrideError {
    std::string_view member; // any bytes; empty if no member is to blame
    std::string_view expected;
};

/// Whom an override is for. That of a rule takes neither `ban` nor `exempt`.
enum class OverrideOf { client, rule };

/// Reads the text, which is overwritten, and which the result refers to. The byte behind its end
/// must be there, too. A member that is null, or a `ban` or `exempt` that is false, counts as
/// missing.
std::variant<OverrideDraft, OverrideError> parse_override(std::span<char> text, OverrideOf of);

} // namespace rate_limit
