// Checks that one session takes over from another: their deadlines, and nodes that do not answer.

#include "session_redirects_test.hpp"

#include <array>
#include <initializer_list>
#include <string>
#include <utility>

namespace redis_client {
namespace {

// Deadlines

TEST_F(SessionRedirectsTest, KeepTheirDeadlines) {
    ask(a_, "a"); // at 1000
    sent(old_());
    now_ = Time{1050};
    ask(new_(), b_, shared("b"));
    sent(new_());
    now_ = Time{1090};
    receive(old_(), moved_to_new);
    EXPECT_EQ(new_().next_expiry(), Time{1100}); // older than the other that waits there
    sent(new_());
    EXPECT_EQ(old_().next_expiry(), std::nullopt);

    now_ = Time{1099};
    EXPECT_FALSE(new_().expire(now_));
    EXPECT_TRUE(a_.results.empty());
    now_ = Time{1100};
    EXPECT_FALSE(new_().expire(now_));
    EXPECT_EQ(a_.results, (Results{Failure::timeout}));
    EXPECT_TRUE(b_.results.empty());
    EXPECT_EQ(new_().next_expiry(), Time{1150});
    receive(new_(), grant(1) + grant(2));
    EXPECT_EQ(b_.results, (Results{granted(1)}));
    EXPECT_EQ(a_.results.size(), 1u);
}

TEST_F(SessionRedirectsTest, WaitInTheOrderOfAsking) {
    std::array<Listener, 6> listeners;
    const std::pair<Session *, int> asked_at[] = {{&new_(), 10}, {&old_(), 0},  {&old_(), 10},
                                                  {&old_(), 15}, {&new_(), 20}, {&old_(), 30}};
    for (const int time : {0, 10, 15, 20, 30}) { // as time passes
        now_ = Time{1000 + time};
        for (size_t i = 0; i < listeners.size(); ++i) {
            if (asked_at[i].second == time) {
                ask(*asked_at[i].first, listeners[i], shared("a"));
                sent(*asked_at[i].first);
            }
        }
    }
    receive(old_(), moved_to_new);
    receive(old_(), moved_to_new);
    receive(old_(), moved_to_new);
    receive(old_(), moved_to_new);
    sent(new_());
    const auto expired = [&] {
        std::string all;
        for (const Listener &listener : listeners) {
            all += listener.results.empty() ? '-' : 'x';
        }
        return all;
    };
    for (const auto &[time, all] :
         std::initializer_list<std::pair<int, std::string>>{{99, "------"},
                                                            {100, "-x----"},
                                                            {110, "xxx---"},
                                                            {115, "xxxx--"},
                                                            {120, "xxxxx-"},
                                                            {130, "xxxxxx"}}) {
        now_ = Time{1000 + time};
        EXPECT_FALSE(new_().expire(now_));
        EXPECT_EQ(expired(), all) << time;
    }
    new_().disconnected(Lost::in_use, now_);
}

TEST_F(SessionRedirectsTest, GiveUpTheNodeThatWasSilentAndNoOther) {
    ask(a_, "a");
    sent(old_());
    now_ += 90ms;
    receive(old_(), moved_to_new);
    sent(new_()); // at 1090
    now_ = Time{1100};
    EXPECT_FALSE(new_().expire(now_));
    EXPECT_EQ(old_().next_expiry(), std::nullopt);
    EXPECT_EQ(new_().next_expiry(), Time{2090}); // counted from when it was sent there
    now_ = Time{2090};
    EXPECT_TRUE(new_().expire(now_));
    new_().disconnected(Lost::unreachable, now_);
}

// Targets

TEST_F(SessionRedirectsTest, WaitForAConnectionThere) {
    ask(a_, "a");
    sent(old_());
    receive(old_(), "-ASK 0 node:3\r\n");
    EXPECT_TRUE(closed_().has_waiting());
    EXPECT_EQ(closed_().next_expiry(), Time{1100});
    closed_().connected();
    sent(closed_());
    for (size_t i = 0; i < 3; ++i) {
        receive(closed_(), "+sha1\r\n");
    }
    EXPECT_EQ(receive(closed_(), "+sha1\r\n"), Progress::ready);
    EXPECT_EQ(sent(closed_()), (Commands{asking, evalsha("a")}));
    receive(closed_(), "+OK\r\n" + grant(7));
    EXPECT_EQ(a_.results, (Results{granted(7)}));
}

TEST_F(SessionRedirectsTest, FailWhereTheTargetCannotBeReached) {
    closed_().disconnected(Lost::unreachable, now_);
    ask(a_, "a");
    ask(b_, "b");
    sent(old_());
    receive(old_(), "-MOVED 0 node:3\r\n");
    EXPECT_EQ(a_.results, (Results{Failure::connect}));
    EXPECT_EQ(b_.results, (Results{Failure::connect}));
    EXPECT_EQ(closed_().counters().failures, 2u);
    EXPECT_EQ(old_().counters().failures, 0u); // which is well
}

TEST_F(SessionRedirectsTest, FailOnceWhereTheConnectionThereBreaks) {
    ask(a_, "a");
    sent(old_());
    receive(old_(), ask_new);
    sent(new_());
    new_().disconnected(Lost::in_use, now_); // before ASKING was answered
    EXPECT_EQ(a_.results, (Results{Failure::connect}));
    log_in(new_());
    EXPECT_TRUE(sent(new_()).empty()); // sent once
}

TEST_F(SessionRedirectsTest, SurviveTheConnectionFromWhichTheyCame) {
    ask(a_, "a");
    sent(old_());
    receive(old_(), moved_to_new);
    old_().disconnected(Lost::unreachable, now_);
    EXPECT_TRUE(a_.results.empty());
    sent(new_());
    receive(new_(), grant(7));
    EXPECT_EQ(a_.results, (Results{granted(7)}));
}

TEST_F(SessionRedirectsTest, CountAllPendingChecksOnce) {
    SessionSettings settings = settings_of_nodes();
    settings.max_pending = 2;
    start(settings);
    ask(a_, "a");
    ask(b_, "b");
    sent(old_());
    receive(old_(), ask_new); // with two ASKINGs, at most
    sent(new_());
    for (Session *session : {&old_(), &new_()}) {
        const auto refused = session->ask(c_.new_charges({asked("c")}), c_, now_);
        EXPECT_EQ(std::get<Failure>(refused), Failure::overload);
    }
    receive(new_(), "+OK\r\n" + std::string(tryagain));
    sent(new_());
    receive(new_(), "+OK\r\n" + grant(1));
    ask(c_, "c"); // there is room for one again
    sent(old_());
    receive(old_(), grant(3));
    receive(new_(), "+OK\r\n" + grant(2));
    EXPECT_EQ(c_.results, (Results{granted(3)}));
}

TEST_F(SessionRedirectsTest, AreAnswersToTheBreaker) {
    SessionSettings settings = settings_of_nodes();
    settings.breaker = {.failures = 1, .cooldown = 1000ms};
    start(settings);
    ask(a_, "a");
    sent(old_());
    receive(old_(), "-CLUSTERDOWN The cluster is down\r\n");
    EXPECT_EQ(a_.results, (Results{Failure::reply}));
    const auto refused = old_().ask(b_.new_charges({asked("b")}), b_, now_);
    EXPECT_EQ(std::get<Failure>(refused), Failure::breaker);
    now_ += 2s;
    ask(a_, "a"); // the probe
    sent(old_());
    receive(old_(), moved_to_new);
    ask(b_, "b"); // the node is well
    sent(new_());
    receive(new_(), grant(1));
    sent(old_());
    receive(old_(), grant(2));
    EXPECT_EQ(b_.results, (Results{granted(2)}));
}

// Checks that were asked before anybody knew whom

TEST_F(SessionRedirectsTest, GiveAwayWhatWaitsInOrder) {
    Command *first = ask(closed_(), a_, shared("a"));
    now_ += 10ms;
    Command *second = ask(closed_(), b_, shared("b"));
    EXPECT_EQ(closed_().give_away(), first);
    EXPECT_EQ(closed_().give_away(), second);
    EXPECT_EQ(closed_().give_away(), nullptr);
    EXPECT_EQ(closed_().pending(), 0u);
    new_().take_over(*second, Redirect::Kind::moved, now_);
    new_().take_over(*first, Redirect::Kind::moved, now_);
    EXPECT_EQ(new_().next_expiry(), Time{1100});
    ASSERT_EQ(sent(new_()).size(), 1u); // in one run
    receive(new_(), grants(2, 1));
    EXPECT_EQ(b_.results, (Results{granted(2)}));
    EXPECT_EQ(a_.results, (Results{granted(1)}));
}

TEST_F(SessionRedirectsTest, GiveNothingAwayThatWasAbandoned) {
    Command *call = ask(closed_(), a_, shared("a"));
    closed_().forget(*call, now_);
    EXPECT_EQ(closed_().give_away(), nullptr);
}

TEST_F(SessionRedirectsTest, GiveSlotsAwayWithWhatAsksForThem) {
    Command *call = ask(closed_(), a_, permit_asked());
    EXPECT_TRUE(closed_().has(*a_.charges()[0].permit));
    EXPECT_EQ(closed_().give_away(), call);
    new_().take_over(*call, Redirect::Kind::moved, now_);
    EXPECT_TRUE(new_().has(*a_.charges()[0].permit));
    sent(new_());
    receive(new_(), permit_granted);
    EXPECT_TRUE(new_().has_background_commands());
    EXPECT_FALSE(closed_().has_background_commands());
    release_all(new_(), {&a_});
}

} // namespace
} // namespace redis_client
