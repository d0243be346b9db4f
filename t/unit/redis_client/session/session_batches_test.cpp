// Checks of one turn that share a script run: each is told what is its own, once.

#include "session_batches_test.hpp"

#include <cstdint>
#include <variant>
#include <vector>

namespace redis_client {
namespace {

// What goes together

TEST_F(SessionBatchesTest, TakeAllChecksOfATurn) {
    ask_three();
    EXPECT_TRUE(session_->has_output());
    EXPECT_TRUE(session_->output().empty());
    EXPECT_EQ(sent(), Commands{run_of_logs({"a", "b", "c"})});
    EXPECT_FALSE(session_->has_output());
    EXPECT_EQ(session_->pending(), 3u);
    EXPECT_EQ(receive(bulk_string(with_left(1) + with_left(2) + with_left(3))), Progress::more);
    EXPECT_EQ(a_.results, Results{granted(1)});
    EXPECT_EQ(b_.results, Results{granted(2)});
    EXPECT_EQ(c_.results, Results{granted(3)});
    EXPECT_TRUE(b_.charges()[0].is_charged);
    EXPECT_EQ(session_->counters().verdicts, 3u);
}

TEST_F(SessionBatchesTest, TakeAKeyAsOftenAsItIsAskedFor) {
    log_in();
    ask_log(a_, "a");
    ask_log(b_, "a");
    EXPECT_EQ(sent(), Commands{run_of_logs({"a", "a"})});
    receive(bulk_string(with_left(1) + with_left(0)));
    EXPECT_EQ(a_.results, Results{granted(1)});
    EXPECT_EQ(b_.results, Results{granted(0)});
}

TEST_F(SessionBatchesTest, AreNoneForACheckAlone) {
    log_in();
    ask_log(a_, "a");
    EXPECT_EQ(sent(), Commands{evalsha("a")});
    ask_log(b_, "b"); // in the next turn
    EXPECT_EQ(sent(), Commands{evalsha("b")});
    receive(grant(1) + grant(2));
    EXPECT_EQ(b_.results, Results{granted(2)});
}

TEST_F(SessionBatchesTest, TakeChecksOfTheSameRules) {
    log_in();
    Listener d;
    ask_log(a_, "a");
    ask_in_turn(b_, {of_window("b")});
    ask_log(c_, "c");
    ask_in_turn(d, {of_window("d")});
    const Commands commands = sent();
    ASSERT_EQ(commands.size(), 2u);
    EXPECT_EQ(commands[0], run_of_logs({"a", "c"}));
    EXPECT_EQ(commands[1][1], batch_script(shape_of(Algorithm::fixed_window)).sha1);
    receive(bulk_string(with_left(1) + with_left(3)));
    receive(bulk_string(packed({time_of_redis, 2, 0, time_of_redis, 4, 0})));
    EXPECT_EQ(a_.results, Results{granted(1)});
    EXPECT_EQ(c_.results, Results{granted(3)});
    EXPECT_EQ(std::get<Verdict>(b_.results[0]).remaining, 2u);
    EXPECT_EQ(std::get<Verdict>(d.results[0]).remaining, 4u);
}

TEST_F(SessionBatchesTest, TakeChecksOfSeveralRulesEachAllOrNothing) {
    log_in();
    ask_in_turn(a_, {of_log("a"), of_window("a")});
    ask_in_turn(b_, {of_log("b"), of_window("b")});
    const Commands commands = sent();
    ASSERT_EQ(commands.size(), 1u);
    EXPECT_EQ(commands[0][1], batch_script(shape_of({of_log("a"), of_window("a")})).sha1);
    EXPECT_EQ(Keys(commands[0].begin() + 2, commands[0].begin() + 7),
              (Keys{"4", of_log("a").redis_key, of_window("a").redis_key, of_log("b").redis_key,
                    of_window("b").redis_key}));
    receive(bulk_string(packed({time_of_redis, 9, 0, 0, 0, -1, 7}) +
                        packed({time_of_redis, 8, 0, 0, 0, 5, 7})));
    EXPECT_FALSE(a_.charges()[0].is_charged);
    EXPECT_EQ(a_.charges()[1].verdict.decision, Decision::denied);
    EXPECT_TRUE(b_.charges()[0].is_charged);
    EXPECT_TRUE(b_.charges()[1].is_charged);
}

TEST_F(SessionBatchesTest, TakeNoneOfOtherArguments) {
    log_in();
    Asked dry_run = of_log("dry run");
    dry_run.dry_run = true;
    const std::vector<std::vector<Asked>> different = {
        {of_log("a")},
        {asked("arguments of its own, which are equal")},
        {asked("and another's")},
        {dry_run},
        {of_log("a"), of_window("a")},
        {of_window("a"), of_log("a")},
        {of_window("a")},
    };
    std::vector<Listener> listeners(different.size());
    for (size_t i = 0; i < different.size(); ++i) {
        ask_in_turn(listeners[i], different[i]);
    }
    EXPECT_EQ(sent().size(), different.size());
    session_->disconnected(Lost::in_use, now_);
}

TEST_F(SessionBatchesTest, TakeNoSlots) {
    const WireWords arguments = check_arguments(quota_of(Algorithm::concurrency), false);
    const Asked permit{
        .quota = quota_of(Algorithm::concurrency), .redis_key = "permit", .arguments = &arguments};
    log_in();
    ask_in_turn(a_, {permit});
    ask_in_turn(b_, {permit});
    ask_in_turn(c_, {of_log("c"), permit});
    Listener d;
    ask_in_turn(d, {of_log("d"), permit});
    EXPECT_EQ(sent().size(), 4u);
    receive(answer({-1}) + answer({-1}) + answer({1, 0, 0, 0, -1}) + answer({1, 0, 0, 0, -1}));
    EXPECT_EQ(d.results.size(), 1u);
}

TEST_F(SessionBatchesTest, AreShortAndTheirReplyFits) {
    log_in();
    for (const size_t rules : {1, 2, 5, 12}) {
        std::vector<Asked> all(rules, of_log("k"));
        std::vector<Listener> listeners(130);
        for (Listener &listener : listeners) {
            ask_in_turn(listener, all);
        }
        size_t keys = 0;
        for (const WireCommand &command : sent()) {
            const size_t of_run = std::stoul(command[2]);
            EXPECT_LE(of_run, 64u);
            const size_t answers = of_run / rules * (1 + 4 * rules) * 8;
            EXPECT_LE(answers + 512, Reply::longest_text);
            EXPECT_LE(answers, ReplyReader::longest_reply);
            keys += of_run;
            std::vector<int64_t> numbers;
            for (size_t i = 0; i < of_run / rules; ++i) {
                numbers.push_back(time_of_redis);
                for (size_t rule = 0; rule < rules; ++rule) {
                    numbers.insert(numbers.end(), {7, 0, 0, 0});
                }
            }
            ASSERT_EQ(receive(bulk_string(packed(numbers))), Progress::more);
        }
        EXPECT_EQ(keys, rules * listeners.size());
        for (const Listener &listener : listeners) {
            ASSERT_EQ(listener.results, Results{granted(7)});
        }
    }
}

// Redis writes an entry for each unit of a log.
TEST_F(SessionBatchesTest, AreShorterWhereEachCheckIsLong) {
    log_in();
    Asked costly = asked("costly");
    costly.quota.cost = 1000;
    costly.quota.limit = 10000;
    const WireWords arguments = check_arguments(costly.quota, false);
    costly.arguments = &arguments;
    ask_in_turn(a_, {costly});
    ask_in_turn(b_, {costly});
    EXPECT_EQ(sent().size(), 2u);
    receive(grant(1) + grant(2));
    EXPECT_EQ(b_.results, Results{granted(2)});
}

TEST_F(SessionBatchesTest, TakeSixtyFourWindows) {
    log_in();
    std::vector<Listener> listeners(65);
    for (Listener &listener : listeners) {
        ask_in_turn(listener, {of_window("k")});
    }
    const Commands commands = sent();
    ASSERT_EQ(commands.size(), 2u);
    EXPECT_EQ(commands[0][2], "64");
    EXPECT_EQ(commands[1][1], check_script(shape_of(Algorithm::fixed_window)).sha1);
    session_->disconnected(Lost::in_use, now_);
}

TEST_F(SessionBatchesTest, TakeChecksThatWaitedForAConnection) {
    ask_log(a_, "a");
    session_->connected();
    ask_log(b_, "b");
    EXPECT_EQ(receive(loaded), Progress::ready);
    ask_log(c_, "c");
    EXPECT_EQ(sent().back(), run_of_logs({"a", "b", "c"}));
    receive(bulk_string(with_left(1) + with_left(2) + with_left(3)));
    EXPECT_EQ(c_.results, Results{granted(3)});
}

// Listeners that leave

TEST_F(SessionBatchesTest, AreWithoutWhatWasAbandonedBefore) {
    ask_three();
    session_->forget(*checks_[0], now_);
    EXPECT_EQ(session_->pending(), 2u);
    EXPECT_EQ(sent(), Commands{run_of_logs({"b", "c"})});
    receive(bulk_string(with_left(2) + with_left(3)));
    EXPECT_EQ(a_.results, Results{});
    EXPECT_EQ(c_.results, Results{granted(3)});
}

TEST_F(SessionBatchesTest, AreWithoutWhatTimedOutBefore) {
    log_in();
    ask_log(a_, "a");
    now_ += 50ms;
    ask_log(b_, "b");
    ask_log(c_, "c");
    session_->expire(now_ + 50ms);
    EXPECT_EQ(a_.results, Results{Failure::timeout});
    EXPECT_EQ(sent(), Commands{run_of_logs({"b", "c"})});
    receive(bulk_string(with_left(2) + with_left(3)));
    EXPECT_EQ(c_.results, Results{granted(3)});
}

TEST_F(SessionBatchesTest, SwallowTheAnswerOfWhatWasAbandonedAfter) {
    for (size_t left = 0; left < 3; ++left) {
        Listener *const listeners[] = {&a_, &b_, &c_};
        ask_three();
        sent();
        session_->forget(*checks_[left], now_);
        listeners[left]->charges().clear(); // their memory is gone
        listeners[left]->charges().shrink_to_fit();
        EXPECT_EQ(session_->pending(), 3u);
        EXPECT_EQ(receive(bulk_string(with_left(0) + with_left(1) + with_left(2))), Progress::more);
        for (size_t i = 0; i < 3; ++i) {
            EXPECT_EQ(listeners[i]->results, i == left ? Results{} : Results{granted(i)});
            listeners[i]->results.clear();
        }
    }
}

TEST_F(SessionBatchesTest, SwallowTheAnswersOfAllThatTimedOut) {
    ask_three();
    sent();
    session_->expire(now_ + 100ms);
    for (Listener *listener : {&a_, &b_, &c_}) {
        EXPECT_EQ(listener->results, Results{Failure::timeout});
        listener->charges().clear();
        listener->charges().shrink_to_fit();
    }
    EXPECT_EQ(session_->counters().failures, 3u);
    EXPECT_EQ(receive(bulk_string(with_left(1) + failed + with_left(3) + wrong_type)),
              Progress::more);
    EXPECT_EQ(session_->counters().failures, 3u);
    EXPECT_EQ(session_->counters().verdicts, 0u);
}

} // namespace
} // namespace redis_client
