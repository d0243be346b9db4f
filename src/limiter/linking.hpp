// What follows for a rule from the other rules of its configuration, and which scripts their checks
// will run.
#pragma once

#include "limiter/configuration.hpp"
#include "redis_client/session/session_group.hpp"

#include <functional>
#include <span>

namespace limiter {

/// Returns the settings of the sessions that ask for a rule.
using SessionOf = std::function<redis_client::SessionSettings &(const Rule &)>;

/// Sets what the rules have to know of each other, and adds their scripts to the settings of the
/// sessions. The rules are complete, and `levels` are all that requests may come to.
void link_rules(std::span<Rule *const> rules, std::span<const Level> levels,
                const SessionOf &session_of);

} // namespace limiter
