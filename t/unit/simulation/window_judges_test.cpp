// What each kind of window may grant.

#include "unit/simulation/audited.hpp"

#include <gtest/gtest.h>

namespace simulation {
namespace {

TEST(WindowJudgesTest, HoldsALogToItsLimitInAnyWindow) {
    EXPECT_EQ(complaints(rule("sliding_log", 2), {{0, 1}, {1, 1}, {second, 1}, {second + 1, 1}}),
              0u);
    EXPECT_EQ(complaints(rule("sliding_log", 2), {{0, 1}, {1, 1}, {second - 1, 1}}), 1u);
    EXPECT_EQ(complaints(rule("sliding_log", 2), {{0, 3}}), 1u);
}

TEST(WindowJudgesTest, HoldsWindowsToWhatTwoOfThemGrant) {
    EXPECT_EQ(complaints(rule("fixed_window", 2), {{0, 2}, {1, 2}}), 0u);
    EXPECT_EQ(complaints(rule("fixed_window", 2), {{0, 2}, {1, 2}, {2, 1}}), 1u);
    const auto after_a_step = [](uint64_t cost) {
        return Grant{.time_us = 1, .cost = cost, .redis_ahead_us = -1};
    };
    EXPECT_EQ(complaints(rule("sliding_window", 2), {{0, 2}, after_a_step(1)}), 0u);
    EXPECT_EQ(complaints(rule("sliding_window", 2), {{0, 2}, after_a_step(2)}), 1u);
}

TEST(WindowJudgesTest, HoldsAFixedWindowToItsLimitWhereItsEndIsKnown) {
    const auto in_window = [](int64_t time_us, uint64_t cost, int64_t ends_us) {
        return Grant{.time_us = time_us, .cost = cost, .window_ends_us = ends_us};
    };
    const auto leased = [](int64_t time_us) {
        return Grant{.time_us = time_us, .cost = 1, .by = GrantedBy::lease};
    };
    const int64_t first = second;
    const int64_t next = 2 * second + 5;
    const AuditedRule of = rule("fixed_window", 3);
    EXPECT_EQ(complaints(of, {in_window(0, 2, first), leased(first - 1),
                              in_window(next - second, 3, next), leased(next)}),
              0u);
    EXPECT_EQ(complaints(of, {in_window(0, 2, first), in_window(first - 1, 2, first)}), 1u);
    EXPECT_EQ(complaints(of, {in_window(0, 2, first), leased(next - second),
                              in_window(next - second, 3, next)}),
              1u);
    EXPECT_EQ(complaints(of, {in_window(0, 3, first), leased(first + 1)}), 0u) << "of a third one";
}

TEST(WindowJudgesTest, WantsAlignedWindowsAtMultiplesOfTheirLengthByRedissClock) {
    AuditedRule of = rule("fixed_window", 3);
    of.is_aligned = true;
    const auto in_window_until = [](int64_t ends_us) {
        return Grant{.time_us = 0, .cost = 1, .redis_ahead_us = 5, .window_ends_us = ends_us};
    };
    EXPECT_EQ(complaints(of, {in_window_until(second - 5)}), 0u);
    EXPECT_EQ(complaints(of, {in_window_until(second)}), 1u);
}

TEST(WindowJudgesTest, RefusesAWindowThatBeginsBeforeTheLastOneHasEndedByRedissClock) {
    const auto granted = [](int64_t time_us, int64_t ahead_us, int64_t ends_us) {
        return Grant{
            .time_us = time_us, .cost = 1, .redis_ahead_us = ahead_us, .window_ends_us = ends_us};
    };
    const AuditedRule of = rule("fixed_window", 3);
    const int64_t later = second + second / 2;
    EXPECT_EQ(complaints(of, {granted(0, 0, second), granted(later, 0, later + second)}), 0u);
    const int64_t back = -2 * second; // the clock has stepped
    EXPECT_EQ(complaints(of, {granted(0, 0, second), granted(later, back, second - back)}), 0u);
    EXPECT_EQ(complaints(of, {granted(0, 0, second), granted(later, back, later + second)}), 1u);
    const int64_t of_a_client_that_left = 2 * second + 5; // and began it before the step
    EXPECT_EQ(
        complaints(of, {granted(0, 0, second), granted(later, back, of_a_client_that_left - back)}),
        0u);
    AuditedRule settling = of;
    settling.settles = true;
    EXPECT_EQ(complaints(settling, {granted(0, 0, second), granted(later, back, later + second)}),
              0u);
}

TEST(WindowJudgesTest, KnowsThatLeasesMayComeBackToACopyWithoutThem) {
    for (const auto &[has_leases, complaints] : {std::pair{false, 1u}, {true, 0u}}) {
        Auditor auditor;
        AuditedRule of = rule("fixed_window", 3);
        of.has_leases = has_leases;
        auditor.add_rule(of, long_ago);
        auditor.grant(0, "k", by(of, {.time_us = 0, .cost = 1, .window_ends_us = second}));
        const size_t copy = auditor.copy_history(0, 3, 5);
        auditor.grant(
            0, "k",
            by(of, {.time_us = 6, .cost = 1, .window_ends_us = second + 6, .history = copy}));
        EXPECT_EQ(auditor.judge().size(), complaints);
    }
}

TEST(WindowJudgesTest, KnowsWhichWindowsACalendarHas) {
    AuditedRule of = rule("fixed_window", 3);
    of.window_ends_us = {second, 3 * second};
    for (const auto &[ends_us, refused] : {std::pair{second, 0u}, {2 * second, 1u}}) {
        EXPECT_EQ(complaints(of, {{.time_us = 0, .cost = 1, .window_ends_us = ends_us}}), refused);
    }
}

TEST(WindowJudgesTest, HoldsASlidingWindowToItsWeights) {
    const AuditedRule of = rule("sliding_window", 4);
    const int64_t half = second + second / 2;
    EXPECT_EQ(complaints(of, {{0, 4}, {half, 2}}), 0u);
    EXPECT_EQ(complaints(of, {{0, 4}, {half - 1, 2}}), 1u);
    EXPECT_EQ(complaints(of, {{0, 3}, {half, 2}, {half, 1, 0, 0, GrantedBy::lease}}), 1u);
}

} // namespace
} // namespace simulation
