#include "redis_client/script/answer.hpp"

#include "redis_client/script/script.hpp"
#include "unit/redis_client/wire.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace redis_client {
namespace {

using namespace std::chrono_literals;
using rate_limit::Algorithm;
using rate_limit::Decision;
using rate_limit::Verdict;

constexpr int64_t now = 1'700'000'000'000'000;

Charge charge_of(Algorithm algorithm, bool dry_run = false) {
    Charge charge;
    charge.quota = {.algorithm = algorithm, .window = 60s, .limit = 100};
    charge.dry_run = dry_run;
    return charge;
}

/// A fixed window with 40 left, or full; a log with 99 left, or full.
const std::vector<int64_t> window_grants = {40, 7'000'000};
const std::vector<int64_t> window_denies = {-1, 7'000'000};
const std::vector<int64_t> log_grants = {99, 60'000'000, 60'000'000, 0};
const std::vector<int64_t> log_denies = {-1, 3, 5, 3};

AnswerState read(std::vector<Charge> &charges, const std::vector<std::vector<int64_t>> &replies,
                 int64_t time = now) {
    std::vector<int64_t> numbers = {time};
    for (const auto &reply : replies) {
        numbers.insert(numbers.end(), reply.begin(), reply.end());
    }
    const std::string answer = packed(numbers);
    EXPECT_EQ(answer.size(), answer_size(charges));
    return read_answer(answer, charges);
}

TEST(Answer, HasATimeAndTheNumbersOfEachRule) {
    EXPECT_EQ(answer_size({}), 8u);
    std::vector<Charge> charges = {charge_of(Algorithm::fixed_window)};
    EXPECT_EQ(answer_size(charges), 3 * 8u);
    charges.push_back(charge_of(Algorithm::sliding_log));
    EXPECT_EQ(answer_size(charges), 7 * 8u);
    charges.push_back(charge_of(Algorithm::concurrency));
    EXPECT_EQ(answer_size(charges), 8 * 8u);
}

/// A fixed window whose check asks for so many units more.
Charge leasing_charge(uint64_t wanted) {
    Charge charge = charge_of(Algorithm::fixed_window);
    charge.may_lease = true;
    charge.wanted = wanted;
    return charge;
}

TEST(Answer, TellsWhatWasLeased) {
    std::vector<Charge> charges = {leasing_charge(5), charge_of(Algorithm::sliding_log)};
    EXPECT_EQ(answer_size(charges), (1 + 2 + 3 + 4) * 8u);
    EXPECT_EQ(read(charges, {{40, 7'000'000, 4, 250'000, -3}, log_grants}), AnswerState::good);
    EXPECT_EQ(charges[0].verdict.remaining, 40u);
    EXPECT_EQ(charges[0].leased.units, 4u);
    EXPECT_EQ(charges[0].leased.usable_for, 250ms);
    EXPECT_EQ(charges[0].leased.receipt, now - 3);
    EXPECT_EQ(charges[0].last_verdict().remaining, 36u);
    EXPECT_EQ(charges[1].leased.units, 0u);
}

TEST(Answer, LeasesWhatAScriptOfOursCanLease) {
    for (const auto &reply : {std::vector<int64_t>{40, 7'000'000, 6, 250'000, 0},
                              {40, 7'000'000, -1, 250'000, 0},
                              {-1, 7'000'000, 1, 250'000, 0},
                              {40, 7'000'000, 1, -1, 0},
                              {40, 7'000'000, 1, INT64_MAX, 0},
                              {40, 7'000'000, 1, 250'000, INT64_MAX},
                              {40, 7'000'000, 1, 250'000, INT64_MIN},
                              {0, 7'000'000, 5, 250'000, 0}}) {
        std::vector<Charge> charges = {leasing_charge(3), leasing_charge(5)};
        EXPECT_EQ(read(charges, {{40, 7'000'000, 3, 250'000, 0}, reply}), AnswerState::impossible);
        EXPECT_FALSE(charges[0].is_charged);
        EXPECT_EQ(charges[0].leased.units, 0u);
    }
}

TEST(Answer, IsReadWholeAtItsLargest) {
    Charge charge = charge_of(Algorithm::sliding_log);
    charge.may_lease = true;
    const std::vector<Charge> charges(most_rules, charge);
    EXPECT_LE(answer_size(charges), Reply::longest_text);
}

TEST(Answer, ChargesAllWhereAllGrant) {
    std::vector<Charge> charges = {charge_of(Algorithm::fixed_window),
                                   charge_of(Algorithm::sliding_log)};
    ASSERT_EQ(read(charges, {window_grants, log_grants}), AnswerState::good);
    EXPECT_TRUE(charges[0].is_charged);
    EXPECT_EQ(charges[0].verdict, (Verdict{.remaining = 40, .next_unit = 7s, .reset = 7s}));
    EXPECT_EQ(charges[0].receipt, now);
    EXPECT_TRUE(charges[1].is_charged);
    EXPECT_EQ(charges[1].verdict, (Verdict{.remaining = 99, .next_unit = 60s, .reset = 60s}));
    EXPECT_EQ(charges[1].receipt, now);
}

TEST(Answer, ChargesNoneWhereOneDenies) {
    for (const bool first_denies : {true, false}) {
        std::vector<Charge> charges = {charge_of(Algorithm::fixed_window),
                                       charge_of(Algorithm::sliding_log)};
        ASSERT_EQ(first_denies ? read(charges, {window_denies, log_grants})
                               : read(charges, {window_grants, log_denies}),
                  AnswerState::good);
        Charge &denies = charges[first_denies ? 0 : 1];
        Charge &grants = charges[first_denies ? 1 : 0];
        EXPECT_EQ(denies.verdict.decision, Decision::denied);
        EXPECT_FALSE(denies.is_charged);
        EXPECT_EQ(grants.verdict.decision, Decision::granted);
        EXPECT_FALSE(grants.is_charged);
        EXPECT_EQ(grants.verdict.remaining, first_denies ? 100u : 41u); // its unit was not taken
    }
}

TEST(Answer, ChargesTheOthersWhereARuleOnTrialDenies) {
    std::vector<Charge> charges = {charge_of(Algorithm::fixed_window, true),
                                   charge_of(Algorithm::sliding_log)};
    ASSERT_EQ(read(charges, {window_denies, log_grants}), AnswerState::good);
    EXPECT_EQ(charges[0].verdict.decision, Decision::denied);
    EXPECT_FALSE(charges[0].is_charged);
    EXPECT_TRUE(charges[1].is_charged);
    EXPECT_EQ(charges[1].verdict.remaining, 99u);
}

TEST(Answer, ChargesARuleOnTrialWhereAllGrant) {
    std::vector<Charge> charges = {charge_of(Algorithm::fixed_window, true),
                                   charge_of(Algorithm::sliding_log)};
    ASSERT_EQ(read(charges, {window_grants, log_grants}), AnswerState::good);
    EXPECT_TRUE(charges[0].is_charged);
    EXPECT_TRUE(charges[1].is_charged);
}

TEST(Answer, ChargesNoRuleOnTrialWhereARealOneDenies) {
    std::vector<Charge> charges = {charge_of(Algorithm::fixed_window, true),
                                   charge_of(Algorithm::sliding_log)};
    ASSERT_EQ(read(charges, {window_grants, log_denies}), AnswerState::good);
    EXPECT_FALSE(charges[0].is_charged);
    EXPECT_EQ(charges[0].verdict.remaining, 41u);
    EXPECT_FALSE(charges[1].is_charged);
}

TEST(Answer, MayBeToNobody) {
    std::vector<Charge> charges;
    EXPECT_EQ(read(charges, {}), AnswerState::good);
}

TEST(Answer, IsImpossibleWhereTheNumbersOfOneRuleAre) {
    std::vector<Charge> charges = {charge_of(Algorithm::fixed_window),
                                   charge_of(Algorithm::sliding_log)};
    EXPECT_EQ(read(charges, {{100, 1}, log_grants}), AnswerState::impossible);
    EXPECT_EQ(read(charges, {window_grants, {0, -1, 0, 0}}), AnswerState::impossible);
    for (const Charge &charge : charges) {
        EXPECT_FALSE(charge.is_charged);
    }
}

TEST(Answer, IsForeignWhereTheTimeIsNone) {
    for (const int64_t time : {int64_t{-1}, (int64_t{1} << 53) + 1, INT64_MAX, INT64_MIN}) {
        std::vector<Charge> charges = {charge_of(Algorithm::fixed_window)};
        EXPECT_EQ(read(charges, {window_grants}, time), AnswerState::foreign) << time;
    }
}

TEST(Error, IsOfTheKeysWhereTheirTypeOrValueIsAtFault) {
    for (const char *error :
         {"WRONGTYPE Operation against a key holding the wrong kind of value script: 1f, on "
          "@user_script:5.",
          "ERR Error running script (call to f_1f): @user_script:5: WRONGTYPE Operation against a",
          "ERR user_script:12: attempt to compare nil with number script: 1f, on @user_script:12.",
          "ERR Error running script (call to f_1f): @user_script:12: user_script:12: attempt to",
          "user_script:3: bad argument #2 to 'unpack_state' (data string too short)"}) {
        EXPECT_TRUE(is_error_of_keys(error)) << error;
    }
}

// Redis 6.2 writes the last but one, and later versions the last.
TEST(Error, IsOfTheKeysWhereTheirHashSlotIsAtFault) {
    for (const char *error :
         {"MOVED 1 node:2", "ASK 1 node:2", "TRYAGAIN Multiple keys request during rehashing",
          "CROSSSLOT Keys in request don't hash to the same slot",
          "CLUSTERDOWN Hash slot not served",
          "ERR Error running script (call to f_1f): @user_script:9: @user_script: 9: Lua script "
          "attempted to access a non local key in a cluster node",
          "ERR Script attempted to access a non local key in a cluster node script: 1f, on "
          "@user_script:9."}) {
        EXPECT_TRUE(is_error_of_hash_slot(error)) << error;
        EXPECT_TRUE(is_error_of_keys(error)) << error;
    }
}

TEST(Error, IsNotOfTheKeysWhereRedisCannotServe) {
    for (const char *error :
         {"OOM command not allowed when used memory > 'maxmemory'. script: 1f, on @user_script:9.",
          "ERR Error running script (call to f_1f): @user_script:9: OOM command not allowed",
          "ERR Error running script (call to f_1f): @user_script: 9: -OOM command not allowed",
          "ERR The user executing the script can't run this command or subcommand script: 1f, on "
          "@user_script:1.",
          "READONLY You can't write against a read only replica. script: 1f, on @user_script:1.",
          "CLUSTERDOWN The cluster is down",
          "CLUSTERDOWN The cluster is down and only accepts read commands",
          "ERR Script attempted to execute a command while the cluster is down script: 1f, on "
          "@user_script:1.",
          "BUSY Redis is busy running a script.", "ERR user_script:", "user_script:1: ", ""}) {
        EXPECT_FALSE(is_error_of_hash_slot(error)) << error;
        EXPECT_FALSE(is_error_of_keys(error)) << error;
    }
}

} // namespace
} // namespace redis_client
