// Windows of a calendar on a host that decides alone: they are those of its wall clock.
#include "local_test.hpp"

#include "unit/rate_limit/calendar/calendars.hpp"

#include <gtest/gtest.h>

namespace rate_limit {
namespace {

class LocalCalendar : public testing::Test {
  protected:
    Quota quota(uint64_t cost = 1) const {
        Quota some{.algorithm = Algorithm::fixed_window, .limit = 3, .cost = cost};
        some.calendar = month_.get();
        return some;
    }
    Quota quota_at(int64_t time, uint64_t cost = 1) const {
        Quota some = quota(cost);
        some.set_window_at(std::chrono::microseconds(time));
        return some;
    }
    Verdict ask(int64_t time, uint64_t cost = 1) { return host_.ask(quota_at(time, cost), time); }

    std::shared_ptr<const Calendar> month_ = utc_calendar(CalendarUnit::month);
    int64_t march_ = midnight_of({2026, 3, 1}).count();
    int64_t april_ = midnight_of({2026, 4, 1}).count();
    Host host_{march_ - 10 * second};
};

TEST_F(LocalCalendar, BeginsAndEndsWithTheMonth) {
    EXPECT_EQ(ask(march_ - second, 3).reset.count(), second);
    EXPECT_EQ(ask(march_ - 1).decision, Decision::denied);
    EXPECT_EQ(ask(march_ - 1).retry_after.count(), 1);
    const Verdict first = ask(march_);
    EXPECT_EQ(first.remaining, 2u);
    EXPECT_EQ(first.reset.count(), april_ - march_);
    EXPECT_EQ(ask(april_ - 1, 2).remaining, 0u);
    EXPECT_EQ(ask(april_, 3).remaining, 0u);
}

TEST_F(LocalCalendar, KnowsWhatRedisHasGranted) {
    const int64_t time = march_ + 1000 * second;
    Verdict verdict{.remaining = 1};
    verdict.reset = verdict.next_unit = std::chrono::microseconds(april_ - time);
    host_.record(quota_at(time), verdict, time);
    EXPECT_EQ(ask(time + second).remaining, 0u);
    EXPECT_EQ(ask(time + second).retry_after.count(), april_ - time - second);
    EXPECT_EQ(ask(april_).remaining, 2u);
}

TEST_F(LocalCalendar, ReturnsUnitsToTheirWindowAlone) {
    const auto at = [&](int64_t time) { return host_.at(time); };
    const auto decision = decide_locally({}, quota(2), false, at(march_ - second));
    const LocalSettlement back{.receipt = decision.receipt, .to_return = 2};
    const auto same = settle_locally(decision.after, quota(2), back, false, at(march_ - 1));
    ASSERT_TRUE(same);
    EXPECT_EQ(same->values[1], 0u);
    const auto next = decide_locally({}, quota(2), false, at(march_));
    EXPECT_EQ(settle_locally(next.after, quota(2), back, false, at(march_)), std::nullopt);
    const auto debt = settle_locally({}, quota(2), {.to_charge = 5}, false, at(march_));
    ASSERT_TRUE(debt);
    EXPECT_EQ(debt->holds_for.count(), april_ - march_);
}

} // namespace
} // namespace rate_limit
