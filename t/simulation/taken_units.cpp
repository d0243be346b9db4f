#include "simulation/taken_units.hpp"

#include "simulation/numbers_of_key.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

namespace simulation {

namespace {

class TakenOfLog final : public TakenUnits {
  public:
    explicit TakenOfLog(int64_t window_us) : window_us_(window_us) {}
    void take(const Grant &grant) override {
        while (!taken_.empty() && taken_.begin()->first <= grant.time_us - window_us_) {
            taken_.erase(taken_.begin());
        }
        taken_[grant.time_us] += grant.cost;
    }
    void end(const Grant &grant) override {
        if (const auto found = taken_.find(grant.time_us); found != taken_.end()) {
            found->second -= grant.returned();
        }
    }
    bool may_have(uint64_t units, const Numbered &asked, int64_t wait_us) const override {
        const auto counted = taken_.upper_bound(asked.time_us + wait_us - window_us_);
        const auto add = [](Wide sum, const auto &taken) { return sum + taken.second; };
        return std::accumulate(counted, taken_.end(), Wide{units}, add) <= asked.limit;
    }

  private:
    int64_t window_us_;
    std::map<int64_t, uint64_t> taken_; // by time
};

class TakenOfFixedWindow final : public TakenUnits {
  public:
    explicit TakenOfFixedWindow(const AuditedRule &rule) : rule_(rule) {}
    void take(const Grant &grant) override {
        if (grant.cost == 0) {
            return; // it begins no window
        }
        if (grant.time_us >= end_us_) {
            begin_us_ = grant.time_us;
            end_us_ = end_of(grant);
            taken_ = 0;
        }
        taken_ += grant.cost;
    }
    void end(const Grant &grant) override {
        if (grant.time_us >= begin_us_ && grant.cost > 0) {
            taken_ -= grant.returned();
        }
    }
    bool may_have(uint64_t units, const Numbered &asked, int64_t wait_us) const override {
        return Wide{asked.time_us + wait_us < end_us_ ? taken_ : 0} + units <= asked.limit;
    }

  private:
    int64_t end_of(const Grant &grant) const {
        const int64_t clock_us = grant.time_us + grant.redis_ahead_us;
        if (rule_.is_aligned) {
            return grant.time_us + rule_.window_us - clock_us % rule_.window_us;
        }
        const std::vector<int64_t> &calendar = rule_.window_ends_us;
        const auto end = std::ranges::upper_bound(calendar, clock_us);
        return end == calendar.end() ? grant.time_us + rule_.window_us
                                     : *end - grant.redis_ahead_us;
    }

    const AuditedRule &rule_;
    uint64_t taken_ = 0;
    int64_t begin_us_ = INT64_MIN; // the first charge of its window
    int64_t end_us_ = INT64_MIN;
};

/// Its windows begin where Redis's clock is a multiple of their length.
class TakenOfSlidingWindow final : public TakenUnits {
  public:
    explicit TakenOfSlidingWindow(int64_t window_us) : window_us_(window_us) {}
    void take(const Grant &grant) override {
        ahead_us_ = grant.redis_ahead_us;
        taken_[(grant.time_us + ahead_us_) / window_us_] += grant.cost;
    }
    void end(const Grant &grant) override {
        taken_[(grant.time_us + ahead_us_) / window_us_] -= grant.returned();
    }
    bool may_have(uint64_t units, const Numbered &asked, int64_t wait_us) const override {
        const int64_t clock_us = asked.time_us + wait_us + ahead_us_;
        const int64_t window = clock_us / window_us_;
        const int64_t left_us = window_us_ - clock_us % window_us_;
        return of(window - 1) * left_us + (of(window) + units) * window_us_ <=
               Wide{asked.limit} * window_us_;
    }

  private:
    Wide of(int64_t window) const {
        const auto found = taken_.find(window);
        return found == taken_.end() ? 0 : found->second;
    }

    int64_t window_us_;
    int64_t ahead_us_ = 0;
    std::map<int64_t, uint64_t> taken_; // by the window's number
};

/// Units that are taken stay taken when the limit changes. They come back at the pace of the check
/// that Redis has seen last. A refund gives back what has not come back of itself since the charge,
/// and nobody knows from outside when Redis hears of it: so there is a least that is taken, and a
/// most. What a request owes may also come to a bucket that is full: it comes back at the pace of
/// the charge until the next check then.
class TakenOfBucket final : public TakenUnits {
  public:
    explicit TakenOfBucket(const JudgedKey &key)
        : window_us_(key.rule.window_us),
          has_one_limit_(Numbers(key).are_always_the_same()),
          heard_within_us_(2 * key.permits_return_within_us) {}

    void see(const Numbered &check) override {
        pass_to(check.time_us);
        slowest_ = fastest_ = check.limit;
    }
    void take(const Grant &grant) override {
        if (has_one_limit_) {
            levels_.try_emplace(grant.time_us,
                                Level{.before = least_at(grant.time_us), .after = 0});
        }
        const Wide units = Wide{grant.cost} * window_us_;
        least_ += units;
        most_ += units;
        if (const auto level = levels_.find(grant.time_us); level != levels_.end()) {
            level->second.after = most_at(grant.time_us);
        }
    }
    void end(const Grant &grant) override {
        pass_to(grant.ended_us);
        if (grant.debt() > 0) {
            owe(grant, least_);
            may_be_owed_ += Wide{grant.debt()} * window_us_;
            return;
        }
        const auto level = levels_.find(grant.time_us);
        const Wide left = level != levels_.end()
                              ? level->second.after - passed(grant, grant.ended_us)
                              : Wide{grant.returned()} * window_us_;
        const Wide most_back = refund(grant, left);
        least_ = std::max(Wide{0}, least_ - most_back);
        refunds_.push_back(
            {.of = &grant, .heard_us = grant.ended_us + heard_within_us_, .most_back = most_back});
    }
    void hear(const Grant &grant, int64_t time_us) override {
        pass_to(time_us);
        const uint64_t a_microsecond = slowest_; // may be rounded, against the client
        if (grant.debt() > 0) {
            const bool is_exact = grant.limit == slowest_ && grant.limit == fastest_;
            owe(grant, most_);
            most_ += is_exact ? 0 : a_microsecond;
            may_be_owed_ -= Wide{grant.debt()} * window_us_;
        } else if (const auto level = levels_.find(grant.time_us); level != levels_.end()) {
            const Wide its_end = level->second.before + Wide{grant.cost} * window_us_;
            most_ -= refund(grant, its_end - passed(grant, time_us) - refunded_since(grant));
            most_ += a_microsecond;
        }
    }
    bool is_known_before_it_hears() const override { return true; }
    bool may_have(uint64_t units, const Numbered &asked, int64_t wait_us) const override {
        return has(units, asked, wait_us, least_at(asked.time_us));
    }
    bool must_have(uint64_t units, const Numbered &asked, int64_t wait_us) const override {
        return has(units, asked, wait_us, most_at(asked.time_us));
    }

  private:
    /// What was taken, at least, before the grants of one microsecond, and at most after all of
    /// them, whose order nobody knows.
    struct Level {
        Wide before;
        Wide after;
    };
    struct Refund {
        const Grant *of;
        int64_t heard_us;
        Wide most_back;
    };

    Wide least_at(int64_t time_us) const {
        return std::max(Wide{0}, after(least_, time_us, fastest_) - may_be_owed_);
    }
    Wide most_at(int64_t time_us) const { return after(most_, time_us, slowest_) + may_be_owed_; }
    Wide after(Wide taken, int64_t now_us, uint64_t limit) const {
        return std::max(Wide{0}, taken - Wide{now_us - last_us_} * limit);
    }
    void pass_to(int64_t now_us) {
        least_ = after(least_, now_us, fastest_);
        most_ = after(most_, now_us, slowest_);
        last_us_ = now_us;
    }
    static Wide passed(const Grant &grant, int64_t now_us) {
        return Wide{now_us - grant.time_us} * grant.limit;
    }
    /// Of other grants, at most, with what was rounded. Some of it may have come before the charge.
    Wide refunded_since(const Grant &grant) const {
        Wide sum = 0;
        for (auto one = refunds_.rbegin(); one != refunds_.rend() && one->heard_us >= grant.time_us;
             ++one) {
            sum += one->of != &grant ? one->most_back + slowest_ : 0;
        }
        return sum;
    }
    /// Returns what comes back of a grant of which so much has not come back of itself.
    Wide refund(const Grant &grant, Wide left) const {
        return std::clamp(left, Wide{0}, Wide{grant.returned()} * window_us_);
    }
    void owe(const Grant &grant, Wide &taken) {
        if (least_ <= Wide{heard_within_us_} * fastest_) {
            slowest_ = std::min(slowest_, grant.limit);
            fastest_ = std::max(fastest_, grant.limit);
        }
        taken += Wide{grant.debt()} * window_us_;
    }
    bool has(uint64_t units, const Numbered &asked, int64_t wait_us, Wide taken) const {
        const Wide then = std::max(Wide{0}, taken - Wide{wait_us} * asked.limit);
        return then + Wide{units} * window_us_ <= Wide{asked.capacity} * window_us_;
    }

    int64_t window_us_; // a unit has so many parts: of each, the limit come back in a microsecond
    bool has_one_limit_;
    int64_t heard_within_us_;
    Wide least_ = 0;       // what is owed is of it as soon as its request has ended
    Wide most_ = 0;        // not until Redis must have heard of it
    uint64_t slowest_ = 0; // the limits by which units may come back
    uint64_t fastest_ = 0;
    int64_t last_us_ = 0;
    Wide may_be_owed_ = 0;            // Redis may have heard of it
    std::map<int64_t, Level> levels_; // by the times of grants, where they are known
    std::vector<Refund> refunds_;     // in the order of the times
};

} // namespace

std::unique_ptr<TakenUnits> no_units_taken(const JudgedKey &key) {
    const AuditedRule &rule = key.rule;
    const auto has_debt = [](const Grant &grant) { return grant.debt() > 0; };
    const auto has_return = [](const Grant &grant) { return grant.returned() > 0; };
    if (rule.is_bucket()) {
        return std::make_unique<TakenOfBucket>(key);
    }
    if (std::ranges::any_of(key.grants, has_debt)) {
        return nullptr;
    }
    if (rule.algorithm == "sliding_log") {
        return std::make_unique<TakenOfLog>(rule.window_us);
    }
    if (rule.algorithm == "fixed_window") {
        const bool begins_with_charge = !rule.is_aligned && rule.window_ends_us.empty();
        if (begins_with_charge && std::ranges::any_of(key.grants, has_return)) {
            return nullptr;
        }
        return std::make_unique<TakenOfFixedWindow>(rule);
    }
    if (rule.algorithm == "sliding_window") {
        return std::make_unique<TakenOfSlidingWindow>(rule.window_us);
    }
    return nullptr;
}

} // namespace simulation
