// What a host may grant alone.

#include "unit/simulation/audited.hpp"

#include "simulation/local_judge.hpp"

#include <functional>

#include <gtest/gtest.h>

namespace simulation {
namespace {

Grant alone(int64_t time_us, uint64_t cost, uint64_t limit, uint64_t capacity) {
    return {.time_us = time_us,
            .cost = cost,
            .limit = limit,
            .capacity = capacity,
            .by = GrantedBy::host_alone,
            .ended_us = INT64_MAX};
}

bool is_refused(const AuditedRule &of, uint64_t percent, const std::vector<Grant> &grants) {
    return judge_granted_alone({.rule = of, .percent = percent, .grants = grants}).has_value();
}

TEST(LocalJudgeTest, HoldsAHostToItsPartOfALimit) {
    const AuditedRule log = rule("sliding_log", 10);
    const Grant three = alone(0, 3, 10, 10);
    EXPECT_FALSE(is_refused(log, 35, {three, alone(second, 3, 10, 10)}));
    EXPECT_TRUE(is_refused(log, 35, {three, alone(second - 1, 1, 10, 10)}));
    EXPECT_FALSE(is_refused(log, 1, {alone(0, 4, 10, 10)})) << "it costs so much";
    EXPECT_TRUE(is_refused(log, 1, {alone(0, 11, 10, 10)}));
}

TEST(LocalJudgeTest, HoldsABucketToItsPartsOfBothNumbers) {
    const AuditedRule bucket = rule("gcra", 10, 20);
    const Grant ten = alone(0, 10, 10, 20);
    EXPECT_FALSE(is_refused(bucket, 50, {ten, alone(second / 5 + 5, 1, 10, 20)}));
    EXPECT_TRUE(is_refused(bucket, 50, {ten, alone(second / 5 - 5, 1, 10, 20)}));
}

TEST(LocalJudgeTest, TakesTwoFixedWindowsInOne) {
    const AuditedRule window = rule("fixed_window", 4);
    const std::vector<Grant> grants(4, alone(0, 1, 4, 4));
    EXPECT_FALSE(is_refused(window, 50, grants));
    EXPECT_TRUE(is_refused(window, 49, grants));
}

/// What the auditor makes of a host that grants twice what it may, alone.
size_t complaints_of_excess(const std::function<void(Auditor &)> &excuse) {
    Auditor auditor;
    auditor.set_local_percent(100);
    const AuditedRule log = rule("sliding_log", 1);
    auditor.add_rule(log, long_ago);
    excuse(auditor);
    auditor.grant(0, "k", alone(0, 1, 1, 1));
    auditor.grant(0, "k", alone(1, 1, 1, 1));
    return auditor.judge().size();
}

TEST(LocalJudgeTest, JudgesEachHostThatRemembersAll) {
    EXPECT_EQ(complaints_of_excess([](Auditor &) {}), 1u);
    EXPECT_EQ(complaints_of_excess([](Auditor &auditor) { auditor.set_local_percent(0); }), 0u);
    EXPECT_EQ(complaints_of_excess([](Auditor &auditor) { auditor.order_reset("k"); }), 0u);
    EXPECT_EQ(complaints_of_excess([](Auditor &auditor) { auditor.order_reset("other"); }), 1u);
    EXPECT_EQ(complaints_of_excess([](Auditor &auditor) { (void)auditor.begin_history(0); }), 0u);
    EXPECT_EQ(complaints_of_excess([](Auditor &auditor) {
                  auditor.check_in_vain(0, "k", {.time_us = 0, .limit = 1, .capacity = 1});
                  auditor.check_in_vain(0, "k", {.time_us = 0, .limit = 2, .capacity = 2});
              }),
              0u);

    Auditor of_two_hosts;
    of_two_hosts.set_local_percent(100);
    of_two_hosts.add_rule(rule("sliding_log", 1), long_ago);
    Grant elsewhere = alone(1, 1, 1, 1);
    elsewhere.host = 1;
    of_two_hosts.grant(0, "k", alone(0, 1, 1, 1));
    of_two_hosts.grant(0, "k", elsewhere);
    EXPECT_EQ(of_two_hosts.judge().size(), 0u);
}

} // namespace
} // namespace simulation
