#include "redis_client/slots.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace redis_client {
namespace {

using namespace std::chrono_literals;

size_t length_of(const SlotList &list) {
    size_t length = 0;
    for (const Slot *slot = list.front(); slot != nullptr; slot = slot->hook.next) {
        ++length;
    }
    return length;
}

TEST(Slots, MakeOneToAskFor) {
    ObjectPool<Slot> pool;
    Slots slots(pool);
    std::string key = "rl:{z:a}:concurrency:60000";
    const Slot *slot = slots.make(key, 7, 60s);
    ASSERT_NE(slot, nullptr);
    EXPECT_EQ(slot->state, Slot::State::asked);
    EXPECT_EQ(slot->window, 60s);
    EXPECT_FALSE(slot->is_release_sent);
    EXPECT_FALSE(slot->is_doubtful);
    key.assign(key.size(), 'x'); // the request is gone: the slot has a copy
    EXPECT_EQ(slot->redis_key, "rl:{z:a}:concurrency:60000");
    EXPECT_TRUE(slots.held().empty());
    EXPECT_TRUE(slots.returning().empty());
}

TEST(Slots, KeepAKeyOfTheLongestLength) {
    ObjectPool<Slot> pool;
    Slots slots(pool);
    const std::string key(std::tuple_size_v<rate_limit::RedisKeyBuffer>, 'k');
    EXPECT_EQ(slots.make(key, 1, 60s)->redis_key, key);
}

TEST(Slots, AreNamedByAnIdAndTheirUnits) {
    ObjectPool<Slot> pool;
    Slots slots(pool);
    for (const uint64_t units : {uint64_t{1}, rate_limit::largest_number}) {
        const std::string name(slots.make("a", units, 60s)->name);
        // as lua/concurrency.lua reads it
        const testing::Matcher<std::string> format =
            testing::MatchesRegex("[0-9a-f]{24}-[0-9a-f]+ " + std::to_string(units));
        EXPECT_TRUE(format.Matches(name)) << name;
    }
}

TEST(Slots, HaveNamesThatNoOtherHas) {
    std::set<std::string> names;
    for (int worker = 0; worker < 10; ++worker) {
        ObjectPool<Slot> pool;
        Slots slots(pool);
        for (int i = 0; i < 100; ++i) {
            Slot &slot = *slots.make("a", 1, 60s);
            names.insert(std::string(slot.name));
            slots.drop(slot); // its memory is used again, but not its name
        }
    }
    EXPECT_EQ(names.size(), 1000u);
}

TEST(Slots, AreHeldGivenBackAndDropped) {
    ObjectPool<Slot> pool;
    Slots slots(pool);
    Slot &slot = *slots.make("a", 1, 60s);
    slots.hold(slot, Time{1000});
    EXPECT_EQ(slot.state, Slot::State::held);
    EXPECT_EQ(slots.held().front(), &slot);
    slots.give_back(slot, Time{5000});
    EXPECT_EQ(slot.state, Slot::State::returning);
    EXPECT_TRUE(slots.held().empty());
    EXPECT_EQ(slots.returning().front(), &slot);
    EXPECT_FALSE(slots.returning().empty());
    slots.drop(slot);
    EXPECT_TRUE(slots.returning().empty());
    EXPECT_EQ(slots.make("a", 1, 60s), &slot);
}

TEST(Slots, MayBeDroppedInEveryState) {
    ObjectPool<Slot> pool;
    Slots slots(pool);
    Slot &asked = *slots.make("a", 1, 60s);
    Slot &held = *slots.make("a", 1, 60s);
    Slot &other = *slots.make("a", 1, 60s);
    slots.hold(held, Time{0});
    slots.hold(other, Time{0});
    slots.drop(asked);
    slots.drop(held);
    EXPECT_EQ(length_of(slots.held()), 1u);
    EXPECT_EQ(slots.held().front(), &other);
}

TEST(Slots, AreAsNewWhenTheirMemoryIsUsedAgain) {
    ObjectPool<Slot> pool;
    Slots slots(pool);
    Slot &used = *slots.make("abc", 1, 60s);
    slots.hold(used, Time{0});
    slots.doubt_renewals();
    slots.give_back(used, Time{0});
    used.is_release_sent = true;
    slots.drop(used);
    const Slot &fresh = *slots.make("d", 1, 30s);
    ASSERT_EQ(&fresh, &used);
    EXPECT_EQ(fresh.state, Slot::State::asked);
    EXPECT_EQ(fresh.redis_key, "d");
    EXPECT_EQ(fresh.window, 30s);
    EXPECT_FALSE(fresh.is_release_sent);
    EXPECT_FALSE(fresh.is_doubtful);
}

TEST(Slots, AreRenewedAfterAThirdOfTheWindow) {
    ObjectPool<Slot> pool;
    Slots slots(pool);
    Slot &slot = *slots.make("a", 1, 60s);
    slots.hold(slot, Time{1000});
    EXPECT_FALSE(Slots::is_to_renew(slot, Time{20'999}));
    EXPECT_TRUE(Slots::is_to_renew(slot, Time{21'000}));
}

TEST(Slots, AreRenewedAtOnceWhereARenewalMayBeLost) {
    ObjectPool<Slot> pool;
    Slots slots(pool);
    Slot &held = *slots.make("a", 1, 60s);
    Slot &asked = *slots.make("a", 1, 60s);
    slots.hold(held, Time{1000});
    slots.doubt_renewals();
    EXPECT_TRUE(Slots::is_to_renew(held, Time{1000}));
    slots.hold(asked, Time{1000}); // only now
    EXPECT_FALSE(Slots::is_to_renew(asked, Time{1000}));
}

TEST(Slots, EndAWindowAfterTheyWereAskedForLast) {
    ObjectPool<Slot> pool;
    Slots slots(pool);
    Slot &held = *slots.make("a", 1, 60s);
    slots.hold(held, Time{1000});
    slots.give_back(held, Time{50'000});
    EXPECT_FALSE(Slots::has_ended(held, Time{60'999}));
    EXPECT_TRUE(Slots::has_ended(held, Time{61'000}));

    Slot &asked = *slots.make("a", 1, 60s); // its check may be on its way until it is given up
    slots.give_back(asked, Time{50'000});
    EXPECT_FALSE(Slots::has_ended(asked, Time{109'999}));
    EXPECT_TRUE(Slots::has_ended(asked, Time{110'000}));
}

TEST(Slots, NeedNoLookWhereNoneIsHeldOrGivenBack) {
    ObjectPool<Slot> pool;
    Slots slots(pool);
    EXPECT_EQ(slots.next_look(), std::nullopt);
    Slot &slot = *slots.make("a", 1, 60s);
    EXPECT_EQ(slots.next_look(), std::nullopt);
    slots.hold(slot, Time{0});
    EXPECT_TRUE(slots.next_look());
    slots.give_back(slot, Time{0});
    EXPECT_TRUE(slots.next_look());
    slots.drop(slot);
    EXPECT_EQ(slots.next_look(), std::nullopt);
}

TEST(Slots, AreLookedAtSixTimesInTheShortestWindow) {
    ObjectPool<Slot> pool;
    Slots slots(pool);
    slots.hold(*slots.make("a", 1, 60s), Time{1000});
    slots.looked(Time{1000});
    EXPECT_EQ(slots.next_look(), Time{11'000});
    slots.hold(*slots.make("b", 1, 6s), Time{1000});
    EXPECT_EQ(slots.next_look(), Time{2000});
    slots.looked(Time{2000});
    EXPECT_EQ(slots.next_look(), Time{3000});
    slots.make("c", 1, 1ms);
    EXPECT_EQ(slots.next_look(), Time{2001}); // always later than the last
}

// Of several nodes

class AdoptedSlots : public testing::Test {
  protected:
    ObjectPool<Slot> pool_;
    Slots from_{pool_};
    Slots to_{pool_};
};

TEST_F(AdoptedSlots, AreKeptByOneAlone) {
    Slot &asked = *from_.make("a", 1, 60s);
    Slot &held = *from_.make("b", 1, 60s);
    Slot &returning = *from_.make("c", 1, 60s);
    from_.hold(held, Time{1000});
    from_.give_back(returning, Time{2000});
    for (Slot *slot : {&asked, &held, &returning}) {
        to_.adopt(*slot);
        EXPECT_EQ(slot->home, &to_);
    }
    EXPECT_TRUE(from_.empty());
    EXPECT_EQ(from_.next_look(), std::nullopt);
    EXPECT_EQ(to_.held().front(), &held);
    EXPECT_EQ(to_.returning().front(), &returning);
    to_.hold(asked, Time{3000}); // as if it had been asked for there
    EXPECT_EQ(length_of(to_.held()), 2u);
    for (Slot *slot : {&asked, &held, &returning}) {
        to_.drop(*slot);
    }
    EXPECT_TRUE(to_.empty());
    EXPECT_EQ(pool_.in_use(), 0u);
}

TEST_F(AdoptedSlots, AreRenewedWhereTheyAreNow) {
    Slot &slot = *from_.make("a", 1, 60s);
    from_.hold(slot, Time{1000});
    to_.adopt(slot);
    EXPECT_TRUE(Slots::is_to_renew(slot, Time{1000}));
    EXPECT_FALSE(Slots::has_ended(slot, Time{60'999})); // Redis counts from the same time
    EXPECT_TRUE(Slots::has_ended(slot, Time{61'000}));
}

TEST_F(AdoptedSlots, AreLookedAtAsOftenAsTheirWindowTakes) {
    Slot &slow = *to_.make("a", 1, 60s);
    Slot &fast = *from_.make("b", 1, 6s);
    to_.hold(slow, Time{1000});
    to_.looked(Time{1000});
    EXPECT_EQ(to_.next_look(), Time{11'000});
    to_.adopt(fast);
    to_.looked(Time{1000});
    to_.hold(fast, Time{1000});
    EXPECT_EQ(to_.next_look(), Time{2000});
}

TEST_F(AdoptedSlots, AreLookedAtSoonButNotInALoop) {
    Slot &own = *to_.make("a", 1, 60s);
    Slot &other = *from_.make("b", 1, 60s);
    to_.hold(own, Time{1000});
    to_.looked(Time{1000});
    from_.hold(other, Time{1000});
    to_.adopt(other);
    EXPECT_EQ(to_.next_look(), Time{1100});
    to_.looked(Time{5000});
    EXPECT_EQ(to_.next_look(), Time{15'000});
}

TEST_F(AdoptedSlots, MayBeAdoptedByThemselves) {
    Slot &slot = *from_.make("a", 1, 60s);
    from_.hold(slot, Time{1000});
    from_.adopt(slot); // redirected to the node that said so
    EXPECT_EQ(length_of(from_.held()), 1u);
    EXPECT_EQ(from_.held().front(), &slot);
}

TEST_F(AdoptedSlots, AreThoseOfTheHashSlotsAlone) {
    for (const uint16_t hash_slot : {0, 7, 16383}) {
        Slot &held = *from_.make("a", 1, 60s);
        Slot &returning = *from_.make("b", 1, 60s);
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
    EXPECT_EQ(HashSlotSet(), Slots(pool_).hash_slots());
}

} // namespace
} // namespace redis_client
