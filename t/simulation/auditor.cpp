#include "simulation/auditor.hpp"

#include "simulation/judges.hpp"
#include "simulation/local_judge.hpp"
#include "simulation/numbers_of_key.hpp"
#include "simulation/reset_judge.hpp"
#include "simulation/told_judge.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

namespace simulation {

namespace {

/// For so long a Redis may go on that has been copied, or whose hash slot moves away.
constexpr int64_t goes_on_for_us = 3'000'000;

/// Whether a shard may have the same part of both limits.
bool have_common_part(uint64_t one, uint64_t other, uint64_t shards) {
    const auto [lower, higher] = std::minmax(one, other);
    return (lower + shards - 1) / shards >= higher / shards;
}

/// Returns until when a denial and its times surely hold: until others may pass for whom the client
/// then has to wait longer. They need as much as it where all requests say the same; else a unit,
/// where they have one limit.
int64_t certain_until(const AuditedRule &rule, const Denial &denial) {
    if (denial.blocked_until_us != 0) {
        return denial.blocked_until_us;
    }
    const bool has_nothing_left = denial.told && denial.told->remaining == 0;
    const bool are_alike = !rule.has_own_numbers && (!rule.has_own_costs || denial.cost == 1);
    if (are_alike || (has_nothing_left && rule.algorithm == "fixed_window")) {
        return denial.until_us;
    }
    const bool needs_a_unit = has_nothing_left && !rule.has_own_numbers;
    return denial.time_us + (needs_a_unit ? denial.told->next_unit_us : 0);
}

} // namespace

void Auditor::count(const std::string &what, const Counted &counted) {
    if (counted.counted > counted.most || counted.counted < counted.least) {
        complain(what + ": " + std::to_string(counted.counted) +
                 " requests are counted, of at least " + std::to_string(counted.least) +
                 " and at most " + std::to_string(counted.most));
    }
}

void Auditor::count_leased(const AuditedRule &rule, const CountedUnits &units) {
    const uint64_t ended = units.used + units.returned + units.expired;
    if (!units.may_lack_ended && ended < units.leased) {
        complain("rule " + rule.name + ": not all of " + std::to_string(units.leased) +
                 " leased units were used, returned or expired");
    }
    if (!units.may_lack_leased && ended > units.leased) {
        complain("rule " + rule.name + ": more than " + std::to_string(units.leased) +
                 " leased units were used, returned or expired");
    }
    // What comes back to a window that is over is not taken, nor what a reset has made forgotten.
    const bool loses_none = rule.is_bucket() || rule.algorithm == "sliding_log";
    const bool nothing_fails = knows_requests_ && histories_.size() == 1 && !may_lose_units_;
    if (loses_none && nothing_fails && units.expired > 0) {
        complain("rule " + rule.name + ": " + std::to_string(units.expired) +
                 " leased units were lost");
    }
}

void Auditor::wait(int64_t waited_us, int64_t at_most_us) {
    if (waited_us > at_most_us) {
        complain("a request waited " + std::to_string(waited_us) + " us, not " +
                 std::to_string(at_most_us));
    }
}

size_t Auditor::add(const History &history) {
    histories_.push_back(history);
    return histories_.size() - 1;
}

/// How often the history's data was copied, as far as grants are known.
size_t Auditor::copies(size_t history) const {
    size_t count = 0;
    for (auto of = histories_[history].copy_of; of; of = histories_[*of].copy_of) {
        ++count;
    }
    return count;
}

/// Whether the history's data began as a copy of what is not known.
bool Auditor::began_elsewhere(size_t history) const {
    size_t first = history;
    while (histories_[first].copy_of) {
        first = *histories_[first].copy_of;
    }
    return histories_[first].is_elsewhere;
}

/// What is charged in the data of a history: its own grants, and those of the data that it is a
/// copy of, up to the copy. What was granted since is forgotten.
Auditor::Grants Auditor::grants_of(size_t history, const Grants &all,
                                   int64_t longest_lease_us) const {
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
        const History &its = histories_[grant.history];
        if (grant.by == GrantedBy::lease && its.began_us != INT64_MIN &&
            grant.time_us <
                its.began_us + longest_lease_us + (its.is_elsewhere ? goes_on_for_us : 0)) {
            continue;
        }
        charged.push_back(grant);
    }
    return charged;
}

const std::vector<std::string> &Auditor::judge() {
    for (const std::string &complaint : overrides.judge()) {
        complain(complaint);
    }
    if (single_requests_) {
        // What was charged before all was forgotten is not given back.
        const bool nothing_fails = knows_requests_ && !has_lost_data();
        for (const std::string &complaint : single_requests_->judge(nothing_fails)) {
            complain(complaint);
        }
    }
    for (auto &[of, key] : keys_) {
        judge(of.first, of.second, key);
    }
    return complaints_;
}

void Auditor::judge(const std::string &counter, const std::string &name, Key &key) {
    // Nobody knows the order of grants of one microsecond: the one that allows most is taken.
    std::ranges::stable_sort(key.grants, {}, [](const Grant &grant) {
        return std::tuple(grant.time_us, grant.capacity, grant.limit);
    });
    std::ranges::stable_sort(key.denials, {}, &Denial::time_us);
    std::set<size_t> histories;
    for (const Grant &grant : key.grants) {
        histories.insert(grant.history);
    }
    for (const Denial &denial : key.denials) {
        histories.insert(denial.history);
    }
    for (const size_t history : histories) {
        judge(counter, name, key, history);
    }
    for (const Denial &denial : key.denials) {
        if (!has_cause(counter, name, key, denial)) {
            complain(counter + ", key " + name + ": denied by what Redis has not said, at " +
                     std::to_string(denial.time_us));
            return;
        }
    }
    judge_granted_alone(counter, name, key);
    judge_resets(counter, name, key);
    const int64_t longest_lease_us = longest_leases_us_.at(counter);
    for (const Grant &grant : key.grants) {
        if (is_of_cold_key(name, grant, longest_lease_us)) {
            complain(counter + ", key " + name + ": leased though hardly anybody had come, at " +
                     std::to_string(grant.time_us));
            return;
        }
    }
}

/// Whether a host has leased for a key of which it had seen less than four requests, before the one
/// that took units of the lease. They are counted in two times of a lease, and it holds for a third
/// one.
bool Auditor::is_of_cold_key(const std::string &key, const Grant &grant,
                             int64_t longest_lease_us) const {
    constexpr int64_t least = 5;
    constexpr int64_t unsure_us = 10'000; // a stopped worker, and the way to Redis
    const auto came = came_.find({grant.host, key});
    if (grant.by != GrantedBy::lease || came == came_.end()) {
        return false;
    }
    const auto first =
        std::ranges::lower_bound(came->second, grant.time_us - 3 * longest_lease_us - unsure_us);
    return std::ranges::upper_bound(came->second, grant.time_us) - first < least;
}

bool Auditor::has_lost_data() const {
    return std::ranges::any_of(histories_, [](const History &one) { return one.follows_a_loss(); });
}

/// A host forgets what it granted alone where its client is reset, or where it may not have heard
/// that it was, because Redis has lost that. It counts with other numbers after a change of the
/// limit.
void Auditor::judge_granted_alone(const std::string &counter, const std::string &name, Key &key) {
    if (key.alone.empty() || local_percent_ == 0 || has_lost_data() ||
        ordered_resets_.contains(name)) {
        return;
    }
    const Numbers numbers({.rule = rules_[*key.rules.begin()],
                           .grants = key.grants,
                           .denials = key.denials,
                           .uncharged = key.uncharged});
    if (!numbers.are_always_the_same()) {
        return;
    }
    const bool settles =
        std::ranges::any_of(key.rules, [this](size_t rule) { return rules_[rule].settles; });
    for (auto &[host, grants] : key.alone) {
        std::ranges::stable_sort(grants, {}, &Grant::time_us);
        if (const auto wrong = simulation::judge_granted_alone({.rule = rules_[*key.rules.begin()],
                                                                .settles = settles,
                                                                .percent = local_percent_,
                                                                .grants = grants})) {
            complain(counter + ", key " + name + ", host " + std::to_string(host) +
                     " alone: " + *wrong);
        }
    }
}

/// Whether units may be on their way back that another request was charged: a rule in another hash
/// slot has denied it.
bool Auditor::is_about_to_have_room(const Key &key, const Denial &denial) const {
    return std::ranges::any_of(key.uncharged, [&](const UnchargedCheck &check) {
        return check.time_us <= denial.time_us &&
               check.time_us >= denial.time_us - permits_return_within_us_;
    });
}

/// Units that are leased may still be used.
void Auditor::judge_resets(const std::string &counter, const std::string &name, const Key &key) {
    const auto resets = resets_.find(name);
    const auto leases = [&](size_t rule) { return rules_[rule].has_leases; };
    if (!knows_requests_ || resets == resets_.end() || std::ranges::any_of(key.rules, leases)) {
        return;
    }
    const AuditedRule &rule = rules_[*key.rules.begin()];
    const Numbers numbers(
        {.rule = rule, .grants = key.grants, .denials = key.denials, .uncharged = key.uncharged});
    for (const Denial &denial : key.denials) {
        for (const Reset &reset : resets->second) {
            if (reset.sent_us >= registered_by(counter, reset.sent_us) &&
                is_denied_after_reset(rule, key.grants, denial,
                                      {.sent_us = reset.sent_us,
                                       .done_us = reset.done_us,
                                       .settled_within_us = permits_return_within_us_},
                                      numbers.are_always_the_same()) &&
                !is_about_to_have_room(key, denial)) {
                complain(counter + ", key " + name + ": denied after a reset, at " +
                         std::to_string(denial.time_us));
                return;
            }
        }
    }
}

/// Whether Redis has said to the host what its deny cache says, and that it still holds, since the
/// last reset of the client that all hosts must have heard of. What it has said to who did not wait
/// for it may have been that.
bool Auditor::has_cause(const std::string &counter, const std::string &name, const Key &key,
                        const Denial &denial) const {
    if (denial.is_by_redis) {
        return true;
    }
    const int64_t since = counts_since(counter, name, denial.time_us);
    // With shards two of them say so, each for itself and its part of the limit.
    const uint64_t shards = rules_[*key.rules.begin()].shards;
    const bool is_sharded = shards > 1;
    const auto has_same_numbers = [&](const auto &one) {
        const bool has_same_limit = is_sharded ? have_common_part(one.limit, denial.limit, shards)
                                               : one.limit == denial.limit;
        return one.host == denial.host && has_same_limit &&
               (is_sharded || one.capacity == denial.capacity) && one.time_us >= since &&
               one.time_us <= denial.time_us;
    };
    const auto is_cause = [&](const Denial &one) {
        return one.is_by_redis && has_same_numbers(one) &&
               (is_sharded || (one.cost == denial.cost && one.until_us > denial.time_us));
    };
    return std::any_of(key.denials.rbegin(), key.denials.rend(), is_cause) ||
           std::ranges::any_of(key.uncharged, [&](const UnchargedCheck &check) {
               return !check.is_answered && has_same_numbers(check);
           });
}

/// Whether a host knew the denial when it asked about a request of the same cost and numbers.
bool Auditor::is_known(const AuditedRule &rule, const Denial &denial, const Denial &later) const {
    constexpr int64_t rounded_us = 2'000;
    const int64_t at_most_us =
        std::min(certain_until(rule, denial) - denial.time_us, remembers_denials_for_us_);
    const int64_t holds_for_us = at_most_us - at_most_us / 500 - rounded_us; // clocks differ
    return denial.answered_us < later.asked_us && later.asked_us < denial.asked_us + holds_for_us;
}

/// Returns a denial of which Redis was asked, though the host knew that it would deny.
const Denial *Auditor::needless_check(const Key &key) const {
    std::map<std::tuple<size_t, uint64_t, uint64_t, uint64_t>, const Denial *> last;
    for (const Denial &denial : key.denials) {
        if (!denial.is_by_redis || denial.cost > denial.capacity) {
            continue; // Redis alone knows whether it also blocks who can never be granted that
        }
        const Denial *&before = last[{denial.host, denial.cost, denial.limit, denial.capacity}];
        if (before != nullptr && is_known(rules_[*key.rules.begin()], *before, denial)) {
            return &denial;
        }
        // The answer that came last is the one that the host knows.
        const bool is_last = before == nullptr || before->answered_us <= denial.answered_us;
        // Where another rule lets the client wait longer, both have to be known.
        before = !is_last ? before : denial.has_longest_wait ? &denial : nullptr;
    }
    return nullptr;
}

/// What happened to the data of one history.
void Auditor::judge(const std::string &counter, const std::string &name, const Key &key,
                    size_t history) {
    const std::string of = counter + ", key " + name;
    const int64_t longest_lease_us = longest_leases_us_.at(counter);
    const Grants grants = grants_of(history, key.grants, longest_lease_us);
    std::vector<Denial> denials;
    std::ranges::copy_if(key.denials, std::back_inserter(denials),
                         [&](const Denial &denial) { return denial.history == history; });
    const auto any = [&](const auto &is_so) {
        return std::ranges::any_of(key.rules, [&](size_t rule) { return is_so(rules_[rule]); });
    };
    const AuditedRule &rule = rules_[*key.rules.begin()];
    const bool has_leases = any([](const AuditedRule &one) { return one.has_leases; });
    const bool settles = any([](const AuditedRule &one) { return one.settles; });
    // By SPEC section 5 units stay units where the limits of a configuration are constants.
    const bool counts_in_time = rule.is_bucket() && key.rules.size() > 1 &&
                                any([](const AuditedRule &one) { return one.has_own_numbers; });
    // What was charged after a copy was made, and is returned later, is returned to the copy: so
    // much may be granted there beyond the quota, at most a quota again.
    const size_t other_quotas = (has_leases || settles ? copies(history) : 0) +
                                (settles && began_elsewhere(history) ? 1 : 0);
    const JudgedKey judged{.rule = rule,
                           .has_leases = has_leases,
                           .longest_lease_us = longest_lease_us,
                           .settles = settles,
                           .counts_in_time = counts_in_time,
                           .is_overridden = overrides.has_written_of(name, rule.name),
                           .is_all_known = knows_requests_,
                           .times = 1 + other_quotas,
                           .permits_return_within_us = permits_return_within_us_,
                           .grants = grants,
                           .denials = denials,
                           .uncharged = key.uncharged};
    if (const auto wrong = judge_grants(judged)) {
        complain(of + ": " + *wrong);
    }
    if (const auto wrong = judge_blocks(judged)) {
        complain(of + ": " + *wrong);
    }
    // What leases hold is not known, nor what other shards have, nor what requests turn out to cost
    // that are not of this history.
    const bool is_of_one_configuration = std::ranges::all_of(key.rules, [&](size_t number) {
        return rules_[number].configuration == rule.configuration;
    });
    const bool is_exact = charges_all_or_none_ && knows_requests_ && histories_.size() == 1 &&
                          !resets_.contains(name) && is_of_one_configuration;
    if (is_exact && !settles && rule.shards > 1) {
        if (const auto wrong = judge_told_of_shards(judged)) {
            complain(of + ": " + *wrong);
        }
    }
    if (!knows_requests_ || has_leases || counts_in_time || rule.shards > 1 ||
        (settles && histories_.size() > 1)) {
        return;
    }
    if (is_exact) {
        if (const auto wrong = judge_told_numbers(judged, key.looks)) {
            complain(of + ": " + *wrong);
        }
    }
    if (is_exact && !settles) {
        const bool is_certain =
            rule.algorithm != "concurrency" && !rule.is_dry_run && !rule.has_rival;
        const Denial *const needless = is_certain ? needless_check(key) : nullptr;
        if (needless != nullptr) {
            complain(of + ": asked though it was known, at " + std::to_string(needless->time_us));
        }
    }
    for (const Denial &denial : denials) {
        // A host may remember a denial though units have come back.
        if (may_judge(counter, denial) && (denial.is_by_redis || !settles) &&
            is_denied_with_room(judged, denial, counts_since(counter, name, denial.time_us)) &&
            !is_about_to_have_room(key, denial)) {
            complain(of + ": denied with room at " + std::to_string(denial.time_us));
            return;
        }
    }
}

/// Returns when hosts have registered a counter, so that a reset then finds it. They do so anew
/// where Redis has lost data.
int64_t Auditor::registered_by(const std::string &counter, int64_t reset_us) const {
    int64_t since = loaded_by_us_.at(counter);
    for (const History &history : histories_) {
        if (!history.is_by_reset && history.began_us <= reset_us) {
            since = std::max(since, history.began_us);
        }
    }
    return overrides.obeyed_by(since);
}

/// Returns since when what a client was granted counts at that time: a reset has made it forgotten
/// on all hosts.
int64_t Auditor::counts_since(const std::string &counter, const std::string &key,
                              int64_t time_us) const {
    int64_t since = INT64_MIN;
    if (const auto resets = resets_.find(key); resets != resets_.end()) {
        for (const Reset &reset : resets->second) {
            if (reset.sent_us >= registered_by(counter, reset.sent_us) &&
                overrides.obeyed_by(reset.done_us) <= time_us) {
                since = std::max(since, reset.sent_us);
            }
        }
    }
    return since;
}

/// A deny cache knows nothing of data that was lost. It hears of a client that was reset, in time.
bool Auditor::may_judge(const std::string &counter, const Denial &denial) const {
    const History &history = histories_[denial.history];
    if (history.is_by_reset && history.began_us < registered_by(counter, history.began_us)) {
        return false; // it has not begun for this counter
    }
    return denial.is_by_redis || history.began_us == INT64_MIN ||
           (history.is_by_reset && overrides.obeyed_by(history.began_us) <= denial.time_us);
}

} // namespace simulation
