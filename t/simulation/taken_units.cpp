#include "simulation/taken_units.hpp"

#include "simulation/numbers_of_key.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

namespace simulation {

namespace {

/// Between which times Redis hears that a request has ended, and how far its clock is ahead.
struct Heard {
    int64_t from_us;
    int64_t until_us;
    int64_t redis_ahead_us;
};

// owe() of what follows charges what is owed. It returns until when it is not known what is taken:
constexpr int64_t is_known = INT64_MIN;
constexpr int64_t is_known_never_again = INT64_MAX;

/// The units in a log. How it works a debt off is not modelled.
class Log {
  public:
    explicit Log(const AuditedRule &rule) : window_us_(rule.window_us) {}
    void take(const Grant &grant) {
        while (!taken_.empty() && taken_.begin()->first <= grant.time_us - window_us_) {
            taken_.erase(taken_.begin());
        }
        taken_[grant.time_us] += grant.cost;
    }
    void give_back(const Grant &grant) {
        if (const auto found = taken_.find(grant.time_us); found != taken_.end()) {
            found->second -= grant.returned();
        }
    }
    bool has(uint64_t units, const AskedNumbers &asked, int64_t wait_us) const {
        const auto counted = taken_.upper_bound(asked.time_us + wait_us - window_us_);
        const auto add = [](Wide sum, const auto &taken) { return sum + taken.second; };
        return std::accumulate(counted, taken_.end(), Wide{units}, add) <= asked.limit;
    }
    int64_t owe(uint64_t /*units*/, const Heard & /*when*/) { return is_known_never_again; }

  private:
    int64_t window_us_;
    std::map<int64_t, uint64_t> taken_; // by time
};

class FixedWindow {
  public:
    explicit FixedWindow(const AuditedRule &rule) : rule_(rule) {}
    void take(const Grant &grant) {
        if (grant.cost > 0) { // else it begins no window
            take(grant.cost, grant.time_us, grant.redis_ahead_us);
        }
    }
    void give_back(const Grant &grant) {
        if (grant.time_us >= begin_us_) {
            taken_ -= grant.returned();
        }
    }
    /// The window may also begin with it.
    int64_t owe(uint64_t units, const Heard &when) {
        const bool is_of_this = when.from_us >= begin_us_ && when.until_us < end_us_;
        if (!is_of_this && !rule_.has_fixed_ends()) {
            return is_known_never_again;
        }
        const int64_t end_us = end_of(when.until_us, when.redis_ahead_us);
        if (!is_of_this && end_of(when.from_us, when.redis_ahead_us) != end_us) {
            return end_us;
        }
        take(units, when.from_us, when.redis_ahead_us);
        return is_known;
    }
    bool has(uint64_t units, const AskedNumbers &asked, int64_t wait_us) const {
        return Wide{asked.time_us + wait_us < end_us_ ? taken_ : 0} + units <= asked.limit;
    }

  private:
    void take(uint64_t units, int64_t time_us, int64_t redis_ahead_us) {
        if (time_us >= end_us_) {
            begin_us_ = time_us;
            end_us_ = end_of(time_us, redis_ahead_us);
            taken_ = 0;
        }
        taken_ += units;
    }
    int64_t end_of(int64_t time_us, int64_t redis_ahead_us) const {
        const int64_t clock_us = time_us + redis_ahead_us;
        if (rule_.is_aligned) {
            return time_us + rule_.window_us - clock_us % rule_.window_us;
        }
        const std::vector<int64_t> &calendar = rule_.window_ends_us;
        const auto end = std::ranges::upper_bound(calendar, clock_us);
        return end == calendar.end() ? time_us + rule_.window_us : *end - redis_ahead_us;
    }

    const AuditedRule &rule_;
    uint64_t taken_ = 0;
    int64_t begin_us_ = INT64_MIN; // the first charge of its window
    int64_t end_us_ = INT64_MIN;
};

/// Its windows begin where Redis's clock is a multiple of their length.
class SlidingWindow {
  public:
    explicit SlidingWindow(const AuditedRule &rule) : window_us_(rule.window_us) {}
    void take(const Grant &grant) {
        ahead_us_ = grant.redis_ahead_us;
        taken_[window_at(grant.time_us)] += grant.cost;
    }
    void give_back(const Grant &grant) { taken_[window_at(grant.time_us)] -= grant.returned(); }
    int64_t owe(uint64_t units, const Heard &when) {
        const int64_t window = window_at(when.until_us);
        if (window_at(when.from_us) != window) {
            return (window + 2) * window_us_ - ahead_us_;
        }
        taken_[window] += units;
        return is_known;
    }
    bool has(uint64_t units, const AskedNumbers &asked, int64_t wait_us) const {
        const int64_t clock_us = asked.time_us + wait_us + ahead_us_;
        const int64_t window = clock_us / window_us_;
        const int64_t left_us = window_us_ - clock_us % window_us_;
        return of(window - 1) * left_us + (of(window) + units) * window_us_ <=
               Wide{asked.limit} * window_us_;
    }

  private:
    int64_t window_at(int64_t time_us) const { return (time_us + ahead_us_) / window_us_; }
    Wide of(int64_t window) const {
        const auto found = taken_.find(window);
        return found == taken_.end() ? 0 : found->second;
    }

    int64_t window_us_;
    int64_t ahead_us_ = 0;
    std::map<int64_t, uint64_t> taken_; // by the window's number
};

/// Keeps the least and the most that windows or a log hold while Redis may not have heard how a
/// request has ended.
template <typename Window>
class TakenOfWindows final : public TakenUnits {
  public:
    explicit TakenOfWindows(const JudgedKey &key)
        : least_(key.rule), most_(key.rule), heard_within_us_(key.heard_within_us()) {}

    void take(const Grant &grant) override {
        least_.take(grant);
        most_.take(grant);
    }
    void end(const Grant &grant) override {
        if (grant.debt() > 0) {
            owe(most_, grant);
        } else {
            least_.give_back(grant);
        }
    }
    void hear(const Grant &ended, int64_t /*time_us*/) override {
        if (ended.debt() > 0) {
            owe(least_, ended);
        } else {
            most_.give_back(ended);
        }
    }
    bool may_have(uint64_t units, const AskedNumbers &asked, int64_t wait_us) const override {
        return asked.time_us < unknown_until_us_ || least_.has(units, asked, wait_us);
    }
    bool must_have(uint64_t units, const AskedNumbers &asked, int64_t wait_us) const override {
        return asked.time_us >= unknown_until_us_ && most_.has(units, asked, wait_us);
    }

  private:
    void owe(Window &window, const Grant &grant) {
        const int64_t unknown_until_us =
            window.owe(grant.debt(), {.from_us = grant.ended_us,
                                      .until_us = grant.ended_us + heard_within_us_,
                                      .redis_ahead_us = grant.redis_ahead_us});
        unknown_until_us_ = std::max(unknown_until_us_, unknown_until_us);
    }

    Window least_;
    Window most_;
    int64_t heard_within_us_;
    int64_t unknown_until_us_ = is_known;
};

/// Units that are taken stay taken when the limit changes. They come back at the pace of the check
/// that Redis has seen last. A refund gives back what has not come back of itself since the charge,
/// and nobody knows from outside when Redis hears of it: so there is a least that is taken, and a
/// most. If the bucket is full when a debt comes, it comes back at the pace of the debt's charge
/// until the next check.
class TakenOfBucket final : public TakenUnits {
  public:
    explicit TakenOfBucket(const JudgedKey &key)
        : window_us_(key.rule.window_us), numbers_(key), heard_within_us_(key.heard_within_us()) {}

    void see(const AskedNumbers &check) override {
        pass_to(check.time_us);
        if (check.limit != limit_) {
            levels_.clear(); // from then on other units come back to a charge before
        }
        limit_ = slowest_ = fastest_ = check.limit;
        if (may_be_full_soon()) {
            std::ranges::for_each(on_their_way_, [this](const Grant *one) { may_set_pace(*one); });
        }
    }
    void take(const Grant &grant) override {
        const int64_t now_us = grant.time_us;
        Level &level = levels_.try_emplace(now_us, Level{.before = least_at(now_us), .after = 0})
                           .first->second;
        const Wide units = Wide{grant.cost} * window_us_;
        least_ += units;
        most_ += units;
        level.after = most_at(now_us);
    }
    void end(const Grant &grant) override {
        pass_to(grant.ended_us);
        if (grant.debt() > 0) {
            if (may_be_full_soon()) {
                may_set_pace(grant);
            }
            on_their_way_.push_back(&grant);
            may_be_owed_ += debt(grant);
            least_ += debt(grant);
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
        if (grant.debt() > 0) {
            std::erase(on_their_way_, &grant);
            may_be_owed_ -= debt(grant);
            most_ += debt(grant);
            most_ += numbers_.are_always_the_same() ? 0 : rounded(grant, time_us);
        } else if (const auto level = levels_.find(grant.time_us); level != levels_.end()) {
            const Wide its_end = level->second.before + Wide{grant.cost} * window_us_;
            const Wide by_end = its_end - passed(grant, time_us) - refunded_since(grant);
            // At least what it would have by itself, whatever others have given back.
            const Wide of_its_own = Wide{grant.returned()} * window_us_ - passed(grant, time_us);
            most_ -= refund(grant, std::max(by_end, of_its_own));
            most_ += rounded(grant, time_us);
        }
    }
    bool may_have(uint64_t units, const AskedNumbers &asked, int64_t wait_us) const override {
        return has(units, asked, wait_us, least_at(asked.time_us));
    }
    bool must_have(uint64_t units, const AskedNumbers &asked, int64_t wait_us) const override {
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
    /// A microsecond, against the client, by any limit that the state may have had.
    Wide rounded(const Grant &grant, int64_t time_us) const {
        return std::max(grant.limit, numbers_.largest_limit(grant.ended_us, time_us));
    }
    Wide debt(const Grant &grant) const { return Wide{grant.debt()} * window_us_; }
    /// Whether a debt may find nothing taken, if Redis has not heard of it yet.
    bool may_be_full_soon() const {
        return least_at(last_us_) <= Wide{heard_within_us_} * fastest_;
    }
    void may_set_pace(const Grant &debt) {
        slowest_ = std::min(slowest_, debt.limit);
        fastest_ = std::max(fastest_, debt.limit);
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
    bool has(uint64_t units, const AskedNumbers &asked, int64_t wait_us, Wide taken) const {
        const Wide then = std::max(Wide{0}, taken - Wide{wait_us} * asked.limit);
        return then + Wide{units} * window_us_ <= Wide{asked.capacity} * window_us_;
    }

    int64_t window_us_; // a unit has so many parts: of each, the limit come back in a microsecond
    Numbers numbers_;
    int64_t heard_within_us_;
    Wide least_ = 0;       // includes a debt as soon as its request has ended
    Wide most_ = 0;        // only when Redis must have heard of it
    uint64_t limit_ = 0;   // of the last check
    uint64_t slowest_ = 0; // the limits by which units may come back
    uint64_t fastest_ = 0;
    int64_t last_us_ = 0;
    std::vector<const Grant *> on_their_way_; // whose debts Redis may not have heard of
    Wide may_be_owed_ = 0;                    // the sum of them
    std::map<int64_t, Level> levels_;         // by the times of grants, where they are known
    std::vector<Refund> refunds_;             // in the order of the times
};

} // namespace

std::unique_ptr<TakenUnits> make_taken_units(const JudgedKey &key) {
    const AuditedRule &rule = key.rule;
    if (rule.is_bucket()) {
        return std::make_unique<TakenOfBucket>(key);
    }
    if (rule.algorithm == "sliding_log") {
        return std::make_unique<TakenOfWindows<Log>>(key);
    }
    if (rule.algorithm == "fixed_window") {
        const auto has_return = [](const Grant &grant) { return grant.returned() > 0; };
        if (!rule.has_fixed_ends() && std::ranges::any_of(key.grants, has_return)) {
            return nullptr;
        }
        return std::make_unique<TakenOfWindows<FixedWindow>>(key);
    }
    if (rule.algorithm == "sliding_window") {
        return std::make_unique<TakenOfWindows<SlidingWindow>>(key);
    }
    return nullptr;
}

} // namespace simulation
