// The denials of Redis that all workers of this host know, see rate_limit/tables/deny_cache.hpp:
// looking them up, and remembering them.
#pragma once

#include "limiter/applied_rules.hpp"
#include "limiter/arena.hpp"
#include "limiter/worker.hpp"

#include <chrono>
#include <optional>
#include <span>

namespace limiter {

/// Returns the denial that is known of the rule, if it was asked for after the last reset of the
/// client. The charge must have its Redis key and its quota, and `now` is precise_now().
std::optional<rate_limit::Verdict> known_denial(const AppliedRule &applied,
                                                std::chrono::microseconds now);

/// Moves the rules that are known to deny to the front, gives them their verdicts and returns them.
/// If a rule has shards, two of them must be known to deny. The charges must have their Redis keys,
/// and `now` is precise_now(). `before` are the rules that were applied to the request before.
std::span<AppliedRule> find_denials(Worker &worker, Arena &arena, const AppliedRules &before,
                                    std::span<AppliedRule> rules, std::chrono::microseconds now);

/// Remembers those verdicts of a check's rules that are denials and may be cached. Times are of
/// precise_now().
void remember_denials(std::span<const AppliedRule> rules,
                      const rate_limit::DenyCache::CheckTimes &times);

} // namespace limiter
