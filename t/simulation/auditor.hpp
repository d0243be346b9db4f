// Holds what happened against what the module promises. It knows the promises alone, from SPEC
// sections 4, 5, 6 and 9, and nothing of the code that keeps them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace simulation {

/// A rule as its configuration says it.
struct AuditedRule {
    std::string algorithm;
    uint64_t limit = 0;
    int64_t window_us = 0;
    uint64_t capacity = 0; // of buckets
    bool has_leases = false;
    bool settles = false; // it has a final cost
};

/// Who has granted units.
enum class GrantedBy { redis, lease };

/// Units of a key that a request was granted. `time_us` is when Redis charged them, or when they
/// were taken from a lease.
struct Grant {
    int64_t time_us = 0;
    uint64_t cost = 0;
    GrantedBy by = GrantedBy::redis;
    int64_t ended_us = 0; // when the request ended; the end of the simulation if it did not
    uint64_t final_cost = UINT64_MAX; // what it turned out to cost then
    size_t history = 0;               // of the data that the units were charged to

    /// The units that somebody else can have once the request has ended.
    uint64_t returned() const { return cost - std::min(cost, final_cost); }
};

class Auditor {
  public:
    /// Rules are known by the order in which they are added, from 0 on.
    void add_rule(const AuditedRule &rule) { rules_.push_back(rule); }
    const AuditedRule &rule(size_t number) const { return rules_[number]; }
    /// Whether Redis is charged what requests are granted, and nothing else.
    bool knows_charges() const {
        return std::ranges::none_of(
            rules_, [](const AuditedRule &rule) { return rule.has_leases || rule.settles; });
    }

    void grant(size_t rule, const std::string &key, const Grant &grant) {
        grants_[{rule, key}].push_back(grant);
    }
    /// Redis has denied units of a key. It may be told only where all that was charged is told as
    /// grants: without faults, without clients that leave, leases and final costs.
    void deny(size_t rule, const std::string &key, int64_t time_us, uint64_t cost) {
        denials_[{rule, key}].push_back({time_us, cost});
    }
    /// Data of Redis begins, empty or with a clock that has stepped forward: a quota may be granted
    /// once more, and what hosts have leased, too. Returns its number. One history has no begin: 0.
    size_t begin_history(int64_t time_us);
    /// Data begins as a copy of what other data was at a time.
    size_t copy_history(size_t of, int64_t copied_us, int64_t time_us);

    /// Requests, by how each ended, in whole numbers that the hosts' metrics show.
    struct Counted {
        uint64_t least = 0;   // that must have been counted
        uint64_t most = 0;    // that came at all
        uint64_t counted = 0; // in all outcomes of the rule
    };
    void count(size_t rule, const Counted &counted);
    /// A request has waited for its verdict.
    void wait(int64_t waited_us, int64_t at_most_us);
    /// A worker or a request did what none may do.
    void misbehave(const std::string &what) { complain(what); }
    /// When all is quiet, something is left that should have gone.
    void leave(const std::string &what) { complain("left: " + what); }

    /// Returns what is wrong, after all was told.
    const std::vector<std::string> &judge();

  private:
    using Grants = std::vector<Grant>;
    struct Denial {
        int64_t time_us;
        uint64_t cost;
    };

    void complain(const std::string &what) { complaints_.push_back(what); }
    struct History {
        int64_t began_us = INT64_MIN;
        std::optional<size_t> copy_of = std::nullopt;
        int64_t copied_us = 0;
    };

    size_t add(const History &history);
    Grants grants_of(size_t history, const Grants &all) const;
    size_t copies(size_t history) const;
    void judge(const AuditedRule &rule, const std::string &name, const Grants &grants);
    void judge_sum(const AuditedRule &rule, const std::string &name, const Grants &grants,
                   uint64_t most);
    void judge_bucket(const AuditedRule &rule, const std::string &name, const Grants &grants);
    void judge_denial(size_t rule, const std::string &key, const Denial &denial);
    uint64_t sum_between(size_t rule, const std::string &key, int64_t after_us, int64_t until_us);
    void judge_in_flight(const AuditedRule &rule, const std::string &name, const Grants &grants);

    std::vector<AuditedRule> rules_;
    std::map<std::pair<size_t, std::string>, Grants> grants_;
    std::map<std::pair<size_t, std::string>, std::vector<Denial>> denials_;
    std::vector<History> histories_{History{}};
    std::vector<std::string> complaints_;
};

} // namespace simulation
