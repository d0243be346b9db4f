// A session that gathers: of one millisecond, two turns go out at once, and others wait for
// answers.

#include "session_runs_test.hpp"

namespace redis_client {
namespace {

class SessionGatheringTest : public SessionRunsTest {
  protected:
    SessionGatheringTest() {
        SessionSettings settings = default_settings();
        settings.gathers = true;
        start(settings);
        log_in();
    }

    /// Each in a turn of its own.
    void send_two() {
        ask_log(a_, "a");
        EXPECT_EQ(sent(), Commands{evalsha("a")});
        ask_log(b_, "b");
        EXPECT_EQ(sent(), Commands{evalsha("b")});
    }

    void hold_one() {
        send_two();
        held_ = ask_log(c_, "c");
        EXPECT_EQ(sent(), Commands{});
    }

    Call *held_ = nullptr;
    Listener d_;
};

TEST_F(SessionGatheringTest, HoldsAThirdTurnUntilTheFirstIsAnswered) {
    hold_one();
    EXPECT_TRUE(session_->has_output());
    ask_log(d_, "d");
    EXPECT_EQ(sent(), Commands{});
    receive(grant(1));
    EXPECT_EQ(sent(), Commands{run_of_logs({"c", "d"})});
    receive(grant(2) + bulk_string(with_left(3) + with_left(4)));
    EXPECT_EQ(c_.results, Results{granted(3)});
    EXPECT_EQ(d_.results, Results{granted(4)});
}

TEST_F(SessionGatheringTest, HoldsNothingForLongerThanAMillisecond) {
    hold_one();
    EXPECT_EQ(session_->next_expiry(), now_ + 1ms);
    now_ += 1ms;
    EXPECT_FALSE(session_->expire(now_));
    EXPECT_EQ(sent(), Commands{evalsha("c")});
    receive(grant(1) + grant(2) + grant(3));
}

TEST_F(SessionGatheringTest, HoldsNothingForARedisThatIsFarAway) {
    send_two();
    now_ += 1ms;
    ask_log(c_, "c");
    EXPECT_EQ(sent(), Commands{evalsha("c")});
    ask_log(d_, "d"); // one of the two before was of another millisecond
    EXPECT_EQ(sent(), Commands{evalsha("d")});
    receive(grant(1) + grant(2) + grant(3) + grant(4));
}

TEST_F(SessionGatheringTest, CountsWhatIsUnanswered) {
    send_two();
    receive(grant(1) + grant(2));
    ask_log(c_, "c");
    EXPECT_EQ(sent(), Commands{evalsha("c")});
    receive(grant(3));
}

// The transport asks for output only when it can send.
TEST_F(SessionGatheringTest, IsNotDueForEverWhereNothingCanBeSent) {
    hold_one();
    now_ += 1ms;
    EXPECT_FALSE(session_->expire(now_));
    EXPECT_EQ(session_->next_expiry(), now_ - 1ms + default_settings().timeout);
    receive(grant(1) + grant(2));
    receive(grant(3));
}

TEST_F(SessionGatheringTest, HoldsNothingForWhoHasLeft) {
    hold_one();
    session_->abandon(*held_, now_);
    EXPECT_FALSE(session_->has_output());
    EXPECT_EQ(sent(), Commands{});
    EXPECT_EQ(session_->next_expiry(), now_ + default_settings().timeout);
    receive(grant(1) + grant(2));
}

TEST_F(SessionGatheringTest, SendsWhatItHeldOnANewConnection) {
    hold_one();
    session_->disconnected(Lost::in_use, now_);
    EXPECT_EQ(b_.results, Results{Failure::connect});
    EXPECT_EQ(session_->next_expiry(), now_ + default_settings().timeout);
    session_->connected();
    wire_.clear();
    flush();
    wire_.clear();
    EXPECT_EQ(receive(loaded), Progress::ready);
    EXPECT_EQ(sent(), Commands{evalsha("c")});
    receive(grant(3));
    EXPECT_EQ(c_.results, Results{granted(3)});
}

} // namespace
} // namespace redis_client
