#include "settled_counters.hpp"

#include <algorithm>
#include <deque>
#include <map>

namespace model {

namespace {

using rate_limit::Algorithm;
using rate_limit::Quota;
using std::chrono::microseconds;

__extension__ using Wide = __int128;

constexpr int64_t furthest = microseconds(rate_limit::longest_debt).count();

class SettledFixedWindow final : public SettledCounter {
  public:
    SettledFixedWindow(const Quota &quota, bool aligned)
        : SettledCounter(quota), aligned_(aligned) {}
    bool fits(int64_t now, int64_t units) override {
        return (now < end_ ? taken_ : 0) + units <= limit;
    }
    int64_t charge(int64_t now, int64_t units) override {
        if (now >= end_ || taken_ == 0) {
            end_ = aligned_ ? now - now % window + window : now + window;
            taken_ = 0;
        }
        taken_ += units;
        return end_;
    }
    void give_back(int64_t now, int64_t units, int64_t charged) override {
        if (now < end_ && charged == end_) {
            taken_ -= units;
        }
    }

  private:
    bool aligned_;
    int64_t end_ = 0, taken_ = 0;
};

class SettledSlidingWindow final : public SettledCounter {
  public:
    using SettledCounter::SettledCounter;
    bool fits(int64_t now, int64_t units) override {
        const int64_t number = now / window;
        const Wide overlap = window - now % window;
        return Wide{taken_[number - 1]} * overlap + Wide{taken_[number] + units} * window <=
               Wide{limit} * window;
    }
    int64_t charge(int64_t now, int64_t units) override {
        taken_[now / window] += units;
        return now / window;
    }
    void give_back(int64_t /*now*/, int64_t units, int64_t charged) override {
        taken_[charged] -= units;
    }

  private:
    std::map<int64_t, int64_t> taken_;
};

class SettledSlidingLog final : public SettledCounter {
  public:
    using SettledCounter::SettledCounter;
    bool fits(int64_t now, int64_t units) override { return counting(now) + units <= limit; }
    int64_t charge(int64_t now, int64_t units) override {
        forget(now);
        int64_t entry = now;
        for (int64_t i = 0; i < units; ++i) {
            entry = std::max(entry, entries_.empty() ? now : entries_.back());
            const auto count = static_cast<int64_t>(entries_.size());
            if (count >= limit) { // worked off as fast as the rule grants
                entry =
                    std::max(entry, std::min(entries_[static_cast<size_t>(count - limit)] + window,
                                             now + furthest));
            }
            entries_.push_back(entry);
        }
        return entry;
    }
    void give_back(int64_t /*now*/, int64_t units, int64_t charged) override {
        for (; units > 0; --units) {
            const auto last = std::find(entries_.rbegin(), entries_.rend(), charged);
            if (last == entries_.rend()) {
                return;
            }
            entries_.erase(std::next(last).base());
        }
    }

  private:
    void forget(int64_t now) {
        while (!entries_.empty() && entries_.front() <= now - window) {
            entries_.pop_front();
        }
    }
    int64_t counting(int64_t now) const {
        return std::ranges::count_if(entries_, [&](int64_t entry) { return entry > now - window; });
    }

    std::deque<int64_t> entries_;
};

class SettledBucket final : public SettledCounter {
  public:
    explicit SettledBucket(const Quota &quota) : SettledCounter(quota), interval_(window / limit) {}
    bool fits(int64_t now, int64_t units) override {
        return std::max(full_, now) + units * interval_ <= now + capacity * interval_;
    }
    int64_t charge(int64_t now, int64_t units) override {
        const int64_t from = std::max(full_, now);
        const int64_t most = std::max(from, now + furthest);
        full_ = static_cast<int64_t>(std::min<Wide>(from + Wide{units} * interval_, most));
        return full_ + given_back_;
    }
    void give_back(int64_t now, int64_t units, int64_t charged) override {
        const int64_t still_taken = std::max<int64_t>(charged - given_back_ - now, 0);
        const int64_t back = std::min(still_taken, units * interval_);
        full_ -= back;
        given_back_ += back;
    }

  private:
    int64_t interval_;
    int64_t full_ = 0; // when all units are there
    int64_t given_back_ = 0;
};

} // namespace

std::unique_ptr<SettledCounter> settled_counter_of(const Quota &quota, bool aligned) {
    switch (quota.algorithm) {
    case Algorithm::fixed_window:
        return std::make_unique<SettledFixedWindow>(quota, aligned);
    case Algorithm::sliding_window:
        return std::make_unique<SettledSlidingWindow>(quota);
    case Algorithm::sliding_log:
        return std::make_unique<SettledSlidingLog>(quota);
    default:
        return std::make_unique<SettledBucket>(quota);
    }
}

} // namespace model
