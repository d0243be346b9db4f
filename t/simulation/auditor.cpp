#include "simulation/auditor.hpp"

#include <algorithm>
#include <set>

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

size_t Auditor::begin_history(int64_t time_us) {
    return add({.began_us = time_us});
}

size_t Auditor::copy_history(size_t of, int64_t copied_us, int64_t time_us) {
    return add({.began_us = time_us, .copy_of = of, .copied_us = copied_us});
}

size_t Auditor::add(const History &history) {
    histories_.push_back(history);
    return histories_.size() - 1;
}

/// How often the history's data was copied.
size_t Auditor::copies(size_t history) const {
    size_t count = 0;
    for (auto of = histories_[history].copy_of; of; of = histories_[*of].copy_of) {
        ++count;
    }
    return count;
}

/// What is charged in the data of a history: its own grants, and those of the data that it is a
/// copy of, up to the copy. What was granted since is forgotten.
Auditor::Grants Auditor::grants_of(size_t history, const Grants &all) const {
    std::map<size_t, int64_t> until{{history, INT64_MAX}};
    int64_t copied_us = INT64_MAX;
    for (size_t one = history; histories_[one].copy_of; one = *histories_[one].copy_of) {
        copied_us = std::min(copied_us, histories_[one].copied_us);
        until.emplace(*histories_[one].copy_of, copied_us);
    }
    Grants charged;
    for (const Grant &grant : all) {
        const auto of = until.find(grant.history);
        if (of == until.end() || grant.time_us > of->second) {
            continue;
        }
        // Leases of data that is gone hold until they end.
        const int64_t began_us = histories_[grant.history].began_us;
        if (grant.by == GrantedBy::lease && began_us != INT64_MIN &&
            grant.time_us < began_us + longest_lease_us) {
            continue;
        }
        charged.push_back(grant);
    }
    return charged;
}

const std::vector<std::string> &Auditor::judge() {
    for (auto &[of, grants] : grants_) {
        std::ranges::stable_sort(grants, {}, &Grant::time_us);
        std::set<size_t> histories;
        for (const Grant &grant : grants) {
            histories.insert(grant.history);
        }
        for (const size_t history : histories) {
            AuditedRule rule = rules_[of.first];
            // What was charged after a copy was made, and is returned later, is returned to the
            // copy: so much may be granted there beyond the quota, at most a quota again.
            if (rule.has_leases || rule.settles) {
                rule.limit *= 1 + copies(history);
                rule.capacity *= 1 + copies(history);
            }
            judge(rule, "rule " + std::to_string(of.first) + ", key " + of.second,
                  grants_of(history, grants));
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

void Auditor::judge(const AuditedRule &rule, const std::string &name, const Grants &grants) {
    if (rule.algorithm == "concurrency") {
        judge_in_flight(rule, name, grants);
    } else if (rule.algorithm == "sliding_log") {
        judge_sum(rule, name, grants, rule.limit);
    } else if (rule.algorithm == "sliding_window") {
        judge_sum(rule, name, grants, 2 * rule.limit - 1);
    } else if (rule.algorithm == "fixed_window") {
        // A window begins with the first request of a key, which may be one that left. Whatever it
        // is, an interval of its length touches two.
        judge_sum(rule, name, grants, 2 * rule.limit);
    } else {
        judge_bucket(rule, name, grants);
    }
}

/// Never more than `most` in any interval of the window's length. What a request returns counts
/// until it ends: when Redis hears of it is not known. What it costs beyond its reservation is not
/// granted.
void Auditor::judge_sum(const AuditedRule &rule, const std::string &name, const Grants &grants,
                        uint64_t most) {
    size_t first = 0;
    for (size_t last = 0; last < grants.size(); ++last) {
        const int64_t now = grants[last].time_us;
        while (grants[first].time_us <= now - rule.window_us) {
            ++first;
        }
        uint64_t sum = 0;
        for (size_t i = first; i <= last; ++i) {
            sum += grants[i].cost - (grants[i].ended_us <= now ? grants[i].returned() : 0);
        }
        if (sum > most) {
            complain(name + ": " + std::to_string(sum) + " units in a window that ends at " +
                     std::to_string(now));
            return;
        }
    }
}

/// Never more than the capacity and what has come back meanwhile.
void Auditor::judge_bucket(const AuditedRule &rule, const std::string &name, const Grants &grants) {
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
    Bucket bucket(rule);
    for (const Change &change : changes) {
        bucket.pass_to(change.time_us);
        bucket.give_back(change.returned);
        bucket.take(change.taken);
        // Redis counts in microseconds: what is no whole number of them is rounded.
        if (change.taken > 0 && bucket.excess(0) > Wide{2 * rule.limit}) {
            complain(name + ": more than the capacity at " + std::to_string(change.time_us));
            return;
        }
    }
}

/// Never more than the limit at a time.
void Auditor::judge_in_flight(const AuditedRule &rule, const std::string &name,
                              const Grants &grants) {
    std::vector<std::pair<int64_t, int64_t>> changes; // when, and by how much; ends first
    for (const Grant &grant : grants) {
        changes.emplace_back(grant.time_us, static_cast<int64_t>(grant.cost));
        changes.emplace_back(grant.ended_us, -static_cast<int64_t>(grant.cost));
    }
    std::ranges::sort(changes);
    int64_t in_flight = 0;
    for (const auto &[time_us, change] : changes) {
        in_flight += change;
        if (in_flight > static_cast<int64_t>(rule.limit)) {
            complain(name + ": " + std::to_string(in_flight) + " in flight at " +
                     std::to_string(time_us));
            return;
        }
    }
}

} // namespace simulation
