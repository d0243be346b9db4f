#include "rate_limit/metrics/rule_counters.hpp"

#include "rate_limit/memory_order.hpp"

#include <algorithm>

namespace rate_limit {

RuleCounts RuleCounters::read() const {
    const auto load = [](const Counter &counter) { return counter.load(relaxed); };
    RuleCounts counts;
    std::ranges::transform(outcomes_, counts.outcomes.begin(), load);
    std::ranges::transform(counters_, counts.counters.begin(), load);
    return counts;
}

void RuleCounters::reset() {
    const auto zero = [](Counter &counter) { counter.store(0, relaxed); };
    std::ranges::for_each(outcomes_, zero);
    std::ranges::for_each(counters_, zero);
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
