#include "rule_counters.hpp"

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
    return counts;
}

void RuleCounters::reset() {
    for (Counter &counter : outcomes_) {
        counter.store(0, relaxed);
    }
    rejected_by_deny_cache_.store(0, relaxed);
}

RuleCounterTable::RuleCounterTable(std::span<std::byte> memory)
    : slots_{reinterpret_cast<Slot *>(memory.data()), memory.size() / sizeof(Slot)} {}

void RuleCounterTable::begin_generation() {
    generation_ = std::ranges::max_element(slots_, {}, &Slot::generation)->generation + 1;
}

RuleCounterTable::Slot *RuleCounterTable::find(const Hash &name) const {
    const auto found = std::ranges::find_if(
        slots_, [&](const Slot &slot) { return slot.generation > 0 && slot.name == name; });
    return found != slots_.end() ? &*found : nullptr;
}

RuleCounters &RuleCounterTable::claim(const Hash &name) {
    Slot *slot = find(name);
    if (slot == nullptr) {
        slot = &*std::ranges::min_element(slots_, {}, &Slot::generation);
        slot->name = name;
        slot->counters.reset();
    }
    slot->generation = generation_;
    return slot->counters;
}

void RuleCounterTable::keep(const Hash &name) {
    if (Slot *slot = find(name)) {
        slot->generation = generation_;
    }
}

} // namespace rate_limit
