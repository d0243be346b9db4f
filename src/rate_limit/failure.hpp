// Why a check got no verdict.
#pragma once

#include <cstddef>
#include <string_view>

namespace rate_limit {

enum class Failure {
    timeout,  // not within the check's deadline
    connect,  // no connection, or it broke while the check was on its way
    reply,    // Redis answered with an error
    breaker,  // it was not asked: too many checks in a row had failed
    overload, // too many checks wait already, or no memory
};
inline constexpr size_t failure_count = 5;

/// As metrics name it.
constexpr std::string_view to_string(Failure failure) {
    constexpr std::string_view names[] = {"timeout", "connect", "reply", "breaker", "overload"};
    return names[static_cast<size_t>(failure)];
}

} // namespace rate_limit
