// A rule says how much a key may take in how much time. The directive `redis_rate_limit` makes one.
#pragma once

#include "rate_limit/algorithms/algorithm.hpp"
#include "rate_limit/calendar/calendar.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

namespace rate_limit {

inline constexpr std::chrono::milliseconds shortest_window{1};
inline constexpr std::chrono::milliseconds longest_window = std::chrono::hours{24 * 366};

/// A configuration with a bucket that takes longer to fill is refused.
inline constexpr std::chrono::microseconds longest_refill = std::chrono::hours{24 * 3653};

/// Names of zones, rules and backends have 1 to 64 of `A-Za-z0-9._/-`, so that they need no escapes
/// in a Redis key, a structured header field, a log line and a metric's label.
inline constexpr size_t longest_name = 64;
bool is_name(std::string_view text);

/// The same for what Rule::name() returns: a rule without a name of its own has its zone's, a
/// slash, and a window of at most 13 bytes ("31622399999ms") or a word that is no longer.
inline constexpr size_t longest_rule_name = longest_name + 14;
bool is_rule_name(std::string_view text);

/// What a bucket's check makes of a state that another limit has led to, and what checks of another
/// limit make of its own: the units stay taken, if one of the two counts in units.
enum class OtherLimit : uint8_t {
    counts_in_time,     // rules of different limits share the counter
    counts_in_units,    // the limit has changed
    looked_at_in_units, // the same two, by a check that writes nothing
    looked_at_in_time,
};

/// The numbers of a rule, and of a request that it is applied to.
struct Quota {
    Algorithm algorithm = Algorithm::sliding_log;
    std::chrono::milliseconds window{0};
    const Calendar *calendar = nullptr; // if it says the windows, `window` is the length of one
    uint64_t limit = 0;
    std::optional<uint64_t> burst = {}; // buckets only
    uint64_t delay = 0; // leaky buckets only: units of the burst that are not held back
    uint64_t cost = 1;  // units that the request takes
    // What a rule that was less strict has already charged to the same counter for this request: in
    // units, or of a bucket in whole microseconds.
    uint64_t charged = 0;
    // The cost has to be free, but nothing is charged: the request is charged when it ends.
    bool reserves_nothing = false;
    OtherLimit other_limit = OtherLimit::counts_in_time; // buckets only

    /// The most units that the rule can ever grant at once.
    uint64_t capacity() const;
    /// Sets the burst of a bucket, else the limit, so that the capacity becomes that. A bucket of a
    /// limit of 0 keeps its capacity of 0.
    void set_capacity(uint64_t units);

    /// Makes the window that of an instant, if a calendar says the windows.
    void set_window_at(std::chrono::microseconds unix_time);
    /// Makes the window the one that ends then, if a calendar says the windows. It may be one that
    /// only another host's tz data know.
    void set_window_until(std::chrono::microseconds end);

    /// The time in which the whole capacity comes back: the window, or a bucket's
    /// capacity * window / limit, rounded up; the longest time there is where that is longer.
    std::chrono::microseconds refill() const;
    /// The largest capacity with which a bucket of this limit fills within longest_refill.
    uint64_t largest_capacity() const;

    /// How much of the cost is still to be charged, in the unit of `charged`. For a bucket it is
    /// rounded down.
    uint64_t to_charge() const;

    /// Units that have to be free, and stay so.
    uint64_t to_keep_free() const { return reserves_nothing && charged == 0 ? cost : 0; }

    /// Whether anything is to be charged. For a bucket that may be less than a microsecond.
    bool charges() const;
};

/// Tells the quota that its limit is an operator's, and whether its burst is one, of a rule with so
/// many shards. All rules of the counter have an operator's limit; so they share no bucket at
/// different paces, unless the shards of a limit are more where the burst is larger.
void set_by_operator(Quota &quota, bool has_burst, uint64_t shards);

/// Makes of a cost of 0 one unit that has to be free, if the request is charged when it ends.
void keep_cost_free(Quota &quota, bool is_charged_later);

/// Whether a request that the first quota granted need not be checked by the second one of the same
/// counter. That is so if the first has no more capacity, no higher limit and no lower cost, and
/// if it lets no more of a burst pass at once.
bool is_at_least_as_strict(const Quota &quota, const Quota &other);

/// The time in which a bucket gets one unit back, window / limit: the window as so many 1/parts
/// microseconds, where `parts` is the limit. So the same number of them, the window's length, is a
/// unit by any limit. A limit of 0 counts as 1.
struct Interval {
    explicit Interval(const Quota &quota);
    bool is_whole() const { return length % parts == 0; } // in microseconds
    uint64_t length;
    uint64_t parts;
};

/// A time in whole microseconds, and the rest in 1/Interval::parts of a microsecond.
struct BucketTime {
    uint64_t us;
    uint64_t fraction;
};

/// The time in which a bucket gets so many units back; the longest time there is where that is
/// longer.
BucketTime time_of_units(const Interval &interval, uint64_t units);

/// The furthest that a debt leads a counter ahead.
inline constexpr std::chrono::microseconds longest_debt = longest_refill;

/// By how much the request moves the state of its bucket on: the time of its cost, less the time
/// that is already charged.
BucketTime time_to_charge(const Quota &quota);

/// Returns how much of the cost is still to be charged, in whole units.
uint64_t units_to_charge(const Quota &quota);

inline constexpr std::chrono::milliseconds shortest_lease{1};
inline constexpr std::chrono::milliseconds longest_lease{10'000};

/// `lease=` of a rule: whether hosts take units from Redis in advance, and for how long.
struct LeaseSetting {
    enum class Kind : uint8_t {
        off,
        automatic, // for a time that depends on the quota, see lease_time()
        given,
    };
    Kind kind = Kind::off;
    std::chrono::milliseconds given{0};
};

/// `block=` of a rule.
inline constexpr std::chrono::milliseconds shortest_block{1000};
inline constexpr std::chrono::milliseconds longest_block = std::chrono::hours{24 * 366};

/// The most rules of one phase on one level of the configuration: one script checks them all.
inline constexpr size_t most_rules = 12;

struct Rule {
    std::string zone;
    Quota quota;
    bool aligned = false; // fixed windows start at multiples of the window in Unix time
    // The quota's calendar; null: its windows have one length.
    std::shared_ptr<const Calendar> calendar;
    std::string explicit_name; // it is empty if the user gave none
    uint64_t shards = 1;       // Redis keys over which each counter is spread
    LeaseSetting lease;
    std::chrono::milliseconds block{0}; // for how long a denial blocks the client; 0: it does not

    /// The explicit name if there is one, else `per_ip/60s`, `per_ip/500ms`, `per_ip/month` or
    /// `per_ip/concurrency`.
    std::string name() const;
    /// Returns the window as a Redis key has it: its milliseconds, or `month-15@Europe/Berlin`.
    std::string window_name() const;

    /// Returns the quota with the window of an instant.
    Quota quota_at(std::chrono::microseconds unix_time) const {
        Quota current = quota;
        current.set_window_at(unix_time);
        return current;
    }

    /// What tells the rule's counter from others. Rules for which it is equal share one counter,
    /// whatever their limits: see "Names and counters" in docs/directives.md. It refers to the
    /// rule.
    auto counter() const {
        const std::string_view windows =
            calendar != nullptr ? calendar->name() : std::string_view();
        return std::tuple_cat(std::tie(zone, quota.algorithm, quota.window, explicit_name),
                              std::tuple(windows));
    }
    bool same_counter(const Rule &other) const { return counter() == other.counter(); }

    /// Returns for how long a denial blocks the client, or 0. A dry run begins no block and knows
    /// of none.
    std::chrono::milliseconds block_of(bool is_dry_run) const {
        return is_dry_run ? std::chrono::milliseconds{0} : block;
    }
};

} // namespace rate_limit
