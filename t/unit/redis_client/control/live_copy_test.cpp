// What a host knows of a store, beside what the store says: t/model/live_older_store_test.cpp has
// the rest.

#include "redis_client/control/live_copy.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace redis_client {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;

class LiveCopyTest : public testing::Test {
  protected:
    static LiveChange change(std::string_view name, uint64_t version) {
        LiveChange change;
        change.record = {.name = name, .words = "words"};
        change.version = version;
        return change;
    }
    bool take(const std::string &name, uint64_t version) {
        return copy_.take(change(name, version));
    }
    /// `a1 b2`: names and versions.
    std::string missing(size_t most = 100) {
        std::string text;
        for (const LiveLost &one : copy_.missing(most)) {
            EXPECT_EQ(one.record.words, "words");
            text += std::string(one.record.name) + std::to_string(one.version) + " ";
        }
        return text;
    }

    LiveCopy copy_;
};

TEST_F(LiveCopyTest, WhatIsNotReadAgainIsMissing) {
    EXPECT_TRUE(take("a", 1));
    EXPECT_TRUE(take("b", 2));
    EXPECT_TRUE(take("c", 3));
    EXPECT_FALSE(copy_.is_any_missing());
    copy_.begin_reading();
    EXPECT_EQ(missing(), "a1 b2 c3 ");
    EXPECT_EQ(missing(2), "a1 b2 ");
    EXPECT_TRUE(take("b", 2));
    EXPECT_TRUE(take("c", 4));
    EXPECT_EQ(missing(), "a1 ");
    copy_.begin_reading(); // before all were read
    EXPECT_EQ(missing(), "a1 b2 c4 ");
    copy_.wrote_back(2);
    EXPECT_EQ(missing(), "c4 ");
    EXPECT_EQ(copy_.size(), 3U);
}

TEST_F(LiveCopyTest, AnOlderRecordIsNotTaken) {
    take("a", 5);
    EXPECT_FALSE(take("a", 4));
    EXPECT_EQ(missing(), "a5 ");
    EXPECT_FALSE(take("a", 3));
    EXPECT_EQ(missing(), "a5 ");
    EXPECT_TRUE(take("a", 5));
    EXPECT_EQ(missing(), "");
}

TEST_F(LiveCopyTest, WhatMayHaveBeenPurgedIsNotMissing) {
    take("a", 5);
    take("b", 6);
    take("c", 7);
    copy_.begin_reading();
    take("a", 5);
    copy_.drop_purged(6);
    EXPECT_EQ(missing(), "c7 ");
    EXPECT_EQ(copy_.size(), 2U);
}

TEST_F(LiveCopyTest, WhatEndedIsKeptForAnHour) {
    constexpr microseconds ended = 24h;
    LiveChange tombstone = change("tombstone", 1);
    tombstone.is_tombstone = true;
    tombstone.override.updated_at = ended;
    LiveChange reset = change("reset", 1);
    reset.name.is_reset = true;
    reset.override.updated_at = ended;
    LiveChange expired = change("expired", 1);
    expired.override.updated_at = 1h;
    expired.override.what.expires_at = ended;
    LiveChange lasting = change("lasting", 1);
    lasting.override.updated_at = 1h;
    for (const LiveChange &one : {tombstone, reset, expired, lasting}) {
        copy_.take(one);
    }
    copy_.drop_ended(ended + 1h - 1us);
    EXPECT_EQ(copy_.size(), 4U);
    copy_.drop_ended(ended + 1h);
    EXPECT_EQ(copy_.size(), 1U);
    copy_.begin_reading();
    EXPECT_EQ(missing(), "lasting1 ");
}

// A part of them at each call.
TEST_F(LiveCopyTest, AllThatEndedGoInTheEnd) {
    constexpr size_t count = 5000;
    for (size_t i = 0; i < count; ++i) {
        const std::string key = "k" + std::to_string(i); // to which the change refers
        LiveChange one = change(key, 1);
        one.override.what.expires_at = microseconds(i % 2);
        copy_.take(one);
    }
    copy_.drop_ended(2h);
    EXPECT_GT(copy_.size(), count * 3 / 4);
    for (int calls = 0; calls < 10; ++calls) {
        copy_.drop_ended(2h);
    }
    EXPECT_EQ(copy_.size(), count / 2);
    take("k0", 2);
    copy_.clear();
    EXPECT_EQ(copy_.size(), 0U);
}

} // namespace
} // namespace redis_client
