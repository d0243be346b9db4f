#include "simulation/judges.hpp"

#include "simulation/numbers_of_key.hpp"
#include "simulation/window_judges.hpp"

#include <algorithm>
#include <utility>

namespace simulation {

namespace {

/// What a bucket has to hold at least, as SPEC section 2 says it, in parts of a unit: one unit
/// comes back in the window.
class Bucket {
  public:
    explicit Bucket(int64_t window_us) : window_us_(window_us) {}

    void pass_to(int64_t now_us, uint64_t limit) {
        taken_ = std::max(Wide{0}, taken_ - Wide{now_us - last_us_} * limit);
        last_us_ = now_us;
    }
    void take(uint64_t units) { taken_ += Wide{units} * window_us_; }
    void give_back(uint64_t units) {
        taken_ = std::max(Wide{0}, taken_ - Wide{units} * window_us_);
    }
    int64_t last_us() const { return last_us_; }
    /// By how much more it would hold than it can, with so many units more.
    Wide excess(uint64_t units, uint64_t capacity) const {
        return taken_ + (Wide{units} - Wide{capacity}) * window_us_;
    }

  private:
    int64_t window_us_;
    Wide taken_ = 0;
    int64_t last_us_ = 0;
};

struct BucketChange {
    int64_t time_us;
    uint64_t returned = 0; // first, where both are at one time
    uint64_t debt = 0;
    uint64_t limit_of_debt = 0;   // that its request had
    const Grant *grant = nullptr; // null: units are returned, or a debt is charged
};

/// What happened to a bucket. Debts count where all of them are known.
std::vector<BucketChange> bucket_changes(const JudgedKey &key) {
    const bool has_debts = key.is_all_known && !key.has_leases && key.rule.shards == 1;
    std::vector<BucketChange> changes;
    for (const Grant &grant : key.grants) {
        changes.push_back({.time_us = grant.time_us, .grant = &grant});
        if (grant.returned() > 0) {
            changes.push_back({.time_us = grant.ended_us, .returned = grant.returned()});
        }
        if (has_debts && grant.debt() > 0) {
            changes.push_back(
                {.time_us = grant.ended_us, .debt = grant.debt(), .limit_of_debt = grant.limit});
        }
    }
    std::ranges::stable_sort(changes, [](const BucketChange &one, const BucketChange &other) {
        return std::pair(one.time_us, one.grant != nullptr) <
               std::pair(other.time_us, other.grant != nullptr);
    });
    return changes;
}

/// Never more than the capacity and what has come back meanwhile.
std::optional<std::string> judge_bucket(const JudgedKey &key) {
    const Numbers numbers(key);
    if (key.counts_in_time || (key.rule.shards > 1 && !numbers.are_always_the_same())) {
        // One with shards counts in time, too, unless an operator has set its burst. And a limit
        // less than the shards leaves some of them unused, with what was taken from them.
        return std::nullopt;
    }
    const int64_t unsure_us = of_two_minds_us(key);
    Bucket bucket(key.rule.window_us);
    int64_t knows_debts_from_us = INT64_MIN; // before, Redis may not have heard of the last one
    uint64_t limit_of_debts = 0; // a debt that comes to a full bucket comes back by its own limit
    for (const BucketChange &change : bucket_changes(key)) {
        const int64_t now = change.time_us;
        const uint64_t limit = std::max(
            limit_of_debts, numbers.largest_limit(bucket.last_us() - unsure_us, now + unsure_us));
        bucket.pass_to(now, key.times * limit);
        bucket.give_back(change.returned);
        if (change.debt > 0) {
            bucket.take(change.debt);
            knows_debts_from_us = now + key.heard_within_us();
            limit_of_debts = std::max(limit_of_debts, change.limit_of_debt);
        }
        if (change.grant == nullptr) {
            continue;
        }
        if (now > knows_debts_from_us) {
            limit_of_debts = 0; // until the next check
        }
        bucket.take(change.grant->cost);
        const uint64_t capacity = key.has_leases || key.rule.shards > 1
                                      ? numbers.largest_capacity(now - key.longest_lease_us, now)
                                      : change.grant->capacity;
        // Redis counts in microseconds: what is no whole number of them is rounded. A state that
        // another limit has led to is rounded, too.
        const Wide rounded =
            numbers.are_always_the_same() ? Wide{2 * limit} : Wide{2 * limit} + key.rule.window_us;
        if (now >= knows_debts_from_us && bucket.excess(0, key.times * capacity) > rounded) {
            return "more than the capacity" + at(*change.grant);
        }
    }
    return std::nullopt;
}

/// Never more than the limit at a time.
std::optional<std::string> judge_in_flight(const JudgedKey &key) {
    struct Change {
        int64_t time_us;
        int64_t by;
        const Grant *grant;
    };
    std::vector<Change> changes;
    for (const Grant &grant : key.grants) {
        changes.push_back({grant.time_us, static_cast<int64_t>(grant.cost), &grant});
        changes.push_back({grant.ended_us, -static_cast<int64_t>(grant.cost), &grant});
    }
    std::ranges::stable_sort(changes, [](const Change &one, const Change &other) { // ends first
        return std::pair(one.time_us, one.by > 0) < std::pair(other.time_us, other.by > 0);
    });
    int64_t in_flight = 0;
    for (const Change &change : changes) {
        in_flight += change.by;
        if (change.by > 0 && in_flight > static_cast<int64_t>(key.times * change.grant->limit)) {
            return std::to_string(in_flight) + " in flight" + at(*change.grant);
        }
    }
    return std::nullopt;
}

/// What was taken at a time.
struct Charge {
    int64_t time_us;
    uint64_t units;
};

/// Returns what is taken of a bucket when it denies, at most, in the order of the times. What
/// comes back of a request it may have filled again meanwhile.
std::vector<Charge> charges_until(const JudgedKey &key, const Denial &denial, int64_t since_us) {
    std::vector<Charge> charges;
    for (const Grant &grant : key.grants) {
        if (grant.time_us >= since_us && grant.time_us <= denial.time_us) {
            charges.push_back({grant.time_us, grant.cost});
        }
        const int64_t heard_us = grant.ended_us + key.permits_return_within_us;
        if (grant.debt() > 0 && grant.ended_us <= denial.time_us && heard_us >= since_us) {
            charges.push_back({std::min(heard_us, denial.time_us), grant.debt()});
        }
    }
    std::ranges::stable_sort(charges, {}, &Charge::time_us);
    return charges;
}

bool has_room_in_bucket(const JudgedKey &key, const Denial &denial, int64_t since_us) {
    if (!Numbers(key).are_always_the_same()) {
        return false; // nobody can tell from outside
    }
    Bucket bucket(key.rule.window_us);
    for (const Charge &charge : charges_until(key, denial, since_us)) {
        bucket.pass_to(charge.time_us, denial.limit);
        bucket.take(charge.units);
    }
    bucket.pass_to(denial.time_us, denial.limit);
    // A microsecond may be rounded, against the client.
    return bucket.excess(denial.cost, denial.capacity) + Wide{denial.limit} <= 0;
}

bool is_blocked(const JudgedKey &key, const Denial &denial, int64_t since_us) {
    return std::ranges::any_of(key.denials, [&](const Denial &other) {
        return other.time_us >= since_us && other.time_us <= denial.time_us &&
               denial.time_us <= other.blocked_until_us;
    });
}

/// Returns until when a client is blocked at a time. A block that began by a clock that has stepped
/// back since begins anew, and may end sooner: what was said last holds.
std::optional<int64_t> blocked_until(const JudgedKey &key, int64_t time_us) {
    const auto end = std::ranges::lower_bound(key.denials, time_us, {}, &Denial::time_us);
    std::optional<int64_t> until;
    int64_t said_us = INT64_MIN;
    for (auto denial = end; denial != key.denials.begin();) {
        --denial;
        if (denial->time_us < said_us) {
            break; // nobody knows the order of denials of one microsecond
        }
        if (denial->is_by_redis && denial->blocked_until_us != 0) {
            said_us = denial->time_us;
            until = std::min(until.value_or(INT64_MAX), denial->blocked_until_us);
        }
    }
    return until;
}

/// A denial that a host knows. When a block has ended, only Redis can deny, for it then begins
/// another one.
bool is_known_for_too_long(const JudgedKey &key, const Denial &denial) {
    const auto until = denial.is_by_redis ? std::nullopt : blocked_until(key, denial.time_us);
    return key.is_all_known && until && *until < denial.time_us;
}

} // namespace

std::optional<std::string> judge_grants(const JudgedKey &key) {
    if (key.rule.algorithm == "concurrency") {
        return judge_in_flight(key);
    }
    if (key.rule.is_bucket()) {
        return judge_bucket(key);
    }
    return judge_windows(key);
}

bool is_denied_with_room(const JudgedKey &key, const Denial &denial, int64_t since_us) {
    const int64_t now = denial.time_us;
    if (is_blocked(key, denial, since_us)) {
        return false;
    }
    if (key.rule.is_bucket()) {
        return has_room_in_bucket(key, denial, since_us);
    }
    uint64_t taken = denial.cost;
    if (key.rule.algorithm == "concurrency") {
        for (const Grant &grant : key.grants) {
            // What it gives back comes to Redis a little later.
            const bool is_taken = grant.time_us >= since_us && grant.time_us <= now &&
                                  grant.ended_us + key.permits_return_within_us > now;
            taken += is_taken ? grant.cost : 0;
        }
        return taken <= denial.limit;
    }
    const int64_t windows = key.rule.algorithm == "sliding_window" ? 2 : 1;
    const int64_t before_us = std::max(now - windows * key.rule.window_us, since_us);
    // A log works its debts off, and denies meanwhile.
    const auto has_debt = [now](const Grant &grant) {
        return grant.debt() > 0 && grant.ended_us <= now;
    };
    if (key.rule.algorithm == "sliding_log" && std::ranges::any_of(key.grants, has_debt)) {
        return false;
    }
    for (const Grant &grant : key.grants) {
        const int64_t heard_us = grant.ended_us + key.permits_return_within_us;
        if (grant.time_us > before_us && grant.time_us <= now) {
            const bool has_come_back =
                heard_us <= now && (grant.window_ends_us == 0 || heard_us < grant.window_ends_us);
            taken += grant.cost - (has_come_back ? grant.returned() : 0);
        }
        const bool is_charged_again = grant.ended_us <= now && heard_us > before_us;
        taken += is_charged_again ? grant.debt() : 0;
    }
    return taken <= denial.limit;
}

/// Whom a rule has denied, it denies until the block ends. Denials meanwhile do not prolong it.
std::optional<std::string> judge_blocks(const JudgedKey &key) {
    constexpr int64_t rounded_us = 2'000;
    const Denial *first = nullptr; // of the last block
    for (const Denial &denial : key.denials) {
        if (is_known_for_too_long(key, denial)) {
            return "denied at " + std::to_string(denial.time_us) + " by a block that has ended";
        }
        if (!denial.is_by_redis || denial.blocked_until_us == 0) {
            continue;
        }
        const bool is_first = first == nullptr || first->blocked_until_us <= denial.time_us;
        const int64_t until =
            is_first ? denial.time_us + key.rule.block_us : first->blocked_until_us;
        if (key.is_all_known && std::abs(denial.blocked_until_us - until) > rounded_us) {
            return "blocked until " + std::to_string(denial.blocked_until_us) + ", not until " +
                   std::to_string(until);
        }
        first = is_first ? &denial : first;
    }
    for (const Grant &grant : key.grants) {
        const auto until = grant.has_block ? blocked_until(key, grant.time_us) : std::nullopt;
        if (until && grant.time_us < *until - rounded_us) {
            return "granted" + at(grant) + ", though blocked until " + std::to_string(*until);
        }
    }
    return std::nullopt;
}

} // namespace simulation
