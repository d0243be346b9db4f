#include "lease_book_test.hpp"

#include <array>
#include <vector>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;

TEST_F(LeaseBookTest, HasNothingAtFirst) {
    EXPECT_FALSE(book_.find(identity(1)));
    EXPECT_EQ(book_.capacity(), 4U);
    EXPECT_EQ(book_.count(now()), 0U);
    EXPECT_FALSE(account(1).take(1, now(), *this));
    EXPECT_EQ(account(1).holding(now()).units, 0U);
}

TEST_F(LeaseBookTest, GrantsUnitsUntilTheyAreUsed) {
    const auto one = account(1);
    ASSERT_TRUE(one.add(lease_of(3, now() + 10ms, 77), now()));
    EXPECT_EQ(book_.count(now()), 1U);
    const auto taken = one.take(2, now(), *this);
    ASSERT_TRUE(taken);
    EXPECT_EQ(taken->units, 2U);
    EXPECT_EQ(taken->receipt, 77);
    EXPECT_FALSE(one.take(2, now(), *this)); // a cost is never split
    EXPECT_TRUE(one.take(1, now(), *this));
    EXPECT_FALSE(one.take(1, now(), *this));
}

TEST_F(LeaseBookTest, GrantsNothingFromTheEndOn) {
    const auto one = account(1);
    ASSERT_TRUE(one.add(lease_of(3, now() + 10ms, 77), now()));
    pass(10ms - 300us);
    EXPECT_TRUE(one.take(1, now(), *this));
    pass(300us);
    EXPECT_FALSE(one.take(1, now(), *this));
    EXPECT_EQ(book_.count(now()), 0U);
}

TEST_F(LeaseBookTest, GrantsNothingIfTheLeaseEndsWhileAUnitIsTaken) {
    const auto one = account(1);
    ASSERT_TRUE(one.add(lease_of(3, now() + 10ms, 77), now()));
    const auto before = now();
    pass(10ms);
    EXPECT_FALSE(one.take(1, before, *this));
    EXPECT_EQ(one.take_ended(now())->units, 2U); // and the unit is lost
}

TEST_F(LeaseBookTest, RefusesALeaseThatHasEnded) {
    EXPECT_FALSE(account(1).add(lease_of(3, now(), 77), now()));
    EXPECT_FALSE(account(1).add(lease_of(LeaseBook::most_units + 1, now() + 10ms, 77), now()));
}

TEST_F(LeaseBookTest, UsesTheLeaseThatEndsFirst) {
    const auto one = account(1);
    ASSERT_TRUE(one.add(lease_of(3, now() + 20ms, 20), now()));
    ASSERT_TRUE(one.add(lease_of(2, now() + 10ms, 10), now()));
    EXPECT_FALSE(one.add(lease_of(2, now() + 30ms, 30), now())); // there are two at most
    const auto holding = one.holding(now());
    EXPECT_EQ(holding.units, 5U);
    EXPECT_LE(holding.end, now() + 20ms);
    EXPECT_GT(holding.end, now() + 19ms);
    EXPECT_EQ(holding.remaining, 100U);
    EXPECT_EQ(holding.reset, now() + 20ms + 1s);
    EXPECT_EQ(one.take(1, now(), *this)->receipt, 10);
    EXPECT_EQ(one.take(2, now(), *this)->receipt, 20); // the first one has only one unit left
    EXPECT_EQ(one.take(1, now(), *this)->receipt, 10);
    EXPECT_TRUE(one.add(lease_of(2, now() + 30ms, 30), now())); // it was used up
    EXPECT_EQ(one.take(1, now(), *this)->receipt, 20);
    EXPECT_EQ(one.take(1, now(), *this)->receipt, 30);
}

TEST_F(LeaseBookTest, HasManyLeasesOneAfterTheOtherThatEndTogether) {
    const auto one = account(1);
    const auto end = now() + 10ms;
    for (int64_t i = 0; i < 32; ++i) {
        ASSERT_TRUE(one.add(lease_of(1, end, i), now())) << i;
        EXPECT_EQ(one.take(1, now(), *this)->receipt, i);
    }
}

TEST_F(LeaseBookTest, PutsUnitsBackWhereTheyCameFrom) {
    const auto one = account(1);
    ASSERT_TRUE(one.add(lease_of(2, now() + 10ms, 10), now()));
    const auto taken = one.take(2, now(), *this);
    ASSERT_TRUE(taken);
    EXPECT_TRUE(one.give_back(*taken, now()));
    const auto again = one.take(2, now(), *this);
    ASSERT_TRUE(again);
    ASSERT_TRUE(one.add(lease_of(2, now() + 20ms, 20), now())); // in the place of the used one
    EXPECT_FALSE(one.give_back(*again, now()));
    EXPECT_EQ(one.holding(now()).units, 2U);
    const auto last = one.take(1, now(), *this);
    pass(20ms);
    EXPECT_FALSE(one.give_back(*last, now()));
}

TEST_F(LeaseBookTest, TellsOnceWhatIsLeftAtTheEnd) {
    const auto one = account(1);
    ASSERT_TRUE(one.add(lease_of(5, now() + 10ms, 10), now()));
    ASSERT_TRUE(one.add(lease_of(7, now() + 20ms, 20), now()));
    ASSERT_TRUE(one.take(1, now(), *this));
    EXPECT_FALSE(one.take_ended(now()));
    pass(10ms);
    const auto rest = one.take_ended(now());
    ASSERT_TRUE(rest);
    EXPECT_EQ(rest->units, 4U);
    EXPECT_EQ(rest->receipt, 10);
    EXPECT_FALSE(one.take_ended(now()));
    const auto all = one.take_all();
    ASSERT_TRUE(all);
    EXPECT_EQ(all->units, 7U);
    EXPECT_EQ(all->receipt, 20);
    EXPECT_FALSE(one.take_all());
    EXPECT_FALSE(one.take(1, now(), *this));
}

TEST_F(LeaseBookTest, ComparesWholeIdentities) {
    const Hash one = {.low = 1, .high = 1};
    const Hash other_low = {.low = 2, .high = 1};
    const Hash other_high = {.low = 1, .high = 2};
    ASSERT_TRUE(book_.find_or_make(one, now())->add(lease_of(5, now() + 10ms, 10), now()));
    EXPECT_FALSE(book_.find(other_low));
    EXPECT_FALSE(book_.find(other_high));
    EXPECT_FALSE(book_.find_or_make(other_low, now())->take(1, now(), *this));
    EXPECT_FALSE(book_.find_or_make(other_high, now())->take(1, now(), *this));
    EXPECT_TRUE(book_.find(one)->take(1, now(), *this));
}

TEST_F(LeaseBookTest, ForgetsTheKeyThatWasSeenLastOfAll) {
    for (uint64_t i = 0; i < 4; ++i) {
        account(i);
        pass(1ms);
    }
    account(0);
    account(4);
    EXPECT_TRUE(book_.find(identity(0)));
    EXPECT_FALSE(book_.find(identity(1)));
    EXPECT_TRUE(book_.find(identity(2)));
    EXPECT_TRUE(book_.find(identity(4)));
}

TEST_F(LeaseBookTest, KeepsKeysThatHaveLeases) {
    for (uint64_t i = 0; i < 4; ++i) {
        ASSERT_TRUE(account(i).add(lease_of(1, now() + 10ms, 10), now()));
    }
    EXPECT_FALSE(book_.find_or_make(identity(4), now()));
    pass(111ms);
    EXPECT_TRUE(book_.find_or_make(identity(4), now()));
}

TEST_F(LeaseBookTest, KeepsWhatIsLeftOfALeaseForAWhile) {
    for (uint64_t i = 0; i < 4; ++i) {
        ASSERT_TRUE(account(i).add(lease_of(1, now() + 10ms, 10), now()));
        pass(1ms);
    }
    ASSERT_TRUE(account(2).take(1, now(), *this));
    pass(10ms);
    ASSERT_TRUE(book_.find_or_make(identity(4), now()));
    EXPECT_FALSE(book_.find(identity(2))) << "nothing is left of its lease";
    ASSERT_TRUE(account(4).add(lease_of(1, now() + 1s, 10), now()));
    EXPECT_FALSE(book_.find_or_make(identity(5), now()));
    EXPECT_TRUE(account(0).take_ended(now()));
    ASSERT_TRUE(book_.find_or_make(identity(5), now()));
    EXPECT_FALSE(book_.find(identity(0))) << "its rest was returned";
    pass(100ms);
    ASSERT_TRUE(book_.find_or_make(identity(6), now()));
    EXPECT_TRUE(book_.find(identity(4)));
}

TEST_F(LeaseBookTest, ForgetsAllOfAKeyThatItReplaces) {
    std::vector<LeaseBook::Account> old;
    for (uint64_t i = 0; i < 4; ++i) {
        old.push_back(account(i));
        old.back().count(1, 10ms, now());
        ASSERT_TRUE(old.back().add(lease_of(3, now() + 10ms, 10), now()));
    }
    const auto taken = old.front().take(1, now(), *this);
    ASSERT_TRUE(taken);
    pass(111ms);
    for (uint64_t i = 4; i < 8; ++i) {
        EXPECT_EQ(account(i).count(1, 10ms, now()).requests, 1U);
        EXPECT_FALSE(account(i).take_all());
        ASSERT_TRUE(account(i).add(lease_of(3, now() + 10ms, 20), now()));
    }
    for (const LeaseBook::Account &one : old) {
        EXPECT_FALSE(one.take(1, now(), *this));
        EXPECT_FALSE(one.take_all());
        EXPECT_FALSE(one.give_back(*taken, now()));
        EXPECT_FALSE(one.add(lease_of(3, now() + 10ms, 30), now()));
        EXPECT_EQ(one.holding(now()).units, 0U);
    }
}

TEST_F(LeaseBookTest, CountsTheDemandOfTheLastInterval) {
    const auto one = account(1);
    EXPECT_EQ(one.count(5, 10ms, start).requests, 1U);
    EXPECT_EQ(one.count(5, 10ms, start).units, 10U);
    EXPECT_EQ(one.count(0, 10ms, start + 9ms).units, 10U);
    EXPECT_EQ(one.count(1, 10ms, start + 10ms).units, 11U);
    EXPECT_EQ(one.count(0, 10ms, start + 15ms).units, 6U); // half of the interval before counts
    EXPECT_EQ(one.count(0, 10ms, start + 15ms).requests, 4U);
    EXPECT_EQ(one.count(0, 10ms, start + 20ms).units, 1U);
    EXPECT_EQ(one.count(3, 10ms, start + 40ms).units, 3U); // the interval before is empty
}

TEST_F(LeaseBookTest, CountsAnyDemandUpToABound) {
    const auto one = account(1);
    for (int i = 0; i < 100; ++i) {
        one.count(1'000'000'000, 10ms, start);
    }
    const Demand demand = one.count(1'000'000'000, 10ms, start + 10ms);
    EXPECT_EQ(demand.requests, Demand::most_counted);
    EXPECT_LE(demand.units, uint64_t{1} << 21);
    EXPECT_GE(demand.units, uint64_t{1} << 20);
}

TEST_F(LeaseBookTest, LetsOneProcessFetch) {
    const auto one = account(1);
    EXPECT_TRUE(one.claim_fetch(start + 5ms, start));
    EXPECT_FALSE(one.claim_fetch(start + 6ms, start + 1ms));
    EXPECT_TRUE(one.claim_fetch(start + 10ms, start + 5ms)); // the first one has died
    one.end_fetch(start + 5ms, start);                       // or it has not: that changes nothing
    EXPECT_FALSE(one.claim_fetch(start + 11ms, start + 6ms));
    one.end_fetch(start + 10ms, start + 8ms);
    EXPECT_FALSE(one.claim_fetch(start + 12ms, start + 7ms)); // too early
    EXPECT_TRUE(one.claim_fetch(start + 13ms, start + 8ms));
}

} // namespace
} // namespace rate_limit
