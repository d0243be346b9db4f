// Checks from asking to verdict: how many there may be, who leaves, and what is counted.

#include "session_test.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace redis_client {
namespace {

// From asking to verdict

TEST_F(SessionTest, AsksAtOnceWhenReady) {
    log_in();
    ask(a_, "a");
    EXPECT_EQ(sent(), Commands{evalsha("a")});
    EXPECT_EQ(session_->pending(), 1u);
    EXPECT_EQ(a_.results, Results{});
    EXPECT_EQ(receive(grant(99)), Progress::more);
    EXPECT_EQ(a_.results, Results{granted(99)});
    EXPECT_EQ(sent(), Commands{});
}

TEST_F(SessionTest, TellsTheWholeVerdict) {
    log_in();
    ask(a_, "a");
    receive(answer({-1, 1'250'000, 60'000'000, 1'250'000}));
    EXPECT_EQ(a_.results, Results{(Verdict{.decision = Decision::denied,
                                           .remaining = 0,
                                           .retry_after = 1250ms,
                                           .next_unit = 1250ms,
                                           .reset = 60s})});
}

TEST_F(SessionTest, MatchesRepliesInOrderHoweverTheyAreCut) {
    const std::string replies = grant(1) + grant(2) + grant(3);
    log_in();
    for (size_t piece = 1; piece <= replies.size(); ++piece) {
        Listener a, b, c;
        ask(a, "same");
        ask(b, "same");
        ask(c, "same");
        for (size_t at = 0; at < replies.size(); at += piece) {
            EXPECT_EQ(receive(std::string_view(replies).substr(at, piece)), Progress::more);
        }
        EXPECT_EQ(a.results, Results{granted(1)});
        EXPECT_EQ(b.results, Results{granted(2)});
        EXPECT_EQ(c.results, Results{granted(3)});
    }
}

// Listeners that leave

TEST_F(SessionTest, NeverSendsWhatWasAbandonedBefore) {
    ask(a_, "a");
    Command *left = ask(b_, "b");
    ask(c_, "c");
    session_->forget(*left, now_);
    EXPECT_EQ(session_->pending(), 2u);
    log_in();
    EXPECT_EQ(sent(), (Commands{evalsha("a"), evalsha("c")}));
    receive(grant(1) + grant(3));
    EXPECT_EQ(a_.results, Results{granted(1)});
    EXPECT_EQ(b_.results, Results{});
    EXPECT_EQ(c_.results, Results{granted(3)});
}

TEST_F(SessionTest, SwallowsTheReplyOfWhatWasAbandonedAfter) {
    log_in();
    ask(a_, "a");
    Command *left = ask(b_, "b");
    ask(c_, "c");
    session_->forget(*left, now_);
    EXPECT_EQ(session_->pending(), 3u);
    receive(grant(1) + grant(2) + grant(3));
    EXPECT_EQ(a_.results, Results{granted(1)});
    EXPECT_EQ(b_.results, Results{});
    EXPECT_EQ(c_.results, Results{granted(3)});
}

TEST_F(SessionTest, TellsNobodyOfAnAbandonedCheckThatExpiresOrFails) {
    log_in();
    session_->forget(*ask(a_, "a"), now_);
    session_->expire(now_ + 500ms);
    session_->disconnected(Lost::unreachable, now_);
    EXPECT_EQ(a_.results, Results{});
}

// Bounds

TEST_F(SessionTest, RefusesMoreThanMaxPending) {
    start(with_max_pending(2));
    ask(a_, "a");
    Command *left = ask(b_, "b");
    EXPECT_EQ(refusal(), Failure::overload);
    EXPECT_EQ(session_->pending(), 2u);
    session_->forget(*left, now_); // not sent yet: room for another
    ask(c_, "c");
    EXPECT_EQ(refusal(), Failure::overload);
    log_in();
    EXPECT_EQ(sent(), (Commands{evalsha("a"), evalsha("c")}));
    EXPECT_EQ(refusal(), Failure::overload);
    receive(grant(1));
    ask(b_, "b");
    EXPECT_EQ(refusal(), Failure::overload);
    receive(grant(3) + grant(2));
    EXPECT_EQ(b_.results, Results{granted(2)});
    EXPECT_EQ(c_.results, Results{granted(3)});
}

TEST_F(SessionTest, CountsTombstonesAsPending) {
    start(with_max_pending(2));
    log_in();
    session_->forget(*ask(a_, "a"), now_);
    ask(b_, "b");
    session_->expire(now_ + 100ms);
    EXPECT_EQ(session_->pending(), 2u);
    EXPECT_EQ(refusal(), Failure::overload);
    receive(grant(1));
    EXPECT_EQ(session_->pending(), 1u);
    ask(c_, "c");
    receive(grant(2) + grant(3));
    EXPECT_EQ(c_.results, Results{granted(3)});
}

TEST_F(SessionTest, AsksNothingWithoutRoomForOne) {
    start(with_max_pending(0));
    EXPECT_EQ(refusal(), Failure::overload);
    log_in();
    EXPECT_EQ(refusal(), Failure::overload);
}

TEST_F(SessionTest, FailsWhatItHasNoMemoryToSend) {
#if !defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "it takes AddressSanitizer to refuse memory early";
#endif
    start(with_max_pending(SIZE_MAX));
    log_in();
    size_t room = 0;
    for (ask(a_, "a"); a_.results.empty(); ask(a_, "a")) {
        ++room;
    }
    EXPECT_EQ(a_.results, Results{Failure::overload});
    EXPECT_EQ(session_->problem().what, "out of memory");
    EXPECT_EQ(session_->pending(), room);
    EXPECT_EQ(sent().size(), room);
    session_->disconnected(Lost::in_use, now_);
    a_.results.clear();

    start(with_max_pending(SIZE_MAX));
    for (size_t i = 0; i < room + 3; ++i) {
        ask(a_, "a");
    }
    log_in();
    EXPECT_EQ(sent().size(), room);
    EXPECT_EQ(a_.results, Results(3, Failure::overload));
    EXPECT_EQ(session_->problem().what, "out of memory");
    EXPECT_EQ(session_->pending(), room);
    ask(b_, "b"); // the socket took all, so there is room again
    EXPECT_EQ(sent(), Commands{evalsha("b")});
    session_->disconnected(Lost::in_use, now_);
    EXPECT_EQ(b_.results, Results{Failure::connect});
}

// Counters

TEST_F(SessionTest, CountsEachCheckOnce) {
    using Counts = std::pair<uint64_t, uint64_t>; // verdicts and failures
    const auto counts = [&] {
        return Counts(session_->counters().verdicts, session_->counters().failures);
    };
    start(with_max_pending(3));
    EXPECT_EQ(counts(), Counts(0, 0));
    session_->forget(*ask(a_, "a"), now_); // never sent: nothing came of it
    EXPECT_EQ(counts(), Counts(0, 0));

    log_in();
    ask(a_, "a");
    receive(grant(1));
    EXPECT_EQ(counts(), Counts(1, 0));
    ask(a_, "a");
    receive("-ERR no\r\n");
    EXPECT_EQ(counts(), Counts(1, 1));
    ask(a_, "a");
    receive(noscript);
    EXPECT_EQ(counts(), Counts(1, 1));
    receive(grant(1));
    EXPECT_EQ(counts(), Counts(2, 1));

    // what was abandoned counts by the answer that arrives
    session_->forget(*ask(a_, "a"), now_);
    EXPECT_EQ(counts(), Counts(2, 1));
    receive(grant(1));
    EXPECT_EQ(counts(), Counts(3, 1));

    // what failed at its deadline does not count again by its late answer, or for want of one
    ask(a_, "a");
    ask(a_, "a");
    ask(a_, "a");
    session_->expire(now_ + 100ms);
    EXPECT_EQ(counts(), Counts(3, 4));
    receive(grant(1));
    receive("-ERR late\r\n");
    EXPECT_EQ(counts(), Counts(3, 4));
    ask(b_, "b");
    session_->forget(*ask(c_, "c"), now_);
    EXPECT_EQ(refusal(), Failure::overload);
    EXPECT_EQ(counts(), Counts(3, 5));
    session_->disconnected(Lost::unreachable, now_);
    EXPECT_EQ(counts(), Counts(3, 7));
    EXPECT_EQ(refusal(), Failure::connect);
    EXPECT_EQ(counts(), Counts(3, 8));
}

TEST_F(SessionTest, SaysWhyItFailsAtOnceOrAtADeadline) {
    start(with_max_pending(1));
    session_->connected();
    ask(a_, "a");
    session_->expire(now_ + 100ms);
    EXPECT_EQ(session_->problem().what, "no connection in time");

    start(with_max_pending(1));
    log_in();
    ask(a_, "a");
    refusal();
    EXPECT_EQ(session_->problem().what, "too many pending checks");
    session_->expire(now_ + 100ms);
    EXPECT_EQ(session_->problem().what, "no answer in time");
    EXPECT_EQ(session_->problem().redis_said, "");
    receive(grant(1));
}

// Destruction: AddressSanitizer tells of what is leaked or freed twice.

TEST_F(SessionTest, DiesWithChecksInEveryState) {
    for (const bool ready : {false, true}) {
        for (int sent_count = 0; sent_count <= 3; ++sent_count) {
            start(default_settings());
            session_->connected();
            if (ready) {
                receive(loaded);
            }
            for (int i = 0; i < sent_count; ++i) {
                session_->forget(*ask(a_, "a"), now_);
                ask(a_, "a");
            }
            if (ready) {
                receive(noscript); // to nobody
                if (sent_count > 0) {
                    receive(noscript); // to a check, sent again in full
                }
            }
        }
    }
    start(default_settings());
}

TEST_F(SessionTest, DiesWithChecksThatWaitAndChecksThatAreSpare) {
    for (int i = 0; i < 10; ++i) {
        Command *check = ask(a_, "a");
        if (i % 2 == 0) {
            session_->forget(*check, now_);
        }
    }
    session_->expire(now_ + 100ms);
    ask(a_, "b");
    start(default_settings());
}

} // namespace
} // namespace redis_client
