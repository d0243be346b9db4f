// What the families of algorithms share.
#pragma once

#include "rate_limit/algorithms/algorithm_family.hpp"
#include "rate_limit/wide.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace rate_limit {

using Values = decltype(Record::values);

inline uint64_t word_of(std::chrono::microseconds time) {
    return static_cast<uint64_t>(time.count());
}
inline std::chrono::microseconds time_of(uint64_t word) {
    return std::chrono::microseconds(static_cast<int64_t>(word));
}

/// Some scripts reply with what a charge would leave of the limit, whether it was made or not.
inline uint64_t remaining_of(const Quota &quota, int64_t left, bool charged) {
    const uint64_t not_taken = quota.to_keep_free() + (charged ? 0 : quota.to_charge());
    const int64_t units = left + static_cast<int64_t>(not_taken);
    return static_cast<uint64_t>(std::max<int64_t>(units, 0));
}

/// Whether a charge can leave so much of the limit.
inline bool can_be_left(const Quota &quota, int64_t left) {
    return left <= static_cast<int64_t>(quota.limit) - static_cast<int64_t>(quota.to_charge());
}

/// Some scripts reply with n where they grant, and with -1 - n where they deny.
inline int64_t without_decision(int64_t number) {
    return number < 0 ? -1 - number : number;
}

/// The first arguments of a script that compares a count of units with the limit.
inline ScriptArguments limit_cost_and_window(const Quota &quota) {
    return {quota.limit - std::min(quota.limit, quota.to_keep_free()), quota.to_charge(),
            word_of(quota.window)};
}

/// The arguments of a refund that needs nothing but the units.
inline ScriptArguments cost_alone(const Quota &quota) {
    return {quota.to_charge()};
}

/// The arguments of a refund that depends on when the units were charged.
inline ScriptArguments cost_and_window(const Quota &quota) {
    return {quota.to_charge(), word_of(quota.window)};
}

/// What a refund of a window's units refers to: the moment of their charge, so that no counter that
/// began later takes it for its own. Where the clock of Redis stepped back before the window, it is
/// the window's last moment.
inline int64_t moment_of_charge(const Quota &quota, int64_t now, int64_t left_of_window) {
    const bool is_before = left_of_window > std::chrono::microseconds(quota.window).count();
    return is_before ? now + left_of_window - 1 : now;
}

inline ScriptArguments no_arguments(const Quota & /*quota*/) {
    return {};
}

/// Makes a local decision of the numbers that the script would have replied with. `values` are to
/// be kept if the rule grants and takes something.
LocalDecision decision_of_reply(const Quota &quota, RuleReply reply, std::chrono::microseconds now,
                                const Values &values);

} // namespace rate_limit
