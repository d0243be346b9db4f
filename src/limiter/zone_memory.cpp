#include "limiter/zone_memory.hpp"

#include <algorithm>
#include <new>

namespace limiter {

namespace {

using std::chrono::microseconds;

constexpr size_t line = alignof(rate_limit::SharedTable::Tags);

size_t whole_lines(size_t size) {
    return size - size % line;
}

constexpr size_t lines_for(size_t size) {
    return (size + line - 1) / line * line;
}

// The counters of rules get a 39th of a zone. The smallest zone, too, has room for a few rules.
constexpr size_t zone_for_a_rule = 16384;
static_assert(rate_limit::RuleCounterTable::memory_for(1) <= zone_for_a_rule / 39);
constexpr size_t rules_of_any_zone = 16;

// This room is there with top_keys=off, too, because a reload may turn them on.
constexpr size_t top_keys_size = lines_for(rate_limit::TopKeys::memory_size);

} // namespace

size_t ZoneMemory::most_rules(size_t zone_size) {
    return std::max(zone_size / zone_for_a_rule, rules_of_any_zone);
}

size_t ZoneMemory::size_for(size_t rules) {
    return rules * zone_for_a_rule;
}

void ZoneMemory::begin(std::span<std::byte> memory, const ZoneMutex &mutex, size_t zone_size,
                       const rate_limit::HashSeed &seed, microseconds began) {
    const size_t rule_counters_size =
        lines_for(rate_limit::RuleCounterTable::memory_for(most_rules(zone_size)));
    const size_t tables_size = memory.size() - sizeof(Layout) - rule_counters_size - top_keys_size;
    const size_t eighth = whole_lines(tables_size / 8);
    const size_t live_limits_size = std::max(eighth, rate_limit::LiveLimits::least_memory);
    mutex_ = &mutex;
    layout_ = new (memory.data()) Layout{.seed = seed,
                                         .began = began,
                                         .evictions = 0,
                                         .latest = 0,
                                         .rule_counters_size = rule_counters_size,
                                         .deny_cache_size = 5 * eighth - live_limits_size,
                                         .lease_book_size = eighth,
                                         .live_limits_size = live_limits_size,
                                         .local_table_size = tables_size - 6 * eighth};
    map();
}

void ZoneMemory::take_over(const ZoneMemory &old, const ZoneMutex &mutex) {
    *this = old;
    mutex_ = &mutex;
    ++number_;
}

void ZoneMemory::map() {
    std::byte *at = layout_->tables;
    const auto next = [&at](size_t size) {
        at += size;
        return std::span(at - size, size);
    };
    rule_counters_ = rate_limit::RuleCounterTable(next(layout_->rule_counters_size));
    top_keys_ = rate_limit::TopKeys(next(top_keys_size));
    deny_cache_ = rate_limit::DenyCache(next(layout_->deny_cache_size));
    lease_book_ = rate_limit::LeaseBook(next(layout_->lease_book_size));
    live_limits_ = rate_limit::LiveLimits(next(layout_->live_limits_size), layout_->seed);
    local_table_ = rate_limit::SharedTable(next(layout_->local_table_size));
}

size_t ZoneMemory::entries(microseconds now, microseconds boot_now) const {
    return deny_cache_.table().count(now) + local_table_.count(now) + lease_book_.count(boot_now) +
           live_limits_.entries();
}

size_t ZoneMemory::free_bytes(microseconds now, microseconds boot_now) const {
    const auto free = [now](const rate_limit::SharedTable &table) {
        return (table.capacity() - table.count(now)) * rate_limit::SharedTable::entry_size;
    };
    return free(deny_cache_.table()) + free(local_table_) +
           (lease_book_.capacity() - lease_book_.count(boot_now)) *
               sizeof(rate_limit::LeaseBook::Entry) +
           (live_limits_.capacity() - live_limits_.entries()) * rate_limit::SharedTable::entry_size;
}

} // namespace limiter
