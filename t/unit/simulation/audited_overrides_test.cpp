// The auditor of overrides: who obeys in time is taken, who does not is refused.

#include "simulation/audited_overrides.hpp"

#include <gtest/gtest.h>

namespace simulation {
namespace {

constexpr int64_t second_us = 1'000'000;
constexpr int64_t began = 100 * second_us;

Setting limit_of(uint64_t limit) {
    return {.action = Setting::Action::numbers, .limit = limit};
}

class AuditedOverridesTest : public testing::Test {
  protected:
    /// An operator's write is answered after 1 ms.
    void write(const std::string &key, const std::string &rule, const Setting &what, int64_t sent,
               bool is_acknowledged = true, int64_t expires = INT64_MAX) {
        overrides_.write({.key = key,
                          .rule = rule,
                          .what = what,
                          .sent_us = sent,
                          .done_us = sent + 1'000,
                          .is_acknowledged = is_acknowledged,
                          .expires_us = expires});
    }
    void decide(int64_t time, uint64_t limit) {
        overrides_.obey({.key = "k", .rule = &rule_, .time_us = time, .limit = limit});
    }
    void decide(int64_t time, Setting::Action action) {
        overrides_.obey({.key = "k", .rule = &rule_, .time_us = time, .action = action});
    }
    size_t complaints() { return overrides_.judge().size(); }

    AuditedRule rule_{.name = "r", .algorithm = "sliding_log", .limit = 5, .window_us = second_us};
    AuditedOverrides overrides_;
};

TEST_F(AuditedOverridesTest, NobodyHasSetAnything) {
    decide(began, 5);
    EXPECT_EQ(complaints(), 0u);
    decide(began, 6);
    EXPECT_EQ(complaints(), 1u);
}

TEST_F(AuditedOverridesTest, HostsHaveTwoSeconds) {
    write("k", "", limit_of(7), began);
    decide(began - 1, 5);
    decide(began + 1, 7);
    decide(began + 2 * second_us, 5);
    decide(began + 3 * second_us, 7);
    EXPECT_EQ(complaints(), 0u);
    decide(began + 3 * second_us, 5);
    EXPECT_EQ(complaints(), 1u);
}

TEST_F(AuditedOverridesTest, NobodyKnowsOfItBefore) {
    write("k", "", limit_of(7), began);
    decide(began - 1, 7);
    EXPECT_EQ(complaints(), 1u);
}

TEST_F(AuditedOverridesTest, HostsInTroubleHaveLonger) {
    write("k", "", limit_of(7), began);
    overrides_.disturb(began + second_us, began + 4 * second_us);
    decide(began + 6 * second_us - 1, 5);
    EXPECT_EQ(complaints(), 0u);
    decide(began + 6 * second_us, 5);
    EXPECT_EQ(complaints(), 1u);
}

TEST_F(AuditedOverridesTest, AnExpiredOneDoesNotComeBack) {
    write("k", "", limit_of(7), began, true, began + 3 * second_us);
    decide(began + 3 * second_us, 7);
    decide(began + 3 * second_us, 5);
    EXPECT_EQ(complaints(), 0u);
    decide(began + 4 * second_us, 7);
    EXPECT_EQ(complaints(), 1u);
}

TEST_F(AuditedOverridesTest, ItHoldsUntilItExpires) {
    write("k", "", limit_of(7), began, true, began + 9 * second_us);
    decide(began + 8 * second_us, 5);
    EXPECT_EQ(complaints(), 1u);
}

TEST_F(AuditedOverridesTest, OfTwoAtOnceEitherHolds) {
    write("k", "", limit_of(7), began);
    write("k", "", limit_of(8), began);
    decide(began + 5 * second_us, 7);
    decide(began + 5 * second_us, 8);
    EXPECT_EQ(complaints(), 0u);
    decide(began + 5 * second_us, 5);
    EXPECT_EQ(complaints(), 1u);
}

TEST_F(AuditedOverridesTest, OneWhoseAnswerWasLostMayHoldOrNot) {
    write("k", "", limit_of(7), began, false);
    decide(began + 5 * second_us, 7);
    decide(began + 5 * second_us, 5);
    EXPECT_EQ(complaints(), 0u);
    write("k", "", limit_of(8), began + 5 * second_us);
    decide(began + 8 * second_us, 7);
    EXPECT_EQ(complaints(), 1u);
}

TEST_F(AuditedOverridesTest, WhatIsForgottenNeverComesBack) {
    write("k", "", limit_of(7), began);
    overrides_.forget_all(began + 5 * second_us);
    decide(began + 7 * second_us - 1, 7);
    decide(began + 9 * second_us, 5);
    EXPECT_EQ(complaints(), 0u);
    decide(began + 7 * second_us, 7);
    EXPECT_EQ(complaints(), 1u);
}

TEST_F(AuditedOverridesTest, InDoubtAllMayHoldUntilItIsSetAnew) {
    write("k", "", limit_of(7), began);
    overrides_.doubt_all(began + 5 * second_us);
    decide(began + 9 * second_us, 5);
    decide(began + 9 * second_us, 7);
    EXPECT_EQ(complaints(), 0u);
    write("k", "", limit_of(8), began + 10 * second_us);
    decide(began + 13 * second_us, 8);
    EXPECT_EQ(complaints(), 0u);
    decide(began + 13 * second_us, 7);
    EXPECT_EQ(complaints(), 1u);
}

TEST_F(AuditedOverridesTest, WhatAllHostsObeyedOutlivesAnOlderStore) {
    write("k", "", limit_of(6), began - 9 * second_us);
    write("k", "", limit_of(7), began);
    overrides_.lose_newest(began + 5 * second_us, false);
    decide(began + 5 * second_us, 7);
    decide(began + 9 * second_us, 7);
    EXPECT_EQ(complaints(), 0u);
    decide(began + 9 * second_us, 6);
    EXPECT_EQ(complaints(), 1u);
}

TEST_F(AuditedOverridesTest, WhatOneOfThemMayNotHaveHeardMayBeLost) {
    write("k", "", limit_of(6), began - 9 * second_us);
    write("k", "", limit_of(7), began);
    overrides_.lose_newest(began + second_us, false);
    decide(began + 9 * second_us, 7);
    decide(began + 9 * second_us, 6);
    EXPECT_EQ(complaints(), 0u);
    write("k", "", limit_of(8), began + 10 * second_us);
    decide(began + 13 * second_us, 7);
    EXPECT_EQ(complaints(), 1u);
}

TEST_F(AuditedOverridesTest, WhatAWorkerKnewThatHasGoneMayBeLost) {
    write("k", "", limit_of(7), began);
    overrides_.lose_newest(began + 5 * second_us, false);
    overrides_.lose_worker(began + 6 * second_us);
    decide(began + 9 * second_us, 5);
    EXPECT_EQ(complaints(), 0u);
}

TEST_F(AuditedOverridesTest, AnotherClockMayLetItExpireEarlier) {
    write("k", "", limit_of(7), began, true, began + 50 * second_us);
    overrides_.lose_newest(began + 5 * second_us, false);
    decide(began + 9 * second_us, 7);
    EXPECT_EQ(complaints(), 0u);
    overrides_.lose_newest(began + 10 * second_us, true);
    decide(began + 14 * second_us, 5);
    EXPECT_EQ(complaints(), 0u);
    decide(began + 9 * second_us, 5);
    EXPECT_EQ(complaints(), 1u);
}

TEST_F(AuditedOverridesTest, AClientAtARuleGoesFirstAndARuleLast) {
    write("", "r", limit_of(6), began);
    write("k", "", limit_of(7), began);
    write("k", "r", limit_of(8), began);
    decide(began + 5 * second_us, 8);
    EXPECT_EQ(complaints(), 0u);
    write("k", "r", {}, began + 5 * second_us);
    decide(began + 9 * second_us, 7);
    EXPECT_EQ(complaints(), 0u);
    decide(began + 9 * second_us, 6);
    EXPECT_EQ(complaints(), 1u);
}

TEST_F(AuditedOverridesTest, BansAndExemptions) {
    write("k", "", {.action = Setting::Action::ban}, began);
    decide(began + 5 * second_us, Setting::Action::ban);
    EXPECT_EQ(complaints(), 0u);
    write("k", "", {.action = Setting::Action::exempt}, began + 6 * second_us);
    decide(began + 9 * second_us, Setting::Action::exempt);
    EXPECT_EQ(complaints(), 0u);
    decide(began + 9 * second_us, Setting::Action::ban);
    EXPECT_EQ(complaints(), 1u);
}

TEST_F(AuditedOverridesTest, ABucketsBurstIsTheConfiguredOneIfNoneIsSet) {
    rule_.algorithm = "gcra";
    rule_.burst = 3;
    write("k", "", limit_of(7), began);
    const auto decide = [&](uint64_t capacity) {
        overrides_.obey({.key = "k",
                         .rule = &rule_,
                         .time_us = began + 5 * second_us,
                         .limit = 7,
                         .capacity = capacity});
    };
    decide(4);
    EXPECT_EQ(complaints(), 0u);
    decide(7);
    EXPECT_EQ(complaints(), 1u);
}

} // namespace
} // namespace simulation
