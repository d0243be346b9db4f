#include "live_limits_test.hpp"

#include <random>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;
using Action = Override::Action;

TEST_F(LiveLimitsTest, HasNothingAtFirst) {
    EXPECT_FALSE(limits().may_override());
    EXPECT_EQ(find("key"), std::nullopt);
    EXPECT_EQ(limits().reset_time("key"), 0us);
    EXPECT_FALSE(limits().was_reset_since("key", 1us));
    EXPECT_EQ(limits().count(), 0U);
    EXPECT_EQ(limits().entries(), 0U);
    EXPECT_EQ(limits().capacity(), 2 * SharedTable::entries_of_bucket);
    EXPECT_TRUE(limits().has_room(of_key("key")));
}

TEST_F(LiveLimitsTest, FindsWhatWasSet) {
    LiveLimitsWriter writer = empty_writer();
    for (const Override &what :
         {Override{}, Override{.limit = 0}, Override{.burst = 0},
          Override{.limit = 1'000'000'000, .burst = 999'999'999}, Override{.action = Action::ban},
          Override{.action = Action::exempt}, Override{.limit = 7, .expires_at = start + 1us}}) {
        EXPECT_TRUE(writer.set(of_key("key"), what, start));
        EXPECT_EQ(find("key"), what);
        EXPECT_TRUE(limits().may_override());
        EXPECT_EQ(limits().count(), 1U);
    }
    EXPECT_EQ(find("other"), std::nullopt);
    EXPECT_FALSE(writer.needs_generation());
}

TEST_F(LiveLimitsTest, PrefersTheKeyAtTheRuleThenTheKeyThenTheRule) {
    LiveLimitsWriter writer = empty_writer();
    writer.set({.encoded_key = {}, .rule = "rule"}, with_limit(1), start);
    EXPECT_EQ(find("key"), with_limit(1));
    writer.set(of_key("key"), with_limit(2), start);
    EXPECT_EQ(find("key"), with_limit(2));
    writer.set({.encoded_key = "key", .rule = "rule"}, with_limit(3), start);
    EXPECT_EQ(find("key"), with_limit(3));
    EXPECT_EQ(find("key", "another"), with_limit(2));
    EXPECT_EQ(find("other"), with_limit(1));
    EXPECT_EQ(find("other", "another"), std::nullopt);
    EXPECT_EQ(limits().count(), 3U);
    writer.remove({.encoded_key = "key", .rule = "rule"});
    EXPECT_EQ(find("key"), with_limit(2));
    writer.remove(of_key("key"));
    EXPECT_EQ(find("key"), with_limit(1));
    writer.remove({.encoded_key = {}, .rule = "rule"});
    EXPECT_EQ(find("key"), std::nullopt);
    EXPECT_FALSE(limits().may_override());
}

// A rule may be called as a client's key is.
TEST_F(LiveLimitsTest, TellsKeysFromRules) {
    LiveLimitsWriter writer = empty_writer();
    writer.set(of_key("a"), with_limit(1), start);
    EXPECT_EQ(find("b", "a"), std::nullopt);
    writer.set({.encoded_key = "a", .rule = "b"}, with_limit(2), start);
    EXPECT_EQ(find("b", "a"), std::nullopt);
    EXPECT_EQ(find("ab", ""), std::nullopt);
    EXPECT_EQ(find("", "ab"), std::nullopt);
}

TEST_F(LiveLimitsTest, ForgetsAnOverrideWhenItExpires) {
    LiveLimitsWriter writer = empty_writer();
    writer.set(of_key("key"), with_limit(1), start);
    writer.set({.encoded_key = "key", .rule = "rule"},
               {.action = Action::ban, .expires_at = start + 1s}, start);
    redis_now_ = start + 1s - 1us;
    EXPECT_EQ(find("key")->action, Action::ban);
    redis_now_ = start + 1s;
    EXPECT_EQ(find("key"), with_limit(1)) << "the next one that is said of it";
    EXPECT_EQ(limits().count(), 2U);
    writer.remove_expired(redis_now_ - 1us);
    EXPECT_EQ(limits().count(), 2U);
    writer.remove_expired(redis_now_);
    EXPECT_EQ(limits().count(), 1U);
    redis_now_ = start;
    EXPECT_EQ(find("key"), with_limit(1)) << "it is gone, whatever the clock does";
}

TEST_F(LiveLimitsTest, AsksForTheTimeOnlyIfAnOverrideExpires) {
    LiveLimitsWriter writer = empty_writer();
    writer.set(of_key("key"), with_limit(1), start);
    const auto never = []() -> microseconds {
        ADD_FAILURE();
        return 0us;
    };
    EXPECT_TRUE(limits().find("key", "rule", never));
    EXPECT_FALSE(limits().find("other", "rule", never));
}

TEST_F(LiveLimitsTest, RemovesAnOverrideThatIsSetExpired) {
    LiveLimitsWriter writer = empty_writer();
    writer.set(of_key("key"), with_limit(1), start);
    EXPECT_TRUE(writer.set(of_key("key"), {.limit = 2, .expires_at = start}, start));
    EXPECT_EQ(find("key"), std::nullopt);
    EXPECT_EQ(limits().count(), 0U);
    EXPECT_FALSE(limits().may_override());
}

// Redis has lost the newest of what was set, and nobody has written it back.
TEST_F(LiveLimitsTest, KeepsWhatIsNewerWhereItIsToldTo) {
    using Newer = LiveLimitsWriter::Newer;
    constexpr uint64_t largest_version = uint64_t{1} << 53;
    for (const Newer newer : {Newer::kept, Newer::replaced}) {
        LiveLimitsWriter writer = empty_writer();
        for (const auto &[name, what] :
             {std::pair("set", with_limit(1)),
              std::pair("removed", Override{.action = Action::ban}),
              std::pair("expired", Override{.action = Action::exempt})}) {
            writer.set(of_key(name), what, start, largest_version);
        }
        writer.set(of_key("same"), with_limit(1), start, 5);
        writer.end_generation();

        writer.begin_generation(newer);
        writer.set(of_key("set"), with_limit(2), start, largest_version - 1);
        writer.remove(of_key("removed"), largest_version - 1);
        writer.set(of_key("expired"), {.limit = 2, .expires_at = start}, start, 1);
        writer.set(of_key("same"), with_limit(2), start, 5);
        writer.set(of_key("new"), with_limit(2), start, 1);
        const bool is_kept = newer == Newer::kept;
        EXPECT_EQ(find("set"), with_limit(is_kept ? 1 : 2));
        EXPECT_EQ(find("removed").has_value(), is_kept);
        EXPECT_EQ(find("expired").has_value(), is_kept);
        EXPECT_EQ(find("same"), with_limit(2));
        EXPECT_EQ(find("new"), with_limit(2));
        writer.end_generation();
        EXPECT_EQ(find("set").has_value(), !is_kept);
        EXPECT_EQ(find("same"), with_limit(2));
    }
}

TEST_F(LiveLimitsTest, KeepsNothingOfAnOlderGeneration) {
    LiveLimitsWriter writer = empty_writer();
    for (uint64_t number = 0; number < 6; ++number) {
        writer.set(of_key(key(number)), with_limit(number), start);
    }
    writer.begin_generation();
    writer.set(of_key(key(1)), with_limit(11), start);
    writer.set(of_key(key(7)), with_limit(17), start);
    for (uint64_t number = 0; number < 6; ++number) {
        EXPECT_EQ(find(key(number)), with_limit(number == 1 ? 11 : number)) << "until its end";
    }
    EXPECT_EQ(find(key(7)), with_limit(17));
    EXPECT_EQ(limits().count(), 6U);
    writer.end_generation();
    for (uint64_t number = 0; number < 8; ++number) {
        EXPECT_EQ(find(key(number)).has_value(), number == 1 || number == 7);
    }
    EXPECT_EQ(limits().count(), 2U);
    EXPECT_EQ(limits().entries(), 2U);

    writer.begin_generation();
    EXPECT_TRUE(limits().may_override());
    writer.end_generation();
    EXPECT_FALSE(limits().may_override());
    EXPECT_EQ(find(key(1)), std::nullopt);
    EXPECT_EQ(limits().count(), 0U);
}

TEST_F(LiveLimitsTest, IsLeftAsItWasIfAGenerationIsNotEnded) {
    LiveLimitsWriter killed = empty_writer();
    killed.set(of_key("old"), with_limit(1), start);
    killed.begin_generation();
    killed.set(of_key("new"), with_limit(2), start);
    EXPECT_TRUE(find("old") && find("new"));
    LiveLimitsWriter next(limits());
    EXPECT_TRUE(next.needs_generation());
    next.begin_generation();
    EXPECT_TRUE(find("old") && find("new"));
    next.set(of_key("old"), with_limit(1), start);
    next.end_generation();
    EXPECT_EQ(find("old"), with_limit(1));
    EXPECT_EQ(find("new"), std::nullopt);
    EXPECT_EQ(limits().count(), 1U);
}

TEST_F(LiveLimitsTest, DropsWhatHasNoRoom) {
    constexpr uint64_t full = SharedTable::entries_of_bucket;
    LiveLimitsWriter writer = empty_writer();
    for (uint64_t number = 0; number < full; ++number) {
        EXPECT_TRUE(limits().has_room(of_key(key(number))));
        EXPECT_TRUE(writer.set(of_key(key(number)), with_limit(number), start));
    }
    EXPECT_FALSE(limits().has_room(of_key("more")));
    EXPECT_FALSE(writer.set(of_key("more"), with_limit(1), start));
    EXPECT_EQ(limits().dropped(), 1U);
    EXPECT_EQ(limits().count(), full);
    EXPECT_EQ(find("more"), std::nullopt);
    for (uint64_t number = 0; number < full; ++number) {
        EXPECT_EQ(find(key(number)), with_limit(number)) << "the others stay";
    }
    EXPECT_TRUE(limits().has_room(of_key(key(3))));
    EXPECT_TRUE(writer.set(of_key(key(3)), with_limit(100), start)) << "in its own place";
    writer.remove(of_key(key(5)));
    EXPECT_TRUE(writer.set(of_key("more"), with_limit(1), start));
    EXPECT_EQ(limits().dropped(), 1U);
}

// Redis tells the oldest first, and so what was dropped before what an operator has renewed since.
TEST_F(LiveLimitsTest, LooksForRoomWithoutTheLossOfWhatHolds) {
    constexpr uint64_t full = SharedTable::entries_of_bucket;
    LiveLimitsWriter writer = empty_writer();
    for (uint64_t number = 0; number < full; ++number) {
        writer.set(of_key(key(number)), with_limit(number), start);
    }
    EXPECT_FALSE(writer.set(of_key("more"), with_limit(1), start));
    writer.remove(of_key(key(full))); // of another bucket, for all that is known
    ASSERT_TRUE(writer.may_have_room_for_dropped());
    const auto read_anew = [&](uint64_t first) {
        writer.begin_generation();
        for (uint64_t number = first; number < full; ++number) {
            writer.set(of_key(key(number)), with_limit(number), start);
        }
        writer.set(of_key("more"), with_limit(1), start);
        EXPECT_TRUE(first > 1 || writer.set(of_key(key(0)), with_limit(100), start));
        writer.end_generation();
    };
    read_anew(1);
    EXPECT_EQ(find(key(0)), with_limit(100));
    EXPECT_EQ(find("more"), std::nullopt);
    EXPECT_FALSE(writer.may_have_room_for_dropped());

    writer.remove(of_key(key(full)));
    read_anew(2); // two have gone meanwhile
    EXPECT_TRUE(writer.may_have_room_for_dropped());
    read_anew(2);
    EXPECT_EQ(find("more"), with_limit(1));
    EXPECT_EQ(limits().count(), full - 1);
}

TEST_F(LiveLimitsTest, MakesRoomOfWhatHasExpired) {
    constexpr uint64_t full = SharedTable::entries_of_bucket;
    LiveLimitsWriter writer = empty_writer();
    for (uint64_t number = 0; number < full; ++number) {
        writer.set(of_key(key(number)), {.limit = 1, .expires_at = start + 1s}, start);
    }
    writer.remove_expired(start + 1s);
    EXPECT_FALSE(limits().may_override());
    EXPECT_TRUE(writer.set(of_key("more"), with_limit(1), start + 1s));
}

// After FLUSHALL there may be as many overrides as before, all of other clients.
TEST_F(LiveLimitsTest, FillsTheWholeTableWithEachGeneration) {
    constexpr uint64_t full = SharedTable::entries_of_bucket;
    LiveLimitsWriter writer(limits());
    for (uint64_t generation = 0; generation < 3; ++generation) {
        writer.begin_generation();
        for (uint64_t number = 0; number < full; ++number) {
            EXPECT_TRUE(
                writer.set(of_key(key(generation * full + number)), with_limit(number), start));
        }
        EXPECT_FALSE(writer.set(of_key("more"), with_limit(1), start));
        writer.end_generation();
        EXPECT_EQ(limits().count(), full);
    }
}

TEST_F(LiveLimitsTest, HasRoomForFiveHundredOverridesInAMegabyte) {
    // An eighth of what the counters of rules leave.
    constexpr size_t megabyte = 1024 * 1024;
    for (const size_t size : {megabyte, 10 * megabyte, 32 * megabyte}) {
        std::vector<OneBucket> memory(size / 9 / bucket_size);
        const LiveLimits limits(std::as_writable_bytes(std::span(memory)), seed_);
        LiveLimitsWriter writer(limits);
        writer.begin_generation();
        const uint64_t wanted = 500 * (size / megabyte);
        for (uint64_t number = 0; number < wanted; ++number) {
            writer.set(of_key(key(number)), with_limit(number), start);
        }
        writer.end_generation();
        EXPECT_EQ(limits.dropped(), 0U);
        EXPECT_EQ(limits.count(), wanted);
    }
}

TEST_F(LiveLimitsTest, RemovesWhatHasExpiredInPartsOfALargeTable) {
    std::vector<OneBucket> memory(1500);
    const LiveLimits limits(std::as_writable_bytes(std::span(memory)), seed_);
    LiveLimitsWriter writer(limits);
    writer.begin_generation();
    for (uint64_t number = 0; number < 10'000; ++number) {
        writer.set(of_key(key(number)),
                   {.limit = 1, .expires_at = number % 2 == 0 ? start + 1s : 0us}, start);
    }
    writer.end_generation();
    writer.remove_expired(start + 1s);
    EXPECT_GT(limits.count(), 5000U) << "one call does not look at all";
    EXPECT_LT(limits.count(), 10'000U);
    for (int call = 0; call < 4; ++call) {
        writer.remove_expired(start + 1s);
    }
    EXPECT_EQ(limits.count(), 5000U);
}

TEST_F(LiveLimitsTest, CountsRejections) {
    limits().count_rejection();
    limits().count_rejection();
    EXPECT_EQ(limits().rejections(), 2U);
}

TEST_F(LiveLimitsTest, KnowsWhenAClientWasReset) {
    LiveLimitsWriter writer = empty_writer();
    writer.reset("key", 1, start);
    EXPECT_EQ(limits().reset_time("key"), start);
    EXPECT_TRUE(limits().was_reset_since("key", start - 1us));
    EXPECT_TRUE(limits().was_reset_since("key", start));
    EXPECT_FALSE(limits().was_reset_since("key", start + 1us));
    EXPECT_FALSE(limits().was_reset_since("other", start - 1us));
    EXPECT_EQ(limits().reset_time("other"), 0us);
    writer.reset("other", 2, start + 5s);
    EXPECT_FALSE(limits().was_reset_since("key", start + 1s));
    EXPECT_TRUE(limits().was_reset_since("other", start + 5s));
    EXPECT_FALSE(limits().may_override());
    EXPECT_EQ(limits().entries(), 2U);
}

// Each full synchronisation lists it again.
TEST_F(LiveLimitsTest, CountsAResetOnce) {
    LiveLimitsWriter writer = empty_writer();
    writer.reset("key", 5, start);
    writer.begin_generation();
    writer.reset("key", 5, start + 1s);
    writer.end_generation();
    EXPECT_EQ(limits().reset_time("key"), start);
    writer.reset("key", 6, start + 2s);
    EXPECT_EQ(limits().reset_time("key"), start + 2s);
    writer.reset_all(start + 3s);
    writer.reset("key", 6, start + 4s);
    EXPECT_EQ(limits().reset_time("key"), start + 3s) << "it is known even if all were reset since";
}

// After a failover to a server that had not heard of the last one, and whose clock is behind.
TEST_F(LiveLimitsTest, AResetOfALowerVersionIsAnotherOne) {
    LiveLimitsWriter writer = empty_writer();
    writer.reset("key", 5, start);
    writer.reset("key", 3, start + 1s);
    EXPECT_EQ(limits().reset_time("key"), start + 1s);
    writer.reset("key", 3, start + 2s);
    EXPECT_EQ(limits().reset_time("key"), start + 1s);
}

TEST_F(LiveLimitsTest, ResetsAllClients) {
    LiveLimitsWriter writer = empty_writer();
    writer.reset("key", 1, start + 9s);
    writer.reset_all(start + 5s);
    EXPECT_EQ(limits().reset_time("any"), start + 5s);
    EXPECT_EQ(limits().reset_time("key"), start + 9s);
    EXPECT_TRUE(limits().was_reset_since("any", start + 5s));
    EXPECT_FALSE(limits().was_reset_since("any", start + 6s));
}

// With no room for one more, a denial may be asked anew in vain, but none is kept wrongly.
TEST_F(LiveLimitsTest, ResetsAllClientsIfThereIsNoRoomForOne) {
    constexpr uint64_t full = SharedTable::entries_of_bucket;
    LiveLimitsWriter writer = empty_writer();
    for (uint64_t number = 0; number < full; ++number) {
        writer.reset(key(number), number + 1, start + microseconds(number));
    }
    EXPECT_EQ(limits().reset_time("other"), 0us);
    EXPECT_EQ(limits().entries(), full);
    writer.reset("more", full + 1, start + 1s);
    EXPECT_EQ(limits().reset_time("more"), start + 1s);
    for (uint64_t number = 0; number < full; ++number) {
        EXPECT_EQ(limits().reset_time(key(number)), start + 1s);
    }
    writer.reset("again", full + 2, start + 2s);
    EXPECT_EQ(limits().reset_time("again"), start + 2s);
    EXPECT_EQ(limits().reset_time("more"), start + 1s) << "now there is room again";
}

} // namespace
} // namespace rate_limit
