#include "redis_client/object_pool.hpp"

#include "unit/allocations.hpp"

#include <gtest/gtest.h>

#include <set>

namespace redis_client {
namespace {

struct Thing : Pooled<Thing> {
    Thing() { ++alive; }
    ~Thing() { --alive; }
    Thing(Thing &&) = delete;
    Thing &operator=(Thing &&) = default;
    int value = 0;
    static inline int alive = 0;
};

TEST(ObjectPool, MakesNothingBeforeItIsAsked) {
    const ObjectPool<Thing> pool;
    EXPECT_EQ(Thing::alive, 0);
    EXPECT_EQ(pool.in_use(), 0u);
}

TEST(ObjectPool, TakesSpareObjectsFirst) {
    ObjectPool<Thing> pool;
    Thing *first = pool.take();
    Thing *second = pool.take();
    EXPECT_NE(first, second);
    EXPECT_EQ(pool.in_use(), 2u);
    pool.give_back(*first);
    EXPECT_EQ(pool.in_use(), 1u);
    EXPECT_EQ(pool.take(), first);
    EXPECT_EQ(Thing::alive, 2);
}

TEST(ObjectPool, GivesAFreshValueWhateverTheLastUserLeft) {
    ObjectPool<Thing> pool;
    Thing *thing = pool.take();
    thing->value = 7;
    pool.give_back(*thing);
    EXPECT_EQ(pool.take()->value, 0);
}

TEST(ObjectPool, GivesNoObjectToTwo) {
    ObjectPool<Thing> pool;
    for (int round = 0; round < 3; ++round) {
        std::set<Thing *> taken;
        for (int i = 0; i < 100; ++i) {
            taken.insert(pool.take());
        }
        EXPECT_EQ(taken.size(), 100u);
        EXPECT_EQ(pool.in_use(), 100u);
        for (Thing *thing : taken) {
            pool.give_back(*thing);
        }
        EXPECT_EQ(pool.in_use(), 0u);
    }
    EXPECT_EQ(Thing::alive, 100);
}

TEST(ObjectPool, FreesAllInUseOrNot) {
    {
        ObjectPool<Thing> pool;
        pool.give_back(*pool.take());
        pool.take();
        pool.take();
    }
    EXPECT_EQ(Thing::alive, 0);
}

TEST(ObjectPool, FreesMoreThanTheStackCouldHold) {
    ObjectPool<Thing> pool;
    for (int i = 0; i < 300'000; ++i) {
        pool.take();
    }
}

TEST(ObjectPool, IsNullWithoutMemory) {
    ObjectPool<Thing> pool;
    Thing *made_before = pool.take();
    pool.give_back(*made_before);
    const NoNewObjects refused;
    EXPECT_EQ(pool.take(), made_before);
    EXPECT_EQ(pool.take(), nullptr);
    EXPECT_EQ(pool.take(), nullptr);
    EXPECT_EQ(pool.in_use(), 1u);
}

} // namespace
} // namespace redis_client
