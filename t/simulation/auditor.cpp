#include "simulation/auditor.hpp"

#include <algorithm>

namespace simulation {

namespace {

constexpr int64_t longest_lease_us = 10'000'000;

__extension__ using Wide = __int128;

/// What a bucket has to hold at least, in parts of a unit: one unit comes back in the window.
class Bucket {
  public:
    explicit Bucket(const AuditedRule &rule) : rule_(rule) {}

    void pass_to(int64_t now_us) {
        taken_ = std::max(Wide{0}, taken_ - Wide{now_us - last_us_} * rule_.limit);
        last_us_ = now_us;
    }
    void take(uint64_t units) { taken_ += Wide{units} * rule_.window_us; }
    void give_back(uint64_t units) {
        taken_ = std::max(Wide{0}, taken_ - Wide{units} * rule_.window_us);
    }
    /// By how much more it would hold than it can, with so many units more.
    Wide excess(uint64_t units) const {
        return taken_ + (Wide{units} - Wide{rule_.capacity}) * rule_.window_us;
    }

  private:
    const AuditedRule &rule_;
    Wide taken_ = 0;
    int64_t last_us_ = 0;
};

} // namespace

void Auditor::count(size_t rule, const Counted &counted) {
    if (counted.counted > counted.most || counted.counted < counted.least) {
        complain("rule " + std::to_string(rule) + " has counted " +
                 std::to_string(counted.counted) + " requests, of at least " +
                 std::to_string(counted.least) + " and at most " + std::to_string(counted.most));
    }
}

void Auditor::wait(int64_t waited_us, int64_t at_most_us) {
    if (waited_us > at_most_us) {
        complain("a request waited " + std::to_string(waited_us) + " us, not " +
                 std::to_string(at_most_us));
    }
}

const std::vector<std::string> &Auditor::judge() {
    for (auto &[of, grants] : grants_) {
        std::ranges::stable_sort(grants, {}, &Grant::time_us);
        int64_t from = INT64_MIN;
        for (size_t i = 0; i <= losses_.size(); ++i) { // each life of Redis's data by itself
            const int64_t until = i < losses_.size() ? losses_[i] : INT64_MAX;
            Grants of_life;
            for (const Grant &grant : grants) {
                // Leases of the life before hold until they end.
                const bool is_of_earlier = grant.by == GrantedBy::lease && i > 0 &&
                                           grant.time_us < from + longest_lease_us;
                if (grant.time_us >= from && grant.time_us < until && !is_of_earlier) {
                    of_life.push_back(grant);
                }
            }
            judge(of.first, of.second, of_life);
            from = until;
        }
    }
    for (const auto &[of, denials] : denials_) {
        for (const Denial &denial : denials) {
            judge_denial(of.first, of.second, denial);
        }
    }
    return complaints_;
}

/// Returns what was granted after the one time, up to the other one.
uint64_t Auditor::sum_between(size_t rule, const std::string &key, int64_t after_us,
                              int64_t until_us) {
    const Grants &grants = grants_[{rule, key}];
    auto grant = std::ranges::upper_bound(grants, after_us, {}, &Grant::time_us);
    uint64_t sum = 0;
    for (; grant != grants.end() && grant->time_us <= until_us; ++grant) {
        sum += grant->cost;
    }
    return sum;
}

/// Nobody is denied who has room.
void Auditor::judge_denial(size_t rule, const std::string &key, const Denial &denial) {
    const AuditedRule &audited = rules_[rule];
    const int64_t now = denial.time_us;
    bool is_right = true;
    if (audited.algorithm == "concurrency") {
        uint64_t in_flight = 0;
        for (const Grant &grant : grants_[{rule, key}]) {
            // What it gives back comes to Redis a little later.
            in_flight += grant.time_us <= now && grant.ended_us + 20'000 > now ? grant.cost : 0;
        }
        is_right = in_flight + denial.cost > audited.limit;
    } else if (audited.capacity > 0) {
        Bucket bucket(audited);
        for (const Grant &grant : grants_[{rule, key}]) {
            if (grant.time_us > now) {
                break;
            }
            bucket.pass_to(grant.time_us);
            bucket.take(grant.cost);
        }
        bucket.pass_to(now);
        // A microsecond may be rounded, against the client.
        is_right = bucket.excess(denial.cost) + Wide{audited.limit} > 0;
    } else {
        const int64_t windows = audited.algorithm == "sliding_window" ? 2 : 1;
        is_right = sum_between(rule, key, now - windows * audited.window_us, now) + denial.cost >
                   audited.limit;
    }
    if (!is_right) {
        complain("rule " + std::to_string(rule) + ", key " + key + ": denied with room at " +
                 std::to_string(now));
    }
}

void Auditor::judge(size_t rule, const std::string &key, const Grants &grants) {
    const AuditedRule &audited = rules_[rule];
    if (audited.algorithm == "concurrency") {
        judge_in_flight(rule, key, grants);
    } else if (audited.algorithm == "sliding_log") {
        judge_sum(rule, key, grants, audited.limit);
    } else if (audited.algorithm == "sliding_window") {
        judge_sum(rule, key, grants, 2 * audited.limit - 1);
    } else if (audited.algorithm == "fixed_window") {
        // A window begins with the first request of a key, which may be one that left. Whatever it
        // is, an interval of its length touches two.
        judge_sum(rule, key, grants, 2 * audited.limit);
    } else {
        judge_bucket(rule, key, grants);
    }
}

/// Never more than `most` in any interval of the window's length. What a request returns counts
/// until it ends: when Redis hears of it is not known. What it costs beyond its reservation is not
/// granted.
void Auditor::judge_sum(size_t rule, const std::string &key, const Grants &grants, uint64_t most) {
    size_t first = 0;
    for (size_t last = 0; last < grants.size(); ++last) {
        const int64_t now = grants[last].time_us;
        while (grants[first].time_us <= now - rules_[rule].window_us) {
            ++first;
        }
        uint64_t sum = 0;
        for (size_t i = first; i <= last; ++i) {
            sum += grants[i].cost - (grants[i].ended_us <= now ? grants[i].returned() : 0);
        }
        if (sum > most) {
            complain("rule " + std::to_string(rule) + ", key " + key + ": " + std::to_string(sum) +
                     " units in a window that ends at " + std::to_string(now));
            return;
        }
    }
}

/// Never more than the capacity and what has come back meanwhile.
void Auditor::judge_bucket(size_t rule, const std::string &key, const Grants &grants) {
    const AuditedRule &audited = rules_[rule];
    struct Change {
        int64_t time_us;
        uint64_t returned; // first, where both are at one time
        uint64_t taken;
    };
    std::vector<Change> changes;
    for (const Grant &grant : grants) {
        changes.push_back({grant.time_us, 0, grant.cost});
        if (grant.returned() > 0) {
            changes.push_back({grant.ended_us, grant.returned(), 0});
        }
    }
    std::ranges::sort(changes, [](const Change &one, const Change &other) {
        return std::pair(one.time_us, one.taken) < std::pair(other.time_us, other.taken);
    });
    Bucket bucket(audited);
    for (const Change &change : changes) {
        bucket.pass_to(change.time_us);
        bucket.give_back(change.returned);
        bucket.take(change.taken);
        // Redis counts in microseconds: what is no whole number of them is rounded.
        if (change.taken > 0 && bucket.excess(0) > Wide{2 * audited.limit}) {
            complain("rule " + std::to_string(rule) + ", key " + key +
                     ": more than the capacity at " + std::to_string(change.time_us));
            return;
        }
    }
}

/// Never more than the limit at a time.
void Auditor::judge_in_flight(size_t rule, const std::string &key, const Grants &grants) {
    std::vector<std::pair<int64_t, int64_t>> changes; // when, and by how much; ends first
    for (const Grant &grant : grants) {
        changes.emplace_back(grant.time_us, static_cast<int64_t>(grant.cost));
        changes.emplace_back(grant.ended_us, -static_cast<int64_t>(grant.cost));
    }
    std::ranges::sort(changes);
    int64_t in_flight = 0;
    for (const auto &[time_us, change] : changes) {
        in_flight += change;
        if (in_flight > static_cast<int64_t>(rules_[rule].limit)) {
            complain("rule " + std::to_string(rule) + ", key " + key + ": " +
                     std::to_string(in_flight) + " in flight at " + std::to_string(time_us));
            return;
        }
    }
}

} // namespace simulation
