// What tells a rule's counter in Redis, and what is asked of it, from all others on this host.
#pragma once

#include "limiter/applied_rule.hpp"
#include "rate_limit/text/text_writer.hpp"

#include <array>
#include <cstring>

namespace limiter {

/// Returns a hash of where the counter is, of its limit and its `block`, and of one number more:
/// what it was asked for. The charge must have its Redis key and its quota.
inline rate_limit::Hash identity_of(const AppliedRule &applied, uint64_t asked_for) {
    const Zone &zone = *applied.rule->zone;
    const redis_client::Charge &charge = *applied.charge;
    const std::array<uint64_t, 5> numbers = {
        zone.backend->identity, charge.quota.limit, charge.quota.capacity(),
        static_cast<uint64_t>(charge.block.count()), asked_for};
    std::array<char, sizeof(rate_limit::RedisKeyBuffer) + sizeof(numbers)> bytes;
    char *end = rate_limit::append(bytes.data(), charge.redis_key);
    std::memcpy(end, numbers.data(), sizeof(numbers));
    return rate_limit::hash_of(zone.memory.seed(),
                               {bytes.data(), charge.redis_key.size() + sizeof(numbers)});
}

} // namespace limiter
