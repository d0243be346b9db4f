// What is wrong in a simulation is found again with less.

#include "simulation/shrinking.hpp"

#include <gtest/gtest.h>

namespace simulation {
namespace {

TEST(ShrinkingTest, LeavesOutWhatIsNotNeeded) {
    const Plan plan{.seed = 7, .length = Time{10'000'000}};
    const Plan smallest = shrink(plan, [](const Plan &tried) {
        const bool happens = !tried.skipped.contains(3) && !tried.skipped.contains(9);
        return Outcome{.is_wrong = happens && tried.length >= Time{2'345'000}, .events = 12};
    });
    EXPECT_EQ(smallest.seed, 7u);
    EXPECT_EQ(smallest.skipped, (std::set<uint64_t>{0, 1, 2, 4, 5, 6, 7, 8, 10, 11, 12}));
    EXPECT_GE(smallest.length, Time{2'345'000});
    EXPECT_LE(smallest.length, Time{2'400'000});
}

TEST(ShrinkingTest, KeepsAPlanThatNeedsAll) {
    const Plan plan{.seed = 7, .length = Time{1'000'000}};
    const Plan smallest = shrink(plan, [](const Plan &tried) {
        return Outcome{.is_wrong = tried.skipped.empty() && tried.length >= Time{1'000'000},
                       .events = 3};
    });
    EXPECT_TRUE(smallest.skipped.empty());
    EXPECT_EQ(smallest.length, plan.length);
}

} // namespace
} // namespace simulation
