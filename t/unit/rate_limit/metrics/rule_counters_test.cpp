#include "rate_limit/metrics/rule_counters.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace rate_limit {
namespace {

constexpr size_t rules = 4;

class RuleCounterTableTest : public testing::Test {
  protected:
    struct alignas(RuleCounterTable::Entry) {
        std::array<std::byte, RuleCounterTable::memory_for(rules)> bytes;
    } memory_{};
    RuleCounterTable table_{memory_.bytes};

    /// The table as another nginx process would see it.
    RuleCounterTable other() { return RuleCounterTable(memory_.bytes); }
};

Hash name(uint64_t number) {
    return {number, 0};
}

uint64_t passed(const RuleCounters &counters) {
    return counters.read().outcomes[static_cast<size_t>(RuleOutcome::passed)];
}

// Prometheus wants all of a family in one place. GCC does not assert it with UBSan.
TEST(RuleCounters, OfOneFamilyStandTogether) {
    EXPECT_TRUE(stand_together(rule_counter_table, &RuleCounterTraits::family));
}

TEST(RuleCountersTest, CountsEachOutcomeByItself) {
    RuleCounters counters{};
    for (size_t i = 0; i < outcome_count; ++i) {
        for (size_t times = 0; times <= i; ++times) {
            counters.count(static_cast<RuleOutcome>(i));
        }
    }
    const RuleCounts counts = counters.read();
    for (size_t i = 0; i < outcome_count; ++i) {
        EXPECT_EQ(counts.outcomes[i], i + 1);
    }
    EXPECT_EQ(counts.counters, decltype(RuleCounts::counters){});
    counters.reset();
    EXPECT_EQ(counters.read().outcomes, decltype(RuleCounts::outcomes){});
}

TEST(RuleCountersTest, CountsWhatIsNoOutcome) {
    RuleCounters counters{};
    for (size_t i = 0; i < rule_counter_count; ++i) {
        counters.count(static_cast<RuleCounter>(i), 10 + i);
    }
    counters.count(RuleCounter::settlements_lost);
    EXPECT_EQ(counters.read().of(RuleCounter::rejected_by_deny_cache), 10);
    EXPECT_EQ(counters.read().of(RuleCounter::settlements_lost), 21);
    EXPECT_EQ(counters.read().outcomes, decltype(RuleCounts::outcomes){});
    counters.reset();
    EXPECT_EQ(counters.read().counters, decltype(RuleCounts::counters){});
}

TEST(RuleCountersTest, EachOutcomeHasANameOfItsOwn) {
    std::set<std::string_view> names;
    for (size_t i = 0; i < outcome_count; ++i) {
        names.insert(to_string(static_cast<RuleOutcome>(i)));
    }
    EXPECT_EQ(names.size(), outcome_count);
    EXPECT_EQ(to_string(RuleOutcome::passed), "passed");
    EXPECT_EQ(to_string(RuleOutcome::uncharged), "uncharged");
    EXPECT_EQ(to_string(RuleOutcome::invalid), "invalid");
}

TEST_F(RuleCounterTableTest, ARuleHasTheSameCountersAfterAReload) {
    table_.begin_generation();
    table_.claim(name(1)).count(RuleOutcome::passed);
    RuleCounterTable after = other();
    after.begin_generation();
    EXPECT_EQ(passed(after.claim(name(2))), 0);
    EXPECT_EQ(passed(after.claim(name(1))), 1);
    table_.claim(name(1)).count(RuleOutcome::passed);
    EXPECT_EQ(passed(after.claim(name(1))), 2);
}

TEST_F(RuleCounterTableTest, NoNameIsTakenForAnEmptySlot) {
    table_.begin_generation();
    RuleCounters &zero = table_.claim({0, 0});
    EXPECT_NE(&table_.claim(name(1)), &zero);
    EXPECT_EQ(&table_.claim({0, 0}), &zero);
}

TEST_F(RuleCounterTableTest, AllRulesOfAConfigurationHaveCountersOfTheirOwnBesideThoseBefore) {
    std::set<const RuleCounters *> counters;
    for (uint64_t generation = 0; generation < 2; ++generation) {
        table_.begin_generation();
        for (uint64_t i = 0; i < rules; ++i) {
            counters.insert(&table_.claim(name(generation * rules + i)));
        }
    }
    EXPECT_EQ(counters.size(), 2 * rules);
}

TEST_F(RuleCounterTableTest, WhatNobodyHadForLongestMakesRoom) {
    const auto configure = [&](uint64_t first) {
        table_.begin_generation();
        for (uint64_t i = 0; i < rules; ++i) {
            table_.claim(name(first + i)).count(RuleOutcome::passed);
        }
    };
    configure(0);
    configure(rules);
    configure(2 * rules); // the first ones are forgotten
    table_.begin_generation();
    for (uint64_t i = rules; i < 3 * rules; ++i) {
        EXPECT_EQ(passed(table_.claim(name(i))), 1) << i;
    }
    EXPECT_EQ(passed(table_.claim(name(0))), 0) << "of all zeros, whoever had them before";
}

// A configuration may be refused after it has got its counters.
TEST_F(RuleCounterTableTest, RulesThatAreKeptOutliveConfigurationsThatNeverRan) {
    table_.begin_generation();
    for (uint64_t i = 0; i < rules; ++i) {
        table_.claim(name(i)).count(RuleOutcome::passed);
    }
    for (uint64_t refused = 1; refused < 5; ++refused) {
        table_.begin_generation();
        for (uint64_t i = 0; i < rules; ++i) {
            table_.keep(name(i));
        }
        for (uint64_t i = 0; i < rules; ++i) {
            table_.claim(name(refused * rules + i));
        }
    }
    for (uint64_t i = 0; i < rules; ++i) {
        EXPECT_EQ(passed(table_.claim(name(i))), 1);
    }
}

TEST_F(RuleCounterTableTest, NothingIsKeptOfARuleThatIsNotThere) {
    table_.begin_generation();
    table_.keep(name(1));
    EXPECT_EQ(passed(table_.claim(name(1))), 0);
}

} // namespace
} // namespace rate_limit
