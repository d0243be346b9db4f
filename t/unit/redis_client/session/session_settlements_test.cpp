// What requests turned out to cost: settlements of one turn go together, wait for a connection, and
// are never sent twice.

#include "session_test.hpp"

#include "rate_limit/metrics/rule_counters.hpp"
#include "redis_client/script/arguments.hpp"
#include "unit/rate_limit/calendar/calendars.hpp"

#include <ctime>
#include <string>
#include <vector>

namespace redis_client {
namespace {

using rate_limit::RuleCounter;
using rate_limit::RuleCounters;

const Script &script_of(SettlementKind kind, Algorithm algorithm = Algorithm::fixed_window) {
    static const ScriptLibrary library;
    return library.settlement(algorithm, kind);
}

class SessionSettlementsTest : public SessionTest {
  protected:
    void settle(SettlementKind kind, std::string_view key, uint64_t units,
                Algorithm algorithm = Algorithm::fixed_window) {
        Charge charge;
        charge.quota = quota_of(algorithm, units);
        charge.redis_key = key;
        charge.receipt = 7;
        session_->settle(
            {.kind = kind, .charge = charge, .aligned = false, .counters = &counters_});
    }
    /// Gives back what a lease has left.
    void return_leased(uint64_t units) {
        Charge charge;
        charge.quota = quota_of(Algorithm::fixed_window, units);
        charge.redis_key = "leased";
        session_->settle({.kind = SettlementKind::refund,
                          .charge = charge,
                          .aligned = false,
                          .counters = &counters_,
                          .is_of_lease = true});
    }
    /// Charges a key of this hash slot.
    void charge_at(uint16_t hash_slot, std::string_view key) {
        Charge charge;
        charge.quota = quota_of(Algorithm::fixed_window, 5);
        charge.redis_key = key;
        charge.hash_slot = hash_slot;
        session_->settle({.kind = SettlementKind::debt,
                          .charge = charge,
                          .aligned = false,
                          .counters = &counters_});
    }
    /// The time that it takes to send settlements of so many hash slots.
    double seconds_to_send(uint16_t slots) {
        for (uint16_t slot = 0; slot < slots; ++slot) {
            charge_at(slot, "a");
        }
        const std::clock_t began = std::clock();
        session_->flush(now_);
        const auto took = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
        EXPECT_EQ(sent().size(), slots);
        for (uint16_t slot = 0; slot < slots; ++slot) {
            receive("$1\r\n1\r\n");
        }
        return took;
    }
    void charge(std::string_view key, uint64_t units = 5) {
        settle(SettlementKind::debt, key, units);
    }
    void give_back(std::string_view key, uint64_t units = 5) {
        settle(SettlementKind::refund, key, units);
    }

    uint64_t count(RuleCounter result) const { return counters_.read().of(result); }

    RuleCounters counters_{};
};

TEST_F(SessionSettlementsTest, OfACalendarSayWhereItsWindowsAreWhenTheyAreSent) {
    const auto day = rate_limit::utc_calendar(rate_limit::CalendarUnit::day);
    auto unix_now = rate_limit::midnight_of({2026, 7, 1});
    session_.reset();
    group_.emplace(default_settings(), different_bytes, [&] { return unix_now; });
    session_.emplace(*group_, 1);
    Charge charge;
    charge.quota = quota_of(Algorithm::fixed_window, 5);
    charge.quota.calendar = day.get();
    charge.redis_key = "of_day";
    session_->settle(
        {.kind = SettlementKind::debt, .charge = charge, .aligned = false, .counters = &counters_});
    unix_now += std::chrono::hours{72}; // until there is a connection
    log_in();
    const CalendarWord word = calendar_word(*day, unix_now);
    EXPECT_EQ(sent(),
              (Commands{{"EVALSHA", script_of(SettlementKind::debt).sha1, "1", "of_day", "100", "5",
                         "60000000", "65001", std::string(word.data(), word.size())}}));
    receive("$1\r\n1\r\n");
    EXPECT_EQ(count(RuleCounter::settlements_charged), 1u);
}

WireCommand debts(const std::string &how, const std::string &script,
                  const std::vector<std::string> &keys) {
    WireCommand command{how, script, std::to_string(keys.size())};
    command.insert(command.end(), keys.begin(), keys.end());
    for (size_t i = 0; i < keys.size(); ++i) {
        for (const char *argument : {"100", "5", "60000000", "65001", "first"}) {
            command.emplace_back(argument);
        }
    }
    return command;
}

TEST_F(SessionSettlementsTest, OfOneTurnGoTogether) {
    log_in();
    charge("a");
    give_back("b");
    charge("c");
    const Commands expected = {
        debts("EVALSHA", script_of(SettlementKind::debt).sha1, {"a", "c"}),
        {"EVALSHA", script_of(SettlementKind::refund).sha1, "1", "b", "5", "60000000", "7"}};
    EXPECT_EQ(sent(), expected);
    EXPECT_TRUE(session_->has_background_commands());
    EXPECT_EQ(receive("$2\r\n10\r\n$1\r\n1\r\n"), Progress::more);
    EXPECT_EQ(count(RuleCounter::settlements_charged), 1u);
    EXPECT_EQ(count(RuleCounter::settlements_lost), 1u) << "Redis said that c failed";
    EXPECT_EQ(count(RuleCounter::settlements_returned), 1u);
}

TEST_F(SessionSettlementsTest, OfOtherAlgorithmsDoNot) {
    log_in();
    charge("a");
    settle(SettlementKind::debt, "b", 5, Algorithm::sliding_window);
    EXPECT_EQ(sent().size(), 2u);
    receive("$1\r\n1\r\n$1\r\n1\r\n");
    EXPECT_EQ(count(RuleCounter::settlements_charged), 2u);
}

TEST_F(SessionSettlementsTest, AreBoundedInACommand) {
    log_in();
    for (int i = 0; i < 65; ++i) {
        charge("a");
    }
    EXPECT_EQ(sent().size(), 2u);
    receive(bulk_string(std::string(64, '1')) + "$1\r\n1\r\n");
    for (int i = 0; i < 9; ++i) {
        settle(SettlementKind::debt, "b", 1, Algorithm::sliding_log); // may cost a thousand entries
    }
    EXPECT_EQ(sent().size(), 2u);
    receive(bulk_string(std::string(8, '1')) + "$1\r\n1\r\n");
}

TEST_F(SessionSettlementsTest, WaitForAConnection) {
    charge("a");
    EXPECT_TRUE(session_->has_background_commands());
    session_->disconnected(Lost::unreachable, now_);
    give_back("b");
    log_in();
    EXPECT_EQ(sent().size(), 2u);
    receive("$1\r\n1\r\n$1\r\n1\r\n");
    EXPECT_EQ(count(RuleCounter::settlements_lost), 0u);
}

TEST_F(SessionSettlementsTest, AreNotSentTwice) {
    log_in();
    charge("a");
    flush();
    charge("b");
    session_->disconnected(Lost::in_use, now_);
    EXPECT_EQ(count(RuleCounter::settlements_lost), 1u) << "nobody knows whether Redis has done it";
    log_in();
    EXPECT_EQ(sent(), Commands{debts("EVALSHA", script_of(SettlementKind::debt).sha1, {"b"})});
    receive("$1\r\n1\r\n");
}

TEST_F(SessionSettlementsTest, AreSentInFullWhereRedisDoesNotKnowTheScript) {
    log_in();
    charge("a");
    sent();
    EXPECT_EQ(receive(noscript), Progress::more);
    EXPECT_EQ(sent(), Commands{debts("EVAL", script_of(SettlementKind::debt).source, {"a"})});
    receive("$1\r\n1\r\n");
    EXPECT_EQ(count(RuleCounter::settlements_charged), 1u);
}

TEST_F(SessionSettlementsTest, GoAloneWhereTheirKeysAreApart) {
    log_in();
    charge("a");
    charge("b");
    sent();
    EXPECT_EQ(receive("-CROSSSLOT Keys in request don't hash to the same slot\r\n"),
              Progress::more);
    EXPECT_EQ(sent().size(), 2u);
    receive("$1\r\n1\r\n$1\r\n1\r\n");
    charge("a");
    charge("b");
    EXPECT_EQ(sent().size(), 2u) << "from then on";
    receive("$1\r\n1\r\n$1\r\n1\r\n");
    EXPECT_EQ(count(RuleCounter::settlements_charged), 4u);
}

TEST_F(SessionSettlementsTest, AreLostIfRedisRefusesThem) {
    log_in();
    charge("a");
    charge("b");
    EXPECT_EQ(receive("-OOM command not allowed\r\n"), Progress::more);
    EXPECT_EQ(count(RuleCounter::settlements_lost), 2u);
}

TEST_F(SessionSettlementsTest, TellWhatRedisSaidOfTheLastOneThatFailed) {
    log_in();
    charge("a");
    charge("b");
    EXPECT_EQ(receive(bulk_string("01OOM command not allowed")), Progress::more);
    EXPECT_EQ(session_->problem().what, "error reply");
    EXPECT_EQ(session_->problem().redis_said, "OOM command not allowed");
    EXPECT_EQ(count(RuleCounter::settlements_charged), 1u);
    EXPECT_EQ(count(RuleCounter::settlements_lost), 1u);
}

TEST_F(SessionSettlementsTest, EndTheConnectionToAMasterThatBecameAReplica) {
    for (const std::string error :
         {"READONLY You can't write against a read only replica.",
          "ERR Error running script: @user_script:1: READONLY You can't write"}) {
        start(default_settings());
        log_in();
        charge("a");
        charge("b");
        EXPECT_EQ(receive(bulk_string("00" + error)), Progress::broken);
        EXPECT_EQ(session_->problem().redis_said, error);
        session_->disconnected(Lost::unreachable, now_);
    }
    EXPECT_EQ(count(RuleCounter::settlements_lost), 4u);
}

TEST_F(SessionSettlementsTest, EndTheConnectionByAnswersThatAreNone) {
    for (const char *answer :
         {"$1\r\n1\r\n", "$2\r\n12\r\n", ":2\r\n", "$-1\r\n", "$8\r\n11 words\r\n"}) {
        start(default_settings());
        log_in();
        charge("a");
        charge("b");
        EXPECT_EQ(receive(answer), Progress::broken) << answer;
        session_->disconnected(Lost::unreachable, now_);
    }
    EXPECT_EQ(count(RuleCounter::settlements_lost), 10u);
}

TEST_F(SessionSettlementsTest, AreLostBeyondABound) {
    start(with_max_pending(2));
    charge("a");
    charge("b");
    charge("c");
    EXPECT_EQ(count(RuleCounter::settlements_lost), 1u);
    session_.reset();
    EXPECT_EQ(count(RuleCounter::settlements_lost), 3u) << "with the worker, too";
    session_.emplace(*group_, 1);
}

TEST_F(SessionSettlementsTest, GoToAnotherSession) {
    Session other(*group_, 2);
    Charge charge;
    charge.quota = quota_of(Algorithm::fixed_window);
    charge.redis_key = "a";
    charge.hash_slot = 12;
    session_->settle(
        {.kind = SettlementKind::debt, .charge = charge, .aligned = false, .counters = &counters_});
    charge.hash_slot = 13;
    session_->settle(
        {.kind = SettlementKind::debt, .charge = charge, .aligned = false, .counters = &counters_});
    HashSlotSet slots;
    slots.set(12);
    slots.set(14);
    EXPECT_TRUE(session_->hash_slots_of_settlements()[13]);
    other.take_settlements(slots, *session_);
    EXPECT_TRUE(other.has_background_commands());
    EXPECT_FALSE(session_->hash_slots_of_settlements()[12]);
    EXPECT_TRUE(session_->hash_slots_of_settlements()[13]) << "whose keys stay";
    log_in();
    receive("$1\r\n1\r\n");
}

TEST_F(SessionSettlementsTest, KnowTheScriptsOfTheirAlgorithmsFromTheLoginOn) {
    SessionSettings settings = default_settings();
    settings.settled = {Algorithm::gcra};
    start(settings);
    session_->connected();
    const Commands commands = sent();
    const auto loads = [&](const Script &script) {
        return std::ranges::count(commands, WireCommand{"SCRIPT", "LOAD", script.source});
    };
    EXPECT_EQ(loads(script_of(SettlementKind::debt, Algorithm::gcra)), 1);
    EXPECT_EQ(loads(script_of(SettlementKind::refund, Algorithm::gcra)), 1);
    EXPECT_EQ(loads(script_of(SettlementKind::debt)), 0);
    session_->disconnected(Lost::unreachable, now_);
}

TEST_F(SessionSettlementsTest, OfOneHashSlotGoTogether) {
    log_in();
    charge_at(300, "a");
    charge_at(2, "b");
    charge_at(300, "c");
    charge_at(2, "d");
    charge_at(16'383, "e");
    const std::string &name = script_of(SettlementKind::debt).sha1;
    EXPECT_EQ(sent(),
              (Commands{debts("EVALSHA", name, {"b", "d"}), debts("EVALSHA", name, {"a", "c"}),
                        debts("EVALSHA", name, {"e"})}));
    receive("$2\r\n11\r\n$2\r\n11\r\n$1\r\n1\r\n");
    EXPECT_EQ(count(RuleCounter::settlements_charged), 5u);
}

TEST_F(SessionSettlementsTest, TakeTimeByTheirNumberWhateverTheirHashSlots) {
    log_in();
    (void)seconds_to_send(8'000); // memory is there from then on
    const double few = seconds_to_send(1'000);
    const double many = seconds_to_send(8'000);
    EXPECT_LT(many, 24 * few) << "8 times as many";
}

TEST_F(SessionSettlementsTest, OfLeasesCountAsReturnedWhenRedisSaysSo) {
    log_in();
    return_leased(3);
    return_leased(4);
    sent();
    EXPECT_EQ(count(RuleCounter::lease_units_returned), 0u);
    receive("$2\r\n10\r\n");
    EXPECT_EQ(count(RuleCounter::lease_units_returned), 3u);
    EXPECT_EQ(count(RuleCounter::lease_units_expired), 4u);
    return_leased(5);
    sent();
    session_->disconnected(Lost::in_use, now_);
    EXPECT_EQ(count(RuleCounter::lease_units_expired), 9u);
    EXPECT_EQ(count(RuleCounter::settlements_returned), 0u);
    EXPECT_EQ(count(RuleCounter::settlements_lost), 0u);
}

} // namespace
} // namespace redis_client
