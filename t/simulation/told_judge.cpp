#include "simulation/told_judge.hpp"

#include "simulation/numbers_of_key.hpp"
#include "simulation/taken_units.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace simulation {

namespace {

/// Whether so many units may be there after the wait, and need not be there a microsecond before.
bool is_wait_for(const TakenUnits &taken, uint64_t units, const AskedNumbers &asked,
                 int64_t wait_us) {
    return wait_us >= 0 && taken.may_have(units, asked, wait_us) &&
           (wait_us == 0 || !taken.must_have(units, asked, wait_us - 1));
}

/// A check that Redis has seen, or a look, or what a deny cache denies.
struct Asked {
    enum class Kind { granted, denied, uncharged, look, denied_by_cache };

    Kind kind;
    AskedNumbers by;
    uint64_t cost = 0;
    std::optional<Told> told = std::nullopt;
    const Grant *grant = nullptr; // where it is granted
};

bool is_seen_by_redis(const Asked &asked) {
    return asked.kind != Asked::Kind::look && asked.kind != Asked::Kind::denied_by_cache;
}

/// Whether so long a wait is told rightly. Who was granted need not wait, and who can never be is
/// told none. Who was denied must.
bool is_right_wait(const TakenUnits &taken, const Asked &asked) {
    const int64_t wait_us = asked.told->retry_after_us;
    if (asked.kind == Asked::Kind::granted || asked.cost > asked.by.capacity) {
        return wait_us == 0;
    }
    return (wait_us > 0 || asked.kind != Asked::Kind::denied) &&
           is_wait_for(taken, asked.cost, asked.by, wait_us);
}

/// Whether so many units are told rightly to be left. More may be taken than a new limit allows,
/// but not by who was granted.
bool is_right_rest(const TakenUnits &taken, const Asked &asked) {
    const uint64_t remaining = asked.told->remaining;
    const uint64_t capacity = asked.by.capacity;
    const bool may_have_less_than_none = remaining == 0 && asked.kind != Asked::Kind::granted;
    return remaining <= capacity &&
           (may_have_less_than_none || taken.may_have(remaining, asked.by, 0)) &&
           (remaining == capacity || !taken.must_have(remaining + 1, asked.by, 0));
}

/// Of a decision by Redis, or a look, after which so much is taken.
std::optional<std::string> judge(const TakenUnits &taken, const Asked &asked) {
    const Told &told = *asked.told;
    const std::string at = " at " + std::to_string(asked.by.time_us);
    if (asked.kind == Asked::Kind::denied_by_cache) {
        // It tells a little more than Redis did, for the time on the way and the rates of clocks.
        return taken.may_have(asked.cost, asked.by, told.retry_after_us)
                   ? std::nullopt
                   : std::optional("told by a deny cache to wait for " +
                                   std::to_string(told.retry_after_us) + " us, too short," + at);
    }
    if (!is_right_wait(taken, asked)) {
        return "told to wait for " + std::to_string(told.retry_after_us) + " us" + at;
    }
    if (!is_right_rest(taken, asked)) {
        return "told that " + std::to_string(told.remaining) + " units were left" + at;
    }
    if (!is_wait_for(taken, asked.by.capacity, asked.by, told.reset_us)) {
        return "told that all units come back in " + std::to_string(told.reset_us) + " us" + at;
    }
    return std::nullopt;
}

/// Of what was decided in one microsecond, after which so much is taken. Grants have no order then
/// that anybody knows, nor what is decided beside them.
std::optional<std::string> judge_at_once(const TakenUnits &taken, std::span<const Asked> all) {
    const auto is_granted = [](const Asked &one) { return one.kind == Asked::Kind::granted; };
    const auto granted = std::ranges::count_if(all, is_granted);
    std::optional<std::string> wrong;
    for (const Asked &one : all) {
        const bool is_known = granted == 0 || (granted == 1 && is_granted(one));
        if (is_known && one.told && !wrong) {
            wrong = judge(taken, one);
        }
    }
    return wrong;
}

/// Requests that have cost less or more than they were granted, when they end and when Redis has
/// heard of it.
class Endings {
  public:
    explicit Endings(const JudgedKey &key) {
        for (const Grant &grant : key.grants) {
            if (grant.returned() + grant.debt() > 0) {
                all_.push_back({grant.ended_us, false, &grant});
                all_.push_back({grant.ended_us + key.heard_within_us(), true, &grant});
            }
        }
        std::ranges::stable_sort(
            all_, {}, [](const Ending &one) { return std::pair(one.time_us, one.is_heard); });
    }

    void pass_to(int64_t time_us, TakenUnits &taken) {
        for (; next_ < all_.size(); ++next_) {
            const Ending &one = all_[next_];
            // Redis may hear of it just then.
            if (one.time_us > time_us || (one.is_heard && one.time_us == time_us)) {
                break;
            }
            if (one.is_heard) {
                taken.hear(*one.grant, one.time_us);
            } else {
                taken.end(*one.grant);
            }
        }
    }

  private:
    struct Ending {
        int64_t time_us;
        bool is_heard;
        const Grant *grant;
    };

    std::vector<Ending> all_;
    size_t next_ = 0;
};

/// In the order of their times. What a block denies is told numbers of its own.
std::vector<Asked> all_asked(const JudgedKey &key, const std::vector<Look> &looks) {
    const auto by = [](const auto &one) {
        return AskedNumbers{.time_us = one.time_us, .limit = one.limit, .capacity = one.capacity};
    };
    std::vector<Asked> all;
    for (const Grant &grant : key.grants) {
        all.push_back({.kind = Asked::Kind::granted,
                       .by = by(grant),
                       .cost = grant.cost,
                       .told = grant.told,
                       .grant = &grant});
    }
    for (const Denial &denial : key.denials) {
        const bool is_of_block = denial.blocked_until_us != 0;
        // A deny cache learns when it asks again of what requests turn out to cost, and of what a
        // host has granted by other numbers of an operator.
        const bool may_be_old = !denial.is_by_redis && (key.settles || key.is_overridden);
        all.push_back(
            {.kind = denial.is_by_redis ? Asked::Kind::denied : Asked::Kind::denied_by_cache,
             .by = by(denial),
             .cost = denial.cost,
             .told = is_of_block || may_be_old ? std::nullopt : denial.told});
    }
    for (const UnchargedCheck &check : key.uncharged) {
        if (check.is_answered) {
            all.push_back({.kind = Asked::Kind::uncharged, .by = by(check)});
        }
    }
    for (const Look &look : looks) {
        all.push_back(
            {.kind = Asked::Kind::look, .by = by(look), .cost = look.cost, .told = look.told});
    }
    std::ranges::stable_sort(all, {}, [](const Asked &one) { return one.by.time_us; });
    return all;
}

/// Whether nobody knows at which pace units come back to a bucket: Redis may have seen a check of
/// other numbers that has no answer, or not have asked the algorithm because of a block.
bool has_unknown_pace(const JudgedKey &key) {
    const auto is_unanswered = [](const UnchargedCheck &check) { return !check.is_answered; };
    return key.rule.is_bucket() && !Numbers(key).are_always_the_same() &&
           (key.rule.block_us > 0 || std::ranges::any_of(key.uncharged, is_unanswered));
}

/// The same from then on, for checks of one microsecond have no order that anybody knows.
bool leave_unknown_pace(const AuditedRule &rule, std::span<const Asked> all) {
    const auto sets_other_pace = [&](const Asked &one) {
        return is_seen_by_redis(one) && one.by.limit != all.front().by.limit;
    };
    return rule.is_bucket() && std::ranges::any_of(all, sets_other_pace);
}

} // namespace

std::optional<std::string> judge_told_numbers(const JudgedKey &key,
                                              const std::vector<Look> &looks) {
    const auto taken = make_taken_units(key);
    if (taken == nullptr || key.grants.empty() || has_unknown_pace(key)) {
        return std::nullopt; // denials alone come of what nobody was granted
    }
    Endings endings(key);
    const std::vector<Asked> all = all_asked(key, looks);
    std::optional<std::string> wrong;
    for (auto asked = all.begin(); asked != all.end() && !wrong;) {
        const int64_t time_us = asked->by.time_us;
        const auto next = std::find_if(asked, all.end(), [time_us](const Asked &other) {
            return other.by.time_us != time_us;
        });
        const std::span<const Asked> at_once(asked, next);
        if (leave_unknown_pace(key.rule, at_once)) {
            break;
        }
        endings.pass_to(time_us, *taken);
        for (const Asked &one : at_once) {
            if (is_seen_by_redis(one)) {
                taken->see(one.by);
            }
            if (one.grant != nullptr) {
                taken->take(*one.grant);
            }
        }
        wrong = judge_at_once(*taken, at_once);
        asked = next;
    }
    return wrong;
}

std::optional<std::string> judge_told_of_shards(const JudgedKey &key) {
    if (!Numbers(key).are_always_the_same()) {
        return std::nullopt;
    }
    Wide taken = 0;
    auto next = key.grants.begin();
    for (const Grant &grant : key.grants) {
        for (; next != key.grants.end() && next->time_us <= grant.time_us; ++next) {
            taken += next->cost; // grants of one microsecond have no order that anybody knows
        }
        const uint64_t share = smallest_share(key.rule, grant.limit, grant.capacity);
        if (!grant.told || share == 0) {
            continue;
        }
        const Wide left = share - std::min<Wide>(taken, share);
        if (grant.told->remaining > grant.capacity ||
            grant.told->remaining < left * grant.capacity / share) {
            return "told by a shard that " + std::to_string(grant.told->remaining) +
                   " units were left at " + std::to_string(grant.time_us);
        }
    }
    return std::nullopt;
}

} // namespace simulation
