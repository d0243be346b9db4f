// Sessions of the nodes of a cluster: what one is redirected from, another one asks.

#include "session_test.hpp"

#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace redis_client {
namespace {

constexpr std::string_view moved_to_new = "-MOVED 0 node:2\r\n";
constexpr std::string_view moved_to_old = "-MOVED 0 node:1\r\n";
constexpr std::string_view ask_new = "-ASK 0 node:2\r\n";
constexpr std::string_view tryagain =
    "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
constexpr std::string_view done = "$-1\r\n"; // to a release, a renewal or a refund
const Command asking = {"ASKING"};

Asked slot_asked() {
    return {.quota = quota_of(Algorithm::concurrency), .redis_key = "rl:{z:a}:concurrency:60000"};
}
const std::string slot_granted = answer({99});

/// With the arguments that all share, so that those of one turn go in one run.
Asked shared(const std::string &key) {
    static const WireWords arguments = check_arguments(quota_of(Algorithm::sliding_log), false);
    Asked one = asked(key);
    one.arguments = &arguments;
    return one;
}

/// To a run of two.
std::string grants(int64_t remaining, int64_t other_remaining) {
    return bulk_string(packed({time_of_redis, remaining, 0, 0, 0, //
                               time_of_redis, other_remaining, 0, 0, 0}));
}

SessionSettings settings_of_nodes() {
    SessionSettings settings = default_settings();
    settings.shapes.push_back(shape_of(Algorithm::concurrency));
    return settings;
}

/// Two nodes, `node:1` and `node:2`, and a third that is never connected. All keys are in hash slot
/// 0 where a test does not say otherwise.
class SessionRedirectsTest : public testing::Test, public Redirects {
  protected:
    void SetUp() override { start(settings_of_nodes()); }

    void TearDown() override {
        for (const auto &session : sessions_) {
            EXPECT_EQ(session->pending(), 0u);
            EXPECT_FALSE(session->has_errands());
            EXPECT_FALSE(session->has_waiting());
            EXPECT_EQ(session->next_expiry(), std::nullopt);
        }
        EXPECT_EQ(group_->calls.in_use(), 0u);
        EXPECT_EQ(group_->errands, 0u);
        EXPECT_EQ(group_->slots.in_use(), 0u);
    }

    void start(const SessionSettings &settings) {
        for (auto &session : sessions_) {
            session.reset();
        }
        group_.emplace(settings);
        for (auto &session : sessions_) {
            session.emplace(*group_, 1, this);
        }
        log_in(old_());
        log_in(new_());
    }

    Session &old_() { return *sessions_[0]; }
    Session &new_() { return *sessions_[1]; }
    Session &closed_() { return *sessions_[2]; }

    void log_in(Session &session) {
        session.connected();
        const size_t commands = sent(session).size();
        for (size_t i = 1; i < commands; ++i) {
            EXPECT_EQ(receive(session, "+sha1\r\n"), Progress::more);
        }
        EXPECT_EQ(receive(session, "+sha1\r\n"), Progress::ready);
    }

    Commands sent(Session &session) {
        session.flush(now_);
        const std::string bytes(session.output().bytes());
        session.output().consume(bytes.size());
        return parse_commands(bytes);
    }

    Progress receive(Session &session, std::string_view bytes) {
        return session.received(bytes, now_);
    }

    Call *ask(Session &session, Listener &listener, const Asked &one, uint16_t hash_slot = 0) {
        std::vector<Charge> &charges = listener.new_charges({one});
        charges[0].hash_slot = hash_slot;
        const auto answer = session.ask(charges, listener, now_);
        Call *const *check = std::get_if<Call *>(&answer);
        EXPECT_NE(check, nullptr);
        return check != nullptr ? *check : nullptr;
    }
    Call *ask(Listener &listener, const std::string &key) {
        return ask(old_(), listener, shared(key));
    }

    /// A slot that is held: its name.
    std::string take_slot(Session &session, Listener &listener, uint16_t hash_slot = 0) {
        ask(session, listener, slot_asked(), hash_slot);
        const std::string name = sent(session).back().back();
        EXPECT_EQ(receive(session, slot_granted), Progress::more);
        EXPECT_NE(listener.charges()[0].slot, nullptr);
        return name;
    }

    void release(Session &session, Listener &listener) {
        session.release(*std::exchange(listener.charges()[0].slot, nullptr), now_);
    }

    /// Ends what a test leaves held, where Redis says nothing more of it.
    void release_all(Session &session, std::initializer_list<Listener *> listeners) {
        for (Listener *listener : listeners) {
            release(session, *listener);
        }
        sent(session);
        for (size_t i = 0; i < listeners.size(); ++i) {
            EXPECT_EQ(receive(session, done), Progress::more);
        }
    }

    /// Lets time pass, and all timers run.
    void wait_until(Time time) {
        for (bool all_is_quiet = false; !all_is_quiet;) {
            all_is_quiet = true;
            for (auto &session : sessions_) {
                const auto next = session->next_expiry();
                if (next && *next <= time) {
                    now_ = std::max(now_, *next);
                    EXPECT_FALSE(session->expire(now_));
                    all_is_quiet = false;
                }
            }
        }
        now_ = time;
    }

    Time now_{1000};
    Listener a_, b_, c_;
    std::optional<SessionGroup> group_;
    std::array<std::optional<Session>, 3> sessions_; // at their ports, counted from 1
    std::vector<std::pair<const Session *, Redirect::Kind>> redirects_; // all that were told

  private:
    void on_redirect(const Session &from, const Redirect &to) override {
        redirects_.emplace_back(&from, to.kind);
        if (to.kind == Redirect::Kind::moved) { // the slots of its rules follow
            for (auto &session : sessions_) {
                Session &target = *sessions_[to.port - 1];
                if (&*session != &target) {
                    target.take_slots(HashSlotSet().set(to.hash_slot), *session);
                }
            }
        }
    }
    void ask_again(Call &call, const Session & /*from*/, const Redirect &to) override {
        sessions_[to.port - 1]->take_over(call, to.kind, now_);
    }
};

// Checks

TEST_F(SessionRedirectsTest, AskWhereTheKeyIs) {
    Call *call = ask(a_, "a");
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
    SessionGroup group(default_settings());
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

// Those that nobody waits for any more

TEST_F(SessionRedirectsTest, DoNotFollowWhatIsAbandoned) {
    old_().abandon(*ask(a_, "a"), now_); // before it was sent
    Call *call = ask(a_, "b");
    sent(old_());
    old_().abandon(*call, now_);
    receive(old_(), moved_to_new);
    EXPECT_TRUE(sent(new_()).empty());
    EXPECT_TRUE(a_.results.empty());
    EXPECT_EQ(redirects_.size(), 1u); // the map is wrong all the same
}

TEST_F(SessionRedirectsTest, DoNotFollowWhatIsHandedOverAndSaySo) {
    Call *call = ask(a_, "a");
    sent(old_());
    b_.all_charges.push_back(a_.charges());
    old_().hand_over(*call, b_.charges(), b_, now_);
    receive(old_(), moved_to_new);
    EXPECT_TRUE(sent(new_()).empty());
    EXPECT_TRUE(a_.results.empty());
    EXPECT_EQ(b_.results, (Results{Failure::reply}));
    EXPECT_EQ(old_().counters().failures, 0u);
}

TEST_F(SessionRedirectsTest, AbandonWhereTheCheckIs) {
    Call *call = ask(a_, "a");
    sent(old_());
    receive(old_(), moved_to_new);
    new_().abandon(*call, now_); // before it was sent there
    EXPECT_TRUE(sent(new_()).empty());

    call = ask(a_, "a");
    sent(old_());
    receive(old_(), moved_to_new);
    sent(new_());
    new_().abandon(*call, now_);
    EXPECT_FALSE(new_().has_waiting());
    receive(new_(), grant(7)); // swallowed
    EXPECT_TRUE(a_.results.empty());
}

TEST_F(SessionRedirectsTest, FollowThoseOfARunForWhichSomebodyWaits) {
    ask(a_, "a");
    Call *abandoned = ask(b_, "a");
    ask(c_, "a");
    sent(old_());
    old_().abandon(*abandoned, now_);
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

// Checks that were asked before anybody knew whom

TEST_F(SessionRedirectsTest, GiveAwayWhatWaitsInOrder) {
    Call *first = ask(closed_(), a_, shared("a"));
    now_ += 10ms;
    Call *second = ask(closed_(), b_, shared("b"));
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
    Call *call = ask(closed_(), a_, shared("a"));
    closed_().abandon(*call, now_);
    EXPECT_EQ(closed_().give_away(), nullptr);
}

TEST_F(SessionRedirectsTest, GiveSlotsAwayWithWhatAsksForThem) {
    Call *call = ask(closed_(), a_, slot_asked());
    EXPECT_TRUE(closed_().has(*a_.charges()[0].slot));
    EXPECT_EQ(closed_().give_away(), call);
    new_().take_over(*call, Redirect::Kind::moved, now_);
    EXPECT_TRUE(new_().has(*a_.charges()[0].slot));
    sent(new_());
    receive(new_(), slot_granted);
    EXPECT_TRUE(new_().has_errands());
    EXPECT_FALSE(closed_().has_errands());
    release_all(new_(), {&a_});
}

// The slots of `concurrency` rules

TEST_F(SessionRedirectsTest, KeepASlotWhereItIsGranted) {
    for (const std::string_view redirect : {moved_to_new, ask_new}) {
        ask(old_(), a_, slot_asked());
        const Commands commands = sent(old_());
        receive(old_(), redirect);
        const Commands again = sent(new_());
        EXPECT_EQ(again.back(), commands.back()); // by the same name
        receive(new_(), again.size() == 2 ? "+OK\r\n" + slot_granted : slot_granted);
        EXPECT_FALSE(old_().has_errands());
        EXPECT_TRUE(new_().has(*a_.charges()[0].slot));
        release_all(new_(), {&a_});
    }
}

TEST_F(SessionRedirectsTest, LetASlotGoThatWasNeverAskedFor) {
    closed_().disconnected(Lost::unreachable, now_);
    ask(old_(), a_, slot_asked());
    sent(old_());
    receive(old_(), "-MOVED 0 node:3\r\n");
    EXPECT_EQ(a_.results, (Results{Failure::connect}));
    EXPECT_EQ(a_.charges()[0].slot, nullptr);
}

TEST_F(SessionRedirectsTest, ReleaseASlotWhereItsKeyIs) {
    const std::string name = take_slot(old_(), a_);
    release(old_(), a_);
    const Commands commands = sent(old_());
    EXPECT_EQ(commands.back().back(), name);
    EXPECT_EQ(receive(old_(), moved_to_new), Progress::more);
    EXPECT_EQ(sent(new_()), commands); // once
    receive(new_(), done);
}

TEST_F(SessionRedirectsTest, ReleaseASlotWithAskingWhileItsHashSlotMoves) {
    take_slot(old_(), a_);
    release(old_(), a_);
    const Commands commands = sent(old_());
    receive(old_(), ask_new);
    EXPECT_EQ(sent(new_()), (Commands{asking, commands[0]}));
    EXPECT_TRUE(old_().has_errands()); // the map says so still
    receive(new_(), "+OK\r\n" + std::string(done));
}

TEST_F(SessionRedirectsTest, ReleaseASlotThatAnAbandonedCheckMayHave) {
    Call *call = ask(old_(), a_, slot_asked());
    const std::string name = sent(old_()).back().back();
    old_().abandon(*call, now_);
    EXPECT_EQ(sent(old_()).back().back(), name);
    receive(old_(), std::string(moved_to_new) + std::string(moved_to_new));
    const Commands commands = sent(new_());
    ASSERT_EQ(commands.size(), 1u); // the check did not follow
    EXPECT_EQ(commands[0].back(), name);
    receive(new_(), done);
}

TEST_F(SessionRedirectsTest, TryAReleaseAgainThatGotNowhere) {
    const std::string name = take_slot(old_(), a_);
    release(old_(), a_);
    for (int i = 0; i < 3; ++i) {
        sent(old_());
        receive(old_(), moved_to_new);
        sent(new_());
        receive(new_(), moved_to_old);
    }
    EXPECT_TRUE(sent(old_()).empty() && sent(new_()).empty()); // not in a loop
    EXPECT_EQ(old_().pending() + new_().pending(), 0u);
    Session &keeper = old_().has_errands() ? old_() : new_();
    wait_until(*keeper.next_expiry());
    EXPECT_EQ(sent(keeper).back().back(), name);
    receive(keeper, done);
}

TEST_F(SessionRedirectsTest, ForgetASlotThatCannotBeReleasedWhenItHasEnded) {
    take_slot(old_(), a_);
    release(old_(), a_);
    sent(old_());
    receive(old_(), "-MOVED 0 node:3\r\n"); // where nobody ever answers
    EXPECT_FALSE(old_().has_errands());
    EXPECT_TRUE(closed_().has_errands());
    wait_until(Time{61'000} + 11s);
    EXPECT_FALSE(closed_().has_errands());
}

TEST_F(SessionRedirectsTest, RenewASlotWhereItsKeyIs) {
    const std::string name = take_slot(old_(), a_);
    wait_until(Time{21'000});
    EXPECT_EQ(sent(old_()).back().back(), name);
    EXPECT_EQ(receive(old_(), moved_to_new), Progress::more);
    EXPECT_EQ(old_().next_expiry(), std::nullopt);
    wait_until(now_ + 100ms); // soon
    EXPECT_EQ(sent(new_()).back().back(), name);
    receive(new_(), done);
    wait_until(Time{30'000});
    EXPECT_TRUE(sent(new_()).empty()); // once
    release_all(new_(), {&a_});
}

TEST_F(SessionRedirectsTest, RenewSlotsWithAskingWhileTheirHashSlotMoves) {
    const std::string name = take_slot(old_(), a_, 7);
    const std::string returned = take_slot(old_(), b_, 7);
    const std::string stays = take_slot(old_(), c_, 8);
    wait_until(Time{21'000});
    const Commands commands = sent(old_());
    ASSERT_EQ(commands.size(), 2u); // one of each hash slot
    release(old_(), b_);
    EXPECT_EQ(receive(old_(), ask_new), Progress::more);
    const Commands renewals = sent(new_());
    ASSERT_EQ(renewals.size(), 2u);
    EXPECT_EQ(renewals[0], asking);
    EXPECT_EQ(renewals[1].size(), 7u); // what is released meanwhile is not renewed
    EXPECT_EQ(renewals[1].back(), name);
    EXPECT_TRUE(old_().has(*a_.charges()[0].slot)); // the map says so still
    receive(new_(), "+OK\r\n" + std::string(done));
    receive(old_(), done);
    EXPECT_EQ(sent(old_()).back().back(), returned);
    receive(old_(), done);

    wait_until(Time{41'000}); // and again, until it has moved
    EXPECT_EQ(sent(old_()).size(), 2u);
    receive(old_(), ask_new);
    EXPECT_EQ(sent(new_()).size(), 2u);
    new_().disconnected(Lost::in_use, now_);
    receive(old_(), done);
    release_all(old_(), {&a_, &c_});
}

TEST_F(SessionRedirectsTest, RenewNothingInALoop) {
    take_slot(old_(), a_);
    wait_until(Time{21'000});
    int renewals = 0; // while two nodes take each other for the master
    for (int i = 0; i < 1000; ++i) {
        now_ += 1ms;
        for (auto &session : sessions_) {
            if (session->next_expiry() && *session->next_expiry() <= now_) {
                EXPECT_FALSE(session->expire(now_));
            }
        }
        if (!sent(old_()).empty()) {
            ++renewals;
            receive(old_(), moved_to_new);
        }
        if (!sent(new_()).empty()) {
            ++renewals;
            receive(new_(), moved_to_old);
        }
    }
    EXPECT_GT(renewals, 1);
    EXPECT_LE(renewals, 30);
    Session &keeper = old_().has_errands() ? old_() : new_();
    release_all(keeper, {&a_});
}

TEST_F(SessionRedirectsTest, LoseARefundWhoseKeyHasMoved) {
    for (const std::string_view redirect : {moved_to_new, ask_new}) {
        ask(a_, "a");
        sent(old_());
        receive(old_(), grant(7));
        old_().refund(a_.charges(), now_);
        EXPECT_TRUE(old_().has_errands());
        EXPECT_EQ(sent(old_()).size(), 1u);
        receive(old_(), redirect);
        EXPECT_FALSE(old_().has_errands());
        EXPECT_TRUE(sent(new_()).empty());
    }
}

// Slots of a node that another one replaces

TEST_F(SessionRedirectsTest, TakeSlotsFromANodeThatIsNotThere) {
    const std::string held = take_slot(old_(), a_, 7);
    const std::string returned = take_slot(old_(), b_, 7);
    const std::string stays = take_slot(old_(), c_, 8);
    old_().disconnected(Lost::unreachable, now_);
    release(old_(), b_);
    EXPECT_EQ(old_().hash_slots_of_slots(), HashSlotSet().set(7).set(8));

    new_().take_slots(HashSlotSet().set(7).set(9), old_());
    EXPECT_EQ(old_().hash_slots_of_slots(), HashSlotSet().set(8));
    EXPECT_EQ(new_().hash_slots_of_slots(), HashSlotSet().set(7));
    EXPECT_TRUE(new_().has(*a_.charges()[0].slot));
    wait_until(now_ + 100ms);
    std::multimap<size_t, std::string> names; // by the number of words
    for (const Command &command : sent(new_())) {
        names.emplace(command.size(), command.back());
    }
    EXPECT_EQ(names, (decltype(names){{5, returned}, {7, held}})); // released, and renewed
    receive(new_(), std::string(done) + std::string(done));

    release(old_(), c_);
    log_in(old_());
    EXPECT_EQ(sent(old_()).back().back(), stays);
    receive(old_(), done);
    release_all(new_(), {&a_});
}

TEST_F(SessionRedirectsTest, SendAReleaseOnceThatIsOnItsWay) {
    take_slot(old_(), a_);
    release(old_(), a_);
    sent(old_());
    new_().take_slots(HashSlotSet().set(0), old_());
    wait_until(now_ + 200ms);
    EXPECT_TRUE(sent(new_()).empty()); // the old one may answer
    receive(old_(), done);
    EXPECT_FALSE(new_().has_errands());
}

TEST_F(SessionRedirectsTest, SendAReleaseAgainThatWasOnItsWayToADeadNode) {
    const std::string name = take_slot(old_(), a_);
    release(old_(), a_);
    sent(old_());
    new_().take_slots(HashSlotSet().set(0), old_());
    old_().disconnected(Lost::unreachable, now_);
    EXPECT_TRUE(new_().has_errands());
    wait_until(*new_().next_expiry());
    EXPECT_EQ(sent(new_()).back().back(), name);
    receive(new_(), done);
}

TEST_F(SessionRedirectsTest, KeepASlotAskedForOfANodeThatIsNotServingAnyMore) {
    ask(old_(), a_, slot_asked());
    sent(old_());
    new_().take_slots(HashSlotSet().set(0), old_()); // nothing yet
    EXPECT_FALSE(new_().has_errands());
    receive(old_(), slot_granted);
    EXPECT_TRUE(old_().has_errands());
    new_().take_slots(HashSlotSet().set(0), old_());
    EXPECT_FALSE(old_().has_errands());
    wait_until(now_ + 100ms);
    sent(new_());
    receive(new_(), done); // it was renewed
    release_all(new_(), {&a_});
}

TEST_F(SessionRedirectsTest, ReleaseASlotOfAnother) {
    const std::string name = take_slot(old_(), a_);
    std::vector<Charge> &charges = a_.charges();
    new_().refund(charges, now_); // as its key is there by now
    EXPECT_EQ(charges[0].slot, nullptr);
    EXPECT_EQ(sent(new_()).back().back(), name);
    EXPECT_TRUE(old_().has_errands());
    receive(new_(), done);
}

} // namespace
} // namespace redis_client
