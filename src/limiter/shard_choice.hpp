// Which shard of a rule a request asks, and what the check then asks of Redis: the Redis key, and
// the numbers. A rule without shards has one.
#pragma once

#include "limiter/applied_rules.hpp"
#include "limiter/arena.hpp"
#include "limiter/worker.hpp"

#include <span>

namespace limiter {

/// Gives the charges of the rules their Redis keys and quotas: those of the rule, or of one of its
/// shards. If the request has already charged the counter by another rule, it is the shard of that
/// rule; if not, it is one at random. Returns false if memory ran out.
bool choose_shards(Worker &worker, Arena &arena, const AppliedRules &before,
                   std::span<AppliedRule> rules);

/// Gives the charge another shard at random, because the one that it has is known to deny. Returns
/// false if there is no other one, or if memory ran out.
bool choose_other_shard(Worker &worker, Arena &arena, const AppliedRules &before,
                        AppliedRule &applied);

/// Gives the charge the arguments of its script. Returns false if memory ran out.
bool set_arguments(Arena &arena, const AppliedRule &applied);

/// Turns the verdict of a shard into a verdict of the whole rule, as headers show it.
void scale_to_rule(const AppliedRule &applied);

} // namespace limiter
