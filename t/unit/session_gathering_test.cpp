// A session that gathers: where many checks are pending, what is asked while some are under way
// waits for an answer to them, for a millisecond at most.

#include "session_runs_test.hpp"

namespace redis_client {
namespace {

class SessionGatheringTest : public SessionRunsTest {
  protected:
    SessionGatheringTest() {
        start(default_settings());
        session_->set_gathers(true);
        log_in();
    }

    /// So many in one turn, which are one run.
    void send_run(size_t size) {
        Keys keys;
        for (size_t i = 0; i < size; ++i) {
            keys.push_back(std::to_string(i));
            ask_log(of_run_[i], keys.back());
        }
        EXPECT_EQ(sent(), Commands{run_of_logs(keys)});
    }

    /// The answer to send_run().
    static std::string verdicts(size_t size) {
        std::string answers;
        for (size_t i = 0; i < size; ++i) {
            answers += with_left(1);
        }
        return bulk_string(answers);
    }

    void hold_one() {
        send_run(4);
        held_ = ask_log(a_, "a");
        EXPECT_EQ(sent(), Commands{});
        EXPECT_TRUE(session_->is_holding());
        EXPECT_TRUE(session_->has_output());
    }

    std::array<Listener, 4> of_run_;
    Call *held_ = nullptr;
};

TEST_F(SessionGatheringTest, HoldsWhatIsAskedUntilAnAnswerIsRead) {
    hold_one();
    ask_log(b_, "b");
    EXPECT_EQ(sent(), Commands{});
    receive(verdicts(4));
    EXPECT_EQ(sent(), (Commands{run_of_logs({"a", "b"})}));
    receive(bulk_string(with_left(2) + with_left(3)));
    EXPECT_EQ(a_.results, Results{granted(2)});
    EXPECT_EQ(b_.results, Results{granted(3)});
}

TEST_F(SessionGatheringTest, SendsItBeforeTheAnswerIsRead) {
    hold_one();
    session_->flush_all(now_);
    EXPECT_FALSE(session_->is_holding());
    EXPECT_EQ(sent(), Commands{evalsha("a")});
    receive(verdicts(4) + grant(2));
    EXPECT_EQ(a_.results, Results{granted(2)});
}

TEST_F(SessionGatheringTest, HoldsNothingWhereFewArePending) {
    send_run(3);
    ask_log(a_, "a");
    EXPECT_EQ(sent(), Commands{evalsha("a")});
    receive(verdicts(3) + grant(2));
}

TEST_F(SessionGatheringTest, HoldsNothingForLongerThanAMillisecond) {
    hold_one();
    EXPECT_EQ(session_->next_expiry(), now_ + 1ms);
    now_ += 1ms;
    EXPECT_FALSE(session_->expire(now_));
    EXPECT_EQ(sent(), Commands{evalsha("a")});
    receive(verdicts(4) + grant(2));
}

TEST_F(SessionGatheringTest, HoldsNothingForARedisThatIsFarAway) {
    send_run(4);
    now_ += 1ms;
    ask_log(a_, "a");
    EXPECT_EQ(sent(), Commands{evalsha("a")});
    ask_log(b_, "b"); // though one was sent just now
    EXPECT_EQ(sent(), Commands{evalsha("b")});
    receive(verdicts(4) + grant(2) + grant(3));
}

// The transport asks for output only when it can send.
TEST_F(SessionGatheringTest, IsNotDueForEverWhereNothingCanBeSent) {
    hold_one();
    now_ += 1ms;
    EXPECT_FALSE(session_->expire(now_));
    EXPECT_EQ(session_->next_expiry(), now_ - 1ms + default_settings().timeout);
    receive(verdicts(4));
    EXPECT_EQ(sent(), Commands{evalsha("a")});
    receive(grant(2));
}

TEST_F(SessionGatheringTest, HoldsNothingForWhoHasLeft) {
    hold_one();
    session_->abandon(*held_, now_);
    EXPECT_FALSE(session_->has_output());
    EXPECT_EQ(sent(), Commands{});
    EXPECT_FALSE(session_->is_holding());
    EXPECT_EQ(session_->next_expiry(), now_ + default_settings().timeout);
    receive(verdicts(4));
}

TEST_F(SessionGatheringTest, SendsWhatItHeldOnANewConnection) {
    hold_one();
    session_->disconnected(Lost::in_use, now_);
    EXPECT_EQ(of_run_[0].results, Results{Failure::connect});
    EXPECT_EQ(session_->next_expiry(), now_ + default_settings().timeout);
    session_->connected();
    wire_.clear();
    flush();
    wire_.clear();
    EXPECT_EQ(receive(loaded), Progress::ready);
    EXPECT_EQ(sent(), Commands{evalsha("a")});
    receive(grant(2));
    EXPECT_EQ(a_.results, Results{granted(2)});
}

} // namespace
} // namespace redis_client
