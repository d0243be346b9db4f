#include "redis_client/session/permits.hpp"
#include "unit/redis_client/different_bytes.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace redis_client {
namespace {

using namespace std::chrono_literals;

size_t length_of(const PermitList &list) {
    size_t length = 0;
    for (const Permit *permit = list.front(); permit != nullptr; permit = permit->hook.next) {
        ++length;
    }
    return length;
}

TEST(Permits, MakeOneToAskFor) {
    ObjectPool<Permit> pool;
    Permits permits(pool, different_bytes);
    std::string key = "rl:{z:a}:concurrency:60000";
    const Permit *permit = permits.make(key, 7, 60s);
    ASSERT_NE(permit, nullptr);
    EXPECT_EQ(permit->state, Permit::State::asked);
    EXPECT_EQ(permit->window, 60s);
    EXPECT_FALSE(permit->is_release_sent);
    EXPECT_FALSE(permit->is_doubtful);
    key.assign(key.size(), 'x'); // the request is gone: the permit has a copy
    EXPECT_EQ(permit->redis_key, "rl:{z:a}:concurrency:60000");
    EXPECT_TRUE(permits.held().empty());
    EXPECT_TRUE(permits.returning().empty());
}

TEST(Permits, KeepAKeyOfTheLongestLength) {
    ObjectPool<Permit> pool;
    Permits permits(pool, different_bytes);
    const std::string key(std::tuple_size_v<rate_limit::RedisKeyBuffer>, 'k');
    EXPECT_EQ(permits.make(key, 1, 60s)->redis_key, key);
}

TEST(Permits, AreNamedByAnIdAndTheirUnits) {
    ObjectPool<Permit> pool;
    Permits permits(pool, different_bytes);
    for (const uint64_t units : {uint64_t{1}, rate_limit::largest_number}) {
        const std::string name(permits.make("a", units, 60s)->name);
        // as lua/concurrency.lua reads it
        const testing::Matcher<std::string> format =
            testing::MatchesRegex("[0-9a-f]{24}-[0-9a-f]+ " + std::to_string(units));
        EXPECT_TRUE(format.Matches(name)) << name;
    }
}

TEST(Permits, HaveNamesThatNoOtherHas) {
    std::set<std::string> names;
    for (int worker = 0; worker < 10; ++worker) {
        ObjectPool<Permit> pool;
        Permits permits(pool, different_bytes);
        for (int i = 0; i < 100; ++i) {
            Permit &permit = *permits.make("a", 1, 60s);
            names.insert(std::string(permit.name));
            permits.drop(permit); // its memory is used again, but not its name
        }
    }
    EXPECT_EQ(names.size(), 1000u);
}

TEST(Permits, AreHeldGivenBackAndDropped) {
    ObjectPool<Permit> pool;
    Permits permits(pool, different_bytes);
    Permit &permit = *permits.make("a", 1, 60s);
    permits.hold(permit, Time{1000});
    EXPECT_EQ(permit.state, Permit::State::held);
    EXPECT_EQ(permits.held().front(), &permit);
    permits.give_back(permit, Time{5000});
    EXPECT_EQ(permit.state, Permit::State::returning);
    EXPECT_TRUE(permits.held().empty());
    EXPECT_EQ(permits.returning().front(), &permit);
    EXPECT_FALSE(permits.returning().empty());
    permits.drop(permit);
    EXPECT_TRUE(permits.returning().empty());
    EXPECT_EQ(permits.make("a", 1, 60s), &permit);
}

TEST(Permits, MayBeDroppedInEveryState) {
    ObjectPool<Permit> pool;
    Permits permits(pool, different_bytes);
    Permit &asked = *permits.make("a", 1, 60s);
    Permit &held = *permits.make("a", 1, 60s);
    Permit &other = *permits.make("a", 1, 60s);
    permits.hold(held, Time{0});
    permits.hold(other, Time{0});
    permits.drop(asked);
    permits.drop(held);
    EXPECT_EQ(length_of(permits.held()), 1u);
    EXPECT_EQ(permits.held().front(), &other);
}

TEST(Permits, AreAsNewWhenTheirMemoryIsUsedAgain) {
    ObjectPool<Permit> pool;
    Permits permits(pool, different_bytes);
    Permit &used = *permits.make("abc", 1, 60s);
    permits.hold(used, Time{0});
    permits.doubt_renewals();
    permits.give_back(used, Time{0});
    used.is_release_sent = true;
    permits.drop(used);
    const Permit &fresh = *permits.make("d", 1, 30s);
    ASSERT_EQ(&fresh, &used);
    EXPECT_EQ(fresh.state, Permit::State::asked);
    EXPECT_EQ(fresh.redis_key, "d");
    EXPECT_EQ(fresh.window, 30s);
    EXPECT_FALSE(fresh.is_release_sent);
    EXPECT_FALSE(fresh.is_doubtful);
}

TEST(Permits, AreRenewedAfterAThirdOfTheWindow) {
    ObjectPool<Permit> pool;
    Permits permits(pool, different_bytes);
    Permit &permit = *permits.make("a", 1, 60s);
    permits.hold(permit, Time{1000});
    EXPECT_FALSE(Permits::is_to_renew(permit, Time{20'999}));
    EXPECT_TRUE(Permits::is_to_renew(permit, Time{21'000}));
}

TEST(Permits, AreRenewedAtOnceWhereARenewalMayBeLost) {
    ObjectPool<Permit> pool;
    Permits permits(pool, different_bytes);
    Permit &held = *permits.make("a", 1, 60s);
    Permit &asked = *permits.make("a", 1, 60s);
    permits.hold(held, Time{1000});
    permits.doubt_renewals();
    EXPECT_TRUE(Permits::is_to_renew(held, Time{1000}));
    permits.hold(asked, Time{1000}); // only now
    EXPECT_FALSE(Permits::is_to_renew(asked, Time{1000}));
}

TEST(Permits, EndAWindowAfterTheyWereAskedForLast) {
    ObjectPool<Permit> pool;
    Permits permits(pool, different_bytes);
    Permit &held = *permits.make("a", 1, 60s);
    permits.hold(held, Time{1000});
    permits.give_back(held, Time{50'000});
    EXPECT_FALSE(Permits::has_ended(held, Time{60'999}));
    EXPECT_TRUE(Permits::has_ended(held, Time{61'000}));

    Permit &asked = *permits.make("a", 1, 60s); // its check may be on its way until it is given up
    permits.give_back(asked, Time{50'000});
    EXPECT_FALSE(Permits::has_ended(asked, Time{109'999}));
    EXPECT_TRUE(Permits::has_ended(asked, Time{110'000}));
}

TEST(Permits, NeedNoLookWhereNoneIsHeldOrGivenBack) {
    ObjectPool<Permit> pool;
    Permits permits(pool, different_bytes);
    EXPECT_EQ(permits.next_look(), std::nullopt);
    Permit &permit = *permits.make("a", 1, 60s);
    EXPECT_EQ(permits.next_look(), std::nullopt);
    permits.hold(permit, Time{0});
    EXPECT_TRUE(permits.next_look());
    permits.give_back(permit, Time{0});
    EXPECT_TRUE(permits.next_look());
    permits.drop(permit);
    EXPECT_EQ(permits.next_look(), std::nullopt);
}

TEST(Permits, AreLookedAtSixTimesInTheShortestWindow) {
    ObjectPool<Permit> pool;
    Permits permits(pool, different_bytes);
    permits.hold(*permits.make("a", 1, 60s), Time{1000});
    permits.looked(Time{1000});
    EXPECT_EQ(permits.next_look(), Time{11'000});
    permits.hold(*permits.make("b", 1, 6s), Time{1000});
    EXPECT_EQ(permits.next_look(), Time{2000});
    permits.looked(Time{2000});
    EXPECT_EQ(permits.next_look(), Time{3000});
    permits.make("c", 1, 1ms);
    EXPECT_EQ(permits.next_look(), Time{2001}); // always later than the last
}

// Of several nodes

class AdoptedPermits : public testing::Test {
  protected:
    ObjectPool<Permit> pool_;
    Permits from_{pool_, different_bytes};
    Permits to_{pool_, different_bytes};
};

TEST_F(AdoptedPermits, AreKeptByOneAlone) {
    Permit &asked = *from_.make("a", 1, 60s);
    Permit &held = *from_.make("b", 1, 60s);
    Permit &returning = *from_.make("c", 1, 60s);
    from_.hold(held, Time{1000});
    from_.give_back(returning, Time{2000});
    for (Permit *permit : {&asked, &held, &returning}) {
        to_.adopt(*permit);
        EXPECT_EQ(permit->home, &to_);
    }
    EXPECT_TRUE(from_.empty());
    EXPECT_EQ(from_.next_look(), std::nullopt);
    EXPECT_EQ(to_.held().front(), &held);
    EXPECT_EQ(to_.returning().front(), &returning);
    to_.hold(asked, Time{3000}); // as if it had been asked for there
    EXPECT_EQ(length_of(to_.held()), 2u);
    for (Permit *permit : {&asked, &held, &returning}) {
        to_.drop(*permit);
    }
    EXPECT_TRUE(to_.empty());
    EXPECT_EQ(pool_.in_use(), 0u);
}

TEST_F(AdoptedPermits, AreRenewedWhereTheyAreNow) {
    Permit &permit = *from_.make("a", 1, 60s);
    from_.hold(permit, Time{1000});
    to_.adopt(permit);
    EXPECT_TRUE(Permits::is_to_renew(permit, Time{1000}));
    EXPECT_FALSE(Permits::has_ended(permit, Time{60'999})); // Redis counts from the same time
    EXPECT_TRUE(Permits::has_ended(permit, Time{61'000}));
}

TEST_F(AdoptedPermits, AreLookedAtAsOftenAsTheirWindowTakes) {
    Permit &slow = *to_.make("a", 1, 60s);
    Permit &fast = *from_.make("b", 1, 6s);
    to_.hold(slow, Time{1000});
    to_.looked(Time{1000});
    EXPECT_EQ(to_.next_look(), Time{11'000});
    to_.adopt(fast);
    to_.looked(Time{1000});
    to_.hold(fast, Time{1000});
    EXPECT_EQ(to_.next_look(), Time{2000});
}

TEST_F(AdoptedPermits, AreLookedAtSoonButNotInALoop) {
    Permit &own = *to_.make("a", 1, 60s);
    Permit &other = *from_.make("b", 1, 60s);
    to_.hold(own, Time{1000});
    to_.looked(Time{1000});
    from_.hold(other, Time{1000});
    to_.adopt(other);
    EXPECT_EQ(to_.next_look(), Time{1100});
    to_.looked(Time{5000});
    EXPECT_EQ(to_.next_look(), Time{15'000});
}

TEST_F(AdoptedPermits, MayBeAdoptedByThemselves) {
    Permit &permit = *from_.make("a", 1, 60s);
    from_.hold(permit, Time{1000});
    from_.adopt(permit); // redirected to the node that said so
    EXPECT_EQ(length_of(from_.held()), 1u);
    EXPECT_EQ(from_.held().front(), &permit);
}

TEST_F(AdoptedPermits, AreThoseOfTheHashSlotsAlone) {
    for (const uint16_t hash_slot : {0, 7, 16383}) {
        Permit &held = *from_.make("a", 1, 60s);
        Permit &returning = *from_.make("b", 1, 60s);
        held.hash_slot = returning.hash_slot = hash_slot;
        from_.hold(held, Time{1000});
        from_.give_back(returning, Time{1000});
    }
    EXPECT_EQ(from_.hash_slots(), HashSlotSet().set(0).set(7).set(16383));
    to_.adopt_all(HashSlotSet().set(8), from_);
    EXPECT_TRUE(to_.empty());
    to_.adopt_all(HashSlotSet().set(7).set(16383), from_);
    EXPECT_EQ(from_.hash_slots(), HashSlotSet().set(0));
    EXPECT_EQ(to_.hash_slots(), HashSlotSet().set(7).set(16383));
    EXPECT_EQ(length_of(to_.held()), 2u);
    EXPECT_EQ(length_of(to_.returning()), 2u);
    EXPECT_EQ(HashSlotSet(), Permits(pool_, different_bytes).hash_slots());
}

} // namespace
} // namespace redis_client
