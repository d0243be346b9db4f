// Counters of the outcomes of rules, in memory that many processes share.
#pragma once

#include "rate_limit/metrics/rule_outcome.hpp"
#include "rate_limit/text/hash.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace rate_limit {

/// What is counted of the leases of a rule.
enum class LeaseCount : uint8_t {
    taken,    // leases
    units,    // of these leases
    used,     // units that requests took, and did not give back when they ended
    returned, // units that nobody took, and of which Redis was told
    expired,  // units that nobody took, and of which Redis could not be told
    requests, // that were granted by leases
};
inline constexpr size_t lease_count_kinds = 6;

/// What became of the settlement of a request's final cost.
enum class SettlementResult : uint8_t {
    charged,  // it cost more than was charged
    returned, // it cost less
    lost,     // Redis does not know
};
inline constexpr size_t settlement_results = 3;
/// Their names in metrics, in the order of SettlementResult.
inline constexpr std::array<std::string_view, settlement_results> settlement_result_names = {
    "charged", "returned", "lost"};

struct RuleCounts {
    std::array<uint64_t, outcome_count> outcomes{};
    uint64_t rejected_by_deny_cache = 0; // these are among those rejected
    uint64_t rejected_by_override = 0;   // the same, by bans
    std::array<uint64_t, lease_count_kinds> leases{};
    std::array<uint64_t, settlement_results> settlements{};

    uint64_t of(SettlementResult what) const { return settlements[static_cast<size_t>(what)]; }
    uint64_t of(LeaseCount what) const { return leases[static_cast<size_t>(what)]; }
};

/// They live in memory that is all zeros at first.
class RuleCounters {
  public:
    void count(RuleOutcome outcome) { add(outcomes_[static_cast<size_t>(outcome)], 1); }
    void count_deny_cache_hit() { add(rejected_by_deny_cache_, 1); }
    void count_ban() { add(rejected_by_override_, 1); }
    void count(LeaseCount what, uint64_t number) {
        add(leases_[static_cast<size_t>(what)], number);
    }

    void count(SettlementResult what) { add(settlements_[static_cast<size_t>(what)], 1); }

    RuleCounts read() const;
    void reset();

  private:
    using Counter = std::atomic<uint64_t>;
    static void add(Counter &counter, uint64_t number) {
        counter.fetch_add(number, std::memory_order_relaxed);
    }

    std::array<Counter, outcome_count> outcomes_;
    Counter rejected_by_deny_cache_;
    Counter rejected_by_override_;
    std::array<Counter, lease_count_kinds> leases_;
    std::array<Counter, settlement_results> settlements_;
};

/// The counters of rules, found by the hashes of their names. Only the process that reads a
/// configuration hands them out, while workers of the configuration before may still count.
class RuleCounterTable {
  public:
    struct Entry {
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
