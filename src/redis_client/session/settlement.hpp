// One settlement: what is to be charged or given back after a check, mostly because its request
// turned out to cost something else.
#pragma once

#include "rate_limit/algorithms/algorithm_family.hpp"
#include "rate_limit/metrics/rule_counters.hpp"
#include "rate_limit/text/key.hpp"
#include "redis_client/intrusive_list.hpp"
#include "redis_client/object_pool.hpp"
#include "redis_client/script/script.hpp"
#include "redis_client/wire/resp.hpp"

#include <cstdint>
#include <string_view>

namespace redis_client {

struct Settlement : Pooled<Settlement> {
    SettlementKind kind = SettlementKind::debt;
    rate_limit::Algorithm algorithm = rate_limit::Algorithm::fixed_window;
    uint16_t hash_slot = 0;
    std::string_view redis_key; // in redis_key_bytes
    WireWords arguments;
    // Some keys of its hash slot are on another node of the cluster: it is to have no second key.
    bool is_on_one_key = false;
    const rate_limit::Calendar *calendar = nullptr; // if one says the windows; it outlives this
    rate_limit::RuleCounters *counters = nullptr;   // of the rule; null: its end is not counted
    uint64_t leased_units = 0; // it gives back so many units of a lease; 0: it is of no lease
    ListHook<Settlement> hook; // of those that wait, or of those in one command

    bool keeps_past() const {
        return kind == SettlementKind::refund && rate_limit::traits_of(algorithm).family.keeps_past;
    }

    rate_limit::RedisKeyBuffer redis_key_bytes;
};

using SettlementList = IntrusiveList<Settlement, &Settlement::hook>;

} // namespace redis_client
