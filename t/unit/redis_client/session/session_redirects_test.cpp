// Checks that one node of a cluster is asked and another one answers.

#include "session_redirects_test.hpp"
#include "unit/redis_client/different_bytes.hpp"

#include <string>

namespace redis_client {
namespace {

TEST_F(SessionRedirectsTest, AskWhereTheKeyIs) {
    Command *call = ask(a_, "a");
    EXPECT_EQ(sent(old_()), (Commands{evalsha("a")}));
    EXPECT_EQ(receive(old_(), moved_to_new), Progress::more);
    EXPECT_EQ(old_().pending(), 0u);
    EXPECT_FALSE(old_().has_waiting());
    EXPECT_TRUE(new_().has(*call));
    EXPECT_EQ(sent(new_()), (Commands{evalsha("a")}));
    EXPECT_TRUE(a_.results.empty());
    receive(new_(), grant(7));
    EXPECT_EQ(a_.results, (Results{granted(7)}));
    EXPECT_EQ(redirects_, (decltype(redirects_){{&old_(), Redirect::Kind::moved}}));
    EXPECT_EQ(old_().counters().failures + old_().counters().verdicts, 0u); // counted there alone
    EXPECT_EQ(new_().counters().verdicts, 1u);
}

TEST_F(SessionRedirectsTest, AskWithAskingWhileTheHashSlotMoves) {
    ask(a_, "a");
    sent(old_());
    EXPECT_EQ(receive(old_(), ask_new), Progress::more);
    EXPECT_EQ(sent(new_()), (Commands{asking, evalsha("a")}));
    EXPECT_EQ(receive(new_(), "+OK\r\n"), Progress::more);
    EXPECT_TRUE(a_.results.empty()); // that is ASKING's reply
    receive(new_(), grant(7));
    EXPECT_EQ(a_.results, (Results{granted(7)}));

    ask(new_(), b_, shared("a"));
    EXPECT_EQ(sent(new_()), (Commands{evalsha("a")})); // of the next one nothing is known
    receive(new_(), grant(6));
}

TEST_F(SessionRedirectsTest, TakeARunAlong) {
    ask(a_, "a");
    ask(b_, "a");
    Listener other;
    ask(old_(), other, shared("b"), 5); // in a run of its own
    EXPECT_EQ(sent(old_()).size(), 2u);
    receive(old_(), moved_to_new);
    receive(old_(), grant(3));
    const Commands commands = sent(new_());
    ASSERT_EQ(commands.size(), 1u);
    EXPECT_EQ(commands[0][1], script_of_runs().sha1);
    receive(new_(), grants(2, 1));
    EXPECT_EQ(a_.results, (Results{granted(2)}));
    EXPECT_EQ(b_.results, (Results{granted(1)}));
    EXPECT_EQ(other.results, (Results{granted(3)}));
}

TEST_F(SessionRedirectsTest, RunNothingTogetherWithWhatNeedsAsking) {
    ask(a_, "a");
    sent(old_());
    ask(new_(), b_, shared("a"));
    receive(old_(), ask_new);
    ask(new_(), c_, shared("a"));
    const Commands commands = sent(new_());
    ASSERT_EQ(commands.size(), 3u);
    EXPECT_EQ(commands[0][1], script_of_runs().sha1); // those that were asked here
    EXPECT_EQ(commands[1], asking);
    EXPECT_EQ(commands[2], evalsha("a"));
    receive(new_(), grants(2, 1));
    receive(new_(), "+OK\r\n" + grant(7));
    EXPECT_EQ(a_.results, (Results{granted(7)}));
    EXPECT_EQ(b_.results, (Results{granted(2)}));
    EXPECT_EQ(c_.results, (Results{granted(1)}));
}

TEST_F(SessionRedirectsTest, AskOneByOneWhereARunIsToTryAgain) {
    ask(a_, "a");
    ask(b_, "b");
    EXPECT_EQ(sent(old_()).size(), 1u);
    receive(old_(), tryagain);
    EXPECT_EQ(sent(old_()), (Commands{evalsha("a"), evalsha("b")}));
    receive(old_(), grant(7) + std::string(ask_new));
    EXPECT_EQ(sent(new_()), (Commands{asking, evalsha("b")}));
    receive(new_(), "+OK\r\n" + grant(3));
    EXPECT_EQ(a_.results, (Results{granted(7)}));
    EXPECT_EQ(b_.results, (Results{granted(3)}));

    ask(a_, "a"); // a hash slot that moves is no reason to have no runs any more
    ask(b_, "b");
    EXPECT_EQ(sent(old_()).size(), 1u);
    receive(old_(), grants(2, 1));
}

TEST_F(SessionRedirectsTest, AskEachWithAskingWhereARunIsToTryAgain) {
    ask(a_, "a");
    ask(b_, "b");
    sent(old_());
    receive(old_(), ask_new);
    Commands commands = sent(new_());
    ASSERT_EQ(commands.size(), 2u);
    EXPECT_EQ(commands[0], asking);
    EXPECT_EQ(commands[1][1], script_of_runs().sha1);
    receive(new_(), "+OK\r\n" + std::string(tryagain));
    EXPECT_EQ(sent(new_()), (Commands{asking, evalsha("a"), asking, evalsha("b")}));
    receive(new_(), "+OK\r\n" + grant(7) + "+OK\r\n" + grant(3));
    EXPECT_EQ(a_.results, (Results{granted(7)}));
    EXPECT_EQ(b_.results, (Results{granted(3)}));
}

TEST_F(SessionRedirectsTest, HaveNoVerdictWhereOneCheckIsToTryAgain) {
    ask(a_, "a");
    sent(old_());
    EXPECT_EQ(receive(old_(), tryagain), Progress::more);
    EXPECT_EQ(a_.results, (Results{Failure::reply}));
}

TEST_F(SessionRedirectsTest, AskWithTheScriptWhereTheNewNodeDoesNotKnowIt) {
    ask(a_, "a");
    sent(old_());
    receive(old_(), ask_new);
    sent(new_());
    EXPECT_EQ(receive(new_(), "+OK\r\n" + std::string(noscript)), Progress::more);
    EXPECT_EQ(sent(new_()), (Commands{asking, eval("a")})); // Redis forgets ASKING by any command
    receive(new_(), "+OK\r\n" + grant(7));
    EXPECT_EQ(a_.results, (Results{granted(7)}));
}

TEST_F(SessionRedirectsTest, AskByNameAgainWhereTheOldNodeDidNotKnowTheScript) {
    ask(a_, "a");
    sent(old_());
    receive(old_(), noscript);
    EXPECT_EQ(sent(old_()), (Commands{eval("a")}));
    receive(old_(), moved_to_new);
    EXPECT_EQ(sent(new_()), (Commands{evalsha("a")}));
    receive(new_(), noscript);
    EXPECT_EQ(sent(new_()), (Commands{eval("a")}));
    receive(new_(), grant(7));
    EXPECT_EQ(a_.results, (Results{granted(7)}));
}

TEST_F(SessionRedirectsTest, FollowFiveTimesAtMost) {
    ask(a_, "a");
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(sent(old_()).size(), 1u) << i;
        receive(old_(), moved_to_new);
        EXPECT_TRUE(a_.results.empty()) << i;
        EXPECT_EQ(sent(new_()).size(), 1u) << i;
        receive(new_(), moved_to_old);
    }
    EXPECT_EQ(a_.results, (Results{Failure::reply}));
    EXPECT_TRUE(sent(old_()).empty());
    EXPECT_EQ(new_().problem().what, "too many redirects");
    EXPECT_EQ(new_().problem().redis_said, "MOVED 0 node:1");
    EXPECT_EQ(new_().counters().failures, 1u);
}

TEST_F(SessionRedirectsTest, FollowFiveTimesAtMostWhatKindEver) {
    ask(a_, "a");
    for (int i = 0; i < 6; ++i) {
        EXPECT_TRUE(a_.results.empty()) << i;
        Session &session = i % 2 == 0 ? old_() : new_();
        sent(session);
        receive(session, i == 0       ? std::string(moved_to_new)
                         : i % 2 == 0 ? std::string(ask_new)
                         : i == 1     ? std::string(moved_to_old)
                                      : "+OK\r\n" + std::string(moved_to_old));
    }
    EXPECT_EQ(a_.results, (Results{Failure::reply}));
}

TEST_F(SessionRedirectsTest, AskTheNodeAgainThatNamesItself) {
    ask(a_, "a");
    sent(old_());
    receive(old_(), moved_to_old);
    EXPECT_EQ(sent(old_()), (Commands{evalsha("a")}));
    EXPECT_EQ(old_().pending(), 1u);
    receive(old_(), grant(7));
    EXPECT_EQ(a_.results, (Results{granted(7)}));
    EXPECT_EQ(old_().counters().verdicts, 1u);
}

TEST_F(SessionRedirectsTest, AreErrorsWhereThereIsNoCluster) {
    SessionGroup group(default_settings(), different_bytes, any_time);
    Session single(group, 1);
    log_in(single);
    ask(single, a_, asked("a"));
    sent(single);
    EXPECT_EQ(receive(single, moved_to_new), Progress::more);
    EXPECT_EQ(a_.results, (Results{Failure::reply}));
    EXPECT_EQ(single.problem().redis_said, "MOVED 0 node:2");
}

TEST_F(SessionRedirectsTest, AreErrorsWhereTheyAreCutOff) {
    ask(a_, "a");
    sent(old_());
    EXPECT_EQ(receive(old_(), "-MO\r\n"), Progress::more);
    EXPECT_EQ(a_.results, (Results{Failure::reply}));
    EXPECT_TRUE(redirects_.empty());
}

// The breaker

/// A cluster whose sessions ask nothing more after three failed checks in a row.
class BreakerRedirectsTest : public SessionRedirectsTest {
  protected:
    void SetUp() override {
        SessionSettings settings = settings_of_nodes();
        settings.breaker = {.failures = 3, .cooldown = 1000ms};
        SessionRedirectsTest::start(settings);
    }

    /// A check that goes to the old node, whose client alone gets no verdict.
    void ask_in_vain(std::string_view error) {
        ask(old_(), a_, asked("a"));
        sent(old_());
        EXPECT_EQ(receive(old_(), error), Progress::more);
        ASSERT_FALSE(a_.results.empty());
        EXPECT_EQ(a_.results.back(), Result(Failure::reply)) << error;
    }

    bool has_verdict() {
        ask(old_(), b_, asked("b"));
        if (sent(old_()).empty()) {
            return false;
        }
        receive(old_(), grant(7));
        return b_.results.back() == granted(7);
    }
};

TEST_F(BreakerRedirectsTest, StaysClosedWhateverHappensToAHashSlot) {
    for (const std::string_view error :
         {tryagain, std::string_view("-CROSSSLOT Keys in request don't hash to the same slot\r\n"),
          std::string_view("-CLUSTERDOWN Hash slot not served\r\n"),
          std::string_view("-ERR Script attempted to access a non local key in a cluster node "
                           "script: 1f, on @user_script:9.\r\n")}) {
        const uint64_t check_failures = old_().counters().check_failures;
        for (int i = 0; i < 4; ++i) {
            ask_in_vain(error);
        }
        EXPECT_EQ(old_().counters().check_failures, check_failures + 4) << error;
        EXPECT_EQ(old_().problem().what, "error reply");
        EXPECT_TRUE(has_verdict()) << error;
    }
}

TEST_F(BreakerRedirectsTest, StaysClosedWhereOneCheckOfABatchMeetsAHashSlotThatMoves) {
    const std::string error = "ERR Script attempted to access a non local key in a cluster node";
    const std::string failure = bulk_string(packed({-1, 0, 0, 0, 0, -1, 0, 0, 0, 0}) + error);
    for (int i = 0; i < 4; ++i) {
        ask(a_, "a");
        ask(c_, "c");
        sent(old_());
        receive(old_(), failure);
        EXPECT_EQ(a_.results.back(), Result(Failure::reply));
    }
    EXPECT_EQ(old_().counters().check_failures, 8u);
    EXPECT_TRUE(has_verdict());
}

TEST_F(BreakerRedirectsTest, StaysClosedWhereNodesTakeEachOtherForTheMaster) {
    for (int check = 0; check < 4; ++check) {
        ask(a_, "a");
        for (int i = 0; i < 3; ++i) {
            sent(old_());
            receive(old_(), moved_to_new);
            sent(new_());
            receive(new_(), moved_to_old);
        }
        EXPECT_EQ(a_.results.back(), Result(Failure::reply));
        EXPECT_EQ(new_().problem().what, "too many redirects");
    }
    EXPECT_EQ(new_().counters().check_failures, 4u);
    EXPECT_TRUE(has_verdict());
}

TEST_F(BreakerRedirectsTest, OpensWhereTheWholeClusterIsDown) {
    for (int i = 0; i < 3; ++i) {
        ask_in_vain("-CLUSTERDOWN The cluster is down\r\n");
    }
    EXPECT_EQ(old_().counters().check_failures, 0u);
    const auto refused = old_().ask(b_.new_charges({asked("b")}), b_, now_);
    EXPECT_EQ(std::get<Failure>(refused), Failure::breaker);
}

// Those that nobody waits for any more

TEST_F(SessionRedirectsTest, DoNotFollowWhatIsForgotten) {
    old_().forget(*ask(a_, "a"), now_); // before it was sent
    Command *call = ask(a_, "b");
    sent(old_());
    old_().forget(*call, now_);
    receive(old_(), moved_to_new);
    EXPECT_TRUE(sent(new_()).empty());
    EXPECT_TRUE(a_.results.empty());
    EXPECT_EQ(redirects_.size(), 1u); // the map is wrong all the same
}

TEST_F(SessionRedirectsTest, AreFollowedByWhatIsAbandoned) {
    Command *call = ask(a_, "a");
    const Commands commands = sent(old_());
    old_().abandon(*call, now_);
    receive(old_(), moved_to_new);
    EXPECT_EQ(sent(new_()), commands);
    receive(new_(), grant(7));
    EXPECT_EQ(a_.results, (Results{granted(7)}));
}

TEST_F(SessionRedirectsTest, ForgetWhereTheCheckIs) {
    Command *call = ask(a_, "a");
    sent(old_());
    receive(old_(), moved_to_new);
    new_().forget(*call, now_); // before it was sent there
    EXPECT_TRUE(sent(new_()).empty());

    call = ask(a_, "a");
    sent(old_());
    receive(old_(), moved_to_new);
    sent(new_());
    new_().forget(*call, now_);
    EXPECT_FALSE(new_().has_waiting());
    receive(new_(), grant(7)); // swallowed
    EXPECT_TRUE(a_.results.empty());
}

TEST_F(SessionRedirectsTest, FollowThoseOfARunForWhichSomebodyWaits) {
    ask(a_, "a");
    Command *abandoned = ask(b_, "a");
    ask(c_, "a");
    sent(old_());
    old_().forget(*abandoned, now_);
    receive(old_(), moved_to_new);
    const Commands commands = sent(new_());
    ASSERT_EQ(commands.size(), 1u);
    EXPECT_EQ(commands[0][2], "2"); // keys
    receive(new_(), grants(2, 1));
    EXPECT_EQ(a_.results, (Results{granted(2)}));
    EXPECT_EQ(c_.results, (Results{granted(1)}));
    EXPECT_TRUE(b_.results.empty());
}

TEST_F(SessionRedirectsTest, DoNotFollowWhatHasTimedOut) {
    ask(a_, "a");
    sent(old_());
    now_ += 100ms;
    EXPECT_FALSE(old_().expire(now_));
    EXPECT_EQ(a_.results, (Results{Failure::timeout}));
    receive(old_(), moved_to_new);
    EXPECT_TRUE(sent(new_()).empty());
    EXPECT_EQ(a_.results.size(), 1u);
    EXPECT_EQ(old_().counters().failures, 1u);
}

// Replies to ASKING

TEST_F(SessionRedirectsTest, EndTheConnectionWhereAskingGetsAnAnswer) {
    for (const std::string &wrong : {std::string(done), std::string(":1\r\n")}) {
        ask(a_, "a");
        sent(old_());
        receive(old_(), ask_new);
        sent(new_());
        EXPECT_EQ(receive(new_(), wrong), Progress::broken) << wrong;
        new_().disconnected(Lost::in_use, now_);
        EXPECT_EQ(a_.results.back(), Result(Failure::connect));
        log_in(new_());
    }
}

TEST_F(SessionRedirectsTest, GoOnWhereAskingIsRefused) {
    for (const std::string &refusal : {std::string("-ERR unknown command 'ASKING'\r\n"),
                                       std::string(noscript), std::string(moved_to_old)}) {
        ask(a_, "a");
        sent(old_());
        receive(old_(), ask_new);
        sent(new_());
        EXPECT_EQ(receive(new_(), refusal), Progress::more) << refusal;
        EXPECT_TRUE(sent(new_()).empty());
        EXPECT_TRUE(sent(old_()).empty());
        receive(new_(), grant(7));
        EXPECT_EQ(a_.results.back(), granted(7));
    }
}

} // namespace
} // namespace redis_client
