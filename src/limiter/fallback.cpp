#include "limiter/fallback.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

namespace limiter {

namespace {

using rate_limit::Record;

bool is_local(const AppliedRule &applied) {
    return applied.rule->zone->on_error == rate_limit::OnError::local;
}

/// Returns a hash of the rule's counter, whatever its limit is. This host does not use shards.
rate_limit::Hash hash_of_counter(const AppliedRule &applied) {
    rate_limit::RedisKeyBuffer buffer;
    const Rule &rule = *applied.rule;
    return rate_limit::hash_of(rule.zone->memory.seed(),
                               rule.rule.shards > 1 ? rule.key_format->write(applied.key, buffer)
                                                    : applied.charge->redis_key);
}

void store_local(const ZoneMemory &memory, const rate_limit::Hash &hash, const Record &record) {
    if (!memory.local_table().store(hash, record)) {
        memory.count_eviction();
    }
}

/// Returns what is known of the rule's counter, if that is not from before its client was reset.
std::optional<Record> find_local(const AppliedRule &applied, const rate_limit::Hash &hash,
                                 std::chrono::microseconds now) {
    const ZoneMemory &memory = applied.rule->zone->memory;
    const auto known = memory.local_table().find(hash, now);
    const bool is_reset =
        known && memory.live_limits().was_reset_since(applied.encoded_key(), known->time);
    return is_reset ? std::nullopt : known;
}

/// Holds the lock of a rule's zone, and reads and writes the record of the rule's counter.
class ZoneLock {
  public:
    explicit ZoneLock(const AppliedRule &applied)
        : applied_(applied), memory_(applied.rule->zone->memory), hash_(hash_of_counter(applied)) {
        memory_.lock();
    }
    ~ZoneLock() { memory_.unlock(); }
    ZoneLock(const ZoneLock &) = delete;
    ZoneLock &operator=(const ZoneLock &) = delete;

    std::optional<Record> find(std::chrono::microseconds now) const {
        return find_local(applied_, hash_, now);
    }
    void store(const std::optional<Record> &record) const {
        if (record) {
            store_local(memory_, hash_, *record);
        }
    }

  private:
    const AppliedRule &applied_;
    const ZoneMemory &memory_;
    rate_limit::Hash hash_;
};

/// Holds the locks of the zones of all rules. They are locked in an order that all workers keep,
/// also those from before a reload.
class ZoneLocks {
  public:
    explicit ZoneLocks(std::span<AppliedRule *const> rules) {
        for (const AppliedRule *applied : rules) {
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

/// A rule that this host decides, and what its counter's record is before and after.
struct LocalRule {
    AppliedRule *applied;
    rate_limit::Hash hash;
    std::optional<Record> known;
    std::optional<Record> after;
};

rate_limit::Now time_now(const redis_client::World &world) {
    return {.monotonic = world.precise_now(), .unix_time = world.unix_now()};
}

LocalRule decide(AppliedRule &applied, const rate_limit::Now &now) {
    const Rule &rule = *applied.rule;
    redis_client::Charge &charge = *applied.charge;
    LocalRule local{
        .applied = &applied, .hash = hash_of_counter(applied), .known = {}, .after = {}};
    local.known = find_local(applied, local.hash, now.monotonic);
    charge.quota = rate_limit::scaled(applied.quota, rule.zone->local_limit_percent);
    charge.quota.set_window_at(now.unix_time);
    const auto decision =
        rate_limit::decide_locally(local.known, charge.quota, rule.rule.aligned, now);
    applied.decide(RuleResult::Source::local, decision.verdict, now.monotonic);
    charge.receipt = decision.receipt;
    local.after = decision.after;
    if (decision.converted) {
        store_local(rule.zone->memory, local.hash, *decision.converted);
        local.known = decision.converted;
    }
    return local;
}

void charge(const LocalRule &local, const rate_limit::Now &now) {
    store_local(local.applied->rule->zone->memory, local.hash, *local.after);
    local.applied->is_charged = true;
    if (rate_limit::holds_permits(local.applied->charge->quota.algorithm)) {
        local.applied->local_permits_since = now.monotonic;
    }
}

/// Called if another rule denies: the verdict becomes one as if nothing had been asked for.
void leave_uncharged(const LocalRule &local, const rate_limit::Now &now) {
    rate_limit::Quota nothing = local.applied->charge->quota;
    nothing.cost = 0;
    local.applied->charge->verdict =
        rate_limit::decide_locally(local.known, nothing, local.applied->rule->rule.aligned, now)
            .verdict;
}

/// Whether so little of the quota is taken that it is not worth remembering.
bool is_hardly_touched(const AppliedRule &applied) {
    constexpr uint64_t hardly = 64;
    const uint64_t capacity = applied.quota.capacity();
    const uint64_t remaining = applied.charge->last_verdict().remaining;
    return (capacity - std::min(remaining, capacity)) * hardly < capacity;
}

/// Whether the charge was given back to a bucket. Then the verdict does not say when it is full.
bool was_refunded(const AppliedRule &applied) {
    return rate_limit::is_bucket(applied.quota.algorithm) && !applied.charge->is_charged &&
           applied.quota.cost > 0 &&
           applied.charge->verdict.decision == rate_limit::Decision::granted;
}

void remember(AppliedRule &applied, std::chrono::microseconds asked) {
    const rate_limit::LiveLimits &limits = applied.rule->zone->memory.live_limits();
    if (limits.was_reset_since(applied.encoded_key(), asked)) {
        return;
    }
    rate_limit::Quota quota = applied.quota;
    if (!applied.charge->is_charged) {
        quota.cost = 0;
    }
    const ZoneLock zone(applied);
    const auto after =
        rate_limit::record_verdict(zone.find(asked), quota, applied.charge->last_verdict(),
                                   applied.rule->zone->local_limit_percent, asked);
    zone.store(after);
    if (after && rate_limit::holds_permits(quota.algorithm) && quota.cost > 0) {
        applied.local_permits_since = asked;
    }
}

} // namespace

void decide_on_this_host(Worker &worker, std::span<AppliedRule> rules) {
    std::array<AppliedRule *, redis_client::most_rules> undecided{};
    size_t count = 0;
    bool is_denied = false;
    for (AppliedRule &applied : rules) {
        if (applied.result.kind() == RuleResult::Kind::no_verdict && is_local(applied)) {
            undecided[count++] = &applied;
        } else if (applied.rejects()) {
            is_denied = true;
        }
    }
    if (count == 0) {
        return;
    }
    const ZoneLocks locks{std::span(undecided).first(count)};
    const rate_limit::Now now = time_now(worker.world);
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
        } else if (rule.applied->quota.reserves_nothing) {
            rule.applied->is_charged = !is_denied && !rule.applied->denies();
        }
    }
}

void remember_verdicts(std::span<AppliedRule> rules, std::chrono::microseconds asked) {
    for (AppliedRule &applied : rules) {
        if (applied.is_decided_by(RuleResult::Source::redis) && is_local(applied) &&
            !is_hardly_touched(applied) && !was_refunded(applied)) {
            remember(applied, asked);
        }
    }
}

void settle_on_this_host(Worker &worker, const AppliedRule &applied,
                         const rate_limit::LocalSettlement &settlement) {
    const ZoneLock zone(applied);
    const rate_limit::Now now = time_now(worker.world);
    zone.store(rate_limit::settle_locally(zone.find(now.monotonic), applied.charge->quota,
                                          settlement, applied.rule->rule.aligned, now));
}

void release_permits_of_this_host(Worker &worker, const AppliedRule &applied) {
    if (applied.local_permits_since.count() > 0) {
        const ZoneLock zone(applied);
        const auto now = worker.world.precise_now();
        zone.store(rate_limit::release_permits(zone.find(now), applied.verdict_quota(),
                                               applied.local_permits_since, now));
    }
}

} // namespace limiter
