// A host that follows a store of live limits, whatever happens to the store meanwhile.

#include "live_host.hpp"
#include "model_test.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace model {
namespace {

using namespace std::chrono_literals;
using rate_limit::Override;
using redis_client::ByteQueue;
using redis_client::LiveChange;
using redis_client::LiveFollower;
using redis_client::LiveHead;
using redis_client::LiveKnown;
using redis_client::LiveName;
using redis_client::LiveStore;
using redis_client::ReplyView;

class LiveFollowerTest : public testing::Test {
  protected:
    void ask(const ByteQueue &queue) {
        redis_.ask(queue, [](ReplyView reply) { EXPECT_FALSE(reply.is_error()); });
    }

    void put(const std::string &key, std::optional<microseconds> expires_in = std::nullopt) {
        const Override what{.limit = static_cast<uint64_t>(++writes_)};
        ByteQueue queue;
        ASSERT_TRUE(store_.write_put(
            queue, of_key(key), {.what = what, .expires_in = expires_in, .by = "test", .note = {}},
            ++epoch_, host_.known));
        ask(queue);
        overrides_[key] = what;
        if (expires_in) {
            overrides_[key].expires_at = microseconds(clock_.now()) + *expires_in;
        }
    }
    void remove(const std::string &key) {
        ByteQueue queue;
        ASSERT_TRUE(store_.write_delete(queue, of_key(key), "test", ++epoch_, host_.known));
        ask(queue);
        overrides_.erase(key);
    }
    void reset(const std::string &key) { reset(key, host_.known); }
    /// By a host that knows so much.
    void reset(const std::string &key, const LiveKnown &by) {
        LiveName name = of_key(key);
        name.is_reset = true;
        ByteQueue queue;
        ASSERT_TRUE(store_.write_reset(queue, name, "test", ++epoch_, by));
        ask(queue);
    }
    void flush() {
        redis_.command({"FLUSHALL"});
        overrides_.clear();
    }

    void step() { host_.step(); }
    void poll() { host_.poll(); }
    void begin_anew(LiveKnown known) { host_.begin_anew(known); }
    const LiveFollower &follower() const { return *host_.follower; }

    /// What holds now, as the test knows and as the host does.
    std::map<std::string, Override> expected() { return without_expired(overrides_); }
    std::map<std::string, Override> learned() {
        std::map<std::string, Override> all;
        for (const auto &[key, what] : host_.overrides) {
            all[key] = what.what;
        }
        return without_expired(all);
    }
    std::map<std::string, Override> without_expired(std::map<std::string, Override> all) {
        latest_ = std::max(latest_, clock_.now());
        std::erase_if(all, [&](const auto &one) {
            const microseconds expires_at = one.second.expires_at;
            return expires_at != 0us && expires_at.count() <= latest_;
        });
        return all;
    }

    Redis redis_;
    Clock clock_;
    Traffic traffic_;
    LiveStore store_{"rl:"};
    uint64_t epoch_ = 0;
    LiveHost host_{redis_};
    std::map<std::string, Override> overrides_;
    int writes_ = 0;
    int64_t latest_ = 0; // what has expired may be purged, and the clock may step back then
};

TEST_F(LiveFollowerTest, AsksForNothingButChanges) {
    poll();
    EXPECT_EQ(follower().known(), LiveKnown{});
    for (int i = 0; i < 20; ++i) {
        put("k" + std::to_string(i));
    }
    poll();
    EXPECT_EQ(host_.changes, 20);
    EXPECT_EQ(learned(), expected());
    poll();
    put("k3");
    remove("k4");
    reset("k5");
    poll();
    EXPECT_EQ(host_.changes, 23);
    EXPECT_EQ(learned(), expected());
    EXPECT_EQ(host_.resets.size(), 1u);
    EXPECT_EQ(std::tuple(host_.missed, host_.lost), std::tuple(0, 0));
}

TEST_F(LiveFollowerTest, ReadsAllAnewAfterAnotherConnection) {
    put("a");
    put("b");
    poll();
    const int changes = host_.changes;
    begin_anew(follower().known());
    poll();
    EXPECT_EQ(host_.changes, changes + 2);
    EXPECT_EQ(learned(), expected());
    EXPECT_EQ(std::tuple(host_.missed, host_.lost, host_.written_back), std::tuple(0, 0, 0));
}

TEST_F(LiveFollowerTest, DropsAllWhenTheStoreIsGone) {
    put("a");
    poll();
    flush();
    poll();
    poll();
    EXPECT_TRUE(host_.overrides.empty());
    EXPECT_EQ(std::tuple(host_.missed, host_.lost), std::tuple(1, 1));
    put("b");
    poll();
    EXPECT_EQ(learned(), expected());
    flush(); // and there is another one before the host looks
    put("c");
    poll();
    EXPECT_EQ(learned(), expected());
    EXPECT_EQ(std::tuple(host_.missed, host_.lost), std::tuple(2, 1));
}

TEST_F(LiveFollowerTest, KnowsThatItHasMissedResets) {
    put("a");
    poll();
    reset("b");
    const LiveKnown known = follower().known();
    clock_.move(3'600'000'001);
    put("c"); // purges the reset
    begin_anew(known);
    poll();
    EXPECT_EQ(host_.missed, 1);
    EXPECT_EQ(learned(), expected());
    begin_anew(follower().known());
    poll();
    EXPECT_EQ(host_.missed, 1);
}

// A failover to a server that had not heard of all resets, and whose clock is behind. Later ones
// may have been purged there, too.
TEST_F(LiveFollowerTest, AnOlderStoreMayHaveHadResets) {
    put("a");
    const std::string head = redis_.command({"GET", "rl:{live}:head"}).text;
    clock_.move(10'000'000);
    reset("b");
    poll();
    redis_.command({"SET", "rl:{live}:head", head});
    redis_.command({"ZREM", "rl:{live}:log", "X z b"});
    redis_.command({"HDEL", "rl:{live}:data", "X z b"});
    clock_.move(-5'000'000);
    reset("b", {});
    poll();
    EXPECT_EQ(host_.missed, 1);
    EXPECT_EQ(host_.resets.size(), 2u) << "and the host hears of this one";
    EXPECT_EQ(learned(), expected());
}

TEST_F(LiveFollowerTest, AHostThatKnowsNothingHasMissedNothing) {
    reset("b");
    clock_.move(3'600'000'001);
    put("c");
    poll();
    EXPECT_EQ(host_.missed, 0);
    EXPECT_EQ(learned(), expected());
}

TEST_F(LiveFollowerTest, ReadsAllAgainIfSomethingWasPurgedMeanwhile) {
    for (int i = 0; i < 600; ++i) {
        put("k" + std::to_string(i));
    }
    step();
    step(); // the first page has k0
    put("k0", 1s);
    clock_.move(61'000'000);
    put("other"); // purges k0
    poll();
    EXPECT_NE(learned(), expected());
    poll();
    EXPECT_EQ(learned(), expected());
    const int changes = host_.changes;
    poll();
    EXPECT_EQ(host_.changes, changes);
}

TEST_F(LiveFollowerTest, KeepsWhatItKnowsWhenAPartOfTheStoreIsLost) {
    for (const char *part : {"rl:{live}:head", "rl:{live}:log", "rl:{live}:data"}) {
        flush();
        poll();
        for (const char *key : {"a", "b", "c"}) {
            put(key);
        }
        poll();
        poll();
        EXPECT_TRUE(follower().is_whole());
        const int missed = host_.missed;
        redis_.command({"DEL", part});
        begin_anew(follower().known());
        poll();
        poll();
        EXPECT_FALSE(follower().is_whole()) << part;
        EXPECT_EQ(learned(), expected()) << part;
        EXPECT_GT(host_.missed, missed) << part;
        put("d");
        poll();
        EXPECT_EQ(learned(), expected()) << part;
        remove("a");
        put("b");
        put("c");
        poll();
        poll();
        EXPECT_TRUE(follower().is_whole()) << part;
        EXPECT_EQ(learned(), expected()) << part;
    }
}

// On the connection that it has, and though the head says that nothing has changed.
TEST_F(LiveFollowerTest, SeesALossWithoutAChange) {
    put("a");
    poll();
    EXPECT_TRUE(follower().is_whole());
    const int changes = host_.changes;
    redis_.command({"DEL", "rl:{live}:log"});
    poll();
    EXPECT_FALSE(follower().is_whole());
    EXPECT_EQ(learned(), expected());
    poll();
    EXPECT_FALSE(host_.is_reading());
    EXPECT_EQ(host_.changes, changes);
    put("a");
    poll();
    EXPECT_TRUE(follower().is_whole());
    EXPECT_EQ(learned(), expected());
}

// A count that came before a write, and one that came after it, look like a loss.
TEST_F(LiveFollowerTest, MakesSureThatSomethingIsLost) {
    put("a");
    poll();
    const LiveKnown known = follower().known();
    host_.next = host_.follower->take_head(
        LiveHead{.epoch = known.epoch, .version = known.version, .floor = 0}, false);
    EXPECT_TRUE(host_.is_reading());
    poll();
    EXPECT_TRUE(follower().is_whole());
}

// The rest of a store that was lost in part is gone as one that was whole.
TEST_F(LiveFollowerTest, SeesThatADamagedStoreIsGone) {
    put("a");
    poll();
    redis_.command({"DEL", "rl:{live}:head", "rl:{live}:log"});
    poll();
    EXPECT_EQ(learned(), expected());
    EXPECT_FALSE(follower().is_whole());
    flush();
    poll();
    EXPECT_TRUE(follower().is_whole());
    EXPECT_TRUE(host_.overrides.empty());
    EXPECT_EQ(host_.lost, 1);
}

TEST_F(LiveFollowerTest, KeepsWhatItKnowsOfARecordThatNobodyOfOursWrote) {
    for (const std::string &foreign : {std::string("1 - ban"), std::string(2'000'000, 'x')}) {
        put("a");
        put("b");
        poll();
        redis_.command({"HSET", "rl:{live}:data", "K z b", foreign});
        put("c");
        begin_anew(follower().known());
        poll();
        EXPECT_FALSE(follower().is_whole());
        EXPECT_EQ(learned(), expected());
        put("d");
        poll();
        EXPECT_FALSE(follower().is_whole());
        EXPECT_EQ(learned(), expected());
        remove("b");
        poll();
        EXPECT_TRUE(follower().is_whole());
        EXPECT_EQ(learned(), expected());
    }
}

// Names that are none of ours are about nobody.
TEST_F(LiveFollowerTest, PassesOverForeignNames) {
    put("a");
    const std::string name(2'000'000, 'n');
    redis_.command({"ZADD", "rl:{live}:log", "1", name});
    redis_.command({"HSET", "rl:{live}:data", name, "1"});
    put("b");
    poll();
    EXPECT_TRUE(follower().is_whole());
    EXPECT_EQ(learned(), expected());
}

TEST_F(LiveFollowerTest, KnowsAllInTheEndWhateverHappens) {
    for (int i = 0; i < 700; ++i) {
        put("base" + std::to_string(i));
    }
    for (int round = 0; round < 3000; ++round) {
        const std::string key = "k" + std::to_string(traffic_.between(0, 9));
        switch (traffic_.between(0, 9)) {
        case 0:
        case 1:
            put(key);
            break;
        case 2:
            put(key, microseconds(traffic_.between(1, 3) * 1'000'000));
            break;
        case 3:
            remove(key);
            break;
        case 4:
            reset(key);
            break;
        case 5:
            clock_.move(traffic_.one_of({0, 1, 1'000'000, -10, 3'600'000'000}));
            break;
        case 6:
            if (traffic_.one_in(40)) {
                flush();
            }
            break;
        case 7:
            if (traffic_.one_in(10)) {
                begin_anew(traffic_.one_in(2) ? follower().known() : LiveKnown{});
            }
            break;
        default:
            step();
        }
        latest_ = std::max(latest_, clock_.now());
        if (traffic_.one_in(100)) {
            poll();
            poll(); // a synchronisation that has to be repeated
            ASSERT_EQ(learned(), expected()) << "round " << round;
        }
    }
}

} // namespace
} // namespace model
