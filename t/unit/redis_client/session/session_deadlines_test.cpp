// Checks that no reply comes to in time, and connections that are silent.

#include "session_test.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace redis_client {
namespace {

TEST_F(SessionTest, FailsACheckAtItsDeadline) {
    log_in();
    ask(a_, "a");
    now_ += 40ms;
    ask(b_, "b");
    EXPECT_EQ(session_->next_expiry(), Time{1100});

    EXPECT_FALSE(session_->expire(Time{1099}));
    EXPECT_EQ(a_.results, Results{});
    EXPECT_FALSE(session_->expire(Time{1100}));
    EXPECT_EQ(a_.results, Results{Failure::timeout});
    EXPECT_EQ(b_.results, Results{});
    EXPECT_EQ(session_->next_expiry(), Time{1140});
    session_->expire(Time{1140});
    EXPECT_EQ(b_.results, Results{Failure::timeout});

    receive(grant(1) + grant(2));
    EXPECT_EQ(session_->next_expiry(), std::nullopt);
}

TEST_F(SessionTest, FailsACheckThatWaitsForAConnectionAtItsDeadline) {
    ask(a_, "a");
    EXPECT_EQ(session_->next_expiry(), Time{1100});
    EXPECT_FALSE(session_->expire(Time{1100}));
    EXPECT_EQ(a_.results, Results{Failure::timeout});
    EXPECT_EQ(session_->pending(), 0u);
    log_in();
    EXPECT_EQ(sent(), Commands{});
}

TEST_F(SessionTest, CountsTheDeadlineFromAsking) {
    ask(a_, "a");
    now_ += 60ms;
    log_in();
    EXPECT_EQ(session_->next_expiry(), Time{1100});
    EXPECT_EQ(sent(), Commands{evalsha("a")});
    receive(grant(1));
    EXPECT_FALSE(session_->expire(Time{2000}));
    EXPECT_EQ(a_.results, Results{granted(1)});
}

TEST_F(SessionTest, GivesALateReplyToNobody) {
    log_in();
    ask(a_, "a");
    now_ += 100ms;
    session_->expire(now_);
    EXPECT_EQ(a_.results, Results{Failure::timeout});
    EXPECT_EQ(session_->pending(), 1u);

    ask(b_, "b");
    EXPECT_EQ(receive(grant(1)), Progress::more);
    EXPECT_EQ(b_.results, Results{});
    receive(grant(2));
    EXPECT_EQ(b_.results, Results{granted(2)});
    EXPECT_EQ(a_.results, Results{Failure::timeout});
}

/// A check of a window that may lease units.
class SessionLateLeasesTest : public SessionTest {
  protected:
    SessionLateLeasesTest() {
        SessionSettings settings = default_settings();
        settings.shapes.emplace_back().add(
            {.algorithm = Algorithm::fixed_window, .dry_run = false, .may_lease = true});
        start(settings);
        log_in();
    }

    /// Asks for so many units, and hears nothing until the deadline.
    void ask_in_vain(uint64_t wanted) {
        Charge &charge =
            a_.new_charges({{.quota = window_, .redis_key = "rl:{z:a}:fixed_window:60000"}})[0];
        charge.arguments = &arguments_;
        charge.may_lease = true;
        charge.wanted = wanted;
        charge.lease_counters = &counters_;
        (void)session_->ask(a_.charges(), a_, now_);
        flush();
        now_ += 100ms;
        session_->expire(now_);
        EXPECT_EQ(a_.results.back(), Result{Failure::timeout});
        a_.all_charges.clear(); // with the request
    }

    std::string answer_with(int64_t leased) const {
        return answer({40, 7'000'000, leased, 250'000, 0});
    }
    std::array<uint64_t, 3> counted() const {
        const rate_limit::RuleCounts counts = counters_.read();
        return {counts.of(rate_limit::RuleCounter::leases_taken),
                counts.of(rate_limit::RuleCounter::lease_units),
                counts.of(rate_limit::RuleCounter::lease_units_expired)};
    }

    const Quota window_ = quota_of(Algorithm::fixed_window);
    const WireWords arguments_ = leasing_arguments(window_, false, 1s);
    rate_limit::RuleCounters counters_{};
};

TEST_F(SessionLateLeasesTest, CountAsTakenAndExpired) {
    ask_in_vain(5);
    EXPECT_EQ(receive(answer_with(4)), Progress::more);
    EXPECT_EQ(counted(), (std::array<uint64_t, 3>{1, 4, 4}));
    ask_in_vain(5);
    receive(answer_with(0)); // nothing was leased
    ask_in_vain(0);
    receive(answer_with(0)); // nor wanted
    ask_in_vain(5);
    receive(answer_with(6)); // nor is that an answer of ours
    EXPECT_EQ(counted(), (std::array<uint64_t, 3>{1, 4, 4}));
    EXPECT_EQ(session_->counters().failures, 4u) << "by their deadlines";
}

TEST_F(SessionLateLeasesTest, AreUnknownWhereNoAnswerComes) {
    ask_in_vain(5);
    session_->disconnected(Lost::in_use, now_);
    EXPECT_EQ(counted(), (std::array<uint64_t, 3>{0, 0, 0}));
}

TEST_F(SessionTest, GivesALateErrorToNobody) {
    log_in();
    ask(a_, "a");
    session_->expire(now_ + 100ms);
    ask(b_, "b");
    EXPECT_EQ(receive("-BUSY Redis is busy\r\n" + grant(2)), Progress::more);
    EXPECT_EQ(a_.results, Results{Failure::timeout});
    EXPECT_EQ(b_.results, Results{granted(2)});
}

TEST_F(SessionTest, CompletesOnceWhereReplyAndDeadlineMeet) {
    log_in();
    ask(a_, "a");
    now_ += 100ms;
    receive(grant(1));
    session_->expire(now_);
    EXPECT_EQ(a_.results, Results{granted(1)});
}

TEST_F(SessionTest, GivesUpAConnectionThatIsSilentForASecond) {
    log_in();
    ask(a_, "a");
    session_->expire(now_ + 100ms);
    EXPECT_EQ(session_->next_expiry(), now_ + 1000ms);
    EXPECT_FALSE(session_->expire(now_ + 999ms));
    EXPECT_TRUE(session_->expire(now_ + 1000ms));
    receive(grant(1));
    EXPECT_FALSE(session_->expire(now_ + 1000ms));
}

TEST_F(SessionTest, CountsSilenceFromSendingTheOldestCommand) {
    start(with_timeout(5s));
    ask(a_, "a");
    now_ += 3s;
    log_in();
    now_ += 1500ms;
    ask(b_, "b");
    receive(grant(1));
    EXPECT_FALSE(session_->expire(now_ + 4999ms));
    EXPECT_EQ(b_.results, Results{});
    EXPECT_TRUE(session_->expire(now_ + 5000ms));
    EXPECT_EQ(b_.results, Results{Failure::timeout});
    receive(grant(2));
}

TEST_F(SessionTest, IsPatientForAsLongAsItsChecks) {
    start(with_timeout(3s));
    ask(a_, "a"); // on the wire 1 s after asking
    now_ += 1s;
    log_in();
    EXPECT_EQ(session_->next_expiry(), Time{4000});
    EXPECT_FALSE(session_->expire(Time{3999}));
    EXPECT_EQ(a_.results, Results{});
    EXPECT_FALSE(session_->expire(Time{4000}));
    EXPECT_EQ(a_.results, Results{Failure::timeout});
    EXPECT_EQ(session_->next_expiry(), Time{5000});
    EXPECT_FALSE(session_->expire(Time{4999}));
    EXPECT_TRUE(session_->expire(Time{5000}));
    session_->disconnected(Lost::unreachable, now_);
}

TEST_F(SessionTest, IsNotSilentWithNothingOnTheWire) {
    EXPECT_EQ(session_->next_expiry(), std::nullopt);
    log_in();
    EXPECT_EQ(session_->next_expiry(), std::nullopt);
    EXPECT_FALSE(session_->expire(now_ + 1h));
}

} // namespace
} // namespace redis_client
