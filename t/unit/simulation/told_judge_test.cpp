// What clients and operators are told of what is left.

#include "unit/simulation/audited.hpp"

#include "simulation/told_judge.hpp"

#include <gtest/gtest.h>

namespace simulation {
namespace {

/// A client of 3 units in a second who has taken two of them at 0, and what is true then.
struct Case {
    const char *algorithm;
    Told of_grant;  // at 0
    Told of_denial; // of 2 units at 400 ms
    Told of_look;   // at 1 unit at 500 ms
};

const Case all[] = {
    {"sliding_log", {1, 0, second}, {1, 600'000, 600'000}, {1, 0, 500'000}},
    {"fixed_window", {1, 0, second}, {1, 600'000, 600'000}, {1, 0, 500'000}},
    // Its window has begun 200 ms before: of the two units 1/4 is gone after another second.
    {"sliding_window", {1, 0, 1'800'000}, {1, 400'000 + 500'000, 1'400'000}, {1, 0, 1'300'000}},
    // A unit comes back in a third of a second.
    {"gcra", {1, 0, 666'667}, {2, 0, 266'667}, {2, 0, 166'667}},
};

class ToldJudgeTest : public testing::TestWithParam<Case> {
  protected:
    static std::optional<std::string> judge(const Case &told) {
        const bool is_bucket = std::string_view(told.algorithm) == "gcra";
        const AuditedRule of = rule(told.algorithm, 3, is_bucket ? 3 : 0);
        const uint64_t capacity = 3;
        const int64_t ahead_us = 200'000;
        const std::vector<Grant> grants{{.time_us = 0,
                                         .cost = 2,
                                         .limit = 3,
                                         .capacity = capacity,
                                         .redis_ahead_us = ahead_us,
                                         .told = told.of_grant}};
        std::vector<Denial> denials;
        if (!is_bucket) {
            denials.push_back({.time_us = 400'000,
                               .cost = 2,
                               .limit = 3,
                               .capacity = capacity,
                               .told = told.of_denial});
        }
        const std::vector<Look> looks{{.time_us = 500'000,
                                       .cost = 1,
                                       .limit = 3,
                                       .capacity = capacity,
                                       .told = told.of_look}};
        return judge_told_numbers(
            {.rule = of, .grants = grants, .denials = denials, .uncharged = {}}, looks);
    }
};

TEST_P(ToldJudgeTest, TakesWhatIsTrue) {
    EXPECT_EQ(judge(GetParam()), std::nullopt);
}

TEST_P(ToldJudgeTest, RefusesEachNumberThatIsNot) {
    for (const int by : {-1, 1}) {
        for (const auto part : {&Case::of_grant, &Case::of_denial, &Case::of_look}) {
            if (part == &Case::of_denial && std::string_view(GetParam().algorithm) == "gcra") {
                continue; // such a bucket has room
            }
            Case other = GetParam();
            (other.*part).remaining += static_cast<uint64_t>(by);
            EXPECT_NE(judge(other), std::nullopt);
            other = GetParam();
            (other.*part).reset_us += by;
            EXPECT_NE(judge(other), std::nullopt);
            other = GetParam();
            (other.*part).retry_after_us += by;
            EXPECT_NE(judge(other), std::nullopt);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, ToldJudgeTest, testing::ValuesIn(all),
                         [](const auto &info) { return info.param.algorithm; });

/// A client of 8 units in a second.
Grant of_window(int64_t time_us, uint64_t cost, const Told &told, uint64_t limit = 8) {
    return {.time_us = time_us,
            .cost = cost,
            .limit = limit,
            .capacity = limit,
            .ended_us = time_us,
            .told = told};
}

std::optional<std::string> judge(const AuditedRule &of, const std::vector<Grant> &grants) {
    return judge_told_numbers({.rule = of, .grants = grants, .denials = {}, .uncharged = {}}, {});
}

/// The request turns out to cost another number of units when it ends.
Grant ended(Grant grant, uint64_t final_cost, int64_t ended_us = 10'000) {
    grant.final_cost = final_cost;
    grant.ended_us = ended_us;
    return grant;
}

/// He has taken some units at 0, whose request has ended so, and was granted one more at a time.
struct Ended {
    uint64_t cost;
    uint64_t final_cost;
    int64_t ended_us = 10'000;
};
std::optional<std::string> judge_after(const Ended &first, const AuditedRule &of, int64_t time_us,
                                       uint64_t remaining, int64_t reset_us) {
    const int64_t first_reset_us = of.algorithm == "sliding_window" ? 2 * second : second;
    const Grant taken = of_window(0, first.cost, Told{8 - first.cost, 0, first_reset_us});
    return judge(of, {ended(taken, first.final_cost, first.ended_us),
                      of_window(time_us, 1, Told{remaining, 0, reset_us})});
}

std::optional<std::string> judge_after_return(const char *algorithm, int64_t time_us,
                                              uint64_t remaining, int64_t reset_us) {
    return judge_after({.cost = 4, .final_cost = 1}, rule(algorithm, 8), time_us, remaining,
                       reset_us);
}

TEST(ToldJudgeOfReturnsTest, WhatComesBackCountsFromWhereItWasTaken) {
    EXPECT_EQ(judge_after_return("sliding_log", 500'000, 6, second), std::nullopt);
    EXPECT_NE(judge_after_return("sliding_log", 500'000, 3, second), std::nullopt);
    EXPECT_EQ(judge_after_return("sliding_log", 1'500'000, 7, second), std::nullopt);
    // Half of what was taken in the window before counts, and all is back after the next one.
    EXPECT_EQ(judge_after_return("sliding_window", 1'500'000, 6, 1'500'000), std::nullopt);
    EXPECT_NE(judge_after_return("sliding_window", 1'500'000, 5, 1'500'000), std::nullopt);
}

TEST(ToldJudgeOfReturnsTest, NothingIsSaidUntilRedisMustHaveHeard) {
    EXPECT_EQ(judge_after_return("sliding_log", 50'000, 3, second), std::nullopt);
    EXPECT_NE(judge_after_return("sliding_log", 50'001, 3, second), std::nullopt);
}

TEST(ToldJudgeOfLimitsTest, WindowsAreOfTheLimitThatIsAsked) {
    for (const char *algorithm : {"sliding_log", "fixed_window", "sliding_window"}) {
        const AuditedRule of = rule(algorithm, 8);
        const bool slides = of.algorithm == "sliding_window";
        const bool is_log = of.algorithm == "sliding_log";
        const int64_t all_us = slides ? 2 * second : second;
        const int64_t one_us = is_log ? second : all_us - 1;
        const Grant first = of_window(0, 2, {6, 0, all_us});
        EXPECT_EQ(judge(of, {first, of_window(1, 1, {1, 0, one_us}, 4)}), std::nullopt);
        EXPECT_NE(judge(of, {first, of_window(1, 1, {2, 0, one_us}, 4)}), std::nullopt);
        // Less than is taken: Redis has to deny it.
        EXPECT_NE(judge(of, {first, of_window(1, 1, {0, 0, one_us}, 2)}), std::nullopt);
    }
}

/// The same of a bucket, which has room for 8 units whatever its limit is.
Grant of_bucket(int64_t time_us, uint64_t cost, const Told &told, uint64_t limit = 8) {
    Grant grant = of_window(time_us, cost, told, limit);
    grant.capacity = 8;
    return grant;
}

std::optional<std::string> judge_bucket(const std::vector<Grant> &grants) {
    return judge(rule("gcra", 8, 7), grants);
}

TEST(ToldJudgeOfBucketsTest, UnitsStayTakenWhenTheLimitChanges) {
    const Grant first = of_bucket(0, 4, {4, 0, 500'000});
    // Two have come back by the first limit. Three are taken then, for half a second each.
    EXPECT_EQ(judge_bucket({first, of_bucket(250'000, 1, {5, 0, 1'500'000}, 2)}), std::nullopt);
    // As if it were the time that stays, which is a quarter of a second.
    EXPECT_NE(judge_bucket({first, of_bucket(250'000, 1, {6, 0, 750'000}, 2)}), std::nullopt);
}

TEST(ToldJudgeOfBucketsTest, WhatIsNotNeededComesBack) {
    const Grant first = ended(of_bucket(0, 4, {4, 0, 500'000}), 1);
    // Of the unit that was needed 0.8 have come back of themselves.
    EXPECT_EQ(judge_bucket({first, of_bucket(100'000, 1, {6, 0, 150'000})}), std::nullopt);
    EXPECT_EQ(judge_bucket({first, of_bucket(100'000, 1, {6, 0, 150'001})}), std::nullopt);
    EXPECT_NE(judge_bucket({first, of_bucket(100'000, 1, {6, 0, 150'002})}), std::nullopt);
    EXPECT_NE(judge_bucket({first, of_bucket(100'000, 1, {3, 0, 525'000})}), std::nullopt);
    // While Redis may not have heard of it, either is true.
    EXPECT_EQ(judge_bucket({first, of_bucket(40'000, 1, {3, 0, 585'000})}), std::nullopt);
    EXPECT_EQ(judge_bucket({first, of_bucket(40'000, 1, {6, 0, 210'000})}), std::nullopt);
    EXPECT_NE(judge_bucket({first, of_bucket(40'000, 1, {3, 0, 585'001})}), std::nullopt);
    EXPECT_NE(judge_bucket({first, of_bucket(40'000, 1, {6, 0, 209'999})}), std::nullopt);
}

TEST(ToldJudgeOfBucketsTest, WhatHasComeBackOfItselfIsNotGivenBack) {
    const Grant first = ended(of_bucket(0, 4, {4, 0, 500'000}), 1, 400'000);
    // Not three units are left of it, but 0.8 when its request ends, and 0.48 some time later.
    const Grant later = of_bucket(360'000, 4, {2, 0, 640'000});
    EXPECT_EQ(judge_bucket({first, later, of_bucket(450'000, 1, {3, 0, 575'000})}), std::nullopt);
    EXPECT_NE(judge_bucket({first, later, of_bucket(450'000, 1, {4, 0, 500'000})}), std::nullopt);
}

TEST(ToldJudgeOfBucketsTest, WhatIsOwedIsTaken) {
    const Grant first = ended(of_bucket(0, 1, {7, 0, 125'000}), 3);
    EXPECT_EQ(judge_bucket({first, of_bucket(100'000, 1, {4, 0, 400'000})}), std::nullopt);
    EXPECT_NE(judge_bucket({first, of_bucket(100'000, 1, {6, 0, 150'000})}), std::nullopt);
    // While Redis may not have heard of it, either is true.
    EXPECT_EQ(judge_bucket({first, of_bucket(40'000, 1, {6, 0, 210'000})}), std::nullopt);
    EXPECT_EQ(judge_bucket({first, of_bucket(40'000, 1, {4, 0, 460'000})}), std::nullopt);
    EXPECT_NE(judge_bucket({first, of_bucket(40'000, 1, {4, 0, 460'001})}), std::nullopt);
}

/// It comes back at the pace of its charge until the next check, which another one may have set
/// before.
TEST(ToldJudgeOfBucketsTest, ADebtToAFullBucketBringsItsPace) {
    const Grant fast = ended(of_bucket(0, 1, {7, 0, 10'000}, 100), 3, second);
    // Redis hears of it at 1.015 s, and both units are back 20 ms later.
    const Grant look = of_bucket(1'010'000, 0, {8, 0, 0}, 1);
    EXPECT_EQ(judge_bucket({fast, look, of_bucket(1'050'000, 1, {7, 0, second}, 1)}), std::nullopt);
    const Grant slow = ended(of_bucket(0, 1, {7, 0, second}, 1), 3, 1'005'000);
    EXPECT_EQ(judge_bucket({slow, of_bucket(1'010'000, 0, {8, 0, 0}, 10),
                            of_bucket(1'050'000, 1, {5, 0, 296'500}, 10)}),
              std::nullopt);
}

TEST(ToldJudgeOfBucketsTest, WhoWasDeniedIsToldToWait) {
    const AuditedRule of = rule("gcra", 8, 7);
    const std::vector<Grant> grants{of_bucket(0, 4, {4, 0, 500'000})};
    const std::vector<Denial> denials{
        {.time_us = 100'000, .cost = 1, .limit = 8, .capacity = 8, .told = Told{4, 0, 400'000}}};
    EXPECT_NE(
        judge_told_numbers({.rule = of, .grants = grants, .denials = denials, .uncharged = {}}, {}),
        std::nullopt);
}

struct TwoDenials {
    int64_t wait_by_cache_us; // at 100 ms, after a grant at 50 ms that Redis had not known of
    bool settles = false;
    bool is_overridden = false;
};

/// Of a log of 8 units in a second.
std::optional<std::string> judge_cached(const TwoDenials &told) {
    const AuditedRule of = rule("sliding_log", 8);
    const std::vector<Grant> grants{of_window(0, 4, {4, 0, second}),
                                    of_window(50'000, 2, {2, 0, second})};
    const std::vector<Denial> denials{{.time_us = 100'000,
                                       .cost = 5,
                                       .limit = 8,
                                       .capacity = 8,
                                       .is_by_redis = false,
                                       .told = Told{4, told.wait_by_cache_us, second}}};
    return judge_told_numbers({.rule = of,
                               .settles = told.settles,
                               .is_overridden = told.is_overridden,
                               .grants = grants,
                               .denials = denials,
                               .uncharged = {}},
                              {});
}

TEST(ToldJudgeOfDenyCachesTest, WhoWaitsSoLongGetsThrough) {
    EXPECT_EQ(judge_cached({900'000}), std::nullopt);
    EXPECT_EQ(judge_cached({901'001}), std::nullopt); // clocks differ
    EXPECT_NE(judge_cached({899'999}), std::nullopt);
    EXPECT_EQ(judge_cached({.wait_by_cache_us = 1, .settles = true}), std::nullopt);
    EXPECT_EQ(judge_cached({.wait_by_cache_us = 1, .is_overridden = true}), std::nullopt);
}

std::optional<std::string> judge_after_debt(const AuditedRule &of, int64_t time_us,
                                            uint64_t remaining, int64_t reset_us,
                                            int64_t ended_us = 10'000) {
    return judge_after({.cost = 1, .final_cost = 3, .ended_us = ended_us}, of, time_us, remaining,
                       reset_us);
}

TEST(ToldJudgeOfDebtsTest, WindowsAreChargedWhatIsOwed) {
    const AuditedRule fixed = rule("fixed_window", 8);
    EXPECT_EQ(judge_after_debt(fixed, 500'000, 4, 500'000), std::nullopt);
    EXPECT_NE(judge_after_debt(fixed, 500'000, 6, 500'000), std::nullopt);
    // While Redis may not have heard of it, either is true.
    EXPECT_EQ(judge_after_debt(fixed, 40'000, 6, 960'000), std::nullopt);
    EXPECT_EQ(judge_after_debt(fixed, 40'000, 4, 960'000), std::nullopt);
    EXPECT_NE(judge_after_debt(fixed, 40'000, 3, 960'000), std::nullopt);
    const AuditedRule sliding = rule("sliding_window", 8);
    EXPECT_EQ(judge_after_debt(sliding, 500'000, 4, 1'500'000), std::nullopt);
    EXPECT_NE(judge_after_debt(sliding, 500'000, 6, 1'500'000), std::nullopt);
}

TEST(ToldJudgeOfDebtsTest, NothingIsSaidWhereAWindowIsNotKnown) {
    AuditedRule aligned = rule("fixed_window", 8);
    aligned.is_aligned = true;
    EXPECT_EQ(judge_after_debt(aligned, 1'500'000, 2, 500'000, 980'000), std::nullopt);
    EXPECT_NE(judge_after_debt(aligned, 2'500'000, 2, 500'000, 980'000), std::nullopt);
    EXPECT_EQ(judge_after_debt(rule("fixed_window", 8), 2'500'000, 2, second, 980'000),
              std::nullopt);
    const AuditedRule sliding = rule("sliding_window", 8);
    EXPECT_EQ(judge_after_debt(sliding, 2'500'000, 2, 1'500'000, 980'000), std::nullopt);
    EXPECT_NE(judge_after_debt(sliding, 3'500'000, 2, 1'500'000, 980'000), std::nullopt);
}

/// Of four shards, each has two units of eight. Three units were taken, of any of them.
TEST(ToldJudgeOfShardsTest, WhatIsLeftIsScaledToTheWholeLimit) {
    AuditedRule of = rule("sliding_log", 8, 0);
    of.shards = 4;
    const auto judge = [&](uint64_t remaining_of_first, uint64_t remaining_of_second) {
        const Told of_first{remaining_of_first, 0, second};
        const Told of_second{remaining_of_second, 0, second};
        const std::vector<Grant> grants{
            {.time_us = 0, .cost = 1, .limit = 8, .capacity = 8, .told = of_first},
            {.time_us = 1, .cost = 2, .limit = 8, .capacity = 8, .told = of_second}};
        return judge_told_of_shards({.rule = of, .grants = grants, .denials = {}, .uncharged = {}});
    };
    EXPECT_EQ(judge(4, 0), std::nullopt);
    EXPECT_EQ(judge(8, 8), std::nullopt);
    EXPECT_NE(judge(3, 0), std::nullopt);
    EXPECT_NE(judge(9, 0), std::nullopt);
}

} // namespace
} // namespace simulation
