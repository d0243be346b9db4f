// Counters of the outcomes of rules, in memory that many processes share.
#pragma once

#include "rate_limit/metrics/metric_family.hpp"
#include "rate_limit/metrics/rule_outcome.hpp"
#include "rate_limit/text/hash.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace rate_limit {

/// What is counted of a rule beside its outcomes. A new one is a value here, and a row of the
/// table.
enum class RuleCounter : uint8_t {
    rejected_by_deny_cache, // these are among those rejected
    rejected_by_override,   // so are these, by bans
    leases_taken,
    lease_units,          // of these leases
    lease_units_used,     // that requests took, and did not give back when they ended
    lease_units_returned, // that nobody took, and of which Redis was told
    lease_units_expired,  // that nobody took, and of which Redis could not be told
    lease_requests,       // that were granted by leases
    settlements_charged,  // the request cost more than was charged
    settlements_returned, // it cost less
    settlements_lost,     // Redis does not know
};

/// The object of a zone in JSON that shows a counter for each of the zone's rules.
inline constexpr std::string_view overrides_of_zone = "overrides";

inline constexpr MetricFamily requests_family{
    "requests_total", "Requests that a rule was applied to, by what it came to.", "outcome"};
inline constexpr MetricFamily deny_cache_hits_family{
    "deny_cache_hits_total", "Requests that were rejected without asking Redis again."};
inline constexpr MetricFamily leases_family{"leases_total",
                                            "Times that this host took units in advance."};
inline constexpr MetricFamily lease_units_family{
    "lease_units_total", "Units that were taken in advance, by what became of them.", "fate"};
inline constexpr MetricFamily lease_requests_family{
    "lease_requests_total", "Requests that were granted without asking Redis."};
inline constexpr MetricFamily settlements_family{
    "settlements_total", "Requests that turned out to cost more or less than they were charged.",
    "result"};

struct RuleCounterTraits {
    RuleCounter counter;
    const MetricFamily *family; // null: Prometheus does not get it
    std::string_view name;      // in JSON; for Prometheus it is the value of the family's label
    std::string_view object{};  // that it stands in, in JSON; none: it follows `rejected`
};

/// In the order of JSON and of Prometheus's families.
inline constexpr std::array rule_counter_table = {
    RuleCounterTraits{RuleCounter::rejected_by_deny_cache, &deny_cache_hits_family,
                      "rejected_by_deny_cache"},
    RuleCounterTraits{RuleCounter::rejected_by_override, nullptr, "rejected", overrides_of_zone},
    RuleCounterTraits{RuleCounter::leases_taken, &leases_family, "taken", "leases"},
    RuleCounterTraits{RuleCounter::lease_units, nullptr, "units", "leases"},
    RuleCounterTraits{RuleCounter::lease_units_used, &lease_units_family, "used", "leases"},
    RuleCounterTraits{RuleCounter::lease_units_returned, &lease_units_family, "returned", "leases"},
    RuleCounterTraits{RuleCounter::lease_units_expired, &lease_units_family, "expired", "leases"},
    RuleCounterTraits{RuleCounter::lease_requests, &lease_requests_family, "requests", "leases"},
    RuleCounterTraits{RuleCounter::settlements_charged, &settlements_family, "charged",
                      "settlements"},
    RuleCounterTraits{RuleCounter::settlements_returned, &settlements_family, "returned",
                      "settlements"},
    RuleCounterTraits{RuleCounter::settlements_lost, &settlements_family, "lost", "settlements"},
};
static_assert(is_in_order(rule_counter_table, &RuleCounterTraits::counter));
static_assert(stand_together(rule_counter_table, &RuleCounterTraits::object));

inline constexpr size_t rule_counter_count = rule_counter_table.size();

struct RuleCounts {
    std::array<uint64_t, outcome_count> outcomes{};
    std::array<uint64_t, rule_counter_count> counters{};

    uint64_t of(RuleOutcome outcome) const { return outcomes[static_cast<size_t>(outcome)]; }
    uint64_t of(RuleCounter counter) const { return counters[static_cast<size_t>(counter)]; }
};

/// They live in memory that is all zeros at first.
class RuleCounters {
  public:
    void count(RuleOutcome outcome) { add(outcomes_[static_cast<size_t>(outcome)], 1); }
    void count(RuleCounter counter, uint64_t number = 1) {
        add(counters_[static_cast<size_t>(counter)], number);
    }

    RuleCounts read() const;
    void reset();

  private:
    using Counter = std::atomic<uint64_t>;
    static void add(Counter &counter, uint64_t number) {
        counter.fetch_add(number, std::memory_order_relaxed);
    }

    std::array<Counter, outcome_count> outcomes_;
    std::array<Counter, rule_counter_count> counters_;
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
