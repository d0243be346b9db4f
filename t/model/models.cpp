#include "models.hpp"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace model {

namespace {

using rate_limit::Algorithm;
using rate_limit::Decision;
using rate_limit::Quota;
using rate_limit::Verdict;
using std::chrono::microseconds;

Wide window_of(const Quota &quota) {
    return microseconds(quota.window).count();
}

/// The least number above `too_small`, to `enough`, of which `is_enough` is true.
template <typename Condition>
Wide least(Wide too_small, Wide enough, Condition is_enough) {
    while (enough - too_small > 1) {
        const Wide middle = too_small + (enough - too_small) / 2;
        (is_enough(middle) ? enough : too_small) = middle;
    }
    return enough;
}

class FixedWindow final : public Model {
  public:
    explicit FixedWindow(bool aligned) : aligned_(aligned) {}
    bool fits(const Quota &quota, Wide time, Wide units) const override {
        return (time < end_ ? taken_ : 0) + units <= quota.limit;
    }
    void forget() override { end_ = 0; }

  private:
    void take_some(const Quota &quota, Wide now) override {
        const Wide window = window_of(quota);
        if (now >= end_) {
            const Wide begin = aligned_ ? now / window * window : now;
            end_ = begin + window;
            taken_ = 0;
        }
        taken_ += quota.cost;
    }
    Wide end(const Quota & /*quota*/) const override { return end_; }

    bool aligned_;
    Wide end_ = 0, taken_ = 0;
};

class SlidingLog final : public Model {
  public:
    bool fits(const Quota &quota, Wide time, Wide units) const override {
        return total_ - total_until(time - window_of(quota)) + units <= quota.limit;
    }
    void forget() override {
        log_.clear();
        forgotten_ = total_;
    }

  private:
    void take_some(const Quota &quota, Wide now) override {
        // a clock that steps back does not bring back what a grant found to be over
        const Wide horizon = now - window_of(quota);
        forgotten_ = total_until(horizon);
        while (!log_.empty() && log_.front().time <= horizon) {
            log_.pop_front();
        }
        total_ += quota.cost;
        log_.push_back({log_.empty() ? now : std::max(now, log_.back().time), total_});
    }
    Wide end(const Quota &quota) const override {
        return log_.empty() ? 0 : log_.back().time + window_of(quota);
    }

    Wide total_until(Wide time) const {
        const auto after = std::ranges::upper_bound(log_, time, {}, &Entry::time);
        return after == log_.begin() ? forgotten_ : std::prev(after)->total;
    }

    struct Entry {
        Wide time;
        Wide total; // taken until then, with what is forgotten
    };
    std::deque<Entry> log_; // oldest first
    Wide total_ = 0;
    Wide forgotten_ = 0;
};

class SlidingWindow final : public Model {
  public:
    bool fits(const Quota &quota, Wide time, Wide units) const override {
        const Wide window = window_of(quota);
        time = std::max(time, newest() * window); // before that, time stands still
        const Wide elapsed = time % window;
        return of(time / window - 1) * (window - elapsed) + (of(time / window) + units) * window <=
               quota.limit * window;
    }
    void forget() override { taken_.clear(); }

  private:
    void take_some(const Quota &quota, Wide now) override {
        taken_[std::max(now / window_of(quota), newest())] += quota.cost;
    }
    Wide end(const Quota &quota) const override { return (newest() + 2) * window_of(quota); }

    Wide newest() const { return taken_.empty() ? 0 : taken_.rbegin()->first; }
    Wide of(Wide index) const {
        const auto found = taken_.find(index);
        return found == taken_.end() ? 0 : found->second;
    }

    std::map<Wide, Wide> taken_; // in the window of that number since 1970
};

/// Tokens are counted in window-ths, of which `limit` come in each microsecond.
class Bucket final : public Model {
  public:
    bool fits(const Quota &quota, Wide time, Wide units) const override {
        return missing(quota, time) + units * window_of(quota) <=
               quota.capacity() * window_of(quota);
    }
    void forget() override { missing_ = 0; }

  private:
    void take_some(const Quota &quota, Wide now) override {
        missing_ = missing(quota, now) + quota.cost * window_of(quota);
        last_ = now;
        limit_ = quota.limit;
    }

    Wide missing(const Quota &quota, Wide time) const {
        if (missing_ == 0) {
            return 0;
        }
        // another limit leaves the time as it is in which the bucket would be full
        const Wide then = (missing_ * quota.limit + limit_ - 1) / limit_;
        return std::max<Wide>(then - (time - last_) * quota.limit, 0);
    }

    Wide end(const Quota & /*quota*/) const override {
        return last_ + (missing_ + limit_ - 1) / limit_ + 1;
    }

    Wide delay(const Quota &quota, Wide now) const override {
        const Wide undelayed = (1 + quota.delay) * window_of(quota);
        const Wide excess = missing(quota, now) - undelayed;
        const bool is_leaky = quota.algorithm == Algorithm::leaky_bucket;
        return is_leaky && excess > 0 ? (excess + quota.limit - 1) / quota.limit : 0;
    }

    Wide missing_ = 0, last_ = 0; // so many were missing then
    Wide limit_ = 1;              // of that time
};

class PermitTable final : public Concurrency {
  public:
    bool fits(const Quota &quota, Wide time, Wide units) const override {
        Wide taken = units;
        for (const Permit &permit : permits_) {
            taken += permit.free_at > time ? permit.units : 0;
        }
        return taken <= quota.limit;
    }
    void forget() override { permits_.clear(); }

    void take_permit(const Quota &quota, Wide now, std::string_view name) override {
        std::erase_if(permits_, [&](const Permit &permit) { return permit.free_at <= now; });
        permits_.push_back({std::string(name), quota.cost, now + window_of(quota)});
    }
    void release(std::string_view name) override {
        std::erase_if(permits_, [&](const Permit &permit) { return permit.name == name; });
    }
    void renew(const Quota &quota, Wide now, std::string_view name) override {
        for (Permit &permit : permits_) {
            if (permit.name == name) {
                permit.free_at = now + window_of(quota);
            }
        }
    }

    Verdict verdict(const Quota &quota, Wide now, bool fitted, bool charged) const override {
        constexpr std::chrono::seconds a_while{1};
        Verdict verdict = Model::verdict(quota, now, fitted, charged);
        // nobody knows when a request ends
        verdict.next_unit = microseconds{0};
        verdict.reset = microseconds{0};
        if (verdict.remaining < quota.limit) {
            verdict.reset = a_while;
        }
        if (verdict.decision == Decision::denied) {
            verdict.retry_after = a_while;
        }
        return verdict;
    }

  private:
    struct Permit {
        std::string name;
        Wide units;
        Wide free_at;
    };

    void take_some(const Quota &quota, Wide now) override { take_permit(quota, now, ""); }
    Wide end(const Quota & /*quota*/) const override {
        Wide end = 0;
        for (const Permit &permit : permits_) {
            end = std::max(end, permit.free_at);
        }
        return end;
    }

    std::vector<Permit> permits_;
};

} // namespace

bool Model::fits(const Quota &quota, Wide now) const {
    return fits(quota, now, quota.cost);
}

void Model::take(const Quota &quota, Wide now) {
    if (quota.cost > 0) {
        take_some(quota, now);
    }
}

Wide Model::wait_for(const Quota &quota, Wide now, Wide units) const {
    return least(-1, std::max<Wide>(end(quota) - now, 0),
                 [&](Wide wait) { return fits(quota, now + wait, units); });
}

Verdict Model::verdict(const Quota &quota, Wide now, bool fitted, bool charged) const {
    const auto time = [](Wide value) { return microseconds(static_cast<int64_t>(value)); };
    const Wide capacity = quota.capacity();
    Verdict verdict{.decision = fitted ? Decision::granted : Decision::denied};
    const Wide remaining =
        least(0, capacity + 1, [&](Wide units) { return !fits(quota, now, units); }) - 1;
    verdict.remaining = static_cast<uint64_t>(remaining);
    if (quota.cost > capacity) {
        verdict.decision = Decision::never;
    } else if (!fitted) {
        verdict.retry_after = time(wait_for(quota, now, quota.cost));
    }
    if (remaining < capacity) {
        verdict.next_unit = time(wait_for(quota, now, remaining + 1));
    }
    verdict.reset = time(wait_for(quota, now, capacity));
    if (charged && quota.cost > 0) {
        verdict.delay = time(delay(quota, now));
    }
    return verdict;
}

std::unique_ptr<Model> model_of(Algorithm algorithm, bool aligned) {
    switch (algorithm) {
    case Algorithm::fixed_window:
        return std::make_unique<FixedWindow>(aligned);
    case Algorithm::sliding_log:
        return std::make_unique<SlidingLog>();
    case Algorithm::sliding_window:
        return std::make_unique<SlidingWindow>();
    case Algorithm::concurrency:
        return concurrency_model();
    default:
        return std::make_unique<Bucket>();
    }
}

std::unique_ptr<Concurrency> concurrency_model() {
    return std::make_unique<PermitTable>();
}

} // namespace model
