// The link for control commands: it is opened when it is needed, and closed when it is not.
#include "unit/redis_client/link/link_test.hpp"

namespace redis_client {
namespace {

class ControlLinkTest : public LinkTest {
  protected:
    void SetUp() override {
        serve(Mode::standalone, {"10.0.0.1"});
        backend();
        log_in(*world_.connections().front()); // of checks
    }

    /// Returns the connection for control commands; null if it is not open.
    TestConnection *control() {
        const auto open = world_.connections();
        return open.size() > 1 ? open.back() : nullptr;
    }
    void run(TestCommand &command) {
        command.said.clear();
        backend().run(command);
        world_.end_turn();
    }

    TestCommand get_{"a"};
    TestCommand other_{"b"};
};

TEST_F(ControlLinkTest, ConnectsForACommand) {
    EXPECT_EQ(control(), nullptr);
    run(get_);
    ASSERT_NE(control(), nullptr);
    EXPECT_EQ(log_.connecting.size(), 1u) << "only of checks";
    control()->accept();
    EXPECT_EQ(control()->sent(), (Commands{{"GET", "a"}}));
    control()->receive("+yes\r\n");
    EXPECT_EQ(get_.said, "yes");
}

TEST_F(ControlLinkTest, ClosesAConnectionThatIsIdleForTenSeconds) {
    run(get_);
    control()->accept();
    control()->receive("+yes\r\n");
    world_.pass(9s);
    run(other_);
    control()->receive("+yes\r\n");
    world_.pass(9999ms);
    EXPECT_NE(control(), nullptr);
    world_.pass(1ms);
    EXPECT_EQ(control(), nullptr);
    world_.pass(1min);
    EXPECT_EQ(control(), nullptr) << "until a command needs it";
}

TEST_F(ControlLinkTest, TellsWhyACommandHasFailed) {
    struct Case {
        std::function<void()> happens;
        std::string_view said;
    };
    for (const auto &[happens, said] : std::vector<Case>{
             {[&] { control()->refuse(); }, "not sent: connecting failed, Connection refused"},
             {[&] { world_.pass(settings_.connect_timeout); }, "not sent: no connection in time"},
             {[&] { control()->accept(), control()->lose(); }, "sent: the connection was closed"},
             {[&] { control()->accept(), world_.pass(2s); }, "sent: no answer in time"},
             {[&] {
                  control()->lose({"the TLS handshake failed", "a reason"});
              },
              "not sent: the TLS handshake failed, a reason"},
         }) {
        run(get_);
        ASSERT_NE(control(), nullptr) << said;
        happens();
        EXPECT_EQ(get_.said, said);
        world_.pass(30s); // the waits are over
    }
    EXPECT_EQ(log_.take(), Lines{}) << "whoever asks is told";
}

TEST_F(ControlLinkTest, ReadsOnceBeforeADeadlineCountsAsMissed) {
    run(get_);
    control()->accept();
    control()->arrive("+yes\r\n");
    world_.pass(2s);
    EXPECT_EQ(get_.said, "yes");
}

TEST_F(ControlLinkTest, WaitsAfterAFailureAndThenSendsWhatWaits) {
    run(get_);
    control()->refuse();
    run(other_);
    EXPECT_EQ(control(), nullptr);
    world_.pass(25ms);
    ASSERT_NE(control(), nullptr);
    control()->accept();
    EXPECT_EQ(control()->sent(), (Commands{{"GET", "b"}}));
}

TEST_F(ControlLinkTest, HoldsAWorkerForACommandThatSaysSo) {
    world_.is_worker_leaving = true;
    get_.holds_worker = false;
    run(get_);
    control()->accept();
    EXPECT_FALSE(world_.is_worker_held());
    run(other_);
    EXPECT_TRUE(world_.is_worker_held());
    control()->receive("+yes\r\n+no\r\n");
    EXPECT_EQ(control(), nullptr);
    EXPECT_FALSE(world_.is_worker_held());
}

TEST_F(ControlLinkTest, CancelledCommandsAreNotCalledBack) {
    backend().cancel(get_); // never ran
    run(get_);
    backend().cancel(get_);
    control()->accept();
    EXPECT_EQ(control()->sent(), Commands{});
    run(get_);
    backend().cancel(get_);
    control()->receive("+yes\r\n");
    EXPECT_EQ(get_.said, "");
}

class UnusedBackendTest : public LinkTest {};

TEST_F(UnusedBackendTest, HasNoConnectionForChecks) {
    serve(Mode::standalone, {"10.0.0.1"});
    settings_.session.shapes.clear(); // no rule uses it
    TestCommand get("a");
    backend().run(get);
    world_.end_turn();
    ASSERT_EQ(world_.connections().size(), 1u);
    world_.connections().front()->accept();
    world_.connections().front()->receive("+yes\r\n");
    EXPECT_EQ(get.said, "yes");
    world_.pass(1min);
    EXPECT_EQ(log_.take(), Lines{});
    EXPECT_TRUE(log_.connecting.empty());
}

} // namespace
} // namespace redis_client
