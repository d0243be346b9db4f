// Counters of the outcomes of rules, in memory that many processes share.
#pragma once

#include "hash.hpp"
#include "rule_outcome.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rate_limit {

struct RuleCounts {
    std::array<uint64_t, outcome_count> outcomes{};
    uint64_t rejected_by_deny_cache = 0; // these are among those rejected
};

/// They live in memory that is all zeros at first.
class RuleCounters {
  public:
    void count(RuleOutcome outcome) { add_one(outcomes_[static_cast<size_t>(outcome)]); }
    void count_deny_cache_hit() { add_one(rejected_by_deny_cache_); }

    RuleCounts read() const;
    void reset();

  private:
    using Counter = std::atomic<uint64_t>;
    static void add_one(Counter &counter) { counter.fetch_add(1, std::memory_order_relaxed); }

    std::array<Counter, outcome_count> outcomes_;
    Counter rejected_by_deny_cache_;
};

/// The counters of rules, found by the hashes of their names. Only the process that reads a
/// configuration hands them out, while workers of the configuration before may still count.
class RuleCounterTable {
  public:
    struct alignas(64) Entry {
        Hash name;
        uint64_t generation; // the last configuration that had the counters; 0 if none had
        RuleCounters counters;
    };

    /// How many bytes a table takes for so many rules. It has room for the rules of the
    /// configuration before, too, whose workers may still count when the next one begins.
    static constexpr size_t memory_for(size_t rules) { return 2 * rules * sizeof(Entry); }

    RuleCounterTable() = default;
    /// Uses memory that is all zeros or was used by another table.
    explicit RuleCounterTable(std::span<std::byte> memory);

    /// To be called before the rules of a new configuration claim their counters.
    void begin_generation();
    /// Returns the counters that a rule has until the next generation. If it had none before, it
    /// gets those that nobody has had for longest, and they are set to zero.
    RuleCounters &claim(const Hash &name);
    /// Lets the rule of a running configuration keep its counters while others are claimed.
    void keep(const Hash &name);

  private:
    Entry *find(const Hash &name) const;

    std::span<Entry> entries_;
    uint64_t generation_ = 0;
};

} // namespace rate_limit
