// The auditor of simulated fleets refuses what breaks a promise, and takes what does not.

#include "unit/simulation/audited.hpp"

#include "simulation/judges.hpp"

#include <gtest/gtest.h>

namespace simulation {
namespace {

TEST(AuditorTest, RefusesWhatIsKnownOfABlockThatHasEnded) {
    for (const auto &[known_us, complaints] : {std::pair{second, 0u}, {second + 1, 1u}}) {
        Auditor auditor;
        auditor.set_knows_requests(true);
        AuditedRule of = rule("fixed_window", 1);
        of.window_us = 10 * second;
        of.block_us = second;
        auditor.add_rule(of, long_ago);
        auditor.grant(0, "k", by(of, {.time_us = -1, .cost = 1}));
        auditor.deny(0, "k",
                     {.time_us = 0,
                      .cost = 1,
                      .limit = 1,
                      .blocked_until_us = second,
                      .until_us = 10 * second});
        auditor.deny(0, "k", {.time_us = known_us, .cost = 1, .limit = 1, .is_by_redis = false});
        EXPECT_EQ(auditor.judge().size(), complaints);
    }
}

TEST(AuditorTest, RefusesLeasedUnitsWithoutAFateOrWithTwo) {
    struct Case {
        uint64_t returned; // of 3, of which 1 was used
        bool may_lack_leased;
        bool may_lack_ended;
        size_t complaints;
    };
    for (const Case &one :
         {Case{2, false, false, 0}, Case{1, false, false, 1}, Case{1, false, true, 0},
          Case{3, false, false, 1}, Case{3, true, false, 0}, Case{1, true, false, 1}}) {
        Auditor auditor;
        auditor.count_leased(rule("gcra", 1), {.leased = 3,
                                               .used = 1,
                                               .returned = one.returned,
                                               .may_lack_leased = one.may_lack_leased,
                                               .may_lack_ended = one.may_lack_ended});
        EXPECT_EQ(auditor.judge().size(), one.complaints)
            << one.returned << " " << one.may_lack_leased << " " << one.may_lack_ended;
    }
}

TEST(AuditorTest, RefusesLostUnitsWhereNothingFails) {
    struct Case {
        const char *algorithm;
        bool has_faults;
        bool has_lost_data;
        size_t complaints;
    };
    for (const auto &one : {Case{"gcra", false, false, 1}, Case{"sliding_log", false, false, 1},
                            Case{"fixed_window", false, false, 0}, Case{"gcra", true, false, 0},
                            Case{"gcra", false, true, 0}}) {
        Auditor auditor;
        auditor.set_knows_requests(!one.has_faults);
        if (one.has_lost_data) {
            auditor.begin_history(0);
        }
        auditor.count_leased(rule(one.algorithm, 1), {.leased = 3, .used = 2, .expired = 1});
        EXPECT_EQ(auditor.judge().size(), one.complaints);
    }
}

TEST(AuditorTest, HoldsWhatClientsAreToldToTheirGrantsWhereAllIsKnown) {
    for (const auto &[is_one_redis, complaints] : {std::pair{true, 1u}, {false, 0u}}) {
        Auditor auditor;
        auditor.set_knows_requests(true);
        auditor.set_charges_all_or_none(is_one_redis);
        const AuditedRule of = rule("sliding_log", 3);
        auditor.add_rule(of, long_ago);
        auditor.grant(
            0, "k",
            by(of, {.time_us = 0, .cost = 1, .told = Told{.remaining = 3, .reset_us = second}}));
        EXPECT_EQ(auditor.judge().size(), complaints);
    }
}

TEST(AuditorTest, HoldsABucketToItsCapacityAndWhatComesBack) {
    EXPECT_EQ(complaints(rule("gcra", 10, 3), {{0, 3}, {second / 10, 1}}), 0u);
    EXPECT_EQ(complaints(rule("gcra", 10, 3), {{0, 3}, {second / 10 - 10, 1}}), 1u);
    EXPECT_EQ(complaints(rule("gcra", 10, 3), {{0, 1}, {10 * second, 3}}), 0u);
    EXPECT_EQ(complaints(rule("gcra", 10, 3), {{0, 1}, {10 * second, 4}}), 1u);
}

TEST(AuditorTest, HoldsConcurrencyToWhatIsInFlight) {
    const auto in_flight = [](int64_t from, int64_t until) {
        return Grant{.time_us = from, .cost = 1, .by = GrantedBy::redis, .ended_us = until};
    };
    EXPECT_EQ(complaints(rule("concurrency", 1), {in_flight(0, 5), in_flight(5, 9)}), 0u);
    EXPECT_EQ(complaints(rule("concurrency", 1), {in_flight(0, 5), in_flight(4, 9)}), 1u);
}

TEST(AuditorTest, TakesWhatIsReturned) {
    const auto returning = [](int64_t from, uint64_t cost, int64_t until, uint64_t final_cost) {
        return Grant{.time_us = from,
                     .cost = cost,
                     .by = GrantedBy::redis,
                     .ended_us = until,
                     .final_cost = final_cost};
    };
    for (const AuditedRule &of : {rule("sliding_log", 3), rule("gcra", 3, 3)}) {
        EXPECT_EQ(complaints(of, {returning(0, 3, 5, 1), returning(5, 2, 9, 2)}), 0u);
        EXPECT_EQ(complaints(of, {returning(0, 3, 5, 1), returning(4, 2, 9, 2)}), 1u);
        EXPECT_EQ(complaints(of, {returning(0, 3, 5, 1), returning(5, 3, 9, 3)}), 1u);
        EXPECT_EQ(complaints(of, {returning(0, 3, 5, 9), returning(5, 1, 9, 1)}), 1u);
    }
}

TEST(AuditorTest, ExpectsThatADebtIsWorkedOff) {
    for (const auto &[next_us, complaints] : {std::pair{second, 0u}, {second / 2, 1u}}) {
        Auditor auditor;
        auditor.set_knows_requests(true);
        const AuditedRule of = rule("gcra", 3, 3);
        auditor.add_rule(of, long_ago);
        auditor.grant(0, "k", by(of, {.time_us = 0, .cost = 1, .ended_us = 1, .final_cost = 4}));
        auditor.grant(0, "k", by(of, {.time_us = next_us, .cost = 2}));
        EXPECT_EQ(auditor.judge().size(), complaints);
    }
}

Grant grant_of(size_t history, int64_t time_us, uint64_t limit) {
    return {.time_us = time_us, .cost = 1, .limit = limit, .history = history};
}

TEST(AuditorTest, ExcusesOneQuotaForLostData) {
    Auditor auditor;
    auditor.add_rule(rule("sliding_log", 1), long_ago);
    auditor.grant(0, "k", grant_of(0, 0, 1));
    const size_t anew = auditor.begin_history(5);
    auditor.grant(0, "k", grant_of(anew, 6, 1));
    EXPECT_EQ(auditor.judge().size(), 0u);
    auditor.grant(0, "k", grant_of(anew, 7, 1));
    EXPECT_EQ(auditor.judge().size(), 1u);
}

TEST(AuditorTest, ExcusesWhatACopyHasNotGot) {
    for (const auto &[copied_us, complaints] : {std::pair{1, 0u}, {2, 1u}}) {
        Auditor auditor;
        auditor.add_rule(rule("sliding_log", 2), long_ago);
        auditor.grant(0, "k", grant_of(0, 1, 2));
        auditor.grant(0, "k", grant_of(0, 2, 2));
        const size_t copy = auditor.copy_history(0, copied_us, 5);
        auditor.grant(0, "k", grant_of(copy, 6, 2));
        EXPECT_EQ(auditor.judge().size(), complaints);
    }
}

TEST(AuditorTest, ExcusesLeasesOfLostDataUntilTheyEnd) {
    struct Case {
        bool is_elsewhere; // than the lost data, of which the other Redis may lease meanwhile
        int64_t leased_us;
        size_t complaints;
    };
    for (const auto &[is_elsewhere, leased_us, complaints] : {Case{false, 100'004, 0},
                                                              {false, 100'005, 1},
                                                              {true, 3'100'004, 0},
                                                              {true, 3'100'005, 1}}) {
        Auditor auditor;
        AuditedRule leasing = rule("sliding_log", 1);
        leasing.window_us = 10 * second;
        leasing.has_leases = true;
        leasing.lease_us = 100'000;
        auditor.add_rule(leasing, long_ago);
        const size_t anew =
            is_elsewhere ? auditor.begin_history_elsewhere(5) : auditor.begin_history(5);
        auditor.grant(0, "k", grant_of(anew, 6, 1));
        Grant leased = grant_of(anew, leased_us, 1);
        leased.by = GrantedBy::lease;
        auditor.grant(0, "k", leased);
        EXPECT_EQ(auditor.judge().size(), complaints) << leased_us;
    }
}

TEST(AuditorTest, RefusesLeasesOfKeysThatHaveHardlyCome) {
    struct Case {
        size_t host;
        int64_t first_came_us;
        size_t complaints;
    };
    for (const auto &[host, first_came_us, complaints] :
         {Case{0, -310'000, 0}, Case{0, -310'001, 1}, Case{1, -310'000, 1}}) {
        Auditor auditor;
        AuditedRule leasing = rule("sliding_log", 100);
        leasing.has_leases = true;
        leasing.lease_us = 100'000;
        auditor.add_rule(leasing, long_ago);
        auditor.come(host, "k", first_came_us);
        for (const int64_t came_us : {-3, -2, -1, 0}) {
            auditor.come(0, "k", came_us);
        }
        Grant leased = by(leasing, {.time_us = 0, .cost = 1});
        leased.by = GrantedBy::lease;
        auditor.grant(0, "k", leased);
        EXPECT_EQ(auditor.judge().size(), complaints);
    }
}

TEST(AuditorTest, KnowsHowLongARuleLeases) {
    AuditedRule log = rule("sliding_log", 100);
    EXPECT_EQ(log.longest_lease_us(), 0);
    log.has_leases = true;
    EXPECT_EQ(log.longest_lease_us(), second / 64);
    log.window_us = 1'000 * second;
    EXPECT_EQ(log.longest_lease_us(), 4 * second);
    log.window_us = 1'000;
    EXPECT_EQ(log.longest_lease_us(), 10'000);
    log.lease_us = 7'000;
    EXPECT_EQ(log.longest_lease_us(), 7'000);
}

TEST(AuditorTest, RefusesDenialsOfWhoHasRoom) {
    for (const auto &[denied_at, complaints] : {std::pair{second - 1, 0u}, {second, 1u}}) {
        Auditor auditor;
        auditor.set_knows_requests(true);
        auditor.add_rule(rule("sliding_log", 1), long_ago);
        auditor.grant(0, "k", grant_of(0, 0, 1));
        auditor.deny(0, "k", {.time_us = denied_at, .cost = 1, .limit = 1});
        EXPECT_EQ(auditor.judge().size(), complaints);
    }
}

/// Whether the auditor takes a denial of 2 units out of 3, of which one request has taken some.
size_t complaints_of_denial(const std::string &algorithm, const Grant &grant, int64_t denied_at) {
    Auditor auditor;
    auditor.set_knows_requests(true);
    AuditedRule of = rule(algorithm, 3, 3);
    of.window_us = 10 * second;
    of.settles = true;
    auditor.add_rule(of, long_ago);
    auditor.grant(0, "k", grant);
    auditor.deny(0, "k", {.time_us = denied_at, .cost = 2, .limit = 3, .capacity = 3});
    return auditor.judge().size();
}

TEST(AuditorTest, RefusesDenialsOfWhoHasRoomAgainBecauseARequestCostLess) {
    Grant grant{
        .time_us = 0, .cost = 3, .limit = 3, .capacity = 3, .ended_us = second, .final_cost = 1};
    for (const std::string algorithm : {"sliding_log", "fixed_window", "sliding_window"}) {
        EXPECT_EQ(complaints_of_denial(algorithm, grant, second + 1), 0u) << "not yet";
        EXPECT_EQ(complaints_of_denial(algorithm, grant, 2 * second), 1u);
        grant.final_cost = 2;
        EXPECT_EQ(complaints_of_denial(algorithm, grant, 2 * second), 0u);
        grant.final_cost = 1;
    }
    grant.window_ends_us = second + 1;
    EXPECT_EQ(complaints_of_denial("fixed_window", grant, 2 * second), 0u) << "too late";
}

TEST(AuditorTest, TakesDenialsOfWhoHasNoRoomBecauseARequestCostMore) {
    Grant grant{
        .time_us = 0, .cost = 1, .limit = 3, .capacity = 3, .ended_us = second, .final_cost = 2};
    for (const std::string algorithm : {"sliding_log", "fixed_window", "sliding_window", "gcra"}) {
        EXPECT_EQ(complaints_of_denial(algorithm, grant, second - 1), 1u);
        EXPECT_EQ(complaints_of_denial(algorithm, grant, second + 1), 0u);
    }
    EXPECT_EQ(complaints_of_denial("sliding_log", grant, 100 * second), 0u) << "it is worked off";
    EXPECT_EQ(complaints_of_denial("sliding_window", grant, 100 * second), 1u);
    EXPECT_EQ(complaints_of_denial("gcra", grant, 100 * second), 1u);
}

TEST(AuditorTest, ExcusesADenyCacheForTwoSecondsAfterAReset) {
    for (const auto &[denied_at, complaints] :
         {std::pair{2 * second - 1, 0u}, {2 * second + 1, 1u}}) {
        Auditor auditor;
        auditor.set_knows_requests(true);
        auditor.add_rule(rule("sliding_log", 1), long_ago);
        const size_t anew = auditor.begin_history_by_reset(1);
        auditor.check_in_vain(0, "k", {.time_us = long_ago, .limit = 1, .is_answered = false});
        auditor.deny(
            0, "k",
            {.time_us = denied_at, .cost = 1, .limit = 1, .is_by_redis = false, .history = anew});
        EXPECT_EQ(auditor.judge().size(), complaints);
    }
}

TEST(AuditorTest, WantsWhatADenyCacheSaysFromRedis) {
    const Denial of_redis{.time_us = 0, .cost = 2, .limit = 1, .until_us = second};
    Denial known = of_redis;
    known.time_us = second - 1;
    known.is_by_redis = false;
    Denial late = known;
    late.time_us = second;
    Denial cheap = known;
    cheap.cost = 1;
    Denial elsewhere = known;
    elsewhere.host = 1;
    Denial of_other_limit = known;
    of_other_limit.limit = 2;
    for (const auto &[denial, complaints] :
         {std::pair{known, 0u}, {late, 1u}, {cheap, 1u}, {elsewhere, 1u}, {of_other_limit, 1u}}) {
        Auditor auditor;
        auditor.add_rule(rule("sliding_log", 1), long_ago);
        auditor.deny(0, "k", of_redis);
        auditor.deny(0, "k", denial);
        EXPECT_EQ(auditor.judge().size(), complaints);
    }
}

TEST(AuditorTest, KnowsThatAShardMayHaveTheSamePartOfTwoLimits) {
    for (const auto &[known_limit, complaints] : {std::pair{3u, 0u}, {9u, 0u}, {12u, 1u}}) {
        Auditor auditor;
        AuditedRule of = rule("sliding_log", 6);
        of.shards = 4;
        auditor.add_rule(of, long_ago);
        auditor.deny(0, "k", {.time_us = 0, .cost = 1, .limit = 6, .until_us = second});
        auditor.deny(0, "k", {.time_us = 1, .cost = 1, .limit = known_limit, .is_by_redis = false});
        EXPECT_EQ(auditor.judge().size(), complaints);
    }
}

TEST(AuditorTest, RefusesChecksOfWhatAHostKnows) {
    const Denial first{.time_us = 1'000,
                       .cost = 1,
                       .limit = 1,
                       .capacity = 1,
                       .until_us = second,
                       .asked_us = 0,
                       .answered_us = 2'000};
    Denial known = first;
    known.time_us = known.asked_us = known.answered_us = 3'000;
    Denial meanwhile = known;
    meanwhile.asked_us = 2'000;
    Denial late = known;
    late.time_us = late.asked_us = late.answered_us = second;
    late.until_us = 2 * second;
    Denial elsewhere = known;
    elsewhere.host = 1;
    Denial never = known;
    never.capacity = 0;
    for (const auto &[denial, longest_us, complaints] : {std::tuple{known, second, 1u},
                                                         {known, int64_t{0}, 0u},
                                                         {meanwhile, second, 0u},
                                                         {late, second, 0u},
                                                         {never, second, 0u},
                                                         {elsewhere, second, 0u}}) {
        Auditor auditor;
        auditor.set_knows_requests(true);
        auditor.set_charges_all_or_none(true);
        auditor.set_remembers_denials_for(longest_us);
        AuditedRule of = rule("sliding_log", 1);
        of.window_us = 10 * second;
        auditor.add_rule(of, long_ago);
        auditor.grant(0, "k", by(of, {.time_us = 0, .cost = 1}));
        auditor.deny(0, "k", first);
        auditor.deny(0, "k", denial);
        EXPECT_EQ(auditor.judge().size(), complaints);
    }
}

TEST(AuditorTest, WantsANewDenialOfRedisBehindADenyCacheAfterAReset) {
    for (const auto &[denied_at, complaints] : {std::pair{second, 0u}, {-second, 1u}}) {
        Auditor auditor; // even where not all is known that was charged
        auditor.add_rule(rule("sliding_log", 1), long_ago);
        auditor.reset("k", 0, 0);
        auditor.deny(0, "k", {.time_us = denied_at, .cost = 1, .limit = 1, .until_us = 4 * second});
        auditor.deny(0, "k", {.time_us = 3 * second, .cost = 1, .limit = 1, .is_by_redis = false});
        EXPECT_EQ(auditor.judge().size(), complaints);
    }
}

TEST(AuditorTest, WantsAllUnitsInEachShardAfterAReset) {
    struct Case {
        uint64_t granted_since;
        uint64_t debt;    // of a request that was granted before
        int64_t block_us; // a large cost may have begun a block
        size_t complaints;
    };
    for (const Case &one : {Case{2, 0, 0, 1}, {3, 0, 0, 0}, {2, 1, 0, 0}, {2, 0, second, 0}}) {
        Auditor auditor;
        auditor.set_knows_requests(true);
        AuditedRule of = rule("sliding_log", 10); // 3 units, or 4, in each shard
        of.shards = 3;
        of.settles = true;
        of.block_us = one.block_us;
        auditor.add_rule(of, long_ago);
        auditor.grant(
            0, "k",
            {.time_us = 0, .cost = 5, .limit = 10, .ended_us = 25, .final_cost = 5 + one.debt});
        auditor.reset("k", 10, 20);
        auditor.grant(0, "k",
                      {.time_us = 30, .cost = one.granted_since, .limit = 10, .ended_us = 31});
        auditor.deny(0, "k", {.time_us = 40, .cost = 1, .limit = 10});
        EXPECT_EQ(auditor.judge().size(), one.complaints) << one.granted_since << " " << one.debt;
    }
}

TEST(AuditorTest, ExcusesAResetThatMissesACounterOfAReload) {
    for (const auto &[loaded_by, complaints] : {std::pair{long_ago, 1u}, {-second, 0u}}) {
        Auditor auditor;
        auditor.set_knows_requests(true);
        auditor.add_rule(rule("sliding_log", 1), loaded_by);
        auditor.grant(0, "k", grant_of(0, second / 2 - 1, 1));
        const size_t anew = auditor.begin_history_by_reset(second / 2);
        auditor.deny(0, "k", {.time_us = second, .cost = 1, .limit = 1, .history = anew});
        EXPECT_EQ(auditor.judge().size(), complaints);
    }
}

TEST(AuditorTest, RefusesSecondChecksOfOneRequest) {
    const auto complaints_of = [](const std::vector<std::string> &keys) {
        Auditor auditor;
        auditor.expect_single_requests();
        for (const std::string &key : keys) {
            auditor.run_script(ScriptRun::check, key);
        }
        return auditor.judge().size();
    };
    EXPECT_EQ(complaints_of({"rl:{z:a}:r", "rl:{z:b}:r", "rl:{z:a}:s"}), 0u);
    EXPECT_EQ(complaints_of({"rl:{z:a}:r", "rl:{z:b}:r", "rl:{z:a}:r"}), 1u);
    Auditor of_others;
    of_others.run_script(ScriptRun::check, "rl:{z:a}:r");
    of_others.run_script(ScriptRun::check, "rl:{z:a}:r");
    EXPECT_EQ(of_others.judge().size(), 0u) << "many requests of one client";
}

/// Returns the complaints about a client with one request, of a rule that settles, of which so many
/// settlements reach Redis. `happen` tells the auditor what else happens.
template <typename Happen>
size_t complaints_of_single(bool nothing_fails, int settlements, const Happen &happen) {
    Auditor auditor;
    AuditedRule settling = rule("sliding_log", 2);
    settling.settles = true;
    auditor.add_rule(settling, long_ago);
    auditor.set_knows_requests(nothing_fails);
    auditor.expect_single_requests();
    const std::string redis_key = "rl:{z:k}:sliding_log:1000";
    happen(auditor, settling, redis_key);
    for (int i = 0; i < settlements; ++i) {
        auditor.run_script(ScriptRun::settlement, redis_key);
    }
    return auditor.judge().size();
}

TEST(AuditorTest, WantsOneSettlementOfWhatCostAnotherNumberOfUnits) {
    struct Case {
        bool nothing_fails;
        uint64_t final_cost; // of 2 that were charged
        int settlements;
        size_t complaints;
    };
    constexpr uint64_t unknown = UINT64_MAX;
    for (const Case &one : {Case{true, 1, 1, 0},
                            {true, 3, 1, 0},
                            {true, 1, 0, 1},
                            {false, 1, 0, 0},
                            {false, 1, 2, 1},
                            {false, 2, 1, 1},
                            {false, unknown, 1, 1}}) {
        const auto end = [&](Auditor &auditor, const AuditedRule &of, const std::string &) {
            auditor.grant(0, "k", by(of, {.cost = 2, .final_cost = one.final_cost}));
        };
        EXPECT_EQ(complaints_of_single(one.nothing_fails, one.settlements, end), one.complaints)
            << one.final_cost << " " << one.settlements;
    }
}

TEST(AuditorTest, WantsOneSettlementOfWhoLeftBeforeItWasKnownThatTheKeyWasCharged) {
    struct Case {
        bool nothing_fails;
        ScriptRun check;
        int settlements;
        size_t complaints;
    };
    constexpr ScriptRun charges = ScriptRun::check_that_leaves_key;
    for (const Case &one :
         {Case{true, charges, 1, 0}, Case{true, charges, 0, 1}, Case{true, charges, 2, 1},
          Case{false, charges, 0, 0}, Case{false, charges, 1, 0}, Case{false, charges, 2, 1},
          Case{true, ScriptRun::check, 0, 0}, Case{true, ScriptRun::check, 1, 0},
          Case{true, ScriptRun::check, 2, 1}}) {
        const auto leave = [&](Auditor &auditor, const AuditedRule &, const std::string &key) {
            auditor.leave_undecided(0, key);
            auditor.run_script(one.check, key);
        };
        EXPECT_EQ(complaints_of_single(one.nothing_fails, one.settlements, leave), one.complaints)
            << one.nothing_fails << " " << one.settlements;
    }
}

TEST(AuditorTest, HoldsEachGrantToTheNumbersThatItHad) {
    const auto with = [](int64_t time_us, uint64_t limit) {
        return Grant{.time_us = time_us, .cost = 1, .limit = limit, .capacity = limit};
    };
    const AuditedRule log = rule("sliding_log", 2);
    EXPECT_EQ(complaints(log, {with(0, 3), with(1, 3), with(2, 3)}), 0u);
    EXPECT_EQ(complaints(log, {with(0, 3), with(1, 3), with(2, 2)}), 1u);
    // A brake that makes the state, which is a time, worth more units.
    const AuditedRule bucket = rule("token_bucket", 100, 100);
    const auto braked = [](int64_t time_us, uint64_t cost, uint64_t limit) {
        return Grant{.time_us = time_us, .cost = cost, .limit = limit, .capacity = 100};
    };
    EXPECT_EQ(complaints(bucket, {braked(0, 100, 100), braked(50'000, 5, 1)}), 0u);
    EXPECT_EQ(complaints(bucket, {braked(0, 100, 100), braked(50'000, 99, 1)}), 1u);
}

TEST(AuditorTest, KnowsThePaceOfABrakeWhereAllChecksAreKnown) {
    const AuditedRule bucket = rule("token_bucket", 100, 100);
    struct Case {
        bool knows_requests;
        uint64_t cost;
        size_t complaints;
    };
    for (const Case &one : {Case{true, 55, 0}, {true, 65, 1}, {false, 65, 0}}) {
        Auditor auditor;
        auditor.set_knows_requests(one.knows_requests);
        auditor.add_rule(bucket, long_ago);
        const auto grant = [&](int64_t time_us, uint64_t cost, uint64_t limit) {
            auditor.grant(0, "k",
                          {.time_us = time_us, .cost = cost, .limit = limit, .capacity = 100});
        };
        grant(0, 100, 100);
        grant(300'000, 1, 1);
        grant(600'000, 1, 1);
        grant(900'000, one.cost, 1);
        EXPECT_EQ(auditor.judge().size(), one.complaints);
    }
}

TEST(AuditorTest, TakesGrantsOfOneMicrosecondInTheOrderThatAllowsMost) {
    const auto at_once = [](uint64_t limit, uint64_t cost) {
        return Grant{.time_us = 0, .cost = cost, .limit = limit, .capacity = limit, .ended_us = 1};
    };
    for (const char *algorithm : {"sliding_log", "gcra", "concurrency"}) {
        const AuditedRule of = rule(algorithm, 3, 3);
        EXPECT_EQ(complaints(of, {at_once(3, 1), at_once(2, 2)}), 0u) << algorithm;
        EXPECT_EQ(complaints(of, {at_once(3, 1), at_once(2, 4)}), 1u) << algorithm;
        EXPECT_EQ(complaints(of, {at_once(3, 3), at_once(2, 2)}), 1u) << algorithm;
    }
}

TEST(AuditorTest, HoldsBlocksToTheirTime) {
    AuditedRule blocking = rule("fixed_window", 1);
    blocking.block_us = 5 * second;
    const auto complaints_of = [&](int64_t second_until, int64_t granted_at, bool is_reset) {
        Auditor auditor;
        auditor.set_knows_requests(true);
        auditor.add_rule(blocking, long_ago);
        for (const auto &[at, until] :
             {std::pair{second, 6 * second}, {2 * second, second_until}}) {
            auditor.deny(0, "k", {.time_us = at, .cost = 2, .limit = 1, .blocked_until_us = until});
        }
        const size_t history = is_reset ? auditor.begin_history_by_reset(3 * second) : 0;
        auditor.grant(0, "k", grant_of(history, granted_at, 1));
        return auditor.judge().size();
    };
    EXPECT_EQ(complaints_of(6 * second, 6 * second, false), 0u);
    EXPECT_EQ(complaints_of(7 * second, 7 * second, false), 1u) << "prolonged";
    EXPECT_EQ(complaints_of(6 * second, 4 * second, false), 1u) << "granted meanwhile";
    EXPECT_EQ(complaints_of(6 * second, 4 * second, true), 0u) << "reset";
    EXPECT_EQ(complaints_of(3 * second, 4 * second, false), 1u) << "shortened";
}

TEST(AuditorTest, HoldsABlockToWhatWasSaidLastWhereClocksStep) {
    AuditedRule blocking = rule("fixed_window", 1);
    blocking.block_us = 2 * second;
    for (const auto &[granted_at, complaints] : {std::pair{3 * second, 0u}, {second, 1u}}) {
        Auditor auditor;
        auditor.add_rule(blocking, long_ago);
        for (const int64_t until : {4 * second, 2 * second + 2}) {
            auditor.deny(
                0, "k",
                {.time_us = 4 - until / second, .cost = 2, .limit = 1, .blocked_until_us = until});
        }
        auditor.grant(0, "k", grant_of(0, granted_at, 1));
        EXPECT_EQ(auditor.judge().size(), complaints);
    }
}

TEST(AuditorTest, WantsEachRequestOnceInTheMetrics) {
    for (const auto &[counted, complaints] :
         {std::pair{uint64_t{8}, 1u}, {9, 0u}, {10, 0u}, {11, 1u}}) {
        Auditor auditor;
        auditor.add_rule(rule("gcra", 1, 1), long_ago);
        auditor.count("r", {.least = 9, .most = 10, .counted = counted});
        EXPECT_EQ(auditor.judge().size(), complaints);
    }
}

TEST(AuditorTest, WantsVerdictsInTimeAndNothingLeft) {
    Auditor auditor;
    auditor.wait(100, 100);
    EXPECT_TRUE(auditor.judge().empty());
    auditor.wait(101, 100);
    auditor.leave("a request");
    EXPECT_EQ(auditor.judge().size(), 2u);
}

/// It comes back at the pace of its charge until the next check.
TEST(AuditorTest, ADebtToAFullBucketBringsItsPace) {
    const AuditedRule of = rule("gcra", 100, 8);
    const auto judge = [&](uint64_t debt) {
        const std::vector<Grant> grants{
            {.time_us = 0,
             .cost = 1,
             .limit = 100,
             .capacity = 8,
             .ended_us = 1'300'000,
             .final_cost = 1 + debt},
            {.time_us = second, .cost = 0, .limit = 1, .capacity = 8, .ended_us = second},
            {.time_us = 1'450'000, .cost = 8, .limit = 1, .capacity = 8, .ended_us = 1'450'000}};
        return judge_grants(
            {.rule = of, .is_all_known = true, .grants = grants, .denials = {}, .uncharged = {}});
    };
    EXPECT_EQ(judge(5), std::nullopt);
    EXPECT_NE(judge(17), std::nullopt); // of which 15 are back
}

} // namespace
} // namespace simulation
