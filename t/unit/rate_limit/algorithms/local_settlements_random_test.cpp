// Compares what this host settles alone with exact counters: for random rules, costs, final costs
// and times.

#include "local_test.hpp"
#include "model/settled_counters.hpp"
#include "unit/rate_limit/algorithms.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rate_limit {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// One key on a host, and the exact counter. Both are told the same.
class HostAndCounter {
  public:
    HostAndCounter(const Quota &quota, bool aligned)
        : quota_(quota),
          aligned_(aligned),
          parts_(is_bucket(quota.algorithm) ? static_cast<int64_t>(Interval(quota).parts) : 1),
          counter_(model::settled_counter_of(in_parts(), aligned)) {}

    /// Asks for so many units. Returns whether the host grants them.
    bool ask(int64_t time, int64_t units) {
        Quota quota = asking(quota_, static_cast<uint64_t>(units));
        keep_cost_free(quota, true);
        const auto needed = static_cast<int64_t>(quota.cost);
        const LocalDecision decision =
            decide_locally(host_.known(time), quota, aligned_, host_.at(time));
        host_.keep(decision.after);
        const bool granted = decision.verdict.decision == Decision::granted;
        const bool fits = counter_->fits(time * parts_, needed);
        EXPECT_TRUE(fits || !granted) << "at " << time - begin;
        if (fits && !granted) {
            EXPECT_LE(decision.verdict.retry_after.count(), most_lag()) << "at " << time - begin;
        }
        if (granted) {
            const int64_t reserved = quota.reserves_nothing ? 0 : needed;
            in_flight_.push_back(
                {.receipt = decision.receipt,
                 .reserved = reserved,
                 .charged = reserved > 0 ? counter_->charge(time * parts_, reserved) : 0});
        }
        return granted;
    }

    size_t in_flight() const { return in_flight_.size(); }
    int64_t reserved(size_t which) const { return in_flight_[which].reserved; }

    /// A request that was granted ends, and turns out to cost that.
    void end(size_t which, int64_t time, int64_t final_cost) {
        const InFlight ended = in_flight_[which];
        in_flight_.erase(in_flight_.begin() + static_cast<ptrdiff_t>(which));
        const int64_t more = final_cost - ended.reserved;
        if (more == 0) {
            return;
        }
        LocalSettlement settlement{.receipt = ended.receipt};
        if (more > 0) {
            settlement.to_charge = static_cast<uint64_t>(more);
            counter_->charge(time * parts_, more);
        } else {
            settlement.to_return = static_cast<uint64_t>(-more);
            counter_->give_back(time * parts_, -more, ended.charged);
            ++returns_;
        }
        host_.keep(settle_locally(host_.known(time), quota_, settlement, aligned_, host_.at(time)));
    }

  private:
    struct InFlight {
        int64_t receipt;
        int64_t reserved;
        int64_t charged; // what the counter's return refers to
    };

    /// The counter takes whole times alone: where a bucket's unit takes a fraction of a
    /// microsecond, its times are counted in parts of one.
    Quota in_parts() const {
        Quota quota = quota_;
        quota.window *= parts_;
        return quota;
    }

    /// How much longer the host may hold units: a log an eighth of its window, and a bucket loses a
    /// microsecond by each return of a fraction.
    int64_t most_lag() const {
        if (quota_.algorithm == Algorithm::sliding_log) {
            return microseconds(quota_.window).count() / 8 + 1;
        }
        return parts_ > 1 ? returns_ : 0;
    }

    Quota quota_;
    bool aligned_;
    int64_t parts_;
    std::unique_ptr<model::SettledCounter> counter_;
    Host host_{begin};
    std::vector<InFlight> in_flight_;
    int64_t returns_ = 0;
};

class LocalSettlementRandomTest : public testing::TestWithParam<Algorithm> {
  protected:
    Quota random_quota() {
        Quota quota;
        quota.algorithm = GetParam();
        quota.window = milliseconds(traffic_.one_of({40, 1'000, 10'000}));
        quota.limit = static_cast<uint64_t>(traffic_.one_of({1, 2, 3, 5, 7, 10, 40}));
        if (is_bucket(quota.algorithm)) {
            quota.set_capacity(static_cast<uint64_t>(traffic_.one_of({1, 8, 10, 50})));
        }
        return quota;
    }

    /// This host forgets the debts of a log after a window.
    int64_t random_final_cost(int64_t reserved) {
        if (GetParam() == Algorithm::sliding_log) {
            return traffic_.between(0, reserved);
        }
        return traffic_.one_in(6) ? traffic_.between(0, 4 * reserved + 30)
                                  : traffic_.between(0, reserved + 1);
    }

    model::Traffic traffic_ = make_traffic();
};

TEST_P(LocalSettlementRandomTest, SettlesAsTheExactCounterDoes) {
    int settled = 0;
    int denied = 0;
    for (int round = 0; round < 120 && !HasFailure(); ++round) {
        const Quota quota = random_quota();
        HostAndCounter both(quota, traffic_.one_in(2));
        const int64_t window = microseconds(quota.window).count();
        int64_t time = begin + traffic_.between(0, 10 * window);
        for (int step = 0; step < 120 && !HasFailure(); ++step) {
            SCOPED_TRACE(model::described(quota) + ", step " + std::to_string(step));
            time += traffic_.one_in(8) ? traffic_.between(0, 3 * window)
                                       : traffic_.between(0, window / 5);
            if (both.in_flight() > 0 && traffic_.one_in(2)) {
                const auto which = static_cast<size_t>(
                    traffic_.between(0, static_cast<int64_t>(both.in_flight()) - 1));
                both.end(which, time, random_final_cost(both.reserved(which)));
                ++settled;
            } else {
                denied +=
                    both.ask(time, traffic_.between(0, static_cast<int64_t>(quota.capacity()))) ? 0
                                                                                                : 1;
            }
        }
    }
    EXPECT_GT(settled, 2'000);
    EXPECT_GT(denied, 1'000);
}

INSTANTIATE_TEST_SUITE_P(Each, LocalSettlementRandomTest, testing::ValuesIn(all_but_concurrency),
                         [](const auto &info) { return std::string(to_string(info.param)); });

} // namespace
} // namespace rate_limit
