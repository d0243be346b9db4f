// Hosts that follow a store of live limits which comes back without its newest records, as after a
// failover or a restart from an older snapshot.

#include "live_host.hpp"
#include "model_test.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace model {
namespace {

using rate_limit::Override;
using redis_client::ByteQueue;
using redis_client::LiveKnown;
using redis_client::LiveName;
using redis_client::LiveStore;
using redis_client::ReplyView;
using std::chrono::microseconds;

class LiveOlderStoreTest : public testing::Test {
  protected:
    /// By a host that knows so much. Returns the limit, which no other override has.
    uint64_t put(const std::string &key, const LiveKnown &by, microseconds expires_in = {}) {
        const Override what{.limit = ++limits_};
        ByteQueue queue;
        EXPECT_TRUE(store_.write_put(
            queue, of_key(key),
            {.what = what,
             .expires_in = expires_in.count() > 0 ? std::optional(expires_in) : std::nullopt,
             .by = "me",
             .note = "a note"},
            epoch, by));
        ask(queue);
        return limits_;
    }
    void remove(const std::string &key, const LiveKnown &by) {
        ByteQueue queue;
        EXPECT_TRUE(store_.write_delete(queue, of_key(key), "me", epoch, by));
        ask(queue);
    }
    void ask(const ByteQueue &queue) {
        redis_.ask(queue, [](ReplyView reply) { EXPECT_FALSE(reply.is_error()) << *reply.text(); });
        clock_.move(1000);
    }

    /// Takes a snapshot of the store, and brings the last one back.
    void save() { copy("rl:{live}:", "saved:{live}:"); }
    void restore() { copy("saved:{live}:", "rl:{live}:"); }
    void copy(const std::string &from, const std::string &to) {
        for (const char *name : {"head", "log", "data", "expiry"}) {
            redis_.command({"DEL", to + name});
            redis_.command({"COPY", from + name, to + name});
        }
    }
    /// Hosts have other connections then.
    void fail_over() {
        restore();
        begin_anew();
    }
    void begin_anew() {
        for (LiveHost &host : hosts_) {
            host.begin_anew();
        }
    }
    void poll_all() {
        for (LiveHost &host : hosts_) {
            host.poll();
        }
    }

    /// The limits of all keys that a host obeys, and those that the store has: `a=1 b=2`.
    std::string obeyed(const LiveHost &host) {
        std::map<std::string, Override> all;
        for (const auto &[key, what] : host.overrides) {
            all[key] = what.what;
        }
        return text_of(all);
    }
    std::string stored() {
        LiveHost reader(redis_);
        reader.poll();
        return obeyed(reader);
    }
    std::string text_of(const std::map<std::string, Override> &all) {
        std::string text;
        for (const auto &[key, what] : all) {
            if (!what.has_expired(microseconds(clock_.now()))) {
                text += key + "=" + std::to_string(what.limit.value_or(0)) + " ";
            }
        }
        return text;
    }
    void expect_all(const std::string &expected) {
        for (LiveHost &host : hosts_) {
            EXPECT_EQ(obeyed(host), expected);
            EXPECT_FALSE(host.follower->has_lost_newest());
        }
        EXPECT_EQ(stored(), expected);
    }

    Redis redis_;
    Clock clock_;
    Traffic traffic_;
    LiveStore store_{"rl:"};
    static constexpr uint64_t epoch = 7;
    uint64_t limits_ = 0;
    std::deque<LiveHost> hosts_;
    LiveHost &one_ = hosts_.emplace_back(redis_);
    LiveHost &other_ = hosts_.emplace_back(redis_);
};

TEST_F(LiveOlderStoreTest, WhatHostsKnowIsWrittenBack) {
    put("kept", {});
    put("changed", {});
    put("deleted", {});
    save();
    put("new", {});
    put("changed", {});
    remove("deleted", {});
    poll_all();
    fail_over();
    for (LiveHost *host : {&one_, &other_}) {
        while (host->step(), host->is_reading()) {
            EXPECT_EQ(obeyed(*host), "changed=5 kept=1 new=4 ");
        }
    }
    expect_all("changed=5 kept=1 new=4 ");
    poll_all();
    expect_all("changed=5 kept=1 new=4 ");
    EXPECT_EQ(one_.written_back, 1);
    EXPECT_EQ(other_.written_back, 0) << "there was nothing left to do";
    EXPECT_EQ(one_.follower->known().version, other_.follower->known().version);
}

TEST_F(LiveOlderStoreTest, WhatAnotherHostKnowsComesBackToAHostThatNeverHeard) {
    put("a", {});
    poll_all();
    save();
    put("a", {});
    put("b", {});
    one_.poll();
    fail_over();
    other_.poll();
    EXPECT_EQ(obeyed(other_), "a=1 ");
    one_.poll();
    other_.poll();
    expect_all("a=2 b=3 ");
}

// Whichever of them comes first.
TEST_F(LiveOlderStoreTest, TheNewestOfWhatHostsKnowHolds) {
    for (const bool newest_first : {false, true}) {
        redis_.command({"FLUSHALL"});
        poll_all();
        put("a", {});
        poll_all();
        save();
        put("a", {});
        put("gone", {});
        one_.poll();
        const uint64_t newest = put("a", {});
        remove("gone", {});
        other_.poll();
        fail_over();
        const uint64_t meanwhile = put("b", {});
        LiveHost &first = newest_first ? other_ : one_;
        LiveHost &second = newest_first ? one_ : other_;
        for (LiveHost *host : {&first, &second, &first, &second}) {
            host->poll();
        }
        expect_all("a=" + std::to_string(newest) + " b=" + std::to_string(meanwhile) + " ");
    }
}

TEST_F(LiveOlderStoreTest, TheirPagesMayComeInAnyOrder) {
    for (int round = 0; round < 200; ++round) {
        put("a", {});
        save();
        const uint64_t older = put("a", {});
        one_.poll();
        const uint64_t newest = put("a", {});
        other_.poll();
        fail_over();
        const std::string b = std::to_string(put("b", {}));
        for (int steps = 0; steps < 12; ++steps) {
            (traffic_.one_in(2) ? one_ : other_).step();
            const std::string now = obeyed(other_);
            EXPECT_EQ(now.substr(0, now.find(' ')), "a=" + std::to_string(newest)) << older;
        }
        poll_all();
        poll_all();
        expect_all("a=" + std::to_string(newest) + " b=" + b + " ");
    }
}

// The new master's clock is behind that of the old one.
TEST_F(LiveOlderStoreTest, AWriteAfterTheLossIsNewer) {
    put("a", {});
    put("b", {});
    save();
    clock_.move(60 * second);
    put("a", {});
    put("b", {});
    put("c", {});
    poll_all();
    clock_.move(-60 * second);
    fail_over();
    const uint64_t a = put("a", one_.known);
    remove("b", one_.known);
    remove("c", one_.known);
    poll_all();
    poll_all();
    expect_all("a=" + std::to_string(a) + " ");
}

// The store does not have it any more, but hosts do.
TEST_F(LiveOlderStoreTest, WhatIsLostCanBeDeleted) {
    put("a", {});
    save();
    put("b", {});
    poll_all();
    fail_over();
    remove("b", {});
    poll_all();
    poll_all();
    expect_all("a=1 ");
}

TEST_F(LiveOlderStoreTest, WhatWasDeletedOrPurgedElsewhereIsNotLost) {
    put("a", {});
    put("b", {});
    put("c", {});
    poll_all();
    remove("b", {});
    put("c", {}, microseconds(second));
    clock_.move(3601 * second);
    const std::string d = std::to_string(put("d", {})); // purges both
    begin_anew();
    poll_all();
    poll_all();
    expect_all("a=1 d=" + d + " ");
    EXPECT_EQ(one_.written_back + other_.written_back, 0);
}

// Neither does what it had replaced come back.
TEST_F(LiveOlderStoreTest, WhatHasExpiredStaysSo) {
    put("a", {});
    save();
    put("a", {}, microseconds(second));
    poll_all();
    clock_.move(70 * second);
    put("b", {}); // purges it
    poll_all();
    fail_over();
    poll_all();
    poll_all();
    expect_all("b=3 ");
    clock_.move(70 * second);
    put("c", {});
    begin_anew();
    poll_all();
    expect_all("b=3 c=4 ");
}

TEST_F(LiveOlderStoreTest, ManyAreWrittenBackInPages) {
    put("a", {});
    save();
    std::string expected = "a=1 ";
    for (int i = 0; i < 1300; ++i) {
        const std::string key = "b" + std::to_string(10'000 + i);
        expected += key + "=" + std::to_string(put(key, {})) + " ";
    }
    one_.poll();
    fail_over();
    one_.poll();
    EXPECT_EQ(one_.written_back, 6);
    poll_all();
    expect_all(expected);
}

TEST_F(LiveOlderStoreTest, AnotherStoreGetsNothingBack) {
    put("a", {});
    poll_all();
    fail_over(); // there is no snapshot: all is gone
    poll_all();
    expect_all("");
    EXPECT_EQ(one_.lost, 1);
    ByteQueue queue;
    EXPECT_TRUE(store_.write_put(queue, of_key("b"),
                                 {.what = {.limit = 5}, .expires_in = {}, .by = {}, .note = {}},
                                 epoch + 1, one_.known));
    ask(queue);
    poll_all();
    expect_all("b=5 ");
    EXPECT_EQ(one_.written_back, 0);
}

// The store becomes another one between what is read and what is written back.
TEST_F(LiveOlderStoreTest, NothingIsWrittenBackIntoAnotherStore) {
    put("a", {});
    save();
    put("b", {});
    poll_all();
    fail_over();
    while (one_.next.what != redis_client::LiveStep::What::write_back) {
        one_.step();
    }
    redis_.command({"DEL", "rl:{live}:head", "rl:{live}:log", "rl:{live}:data"});
    ByteQueue queue;
    EXPECT_TRUE(store_.write_put(queue, of_key("c"),
                                 {.what = {.limit = 5}, .expires_in = {}, .by = {}, .note = {}},
                                 epoch + 1, one_.known));
    ask(queue);
    poll_all();
    poll_all();
    expect_all("c=5 ");
}

class NewWorkerTest : public LiveOlderStoreTest {
  protected:
    NewWorkerTest() {
        put("a", {});
        put("b", {});
        put("d", {});
        save();
        put("a", {});
        put("c", {});
        remove("d", {});
        poll_all();
        one_.replace_worker();
    }
};

// It obeys what the worker before it knew, until another host has written it back.
TEST_F(NewWorkerTest, ObeysWhatTheHostKnew) {
    fail_over();
    one_.poll();
    EXPECT_EQ(obeyed(one_), "a=4 b=2 c=5 d=3 ") << "but for what was deleted";
    EXPECT_TRUE(one_.follower->has_lost_newest());
    begin_anew();
    one_.poll();
    EXPECT_EQ(obeyed(one_), "a=4 b=2 c=5 d=3 ");
    EXPECT_TRUE(one_.follower->has_lost_newest());
    other_.poll();
    one_.poll();
    one_.poll();
    expect_all("a=4 b=2 c=5 ");
}

TEST_F(NewWorkerTest, KnowsThatItIsLostUntilTheNextWrite) {
    hosts_.pop_back();
    fail_over();
    for (int polls = 0; polls < 5; ++polls) {
        one_.poll();
        EXPECT_TRUE(one_.follower->has_lost_newest());
        EXPECT_EQ(obeyed(one_), "a=4 b=2 c=5 d=3 ");
    }
    one_.replace_worker();
    one_.poll();
    EXPECT_TRUE(one_.follower->has_lost_newest());
    EXPECT_EQ(obeyed(one_), "a=4 b=2 c=5 d=3 ");
    put("e", {});
    one_.poll();
    expect_all("a=1 b=2 d=3 e=6 ");
    one_.begin_anew();
    one_.poll();
    expect_all("a=1 b=2 d=3 e=6 ");
}

// Also by a Redis whose clock is behind, and by a host that knows no more.
TEST_F(NewWorkerTest, AnyWriteEndsIt) {
    hosts_.pop_back();
    clock_.move(-3600 * second);
    fail_over();
    one_.poll();
    EXPECT_TRUE(one_.follower->has_lost_newest());
    remove("nobody", {});
    one_.poll();
    expect_all("a=1 b=2 d=3 ");
}

TEST_F(NewWorkerTest, AWriteWhileItReadsEndsItAsWell) {
    hosts_.pop_back();
    fail_over();
    one_.step();
    put("e", {});
    one_.poll();
    one_.poll();
    expect_all("a=1 b=2 d=3 e=6 ");
}

/// What operators have written, in its order, and what must hold of it.
class AnyOrderTest : public LiveOlderStoreTest {
  protected:
    struct Write {
        uint64_t version;
        std::optional<Override> what; // none: it deletes
    };

    uint64_t version() {
        uint64_t version = 0;
        ByteQueue queue;
        EXPECT_TRUE(store_.write_head_query(queue));
        redis_.ask(queue, [&](ReplyView reply) {
            const auto head = redis_client::read_head(reply);
            version = head ? head->version : 0;
        });
        return version;
    }

    void write(const std::string &key, const LiveKnown &by) {
        if (traffic_.one_in(4)) {
            remove(key, by);
            history_[key].push_back({version(), std::nullopt});
            return;
        }
        const microseconds expires_in{traffic_.one_in(3) ? traffic_.between(1, 4) * second : 0};
        const int64_t now = clock_.now();
        const uint64_t limit = put(key, by, expires_in);
        Override what{.limit = limit};
        if (expires_in.count() > 0) {
            what.expires_at = microseconds(now) + expires_in;
        }
        history_[key].push_back({version(), what});
    }

    /// What nobody knows of the writes is lost.
    void lose(uint64_t saved) {
        uint64_t known = saved;
        for (const LiveHost &host : hosts_) {
            known = std::max(known, host.known.version);
        }
        for (auto &[key, writes] : history_) {
            std::erase_if(writes, [&](const Write &one) { return one.version > known; });
        }
    }

    std::string expected() {
        std::map<std::string, Override> all;
        for (const auto &[key, writes] : history_) {
            if (!writes.empty() && writes.back().what) {
                all[key] = *writes.back().what;
            }
        }
        return text_of(all);
    }

    std::map<std::string, std::vector<Write>> history_;
};

TEST_F(AnyOrderTest, WhatAnyHostKnowsHoldsInTheEnd) {
    hosts_.emplace_back(redis_);
    for (int i = 0; i < 600; ++i) {
        write("base" + std::to_string(i), {});
    }
    poll_all();
    save();
    uint64_t saved = version();
    for (int round = 0; round < 4000; ++round) {
        LiveHost &host = hosts_[static_cast<size_t>(
            traffic_.between(0, static_cast<int64_t>(hosts_.size()) - 1))];
        switch (traffic_.between(0, 9)) {
        case 0:
        case 1:
            write("k" + std::to_string(traffic_.between(0, 5)), host.known);
            break;
        case 2:
            clock_.move(traffic_.one_of({1, 1000, 300'000}));
            break;
        case 3:
            if (traffic_.one_in(5)) {
                save();
                saved = version();
            }
            break;
        case 4:
            // A page that a host has read only in part is known, but not how much of it.
            if (traffic_.one_in(10) &&
                std::ranges::none_of(hosts_, [](const auto &one) { return one.is_reading(); })) {
                lose(saved);
                fail_over();
            }
            break;
        default:
            for (int steps = traffic_.between(1, 8); steps > 0; --steps) {
                host.step();
            }
        }
        if (traffic_.one_in(50)) {
            for (int polls = 0; polls < 3; ++polls) {
                poll_all();
            }
            ASSERT_EQ(stored(), expected()) << "round " << round;
            for (const LiveHost &one : hosts_) {
                ASSERT_EQ(obeyed(one), expected()) << "round " << round;
            }
        }
    }
}

} // namespace
} // namespace model
