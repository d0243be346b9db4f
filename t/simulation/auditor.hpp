// Holds what happened against what the module promises, by SPEC sections 2 to 6, 9 to 11 and 14. It
// includes nothing of the code that keeps it.
#pragma once

#include "simulation/audited_overrides.hpp"
#include "simulation/audited_rule.hpp"
#include "simulation/single_requests.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace simulation {

class Auditor {
  public:
    /// Rules are known by the order in which they are added, from 0 on. All hosts have the rule by
    /// then at the latest.
    size_t add_rule(const AuditedRule &rule, int64_t loaded_by_us) {
        rules_.push_back(rule);
        int64_t &longest_lease_us = longest_leases_us_[rule.counter()];
        longest_lease_us = std::max(longest_lease_us, rule.longest_lease_us());
        loaded_by_us_.try_emplace(rule.counter(), loaded_by_us);
        return rules_.size() - 1;
    }
    const AuditedRule &rule(size_t number) const { return rules_[number]; }
    /// Whether all that Redis is charged is told as grants: without faults. Clients leave then only
    /// where each has a key of its own.
    void set_knows_requests(bool knows) { knows_requests_ = knows; }
    /// Whether one Redis charges all rules of a request, or none: nothing is given back.
    void set_charges_all_or_none(bool charges) { charges_all_or_none_ = charges; }

    /// All hosts remember what their clients have taken while Redis gives no verdict, and grant so
    /// much of each limit then; 0: they may not remember it.
    void set_local_percent(uint64_t percent) { local_percent_ = percent; }
    /// All hosts remember what Redis denies for so long; 0: they may not.
    void set_remembers_denials_for(int64_t time_us) { remembers_denials_for_us_ = time_us; }

    /// A request of the key has come to a host. Those of a key and host come in the order of their
    /// times.
    void come(size_t host, const std::string &key, int64_t time_us) {
        came_[{host, key}].push_back(time_us);
    }
    void grant(size_t rule, const std::string &key, const Grant &grant) {
        Key &of = keys_[{rules_[rule].counter(), key}];
        of.rules.insert(rule);
        if (grant.by == GrantedBy::host_alone) {
            of.alone[grant.host].push_back(grant);
            return; // Redis does not learn of it
        }
        of.grants.push_back(grant);
        of.grants.back().has_block = rules_[rule].block_us > 0 && !rules_[rule].is_dry_run;
        if (single_requests_ && grant.returned() + grant.debt() > 0) {
            single_requests_->end_with_other_cost(key);
        }
    }
    void deny(size_t rule, const std::string &key, const Denial &denial) {
        Key &of = keys_[{rules_[rule].counter(), key}];
        of.rules.insert(rule);
        of.denials.push_back(denial);
    }
    void check_in_vain(size_t rule, const std::string &key, const UnchargedCheck &check) {
        keys_[{rules_[rule].counter(), key}].uncharged.push_back(check);
    }
    void look(size_t rule, const std::string &key, const Look &look) {
        keys_[{rules_[rule].counter(), key}].looks.push_back(look);
    }
    /// What operators have set, and what hosts made of it.
    AuditedOverrides overrides;
    /// Data of Redis begins, empty or with a clock that has stepped forward: a quota may be granted
    /// once more, and what hosts have leased, too. Returns its number. One history has no begin: 0.
    size_t begin_history(int64_t time_us) { return add({.began_us = time_us}); }
    /// The same, at another Redis. The one that had the data before may lease of it for a while.
    size_t begin_history_elsewhere(int64_t time_us) {
        return add({.began_us = time_us, .is_elsewhere = true});
    }
    /// The same, because an operator has reset a client.
    size_t begin_history_by_reset(int64_t time_us) {
        return add({.began_us = time_us, .is_by_reset = true});
    }
    /// An operator has ordered that a client is reset. Hosts may hear of it though he is told
    /// nothing.
    void order_reset(const std::string &key) { ordered_resets_.insert(key); }
    /// He was told that it is.
    void reset(const std::string &key, int64_t sent_us, int64_t done_us) {
        resets_[key].push_back({sent_us, done_us});
    }
    /// Data begins as a copy of what other data was at a time.
    size_t copy_history(size_t of, int64_t copied_us, int64_t time_us) {
        return add(
            {.began_us = time_us, .copy_of = of, .copied_us = copied_us, .is_elsewhere = true});
    }

    /// Requests, by how each ended, in whole numbers that the hosts' metrics show.
    struct Counted {
        uint64_t least = 0;   // that must have been counted
        uint64_t most = 0;    // that came at all
        uint64_t counted = 0; // by the hosts
    };
    void count(const std::string &what, const Counted &counted);
    /// Units that a host has leased, and what has become of them by now.
    struct CountedUnits {
        uint64_t leased = 0;
        uint64_t used = 0;
        uint64_t returned = 0;
        uint64_t expired = 0;
        bool may_lack_leased = false; // a reload forgets the number
        bool may_lack_ended = false;  // units may be gone without being counted
    };
    void count_leased(const AuditedRule &rule, const CountedUnits &units);
    /// A worker has left: it does not hear whether the units came back that it had leased.
    void excuse_lost_units() { may_lose_units_ = true; }
    /// A request has waited for its verdict.
    void wait(int64_t waited_us, int64_t at_most_us);
    /// Permits may come back so late, where hash slots move: two nodes may each say that the other
    /// one has the key, so nobody asks again at once.
    void let_permits_return_within(int64_t time_us) { permits_return_within_us_ = time_us; }
    /// From now on each client makes one request alone.
    void expect_single_requests() { single_requests_.emplace(); }
    /// Redis has run a script with this key of a counter.
    void run_script(ScriptRun what, std::string_view redis_key) {
        if (single_requests_) {
            single_requests_->run(what, redis_key);
        }
    }
    /// A client leaves while Redis may have charged the rule, by this key, and its request has cost
    /// another number of units than that.
    void leave_undecided(size_t rule, std::string_view redis_key) {
        if (single_requests_ && rules_[rule].settles) {
            single_requests_->leave(redis_key);
        }
    }
    /// A worker or a request did what none may do.
    void misbehave(const std::string &what) { complain(what); }
    /// When all is quiet, something is left that should have gone.
    void leave(const std::string &what) { complain("left: " + what); }

    /// Returns what is wrong, after all was told.
    const std::vector<std::string> &judge();

  private:
    using Grants = std::vector<Grant>;
    /// What a key had of a counter.
    struct Key {
        Grants grants;
        std::vector<Denial> denials;
        std::vector<UnchargedCheck> uncharged;
        std::vector<Look> looks;
        std::map<size_t, Grants> alone; // by the host that granted them alone
        std::set<size_t> rules;         // that decided
    };

    void complain(const std::string &what) { complaints_.push_back(what); }
    struct History {
        int64_t began_us = INT64_MIN;
        std::optional<size_t> copy_of = std::nullopt;
        int64_t copied_us = 0;
        bool is_by_reset = false;
        bool is_elsewhere = false; // than the data before

        /// Whether nobody wanted it to begin.
        bool follows_a_loss() const { return began_us != INT64_MIN && !is_by_reset; }
    };

    struct Reset {
        int64_t sent_us;
        int64_t done_us;
    };

    size_t add(const History &history);
    Grants grants_of(size_t history, const Grants &all, int64_t longest_lease_us) const;
    size_t copies(size_t history) const;
    bool began_elsewhere(size_t history) const;
    void judge(const std::string &counter, const std::string &name, Key &key);
    void judge(const std::string &counter, const std::string &name, const Key &key, size_t history);
    bool has_lost_data() const;
    void judge_granted_alone(const std::string &counter, const std::string &name, Key &key);
    void judge_resets(const std::string &counter, const std::string &name, const Key &key);
    bool may_judge(const std::string &counter, const Denial &denial) const;
    bool is_about_to_have_room(const Key &key, const Denial &denial) const;
    bool is_of_cold_key(const std::string &key, const Grant &grant, int64_t longest_lease_us) const;
    int64_t registered_by(const std::string &counter, int64_t reset_us) const;
    bool has_cause(const std::string &counter, const std::string &name, const Key &key,
                   const Denial &denial) const;
    bool is_known(const AuditedRule &rule, const Denial &denial, const Denial &later) const;
    const Denial *needless_check(const Key &key) const;
    int64_t counts_since(const std::string &counter, const std::string &key, int64_t time_us) const;

    std::deque<AuditedRule> rules_;                                       // they do not move
    std::map<std::string, int64_t> loaded_by_us_;                         // by counter
    std::map<std::string, int64_t> longest_leases_us_;                    // the same
    std::map<std::pair<std::string, std::string>, Key> keys_;             // by counter and key
    std::map<std::pair<size_t, std::string>, std::vector<int64_t>> came_; // by host and key
    int64_t permits_return_within_us_ = 20'000;
    std::vector<History> histories_{History{}};
    std::map<std::string, std::vector<Reset>> resets_; // by key
    std::set<std::string> ordered_resets_;             // keys
    bool knows_requests_ = false;
    bool charges_all_or_none_ = false;
    bool may_lose_units_ = false;
    int64_t remembers_denials_for_us_ = 0;
    uint64_t local_percent_ = 0;
    std::optional<SingleRequests> single_requests_;
    std::vector<std::string> complaints_;
};

} // namespace simulation
