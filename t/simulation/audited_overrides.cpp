#include "simulation/audited_overrides.hpp"

#include <algorithm>

namespace simulation {

namespace {

// Every host that has caught up and whose connection is up obeys within so long.
constexpr int64_t obeys_within_us = 2'000'000;

// What excuses more:

/// A host's idea of Redis's clock, by which overrides expire, is as old as the answer that brought
/// it.
constexpr int64_t unsure_of_clock_us = 150'000;
/// A write whose answer never came may still be on its way when the operator gives up.
constexpr int64_t still_on_its_way_us = 1'000'000;

uint64_t capacity_of(const AuditedRule &rule, const Setting &what) {
    const uint64_t limit = what.limit.value_or(rule.limit);
    if (limit == 0) {
        return 0;
    }
    const auto burst = what.burst ? what.burst : rule.burst;
    return rule.algorithm == "token_bucket" ? burst.value_or(limit) : burst.value_or(0) + 1;
}

/// Whether the setting, as the one that holds, leads to what the host did.
bool explains(const Obeyed &obeyed, const Setting &what) {
    if (what.action == Setting::Action::ban || what.action == Setting::Action::exempt) {
        return obeyed.action == what.action;
    }
    const AuditedRule &rule = *obeyed.rule;
    return obeyed.action == Setting::Action::numbers &&
           obeyed.limit == what.limit.value_or(rule.limit) &&
           (!rule.is_bucket() || obeyed.capacity == capacity_of(rule, what));
}

} // namespace

/// Returns when all hosts obey what was done at a time: as soon as there were two seconds without
/// trouble.
int64_t AuditedOverrides::obeyed_by(int64_t time_us) const {
    int64_t from = time_us;
    for (const auto &[begin, end] : disturbed_) { // in the order in which they begin
        if (begin > from + obeys_within_us) {
            break;
        }
        from = std::max(from, end);
    }
    return from + obeys_within_us;
}

/// Whether what was done then is replaced at that time, on all hosts.
bool AuditedOverrides::Register::is_over(int64_t done_us, int64_t time_us) const {
    return std::ranges::any_of(replacements, [&](const Replacement &one) {
        return one.sent_us >= done_us && one.obeyed_us <= time_us;
    });
}

/// Whether what was set is in doubt then: all of it, or what the hosts did not all obey by then.
bool AuditedOverrides::Register::is_doubted_by(const Doubt &doubt) const {
    return doubt.of == Doubt::Of::all ||
           std::ranges::any_of(writes, [&](const OperatorWrite &write) {
               const bool is_new =
                   write.obeyed_us > doubt.from_us && write.sent_us < doubt.until_us;
               const bool expires = doubt.of == Doubt::Of::newest_and_expiring &&
                                    write.expires_us != INT64_MAX && write.sent_us < doubt.until_us;
               return is_new || expires;
           });
}

/// Returns all that may hold under the key and the rule alone at that time.
std::vector<Setting> AuditedOverrides::possible(const std::string &key, const std::string &rule,
                                                int64_t time_us) {
    const auto found = registers_.find({key, rule});
    if (found == registers_.end()) {
        return {Setting{}};
    }
    std::vector<Setting> settings;
    const auto add = [&](const Setting &setting) {
        if (std::ranges::find(settings, setting) == settings.end()) {
            settings.push_back(setting);
        }
    };
    const Register &of = found->second;
    const auto may_hold_since = [&](int64_t when) {
        return when <= time_us && !of.is_over(when, time_us);
    };
    const bool is_doubted = std::ranges::any_of(doubted_, [&](const Doubt &doubt) {
        return may_hold_since(doubt.from_us) && of.is_doubted_by(doubt);
    });
    const bool is_forgotten = std::ranges::any_of(forgotten_, [&](int64_t when) {
        return when <= time_us && !of.is_over(when + 1, time_us);
    });
    if (is_doubted || is_forgotten || !of.is_over(INT64_MIN, time_us)) {
        settings.emplace_back();
    }
    for (const OperatorWrite &write : of.writes) {
        if (write.sent_us > time_us) {
            break;
        }
        if (!is_doubted && of.is_over(write.done_us, time_us)) {
            continue;
        }
        const int64_t unsure_us = write.done_us - write.sent_us + unsure_of_clock_us;
        if (is_doubted || write.expires_us == INT64_MAX || time_us < write.expires_us + unsure_us) {
            add(write.what);
        }
        if (time_us > write.expires_us - unsure_of_clock_us) {
            add({});
        }
    }
    return settings;
}

/// What is said of the client at the rule goes before what is said of the client, and that before
/// what is said of the rule.
bool AuditedOverrides::may_be(const Obeyed &obeyed) {
    const std::string &rule = obeyed.rule->name;
    bool has_choice = false;
    for (const auto &[key, of] :
         {std::pair(obeyed.key, rule), {obeyed.key, std::string()}, {std::string(), rule}}) {
        const std::vector<Setting> settings = possible(key, of, obeyed.time_us);
        has_choice = has_choice || settings.size() > 1;
        const bool is_explained = std::ranges::any_of(settings, [&](const Setting &setting) {
            return setting.action != Setting::Action::none && explains(obeyed, setting);
        });
        if (is_explained) {
            enforced_ += has_choice ? 0 : 1;
            return true;
        }
        if (std::ranges::find(settings, Setting::Action::none, &Setting::action) ==
            settings.end()) {
            return false;
        }
    }
    return explains(obeyed, {});
}

std::string AuditedOverrides::describe(const Obeyed &obeyed) {
    std::string what = "rule " + obeyed.rule->name + ", key " + obeyed.key;
    switch (obeyed.action) {
    case Setting::Action::ban:
        what += ": banned";
        break;
    case Setting::Action::exempt:
        what += ": exempt";
        break;
    default:
        what += ": limit " + std::to_string(obeyed.limit);
        if (obeyed.rule->is_bucket()) {
            what += " and capacity " + std::to_string(obeyed.capacity);
        }
    }
    return what + ", which nobody has set so at " + std::to_string(obeyed.time_us);
}

/// Sorts all writes by what they are about.
void AuditedOverrides::sort_writes() {
    std::ranges::sort(disturbed_);
    std::ranges::stable_sort(writes_, {}, &OperatorWrite::sent_us);
    registers_.clear();
    for (OperatorWrite write : writes_) {
        Register &of = registers_[{write.key, write.rule}];
        if (write.is_acknowledged) {
            write.obeyed_us = obeyed_by(write.done_us);
            of.replacements.push_back({write.sent_us, write.obeyed_us});
        } else if (write.done_us != INT64_MAX) {
            write.done_us += still_on_its_way_us;
            write.obeyed_us = obeyed_by(write.done_us);
        }
        of.writes.push_back(std::move(write));
    }
    for (const int64_t when : forgotten_) {
        for (auto &[about, of] : registers_) {
            of.replacements.push_back({when, obeyed_by(when)});
        }
    }
}

/// Where the worker of a host that knows what was set has gone meanwhile, nobody may know it.
void AuditedOverrides::settle_doubts() {
    for (Doubt &doubt : doubted_) {
        doubt.until_us = obeyed_by(doubt.from_us);
        if (std::ranges::any_of(lost_workers_, [&](int64_t when) {
                return when < doubt.until_us && obeyed_by(when) > doubt.from_us;
            })) {
            doubt.of = Doubt::Of::all;
        }
    }
}

std::vector<std::string> AuditedOverrides::judge() {
    sort_writes();
    settle_doubts();
    std::vector<std::string> complaints;
    for (const Obeyed &obeyed : obeyed_) {
        if (!may_be(obeyed)) {
            complaints.push_back(describe(obeyed));
            break;
        }
    }
    return complaints;
}

} // namespace simulation
