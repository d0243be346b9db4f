// A cluster: when the slot map is fetched, where checks and control commands go, and redirects.
#include "unit/redis_client/link/link_test.hpp"

namespace redis_client {
namespace {

const std::string half_each =
    list({range(0, 8191, {node("10.0.0.1", 6379)}), range(8192, 16383, {node("10.0.0.2", 6379)})});
const std::string all_at_one = list({range(0, 16383, {node("10.0.0.1", 6379)})});

class ClusterTest : public LinkTest {
  protected:
    void start(const std::vector<std::string> &hosts = {"10.0.0.1"}) {
        serve(Mode::cluster, hosts);
        backend();
        world_.end_turn();
    }
    void start_with(std::string_view map) {
        start();
        answer_map(map);
    }
    /// Answers the question for the map, which the newest connection is for.
    void answer_map(std::string_view reply) {
        ASSERT_FALSE(world_.connections().empty());
        TestConnection &asking = *world_.connections().back();
        asking.accept();
        EXPECT_EQ(asking.sent(), (Commands{{"CLUSTER", "SLOTS"}}));
        asking.receive(reply);
    }
    bool is_connected_to(int i) {
        return std::ranges::any_of(world_.connections(), [&](const auto *one) {
            return one->address() == "10.0.0." + std::to_string(i) + ":6379";
        });
    }
    /// Lets time pass, and all servers refuse connections, until there is one to this server.
    void refuse_until_connected_to(int i) {
        for (int turns = 0; turns < 100 && !is_connected_to(i); ++turns) {
            for (TestConnection *one : world_.connections()) {
                one->refuse();
            }
            world_.pass(25ms);
        }
        ASSERT_TRUE(is_connected_to(i)) << i;
    }
    TestConnection &redis(int i) {
        return world_.connection_to("10.0.0." + std::to_string(i) + ":6379");
    }
    void run(TestCommand &command, uint16_t hash_slot) {
        command.said.clear();
        command.hash_slot = hash_slot;
        backend().run(command);
        world_.end_turn();
    }

    TestCommand get_{"a"};
};

TEST_F(ClusterTest, ChecksWaitForTheFirstMap) {
    start();
    EXPECT_TRUE(ask(a_, "k", 1));
    EXPECT_TRUE(ask(b_, "l", 9000));
    answer_map(half_each);
    log_in(redis(1));
    log_in(redis(2));
    EXPECT_EQ(redis(1).sent(), (Commands{evalsha("k")}));
    EXPECT_EQ(redis(2).sent(), (Commands{evalsha("l")}));
    EXPECT_EQ(world_.connections().size(), 2u) << "that of the map is closed";
}

TEST_F(ClusterTest, EachServerIsAskedOnceForTheMap) {
    start({"10.0.0.1", "10.0.0.2"});
    redis(1).refuse();
    redis(2).accept();
    redis(2).receive("-ERR This instance has cluster support disabled\r\n");
    EXPECT_EQ(log_.take(),
              (Lines{"10.0.0.1:6379 fails: no node tells who serves the keys: ERR This "
                     "instance has cluster support disabled"}));
    EXPECT_TRUE(world_.connections().empty());
    world_.pass(25ms);
    redis(1).accept();
    redis(1).receive(all_at_one);
    log_in(*(ask(a_, "k"), &redis(1)));
    EXPECT_EQ(redis(1).sent(), (Commands{evalsha("k")}));
}

TEST_F(ClusterTest, ANodeThatIsSilentIsNotWaitedFor) {
    start({"10.0.0.1", "10.0.0.2"});
    EXPECT_EQ(redis(1).stage(), Connection::Stage::connecting);
    world_.pass(settings_.connect_timeout);
    redis(2).accept();
    world_.pass(settings_.connect_timeout);
    EXPECT_EQ(log_.take(),
              (Lines{"10.0.0.1:6379 fails: no node tells who serves the keys: no answer in time"}));
}

TEST_F(ClusterTest, TellsWhyThereIsNoMap) {
    struct Case {
        std::function<void(TestConnection &)> happens;
        std::string_view told;
    };
    settings_.session.password = "secret";
    for (const auto &[happens, told] : std::vector<Case>{
             {[](auto &one) { one.refuse(); }, "connecting failed"},
             {[](auto &one) {
                  one.lose({"the TLS handshake failed", "a reason"});
              },
              "a reason"},
             {[](auto &one) { one.accept(), one.lose(); }, "the connection was closed"},
             {[](auto &one) { one.accept(), one.receive("-WRONGPASS no\r\n"); }, "WRONGPASS"},
             {[](auto &one) { one.accept(), one.receive("+OK\r\n*0\r\n"); },
              "no node of the cluster serves any keys"},
             {[](auto &one) { one.accept(), one.receive("+OK\r\n:1\r\n"); }, "an unexpected reply"},
             {[](auto &one) { one.accept(), one.receive("HTTP/1.1 400 Bad Request\r\n"); },
              "an unexpected reply"},
         }) {
        backends_.stop();
        log_.take();
        settings_.servers.clear();
        start();
        happens(redis(1));
        EXPECT_EQ(log_.take(), (Lines{"10.0.0.1:6379 fails: no node tells who serves the keys: " +
                                      std::string(told)}));
    }
}

TEST_F(ClusterTest, NodesThatRefuseToTellAreAskedLessAndLessOften) {
    start();
    for (const auto wait :
         {25ms, 50ms, 100ms, 200ms, 400ms, 800ms, 1600ms, 3200ms, 5000ms, 5000ms}) {
        redis(1).accept();
        redis(1).receive(
            "-NOPERM this user has no permissions to run the 'cluster|slots' command\r\n");
        world_.pass(wait - 1ms);
        EXPECT_TRUE(world_.connections().empty()) << wait.count();
        world_.pass(1ms);
        EXPECT_EQ(world_.connections().size(), 1u) << wait.count();
    }
}

TEST_F(ClusterTest, AMapWithoutHostsMeansTheNodeThatSentIt) {
    start({"10.0.0.1", "10.0.0.2"});
    TestConnection &first = redis(1);
    first.accept();
    first.receive_and_lose("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:6379\r\n");
    ask(a_, "k");
    EXPECT_TRUE(is_connected_to(1));
    EXPECT_FALSE(is_connected_to(2));
}

TEST_F(ClusterTest, TheMapIsFetchedAtMostOnceASecond) {
    start({"10.0.0.1", "10.0.0.2"});
    answer_map(half_each);
    world_.pass(300ms);
    ask(a_, "k", 1);
    redis(1).refuse();
    world_.pass(699ms);
    EXPECT_FALSE(is_connected_to(2));
    world_.pass(1ms);
    redis(2).accept(); // whose turn it is to be asked for the map
    redis(2).receive(half_each);
    EXPECT_FALSE(is_connected_to(2));
    world_.pass(999ms);
    EXPECT_FALSE(is_connected_to(2)) << "the outage lasts, and the next one is asked";
}

TEST_F(ClusterTest, ARedirectedCheckGoesToTheOtherNodeAndSoDoTheNext) {
    start_with(all_at_one);
    ask(a_, "k", 5);
    log_in(redis(1));
    redis(1).receive("-MOVED 5 10.0.0.3:6379\r\n");
    log_in(redis(3));
    EXPECT_EQ(redis(3).sent(), (Commands{evalsha("k")}));
    redis(3).receive(grant(4));
    EXPECT_EQ(a_.results, (Results{granted(4)}));
    ask(b_, "l", 5);
    EXPECT_EQ(redis(3).sent(), (Commands{evalsha("l")}));
    redis(3).receive(grant(3));
}

TEST_F(ClusterTest, ARedirectWithoutAHostMeansTheSender) {
    start_with(all_at_one);
    ask(a_, "k", 5);
    log_in(redis(1));
    redis(1).receive("-MOVED 5 :6380\r\n");
    log_in(world_.connection_to("10.0.0.1:6380"));
}

TEST_F(ClusterTest, AControlCommandIsRedirected) {
    start_with(half_each);
    run(get_, 1);
    redis(1).accept();
    redis(1).receive("-ASK 1 10.0.0.2:6379\r\n");
    redis(2).accept();
    EXPECT_EQ(redis(2).sent(), (Commands{{"ASKING"}, {"GET", "a"}}));
    redis(2).receive("+OK\r\n+yes\r\n");
    EXPECT_EQ(get_.said, "yes");
}

TEST_F(ClusterTest, AControlCommandThatHasMovedTellsWhereTheNextOnesGo) {
    start_with(half_each);
    run(get_, 1);
    redis(1).accept();
    redis(1).receive("-MOVED 1 10.0.0.2:6379\r\n");
    redis(2).accept();
    EXPECT_EQ(redis(2).sent(), (Commands{{"GET", "a"}}));
    redis(2).receive("+yes\r\n");
    run(get_, 1);
    EXPECT_EQ(redis(2).sent(), (Commands{{"GET", "a"}}));
}

TEST_F(ClusterTest, AControlCommandWaitsForTheMap) {
    start();
    run(get_, 1);
    answer_map(half_each);
    world_.pass(50ms);
    redis(1).accept();
    redis(1).receive("+yes\r\n");
    EXPECT_EQ(get_.said, "yes");

    run(get_, 1);
    backend().cancel(get_);
    redis(1).receive("+no\r\n");
    EXPECT_EQ(get_.said, "");
}

TEST_F(ClusterTest, TellsOfAllChecksThatFailedBecauseNobodyServesTheirKeys) {
    constexpr uint64_t failing = 9;
    settings_.session.breaker.failures = 5;
    start_with(list({range(0, 8191, {node("10.0.0.1", 6379)})}));
    for (uint64_t i = 0; i < failing; ++i) {
        (void)ask(a_, "l", 9000);
        world_.pass(10ms);
    }
    EXPECT_EQ(log_.take().size(), 1u) << "it fails";
    world_.pass(1s - failing * 10ms);
    answer_map(all_at_one);
    world_.pass(1s);
    answer_map(all_at_one);
    const Lines told = log_.take();
    ASSERT_EQ(told.size(), 1u);
    EXPECT_NE(told.front().find(" ms, " + std::to_string(failing) + " checks"), std::string::npos)
        << told.front();
}

TEST_F(ClusterTest, AControlCommandOfKeysThatNobodyServesFails) {
    start_with(list({range(0, 8191, {node("10.0.0.1", 6379)})}));
    run(get_, 9000);
    EXPECT_TRUE(world_.is_worker_held());
    world_.pass(2s);
    EXPECT_EQ(get_.said, "not sent: nobody serves the keys");
}

TEST_F(ClusterTest, ANodeThatServesNothingAnyMoreIsNoLongerAsked) {
    start_with(half_each);
    ask(a_, "k", 9000);
    redis(2).refuse();
    EXPECT_EQ(log_.take(), (Lines{"10.0.0.2:6379 fails: connecting failed: Connection refused"}));
    world_.pass(1s);
    TestConnection *asking = nullptr;
    for (TestConnection *one : world_.connections()) {
        asking = one->address() == "10.0.0.1:6379" ? one : asking;
    }
    ASSERT_NE(asking, nullptr);
    asking->accept();
    asking->receive(all_at_one);
    EXPECT_EQ(log_.take().front(), "10.0.0.2:6379 is no longer asked, 925 ms, 1 checks");
}

TEST_F(ClusterTest, ANodeWhoseNameGetsAnotherAddressIsReachedThere) {
    for (const bool has_resolver : {false, true}) { // which does not know the name
        settings_.has_resolver = world_.has_resolver = has_resolver;
        backends_.stop();
        settings_.servers.clear();
        const auto map = [](std::string_view address) {
            return list({range(0, 8191, {node("10.0.0.1", 6379)}),
                         range(8192, 16383, {node("node.test", 6379, address)})});
        };
        start_with(map("10.0.0.2"));
        ask(a_, "k", 9000);
        EXPECT_EQ(redis(2).host(), "node.test");
        log_in(redis(2));
        redis(2).receive(grant(1));
        redis(2).lose();
        refuse_until_connected_to(1); // which is asked for the map
        redis(1).accept();
        redis(1).receive(map("10.0.0.3"));
        refuse_until_connected_to(3);
        log_in(redis(3));
        EXPECT_EQ(redis(3).host(), "node.test");
        EXPECT_TRUE(ask(b_, "l", 9000));
        EXPECT_EQ(redis(3).sent(), (Commands{evalsha("l")}));
        redis(3).receive(grant(1));
    }
}

TEST_F(ClusterTest, PermitsOfALeavingWorkerAreNotTornToAndFro) {
    start_with(half_each);
    auto &charges = a_.new_charges({asked("k")});
    charges.front().quota = quota_of(Algorithm::concurrency);
    charges.front().quota.window = 60s;
    charges.front().hash_slot = 1;
    backend().ask(charges, a_);
    world_.end_turn();
    log_in(redis(1));
    redis(1).receive(answer({99}));
    world_.is_worker_leaving = true;
    world_.pass(20s);
    EXPECT_EQ(redis(1).sent().size(), 2u) << "the check, and the permit's renewal";
    redis(1).receive("-MOVED 1 10.0.0.2:6379\r\n");
    answer_map(list(
        {range(0, 8191, {node("10.0.0.2", 6379)}), range(8192, 16383, {node("10.0.0.1", 6379)})}));
    log_in(redis(2));
    EXPECT_EQ(redis(2).sent().size(), 1u);
    redis(2).receive("-MOVED 1 10.0.0.1:6379\r\n");
    const size_t before = world_.opened();
    auto waited = 0ms;
    for (int i = 1, hops = 0; hops < 6; i = 3 - i, ++hops) {
        Commands sent;
        for (; (sent = redis(i).sent()).empty() && waited < 1s; waited += 1ms) {
            world_.pass(1ms);
        }
        ASSERT_EQ(sent.size(), 1u) << "the permit is renewed";
        redis(i).receive("-MOVED 1 10.0.0." + std::to_string(3 - i) + ":6379\r\n");
    }
    EXPECT_EQ(waited, 300ms) << "each node is asked once in 100 ms";
    EXPECT_EQ(world_.opened(), before);
}

TEST_F(ClusterTest, ASettlementOfALeavingWorkerIsNotSentToAndFroForEver) {
    start_with(half_each);
    ask(a_, "k", 1);
    log_in(redis(1));
    redis(1).receive(grant(1));
    world_.is_worker_leaving = true;
    redis(1).dismiss();
    settle("k");
    world_.end_turn();
    log_in(redis(1));
    ASSERT_EQ(redis(1).sent().size(), 1u);
    redis(1).receive("-MOVED 0 10.0.0.2:6379\r\n");
    log_in(redis(2));
    const size_t before = world_.opened();
    int hops = 1;
    for (int i = 2; redis(i).sent().size() == 1; i = 3 - i, ++hops) {
        redis(i).receive("-MOVED 0 10.0.0." + std::to_string(3 - i) + ":6379\r\n");
        ASSERT_LT(hops, 100);
    }
    EXPECT_EQ(hops, most_redirects + 2) << "the first one had to wait for its connection";
    EXPECT_EQ(world_.opened(), before);
    EXPECT_EQ(rule_counters_.read().of(rate_limit::RuleCounter::settlements_lost), 1u);
}

TEST_F(ClusterTest, NodesEndOneAfterTheOther) {
    start_with(half_each);
    Backend &ending = backend();
    Permit foreign;
    b_.react = [&] {
        settle(ending, "k");
        ending.release(foreign); // it is looked for at all nodes
    };
    ask(a_, "k", 1);
    ask(b_, "l", 9000);
    const size_t before = world_.opened();
    backends_.stop();
    EXPECT_EQ(b_.results, (Results{Failure::connect}));
    EXPECT_EQ(world_.opened(), before);
}

} // namespace
} // namespace redis_client
