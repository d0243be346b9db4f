#include "rate_limit/metrics/rule_counters.hpp"

#include <algorithm>

namespace rate_limit {

namespace {

constexpr auto relaxed = std::memory_order_relaxed;

} // namespace

RuleCounts RuleCounters::read() const {
    RuleCounts counts;
    for (size_t i = 0; i < outcome_count; ++i) {
        counts.outcomes[i] = outcomes_[i].load(relaxed);
    }
    counts.rejected_by_deny_cache = rejected_by_deny_cache_.load(relaxed);
    counts.rejected_by_override = rejected_by_override_.load(relaxed);
    for (size_t i = 0; i < lease_count_kinds; ++i) {
        counts.leases[i] = leases_[i].load(relaxed);
    }
    for (size_t i = 0; i < settlement_results; ++i) {
        counts.settlements[i] = settlements_[i].load(relaxed);
    }
    return counts;
}

void RuleCounters::reset() {
    for (Counter &counter : outcomes_) {
        counter.store(0, relaxed);
    }
    rejected_by_deny_cache_.store(0, relaxed);
    rejected_by_override_.store(0, relaxed);
    for (Counter &counter : leases_) {
        counter.store(0, relaxed);
    }
    for (Counter &counter : settlements_) {
        counter.store(0, relaxed);
    }
}

RuleCounterTable::RuleCounterTable(std::span<std::byte> memory)
    : entries_{reinterpret_cast<Entry *>(memory.data()), memory.size() / sizeof(Entry)} {}

void RuleCounterTable::begin_generation() {
    generation_ = std::ranges::max_element(entries_, {}, &Entry::generation)->generation + 1;
}

RuleCounterTable::Entry *RuleCounterTable::find(const Hash &name) const {
    const auto found = std::ranges::find_if(
        entries_, [&](const Entry &entry) { return entry.generation > 0 && entry.name == name; });
    return found != entries_.end() ? &*found : nullptr;
}

RuleCounters &RuleCounterTable::claim(const Hash &name) {
    Entry *entry = find(name);
    if (entry == nullptr) {
        entry = &*std::ranges::min_element(entries_, {}, &Entry::generation);
        entry->name = name;
        entry->counters.reset();
    }
    entry->generation = generation_;
    return entry->counters;
}

void RuleCounterTable::keep(const Hash &name) {
    if (Entry *entry = find(name)) {
        entry->generation = generation_;
    }
}

} // namespace rate_limit
