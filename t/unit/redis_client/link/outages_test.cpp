// Which verdicts end which outages, and what a link that goes tells of them.
#include "unit/rate_limit/calendar/calendars.hpp"
#include "unit/redis_client/link/link_test.hpp"

namespace redis_client {
namespace {

constexpr std::string_view wrong_type =
    "-ERR user_script:9: WRONGTYPE Operation against a key script: 0, on @user_script:9.\r\n";
constexpr std::string_view no_window =
    "-ERR user_script:9: no window that the host knows at 1785585600000000 script: 0, on "
    "@user_script:9.\r\n";
constexpr std::string_view oom =
    "-OOM command not allowed when used memory > 'maxmemory'. script: 0, on @user_script:9.\r\n";
const std::string denial = answer({-1, 0, 0, 0});

class OutagesTest : public LinkTest {
  protected:
    void SetUp() override {
        serve(Mode::standalone, {"10.0.0.1"});
        backend();
        log_in(redis());
    }
    TestConnection &redis() { return world_.connection_to("10.0.0.1:6379"); }

    void ask_all(const std::vector<Asked> &all, std::string_view reply) {
        auto &charges = a_.new_charges(all);
        ASSERT_TRUE(std::holds_alternative<Command *>(backend().ask(charges, a_)));
        world_.end_turn();
        redis().receive(reply);
    }
    void ask_of(const std::string &key, std::string_view reply) { ask_all({asked(key)}, reply); }

    static Asked of_calendar(const rate_limit::Calendar &calendar, const std::string &key) {
        Asked one{.quota = quota_of(Algorithm::fixed_window), .redis_key = key};
        one.quota.calendar = &calendar;
        return one;
    }

    size_t lines() { return log_.take().size(); }
};

TEST_F(OutagesTest, OneOfKeysEndsWithVerdictsOfTheKeysThatFailed) {
    ask_of("bad", wrong_type);
    ask_of("worse", wrong_type);
    EXPECT_EQ(lines(), 1U);
    for (int i = 0; i < 100; ++i) {
        world_.pass(1s);
        ask_of("good", grant(5));
    }
    ask_of("worse", grant(5));
    world_.pass(10s);
    EXPECT_EQ(log_.take(), Lines{}) << "one of them may still be wrong";
    ask_of("bad", grant(5));
    EXPECT_EQ(log_.take(), (Lines{"10.0.0.1:6379 works again for keys, 0 ms, 2 checks"}));
}

TEST_F(OutagesTest, OneOfKeysEndsASecondAfterTheLastFailure) {
    ask_of("bad", wrong_type);
    ask_of("bad", grant(5));
    world_.pass(999ms);
    EXPECT_EQ(lines(), 1U);
    world_.pass(1ms);
    EXPECT_EQ(log_.take(), (Lines{"10.0.0.1:6379 works again for keys, 0 ms, 1 checks"}));
}

TEST_F(OutagesTest, NobodyKnowsWhichKeyOfACheckFailed) {
    const Asked other{.quota = quota_of(Algorithm::fixed_window), .redis_key = "rl:{z:bad}:w"};
    ask_all({asked("bad"), other}, wrong_type);
    ask_of("bad", grant(5));
    world_.pass(10s);
    EXPECT_EQ(lines(), 1U);
    ask_all({other}, answer({5, 60'000'000}));
    EXPECT_EQ(log_.take(), (Lines{"10.0.0.1:6379 works again for keys, 0 ms, 1 checks"}));
}

TEST_F(OutagesTest, ANewConnectionProvesNothingOfKeys) {
    ask_of("bad", wrong_type);
    redis().lose();
    world_.pass(25ms);
    log_in(redis());
    world_.pass(10s);
    EXPECT_EQ(log_.take().back(), "10.0.0.1:6379 works again, 0 ms, 0 checks");
    ask_of("bad", grant(5));
    EXPECT_EQ(log_.take(), (Lines{"10.0.0.1:6379 works again for keys, 0 ms, 1 checks"}));
}

TEST_F(OutagesTest, OneOfManyKeysEndsWhenNoneFailsForLong) {
    for (int i = 0; i < 100; ++i) {
        ask_of("bad" + std::to_string(i), wrong_type);
    }
    for (int i = 0; i < 100; ++i) {
        ask_of("bad" + std::to_string(i), grant(5));
    }
    world_.pass(10min - 1ms);
    ask_of("good", grant(5));
    EXPECT_EQ(lines(), 1U);
    world_.pass(1ms);
    ask_of("good", grant(5));
    EXPECT_EQ(log_.take(), (Lines{"10.0.0.1:6379 fails no more for keys, 0 ms, 100 checks"}));
    ask_of("bad", wrong_type);
    world_.pass(1s);
    ask_of("bad", grant(5));
    EXPECT_EQ(log_.take().size(), 2U) << "the next one is another one";
}

TEST_F(OutagesTest, OneOfAHashSlotEndsWithAnotherKeyOfIt) {
    ask_of("bad", "-CLUSTERDOWN Hash slot not served\r\n");
    world_.pass(1s);
    ask_of("good", grant(5));
    EXPECT_EQ(lines(), 1U);
    ask_all({{.quota = quota_of(Algorithm::sliding_log), .redis_key = "rl:{z:bad}:other"}},
            grant(5));
    EXPECT_EQ(log_.take(), (Lines{"10.0.0.1:6379 works again for keys, 0 ms, 1 checks"}));
}

TEST_F(OutagesTest, OneOfClocksEndsWithAVerdictOfTheCalendar) {
    const auto day = rate_limit::utc_calendar(rate_limit::CalendarUnit::day);
    const auto year = rate_limit::utc_calendar(rate_limit::CalendarUnit::year);
    const std::string window = answer({5, 60'000'000});
    ask_all({of_calendar(*day, "k")}, no_window);
    world_.pass(1s);
    ask_of("k", grant(5));
    ask_all({of_calendar(*year, "l")}, window);
    EXPECT_EQ(lines(), 1U) << "longer windows are known further off";
    ask_all({of_calendar(*day, "m")}, window);
    EXPECT_EQ(log_.take(), (Lines{"10.0.0.1:6379 works again for calendars, 0 ms, 1 checks"}));
}

TEST_F(OutagesTest, OneOfWritesEndsWithACheckThatWrites) {
    for (const std::string_view error :
         {std::string_view("-OOM command not allowed\r\n"), std::string_view("-MISCONF Redis\r\n"),
          std::string_view("-NOREPLICAS Not enough\r\n"),
          std::string_view("-ERR The user executing the script can't run this command\r\n")}) {
        ask_of("k", error);
        world_.pass(1s);
        ask_of("denied", denial);
        Asked free = asked("free");
        free.quota.cost = 0;
        ask_all({free}, grant(5));
        world_.pass(10s);
        EXPECT_EQ(lines(), 1U) << error;
        ask_of("k", grant(5));
        EXPECT_EQ(log_.take(), (Lines{"10.0.0.1:6379 works again, 0 ms, 1 checks"})) << error;
    }
}

TEST_F(OutagesTest, OtherErrorsEndWithAnyVerdict) {
    ask_of("k", "-LOADING Redis is loading the dataset in memory\r\n");
    world_.pass(1s);
    ask_of("denied", denial);
    EXPECT_EQ(log_.take().back(), "10.0.0.1:6379 works again, 0 ms, 1 checks");
}

TEST_F(OutagesTest, ALinkThatGoesTellsWhatLasts) {
    ask_of("k", wrong_type);
    ask_of("k", oom);
    world_.pass(100ms);
    EXPECT_TRUE(ask(b_, "l"));
    EXPECT_EQ(lines(), 2U);
    backends_.stop();
    EXPECT_EQ(log_.take(), (Lines{"10.0.0.1:6379 is no longer asked, 100 ms, 2 checks",
                                  "10.0.0.1:6379 is no longer asked for keys, 0 ms, 1 checks"}));
}

TEST_F(OutagesTest, ALinkThatGoesHasNothingToTellIfAllIsWell) {
    EXPECT_TRUE(ask(b_, "l"));
    backends_.stop();
    EXPECT_EQ(log_.take(), Lines{});
}

} // namespace
} // namespace redis_client
