#include "fallback.hpp"

#include "../rate_limit/local.hpp"
#include "util.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

namespace nginx_module {

namespace {

using rate_limit::Algorithm;
using rate_limit::Record;

bool is_local(const Applied &applied) {
    return applied.rule->zone->on_error == OnError::local;
}

/// Of the counter, whatever its limit; this host spreads none over shards.
rate_limit::Hash hash_of(const Applied &applied) {
    rate_limit::RedisKeyBuffer buffer;
    const RuleConf &rule = *applied.rule;
    return rate_limit::hash_of(rule.zone->memory.seed(),
                               rule.rule.shards > 1 ? rule.key_format->write(applied.key, buffer)
                                                    : applied.charge->redis_key);
}

void store_local(const ZoneMemory &memory, const rate_limit::Hash &hash, const Record &record) {
    if (!memory.local_table().store(hash, record)) {
        memory.count_eviction();
    }
}

/// A rule's zone, while nobody else changes it.
class ZoneLock {
  public:
    explicit ZoneLock(const Applied &applied)
        : memory_(applied.rule->zone->memory), hash_(hash_of(applied)) {
        memory_.lock();
    }
    ~ZoneLock() { memory_.unlock(); }
    ZoneLock(const ZoneLock &) = delete;
    ZoneLock &operator=(const ZoneLock &) = delete;

    std::optional<Record> find(std::chrono::microseconds now) const {
        return memory_.local_table().find(hash_, now);
    }
    void store(const std::optional<Record> &record) const {
        if (record) {
            store_local(memory_, hash_, *record);
        }
    }

  private:
    const ZoneMemory &memory_;
    rate_limit::Hash hash_;
};

/// The zones of all rules, locked in an order that all workers keep, those from before a reload
/// too.
class ZoneLocks {
  public:
    explicit ZoneLocks(std::span<Applied *const> rules) {
        for (const Applied *applied : rules) {
            zones_[count_++] = &applied->rule->zone->memory;
        }
        const auto zones = std::span(zones_).first(count_);
        std::ranges::sort(zones, std::less<>(), &ZoneMemory::lock_order);
        count_ = static_cast<size_t>(std::unique(zones.begin(), zones.end()) - zones.begin());
        for (const ZoneMemory *zone : std::span(zones_).first(count_)) {
            zone->lock();
        }
    }
    ~ZoneLocks() {
        for (const ZoneMemory *zone : std::span(zones_).first(count_)) {
            zone->unlock();
        }
    }
    ZoneLocks(const ZoneLocks &) = delete;
    ZoneLocks &operator=(const ZoneLocks &) = delete;

  private:
    std::array<const ZoneMemory *, redis_client::most_rules> zones_{};
    size_t count_ = 0;
};

/// A rule that this host decides.
struct LocalRule {
    Applied *applied;
    rate_limit::Hash hash;
    std::optional<Record> known;
    std::optional<Record> after;
};

rate_limit::Now time_now() {
    return {.monotonic = precise_now(),
            .unix_time = std::chrono::duration_cast<std::chrono::microseconds>(
                std::chrono::system_clock::now().time_since_epoch())};
}

LocalRule decide(Applied &applied, const rate_limit::Now &now) {
    const RuleConf &rule = *applied.rule;
    redis_client::Charge &charge = *applied.charge;
    LocalRule local{.applied = &applied, .hash = hash_of(applied), .known = {}, .after = {}};
    local.known = rule.zone->memory.local_table().find(local.hash, now.monotonic);
    charge.quota = rate_limit::scaled(applied.quota, rule.zone->local_limit_percent);
    const auto decision =
        rate_limit::decide_locally(local.known, charge.quota, rule.rule.aligned, now);
    charge.verdict = decision.verdict;
    local.after = decision.after;
    applied.result = Applied::Result::verdict;
    applied.source = Applied::Source::local;
    return local;
}

void charge(const LocalRule &local, const rate_limit::Now &now) {
    store_local(local.applied->rule->zone->memory, local.hash, *local.after);
    local.applied->is_charged = true;
    if (local.applied->charge->quota.algorithm == Algorithm::concurrency) {
        local.applied->local_slots_since = now.monotonic;
    }
}

/// Another rule denies: the verdict is as if nothing had been asked for.
void leave_uncharged(const LocalRule &local, const rate_limit::Now &now) {
    rate_limit::Quota nothing = local.applied->charge->quota;
    nothing.cost = 0;
    local.applied->charge->verdict =
        rate_limit::decide_locally(local.known, nothing, local.applied->rule->rule.aligned, now)
            .verdict;
}

/// A quota of which so little is taken that it is not worth the while to keep it.
bool is_hardly_touched(const redis_client::Charge &charge) {
    constexpr uint64_t hardly = 64;
    const uint64_t capacity = charge.quota.capacity();
    return (capacity - std::min(charge.verdict.remaining, capacity)) * hardly < capacity;
}

/// A bucket whose charge was given back: its verdict does not tell when it is full.
bool is_refunded(const redis_client::Charge &charge) {
    return rate_limit::is_bucket(charge.quota.algorithm) && !charge.is_charged &&
           charge.quota.cost > 0 && charge.verdict.decision == rate_limit::Decision::granted;
}

void note(Applied &applied, std::chrono::microseconds asked) {
    const redis_client::Charge &charge = *applied.charge;
    rate_limit::Quota quota = charge.quota;
    if (!charge.is_charged) {
        quota.cost = 0;
    }
    const ZoneLock zone(applied);
    const auto after = rate_limit::record_verdict(zone.find(asked), quota, charge.verdict,
                                                  applied.rule->zone->local_limit_percent, asked);
    zone.store(after);
    if (after && quota.algorithm == Algorithm::concurrency && quota.cost > 0) {
        applied.local_slots_since = asked;
    }
}

} // namespace

void decide_on_this_host(std::span<Applied> rules) {
    std::array<Applied *, redis_client::most_rules> undecided{};
    size_t count = 0;
    bool is_denied = false;
    for (Applied &applied : rules) {
        if (applied.result == Applied::Result::no_verdict && is_local(applied)) {
            undecided[count++] = &applied;
        } else if (applied.rejects()) {
            is_denied = true;
        }
    }
    if (count == 0) {
        return;
    }
    const ZoneLocks locks{std::span(undecided).first(count)};
    const rate_limit::Now now = time_now();
    std::array<LocalRule, redis_client::most_rules> local{};
    for (size_t i = 0; i < count; ++i) {
        local[i] = decide(*undecided[i], now);
        is_denied = is_denied || undecided[i]->rejects();
    }
    for (const LocalRule &rule : std::span(local).first(count)) {
        if (rule.after && is_denied) {
            leave_uncharged(rule, now);
        } else if (rule.after) {
            charge(rule, now);
        }
    }
}

void note_verdicts(std::span<Applied> rules, std::chrono::microseconds asked) {
    for (Applied &applied : rules) {
        if (applied.source == Applied::Source::redis && applied.verdict() != nullptr &&
            is_local(applied) && !is_hardly_touched(*applied.charge) &&
            !is_refunded(*applied.charge)) {
            note(applied, asked);
        }
    }
}

void release_slots_of_this_host(const Applied *rules) {
    for (const Applied *applied = rules; applied != nullptr; applied = applied->next) {
        if (applied->local_slots_since.count() > 0) {
            const ZoneLock zone(*applied);
            const auto now = precise_now();
            zone.store(rate_limit::release_permits(zone.find(now), applied->charge->quota,
                                                   applied->local_slots_since, now));
        }
    }
}

} // namespace nginx_module
