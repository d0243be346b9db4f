// What operators set, written to a real Redis and read back.

#include "model_test.hpp"
#include "redis.hpp"

#include "redis_client/control/live_store.hpp"
#include "redis_client/wire/hash_slot.hpp"

#include <gtest/gtest.h>

#include <map>

namespace model {
namespace {

using namespace std::chrono_literals;
using rate_limit::Override;
using redis_client::ByteQueue;
using redis_client::LiveName;
using redis_client::LiveOrder;
using redis_client::LiveOverride;
using redis_client::LivePage;
using redis_client::LiveStore;
using redis_client::LiveWritten;
using redis_client::Registry;
using redis_client::ReplyView;
using std::chrono::microseconds;

constexpr int64_t hour = 3600 * second;

class LiveStoreTest : public testing::Test {
  protected:
    LiveWritten written(const ByteQueue &command) {
        LiveWritten written{};
        redis_.ask(command, [&](ReplyView reply) {
            const auto read = redis_client::read_written(reply);
            ASSERT_TRUE(read) << reply.text().value_or("");
            written = *read;
        });
        EXPECT_EQ(written.time.count(), clock_.now());
        return written;
    }

    LiveWritten put(const LiveName &name, const LiveOrder &order) {
        ByteQueue queue;
        EXPECT_TRUE(store_.write_put(queue, name, order, ++epoch_, {}));
        return written(queue);
    }
    LiveWritten put_limit(const LiveName &name, uint64_t limit) {
        return put(name, {.what = {.limit = limit}, .expires_in = {}, .by = {}, .note = {}});
    }
    LiveWritten remove(const LiveName &name) {
        ByteQueue queue;
        EXPECT_TRUE(store_.write_delete(queue, name, "me", ++epoch_, {}));
        return written(queue);
    }
    LiveWritten reset(std::string_view key) {
        ByteQueue queue;
        EXPECT_TRUE(store_.write_reset(
            queue, {.zone = "z", .encoded_key = key, .rule = {}, .is_reset = true}, "me", ++epoch_,
            {}));
        return written(queue);
    }

    std::vector<std::optional<LiveOverride>> look_up(std::vector<LiveName> names) {
        std::vector<std::optional<LiveOverride>> found;
        ByteQueue queue;
        EXPECT_TRUE(store_.write_lookup(queue, names));
        redis_.ask(queue, [&](ReplyView reply) {
            const auto read = redis_client::read_lookup(reply);
            ASSERT_TRUE(read) << reply.text().value_or("");
            found = read->overrides;
            EXPECT_EQ(read->time.count(), clock_.now());
        });
        return found;
    }
    std::optional<LiveOverride> look_up(const LiveName &name) {
        return look_up(std::vector{name}).front();
    }

    std::optional<redis_client::LiveHead> head() {
        std::optional<redis_client::LiveHead> head;
        ByteQueue queue;
        EXPECT_TRUE(store_.write_head_query(queue));
        redis_.ask(queue, [&](ReplyView reply) { head = redis_client::read_head(reply); });
        return head;
    }

    /// Gives each page to `read`, beginning with that version. Returns how many there were.
    int read_pages(uint64_t since, std::string_view zone,
                   const std::function<void(const LivePage &)> &read) {
        int pages = 0;
        for (std::optional<uint64_t> next = since; next; ++pages) {
            ByteQueue queue;
            EXPECT_TRUE(store_.write_changes_query(queue, *next, zone));
            redis_.ask(queue, [&](ReplyView reply) {
                next.reset();
                const auto page = redis_client::read_changes(reply);
                ASSERT_TRUE(page) << reply.text().value_or("");
                read(*page);
                next = page->next;
            });
        }
        return pages;
    }

    /// The keys of all changes since that version, in their order.
    std::string changed(uint64_t since, std::string_view zone = {}) {
        std::string keys;
        read_pages(since, zone, [&](const LivePage &page) {
            for (const auto &change : page.changes) {
                keys += change.is_tombstone ? "-" : change.name.is_reset ? "!" : "";
                keys += std::string(change.name.encoded_key) + " ";
            }
        });
        return keys;
    }

    std::vector<std::string> counters(std::string_view zone,
                                      Registry registry = Registry::of_lengths) {
        std::vector<std::string> names;
        uint64_t cursor = 0;
        do {
            ByteQueue queue;
            EXPECT_TRUE(store_.write_counters_query(queue, registry, cursor, zone));
            redis_.ask(queue, [&](ReplyView reply) {
                const auto page = redis_client::read_counters(reply);
                ASSERT_TRUE(page);
                EXPECT_LE(page->counters.size(), 2 * LiveStore::records_of_page);
                cursor = page->next;
                for (const auto &[name, shards] : page->counters) {
                    names.push_back(std::string(name) + " " + std::to_string(shards));
                }
            });
        } while (cursor != 0);
        std::ranges::sort(names);
        names.erase(std::ranges::unique(names).begin(), names.end());
        return names;
    }

    static LiveName of_key(std::string_view key, std::string_view zone = "z") {
        return {.zone = zone, .encoded_key = key, .rule = {}};
    }

    Redis redis_;
    Clock clock_;
    LiveStore store_{"rl:"};
    uint64_t epoch_ = 0;
};

TEST_F(LiveStoreTest, KeysAreInOneHashSlotThatNoClientHas) {
    put_limit(of_key("k"), 1);
    for (const std::string key : {"head", "log", "data"}) {
        EXPECT_TRUE(redis_.has("rl:{live}:" + key)) << key;
    }
    EXPECT_EQ(store_.hash_slot(), redis_client::hash_slot("live"));
}

TEST_F(LiveStoreTest, WhatWasPutIsFound) {
    const LiveName names[] = {of_key("k"),
                              {.zone = "z", .encoded_key = "k", .rule = "r"},
                              {.zone = "z", .encoded_key = {}, .rule = "r"},
                              {.zone = "y", .encoded_key = "k", .rule = {}}};
    for (uint64_t i = 0; i < 4; ++i) {
        EXPECT_EQ(look_up(names[i]), std::nullopt) << i;
        const LiveWritten written = put_limit(names[i], i);
        EXPECT_TRUE(written.is_written);
        EXPECT_EQ(written.expires_at, 0us);
    }
    const auto found = look_up({names, names + 4});
    ASSERT_EQ(found.size(), 4u);
    for (uint64_t i = 0; i < 4; ++i) {
        EXPECT_EQ(found[i]->what, Override{.limit = i}) << i;
        EXPECT_EQ(found[i]->updated_at.count(), clock_.now());
    }
}

TEST_F(LiveStoreTest, APutReplacesAllOfTheOneBefore) {
    put(of_key("k"), {.what = {.limit = 1, .burst = 2}, .expires_in = 10s, .by = "a", .note = "b"});
    clock_.move(7);
    put(of_key("k"), {.what = {.action = Override::Action::ban},
                      .expires_in = {},
                      .by = "127.0.0.1 op",
                      .note = {}});
    const auto found = look_up(of_key("k"));
    EXPECT_EQ(found->what, Override{.action = Override::Action::ban});
    EXPECT_EQ(found->by, "127.0.0.1 op");
    EXPECT_EQ(found->note, "");
    EXPECT_EQ(found->updated_at.count(), clock_.now());
    clock_.move(2 * hour);
    EXPECT_TRUE(look_up(of_key("k")));
    put_limit(of_key("other"), 1); // purges
    EXPECT_TRUE(look_up(of_key("k")));
}

TEST_F(LiveStoreTest, AnyTextIsKept) {
    std::string all;
    for (int byte = 0; byte < 256; ++byte) {
        all += static_cast<char>(byte);
    }
    const std::string texts[] = {"",
                                 "-",
                                 "--",
                                 "%2D",
                                 "a b",
                                 "100%",
                                 all.substr(0, 128),
                                 all.substr(128),
                                 "ticket 4711: \"why?\"\n"};
    for (const std::string &text : texts) {
        put(of_key("k"), {.what = {.limit = 1}, .expires_in = {}, .by = text, .note = text});
        EXPECT_EQ(look_up(of_key("k"))->note, text);
        EXPECT_EQ(look_up(of_key("k"))->by, text);
    }
    put(of_key("k"), {.what = {.limit = 1}, .expires_in = {}, .by = all, .note = all});
    EXPECT_EQ(look_up(of_key("k"))->note, all.substr(0, redis_client::longest_live_text));
}

TEST_F(LiveStoreTest, ExpiresToTheMicrosecond) {
    const LiveWritten written = put(of_key("k"), {.what = {.action = Override::Action::exempt},
                                                  .expires_in = 31'622'400s,
                                                  .by = {},
                                                  .note = {}});
    EXPECT_EQ(written.expires_at - written.time, 31'622'400s);
    clock_.set(written.expires_at.count() - 1);
    EXPECT_EQ(look_up(of_key("k"))->what.expires_at, written.expires_at);
    clock_.move(1);
    EXPECT_EQ(look_up(of_key("k")), std::nullopt);
    EXPECT_FALSE(remove(of_key("k")).is_written);
}

TEST_F(LiveStoreTest, DeletesOnce) {
    EXPECT_FALSE(remove(of_key("k")).is_written);
    EXPECT_EQ(head(), std::nullopt) << "nothing was written";
    put_limit(of_key("k"), 1);
    EXPECT_TRUE(remove(of_key("k")).is_written);
    EXPECT_EQ(look_up(of_key("k")), std::nullopt);
    EXPECT_FALSE(remove(of_key("k")).is_written);
    put_limit(of_key("k"), 2);
    EXPECT_EQ(look_up(of_key("k"))->what.limit, 2u);
}

// A host may know an override that the store has lost, and would write it back.
TEST_F(LiveStoreTest, ADeletionIsWrittenThoughThereIsNothing) {
    put_limit(of_key("other"), 1);
    EXPECT_FALSE(remove(of_key("k")).is_written);
    EXPECT_EQ(changed(0), "other -k ");
    const auto before = head();
    EXPECT_FALSE(remove(of_key("k")).is_written);
    EXPECT_GT(head()->version, before->version);
}

TEST_F(LiveStoreTest, ARecordIsNewerThanWhatItsWriterKnows) {
    put_limit(of_key("a"), 1);
    const auto before = head();
    const uint64_t known = before->version + 5'000'000;
    for (const uint64_t epoch : {before->epoch, before->epoch + 1}) {
        ByteQueue queue;
        ASSERT_TRUE(store_.write_put(queue, of_key("b"),
                                     {.what = {.limit = 1}, .expires_in = {}, .by = {}, .note = {}},
                                     ++epoch_, {.epoch = epoch, .version = known}));
        EXPECT_TRUE(written(queue).is_written);
        EXPECT_EQ(head()->version, known + (epoch == before->epoch ? 1 : 2))
            << "by this epoch only";
    }
}

TEST_F(LiveStoreTest, ChangesComeInTheirOrder) {
    EXPECT_EQ(changed(0), "");
    put_limit(of_key("a"), 1);
    put_limit(of_key("b"), 1);
    const auto seen = head();
    EXPECT_EQ(changed(0), "a b ");
    EXPECT_EQ(changed(seen->version), "");
    put_limit(of_key("a"), 2);
    reset("c");
    remove(of_key("b"));
    EXPECT_EQ(changed(seen->version), "a !c -b ");
    EXPECT_EQ(changed(0), "a !c -b ");
    EXPECT_EQ(head()->epoch, seen->epoch);
}

TEST_F(LiveStoreTest, VersionsRiseWhateverTheClockDoes) {
    uint64_t last = 0;
    for (const int64_t step : {0, 0, 5, -1'000'000, 0, 2'000'000}) {
        clock_.move(step);
        put_limit(of_key("k"), 1);
        EXPECT_GT(head()->version, last);
        last = head()->version;
        EXPECT_EQ(changed(last - 1), "k ");
    }
    EXPECT_EQ(last, static_cast<uint64_t>(clock_.now()));
}

TEST_F(LiveStoreTest, ALostHeadBeginsAnEpochAboveAllVersions) {
    clock_.move(1000);
    put_limit(of_key("a"), 1);
    const auto before = head();
    redis_.command({"DEL", "rl:{live}:head"});
    EXPECT_EQ(head(), std::nullopt);
    clock_.move(-500);
    put_limit(of_key("b"), 1);
    EXPECT_NE(head()->epoch, before->epoch);
    EXPECT_EQ(head()->version, before->version + 1);
    EXPECT_EQ(changed(0), "a b ");
}

TEST_F(LiveStoreTest, WhatHasExpiredIsPurgedAndRaisesTheFloor) {
    put(of_key("short"), {.what = {.limit = 1}, .expires_in = 1s, .by = {}, .note = {}});
    const uint64_t of_short = head()->version;
    put_limit(of_key("long"), 1);
    put_limit(of_key("gone"), 1);
    reset("reset");
    remove(of_key("gone"));
    const uint64_t of_tombstone = head()->version;
    EXPECT_EQ(head()->floor, 0u);

    clock_.move(61 * second - 1);
    put_limit(of_key("none"), 1);
    EXPECT_EQ(head()->floor, 0u) << "it is named for a minute more";
    EXPECT_EQ(changed(0), "short long !reset -gone none ");
    clock_.move(1);
    put_limit(of_key("one"), 1);
    EXPECT_EQ(head()->floor, of_short);
    EXPECT_EQ(changed(0), "long !reset -gone none one ");
    clock_.move(hour - 61 * second - 1);
    put_limit(of_key("two"), 1);
    EXPECT_EQ(changed(0), "long !reset -gone none one two ");
    clock_.move(1);
    put_limit(of_key("three"), 1);
    EXPECT_EQ(head()->floor, of_tombstone);
    EXPECT_EQ(changed(0), "long none one two three ");
    EXPECT_EQ(redis_.command({"HLEN", "rl:{live}:data"}).number, 5);
    EXPECT_FALSE(redis_.has("rl:{live}:expiry"));
}

TEST_F(LiveStoreTest, AWritePurgesAHundredAtMost) {
    for (int i = 0; i < 250; ++i) {
        put(of_key("k" + std::to_string(i)),
            {.what = {.limit = 1}, .expires_in = 1s, .by = {}, .note = {}});
    }
    clock_.move(62 * second);
    for (const int64_t left : {151, 52, 3, 4}) {
        put_limit(of_key("new" + std::to_string(left)), 1);
        EXPECT_EQ(redis_.command({"HLEN", "rl:{live}:data"}).number, left);
    }
}

TEST_F(LiveStoreTest, PagesTellAllOnceAndKeepToAZone) {
    constexpr int count = 1201;
    for (int i = 0; i < count; ++i) {
        put_limit(of_key("k" + std::to_string(i), i % 7 == 0 ? "seventh" : "z"), 1);
    }
    std::map<std::string, int, std::less<>> seen;
    EXPECT_EQ(read_pages(0, {},
                         [&](const LivePage &page) {
                             EXPECT_LE(page.changes.size(), LiveStore::records_of_page);
                             for (const auto &change : page.changes) {
                                 ++seen[std::string(change.name.encoded_key)];
                             }
                         }),
              5);
    EXPECT_EQ(seen.size(), static_cast<size_t>(count));
    size_t in_zone = 0;
    EXPECT_EQ(read_pages(0, "seventh",
                         [&](const LivePage &page) {
                             for (const auto &change : page.changes) {
                                 EXPECT_EQ(change.name.zone, "seventh");
                                 ++in_zone;
                             }
                         }),
              5);
    EXPECT_EQ(in_zone, (count + 6) / 7);
}

// That of a rule without a name of its own is longer than any that is configured.
TEST_F(LiveStoreTest, TheLongestNameOfARuleIsAmongTheChanges) {
    const std::string zone(rate_limit::longest_name, 'z');
    const std::string rule = zone + "/31622399999ms";
    const std::string longer = rule + "9";
    put_limit({.zone = zone, .encoded_key = {}, .rule = rule}, 1);
    put_limit({.zone = zone, .encoded_key = std::string_view(zone), .rule = rule}, 1);
    put_limit({.zone = zone, .encoded_key = {}, .rule = longer}, 1);
    std::vector<std::string> rules;
    read_pages(0, {}, [&](const LivePage &page) {
        for (const auto &change : page.changes) {
            rules.emplace_back(change.name.rule);
        }
    });
    EXPECT_EQ(rules, std::vector(2, rule));
}

TEST_F(LiveStoreTest, ForeignRecordsAreLeftOut) {
    put_limit(of_key("a"), 1);
    put_limit(of_key("b"), 1);
    put_limit(of_key("c"), 1);
    redis_.command({"HDEL", "rl:{live}:data", "K z a"});
    redis_.command({"HSET", "rl:{live}:data", "K z b", "1 - ban"});
    for (const char *name : {"R z \xff", "KR z k \xff", "R z a\"b"}) {
        redis_.command({"HSET", "rl:{live}:data", name, "1 - numbers 5 - 1 - -"});
        redis_.command({"ZADD", "rl:{live}:log", "1", name});
    }
    EXPECT_EQ(changed(0), "c ");
    EXPECT_EQ(look_up(of_key("b")), std::nullopt);
    redis_.command({"SET", "rl:{live}:head", "zz"});
    EXPECT_EQ(head(), std::nullopt);
}

TEST_F(LiveStoreTest, WritesNothingIfRedisRefusesAnyOfIt) {
    redis_.command({"SET", "rl:{live}:data", "of another type"});
    ByteQueue queue;
    ASSERT_TRUE(store_.write_put(queue, of_key("k"),
                                 {.what = {.limit = 1}, .expires_in = {}, .by = {}, .note = {}},
                                 ++epoch_, {}));
    redis_.ask(queue, [](ReplyView reply) { EXPECT_TRUE(reply.is_error()); });
    EXPECT_EQ(head(), std::nullopt);
}

TEST_F(LiveStoreTest, CountersAreRegisteredUntilNothingOfThemCounts) {
    EXPECT_TRUE(counters("z").empty());
    rate_limit::Rule minute;
    minute.zone = "z";
    minute.quota.window = 60s;
    rate_limit::Rule day = minute;
    day.quota.algorithm = rate_limit::Algorithm::gcra;
    day.quota.window = 24h;
    day.explicit_name = "of/day";
    day.shards = 8;
    rate_limit::Rule other = minute;
    other.zone = "zz";
    const rate_limit::Rule *rules[] = {&minute, &day, &other};
    ByteQueue queue;
    ASSERT_TRUE(
        store_.write_registration(queue, Registry::of_lengths, rules, microseconds(clock_.now())));
    redis_.ask(queue, [](ReplyView reply) { EXPECT_FALSE(reply.is_error()); });

    using Names = std::vector<std::string>;
    const Names both = {"gcra:86400000:of/day 8", "sliding_log:60000 1"};
    EXPECT_EQ(counters("z"), both);
    EXPECT_EQ(counters("zz"), Names{"sliding_log:60000 1"});
    EXPECT_EQ(counters("zzz"), Names{});
    clock_.move(2 * hour + 60'000'000);
    EXPECT_EQ(counters("z"), both);
    clock_.move(1);
    EXPECT_EQ(counters("z"), Names{both[0]});
    EXPECT_EQ(redis_.command({"HLEN", "rl:{live}:rules"}).number, 1);
    clock_.move(24 * hour);
    EXPECT_EQ(counters("z"), Names{});
}

TEST_F(LiveStoreTest, CountersOfCalendarsHaveARegistryThatOlderHostsDoNotKnow) {
    rate_limit::Rule month;
    month.zone = "z";
    month.quota.algorithm = rate_limit::Algorithm::fixed_window;
    month.calendar = std::make_shared<rate_limit::Calendar>(
        rate_limit::CalendarName{.unit = rate_limit::CalendarUnit::month, .starts = 15},
        rate_limit::find_time_zone("UTC"));
    month.explicit_name = "plan";
    const rate_limit::Rule *rules[] = {&month};
    ByteQueue queue;
    ASSERT_TRUE(store_.write_registration(queue, Registry::of_calendars, rules,
                                          microseconds(clock_.now())));
    redis_.ask(queue, [](ReplyView reply) { EXPECT_FALSE(reply.is_error()); });

    using Names = std::vector<std::string>;
    const Names all = {"fixed_window:month-15:plan 1"};
    EXPECT_EQ(counters("z"), Names{});
    EXPECT_EQ(counters("z", Registry::of_calendars), all);
    clock_.move(32 * 24 * hour + 2 * hour);
    EXPECT_EQ(counters("z", Registry::of_calendars), all);
    clock_.move(1);
    EXPECT_EQ(counters("z", Registry::of_calendars), Names{});
}

TEST_F(LiveStoreTest, ManyCountersAreListedInPages) {
    std::vector<rate_limit::Rule> many(3000);
    std::vector<const rate_limit::Rule *> rules;
    for (rate_limit::Rule &rule : many) {
        rule.zone = "z";
        rule.quota.window = 60s;
        rule.explicit_name = "r" + std::to_string(rules.size());
        rules.push_back(&rule);
    }
    ByteQueue queue;
    ASSERT_TRUE(
        store_.write_registration(queue, Registry::of_lengths, rules, microseconds(clock_.now())));
    redis_.ask(queue, [](ReplyView reply) { EXPECT_FALSE(reply.is_error()); });
    EXPECT_EQ(counters("z").size(), many.size());
    EXPECT_EQ(counters("").size(), 0);
    clock_.move(2 * hour + 60'000'001);
    EXPECT_EQ(counters("").size(), 0);
    EXPECT_EQ(redis_.command({"HLEN", "rl:{live}:rules"}).number, 0);
}

} // namespace
} // namespace model
