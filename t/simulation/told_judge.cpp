#include "simulation/told_judge.hpp"

#include "simulation/bucket.hpp"
#include "simulation/numbers_of_key.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace simulation {

namespace {

/// What is taken of a quota. Grants are told in the order of their times.
class Taken {
  public:
    virtual ~Taken() = default;
    virtual void take(const Grant &grant) = 0;
    /// Takes back what the grant's request did not need, from where it was taken. Nothing changes
    /// where that no longer counts.
    virtual void give_back(const Grant &grant) = 0;
    /// Whether so many units are there at a time, if no more are taken before.
    virtual bool has(uint64_t units, int64_t time_us) const = 0;
};

class TakenOfLog final : public Taken {
  public:
    TakenOfLog(int64_t window_us, uint64_t limit) : window_us_(window_us), limit_(limit) {}
    void take(const Grant &grant) override {
        while (!taken_.empty() && taken_.begin()->first <= grant.time_us - window_us_) {
            taken_.erase(taken_.begin());
        }
        taken_[grant.time_us] += grant.cost;
    }
    void give_back(const Grant &grant) override {
        if (const auto found = taken_.find(grant.time_us); found != taken_.end()) {
            found->second -= grant.returned();
        }
    }
    bool has(uint64_t units, int64_t time_us) const override {
        const auto counted = taken_.upper_bound(time_us - window_us_);
        const auto add = [](Wide sum, const auto &taken) { return sum + taken.second; };
        return std::accumulate(counted, taken_.end(), Wide{units}, add) <= limit_;
    }

  private:
    int64_t window_us_;
    uint64_t limit_;
    std::map<int64_t, uint64_t> taken_; // by time
};

class TakenOfFixedWindow final : public Taken {
  public:
    TakenOfFixedWindow(const AuditedRule &rule, uint64_t limit) : rule_(rule), limit_(limit) {}
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
    void give_back(const Grant &grant) override {
        if (grant.time_us >= begin_us_ && grant.cost > 0) {
            taken_ -= grant.returned();
        }
    }
    bool has(uint64_t units, int64_t time_us) const override {
        return Wide{time_us < end_us_ ? taken_ : 0} + units <= limit_;
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
    uint64_t limit_;
    uint64_t taken_ = 0;
    int64_t begin_us_ = INT64_MIN; // the first charge of its window
    int64_t end_us_ = INT64_MIN;
};

/// Its windows begin where Redis's clock is a multiple of their length.
class TakenOfSlidingWindow final : public Taken {
  public:
    TakenOfSlidingWindow(int64_t window_us, uint64_t limit)
        : window_us_(window_us), limit_(limit) {}
    void take(const Grant &grant) override {
        ahead_us_ = grant.redis_ahead_us;
        taken_[(grant.time_us + ahead_us_) / window_us_] += grant.cost;
    }
    void give_back(const Grant &grant) override {
        taken_[(grant.time_us + ahead_us_) / window_us_] -= grant.returned();
    }
    bool has(uint64_t units, int64_t time_us) const override {
        const int64_t clock_us = time_us + ahead_us_;
        const int64_t window = clock_us / window_us_;
        const int64_t left_us = window_us_ - clock_us % window_us_;
        return of(window - 1) * left_us + (of(window) + units) * window_us_ <=
               Wide{limit_} * window_us_;
    }

  private:
    Wide of(int64_t window) const {
        const auto found = taken_.find(window);
        return found == taken_.end() ? 0 : found->second;
    }

    int64_t window_us_;
    uint64_t limit_;
    int64_t ahead_us_ = 0;
    std::map<int64_t, uint64_t> taken_; // by the window's number
};

class TakenOfBucket final : public Taken {
  public:
    TakenOfBucket(int64_t window_us, uint64_t limit, uint64_t capacity)
        : bucket_(window_us), limit_(limit), capacity_(capacity) {}
    void take(const Grant &grant) override {
        bucket_.pass_to(grant.time_us, limit_);
        bucket_.take(grant.cost);
    }
    void give_back(const Grant & /*grant*/) override { abort(); }
    bool has(uint64_t units, int64_t time_us) const override {
        Bucket then = bucket_;
        then.pass_to(time_us, limit_);
        return then.excess(units, capacity_) <= 0;
    }

  private:
    Bucket bucket_;
    uint64_t limit_;
    uint64_t capacity_;
};

/// Returns nothing where it is not known what counts: when permits have come back, how much of a
/// unit was there already when one came back to a bucket, or whether all had come back before the
/// unit that begins the next window.
std::unique_ptr<Taken> nothing_taken(const AuditedRule &rule, uint64_t limit, uint64_t capacity,
                                     bool has_returns) {
    if (rule.is_bucket()) {
        if (has_returns) {
            return nullptr;
        }
        return std::make_unique<TakenOfBucket>(rule.window_us, limit, capacity);
    }
    if (rule.algorithm == "sliding_log") {
        return std::make_unique<TakenOfLog>(rule.window_us, limit);
    }
    if (rule.algorithm == "fixed_window") {
        if (has_returns && !rule.is_aligned && rule.window_ends_us.empty()) {
            return nullptr;
        }
        return std::make_unique<TakenOfFixedWindow>(rule, limit);
    }
    if (rule.algorithm == "sliding_window") {
        return std::make_unique<TakenOfSlidingWindow>(rule.window_us, limit);
    }
    return nullptr;
}

/// Whether so many units are there after the wait, and not a microsecond before.
bool is_wait_for(const Taken &taken, uint64_t units, int64_t time_us, int64_t wait_us) {
    return wait_us >= 0 && taken.has(units, time_us + wait_us) &&
           (wait_us == 0 || !taken.has(units, time_us + wait_us - 1));
}

/// Of a decision by Redis, after which so much is taken.
std::optional<std::string> judge_told(const Taken &taken, const Told &told, uint64_t capacity,
                                      int64_t time_us) {
    const std::string at = " at " + std::to_string(time_us);
    if (told.remaining > capacity || !taken.has(told.remaining, time_us) ||
        (told.remaining < capacity && taken.has(told.remaining + 1, time_us))) {
        return "told that " + std::to_string(told.remaining) + " units were left" + at;
    }
    if (!is_wait_for(taken, capacity, time_us, told.reset_us)) {
        return "told that all units come back in " + std::to_string(told.reset_us) + " us" + at;
    }
    return std::nullopt;
}

/// What was decided without a charge, or only looked at.
struct Asked {
    int64_t time_us;
    uint64_t cost;
    uint64_t capacity;
    Told told;
};

std::optional<std::string> judge_told(const Taken &taken, const Asked &asked) {
    const int64_t wait_us = asked.told.retry_after_us;
    const bool is_wait = asked.cost > asked.capacity
                             ? wait_us == 0 // it can never be granted
                             : is_wait_for(taken, asked.cost, asked.time_us, wait_us);
    if (!is_wait) {
        return "told to wait for " + std::to_string(wait_us) + " us at " +
               std::to_string(asked.time_us);
    }
    return judge_told(taken, asked.told, asked.capacity, asked.time_us);
}

/// What comes back, as far as Redis has heard of it.
class Returns {
  public:
    explicit Returns(const JudgedKey &key) : heard_within_us_(2 * key.permits_return_within_us) {
        for (const Grant &grant : key.grants) {
            if (grant.returned() > 0) {
                all_.push_back(&grant);
            }
        }
        std::ranges::stable_sort(all_, {}, &Grant::ended_us);
    }

    bool empty() const { return all_.empty(); }
    void give_back_until(int64_t time_us, Taken &taken) {
        for (; next_ < all_.size() && all_[next_]->ended_us <= time_us; ++next_) {
            taken.give_back(*all_[next_]);
        }
    }
    /// Whether Redis has heard of all that came back until then.
    bool are_heard(int64_t time_us) const {
        return next_ == 0 || all_[next_ - 1]->ended_us + heard_within_us_ < time_us;
    }

  private:
    int64_t heard_within_us_;
    std::vector<const Grant *> all_; // by the ends of their requests
    size_t next_ = 0;
};

/// In the order of their times. Blocks have numbers of their own, and a look may be of numbers that
/// an operator has set for a while.
std::vector<Asked> all_asked(const std::vector<Denial> &denials, const std::vector<Look> &looks,
                             const Grant &like) {
    std::vector<Asked> all;
    for (const Denial &denial : denials) {
        if (denial.told && denial.blocked_until_us == 0) {
            all.push_back({denial.time_us, denial.cost, denial.capacity, *denial.told});
        }
    }
    for (const Look &look : looks) {
        if (look.limit == like.limit && look.capacity == like.capacity) {
            all.push_back({look.time_us, look.cost, look.capacity, look.told});
        }
    }
    std::ranges::stable_sort(all, {}, &Asked::time_us);
    return all;
}

} // namespace

/// Grants of one microsecond have no order that anybody knows, nor what is decided beside them.
std::optional<std::string> judge_told_numbers(const JudgedKey &key,
                                              const std::vector<Look> &looks) {
    if (key.grants.empty() || !Numbers(key).are_always_the_same()) {
        return std::nullopt; // denials alone come of what nobody was granted
    }
    const Grant &first = key.grants.front();
    Returns returns(key);
    const auto taken = nothing_taken(key.rule, first.limit, first.capacity, !returns.empty());
    const auto has_debt = [](const Grant &grant) { return grant.debt() > 0; };
    if (taken == nullptr || std::ranges::any_of(key.grants, has_debt)) {
        return std::nullopt;
    }
    std::optional<std::string> wrong;
    const std::vector<Asked> all = all_asked(key.denials, looks, first);
    auto asked = all.begin();
    const auto judge_asked_until = [&](int64_t time_us) {
        for (; asked != all.end() && asked->time_us < time_us && !wrong; ++asked) {
            returns.give_back_until(asked->time_us, *taken);
            wrong = returns.are_heard(asked->time_us) ? judge_told(*taken, *asked) : std::nullopt;
        }
    };
    for (auto grant = key.grants.begin(); grant != key.grants.end() && !wrong;) {
        const int64_t time_us = grant->time_us;
        judge_asked_until(time_us);
        const auto next = std::find_if(grant, key.grants.end(), [time_us](const Grant &other) {
            return other.time_us != time_us;
        });
        returns.give_back_until(time_us, *taken);
        std::for_each(grant, next, [&](const Grant &one) { taken->take(one); });
        if (next - grant == 1 && grant->told && !wrong && returns.are_heard(time_us)) {
            wrong = judge_told(*taken, *grant->told, grant->capacity, time_us);
        }
        grant = next;
        while (asked != all.end() && asked->time_us == time_us) {
            ++asked;
        }
    }
    judge_asked_until(INT64_MAX);
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
