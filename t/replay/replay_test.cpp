// The search for limits, which counts by C++ what the scripts count by Lua, and the parts that it
// stands on.

#include "replay/redis/embedded_redis.hpp"
#include "replay/report/time_series.hpp"
#include "replay/rules/limit_search.hpp"

#include "redis_client/script/answer.hpp"
#include "redis_client/script/arguments.hpp"
#include "redis_client/script/commands.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace replay {
namespace {

using rate_limit::Algorithm;
using rate_limit::Quota;

struct Arrival {
    int64_t time_us;
    std::string key;
};

/// Requests of some keys, in bursts and pauses.
std::vector<Arrival> random_log(std::mt19937_64 &random) {
    std::vector<Arrival> log;
    int64_t now = 1'700'000'000'000'000;
    for (int i = 0; i < 2000; ++i) {
        const int64_t longest = random() % 20 == 0 ? 1'000'000 : 20'000;
        now += static_cast<int64_t>(random() % static_cast<uint64_t>(longest));
        log.push_back({.time_us = now, .key = "k" + std::to_string(random() % 5)});
    }
    return log;
}

/// Returns how many of the requests the scripts reject.
uint64_t rejected_by_scripts(const std::vector<Arrival> &log, const Quota &quota, bool aligned) {
    if (rate_limit::verdict_without_counter(quota)) {
        return log.size();
    }
    EmbeddedRedis redis;
    redis_client::ScriptShape shape;
    shape.add({.algorithm = quota.algorithm});
    const redis_client::Script script = redis_client::check_script(shape);
    const redis_client::WireWords arguments = redis_client::check_arguments(quota, aligned);
    uint64_t rejected = 0;
    for (const Arrival &arrival : log) {
        redis_client::Charge charge;
        charge.quota = quota;
        charge.redis_key = arrival.key;
        charge.arguments = &arguments;
        redis_client::Command check;
        check.charges = {&charge, 1};
        redis_client::ByteQueue command;
        redis_client::write_checks(command, script, redis_client::Sending::in_full, check,
                                   [] { return std::chrono::microseconds{0}; });
        const Answer answer = redis.run(command.bytes(), arrival.time_us);
        EXPECT_EQ(answer.type, Answer::Type::text) << answer.text;
        EXPECT_EQ(redis_client::read_answer(answer.text, {&charge, 1}),
                  redis_client::AnswerState::good);
        rejected += charge.verdict.decision != rate_limit::Decision::granted ? 1 : 0;
    }
    return rejected;
}

Quota quota_of(Algorithm algorithm, uint64_t cost, std::optional<uint64_t> burst = {}) {
    return {.algorithm = algorithm,
            .window = std::chrono::milliseconds{700},
            .limit = 1,
            .burst = burst,
            .cost = cost};
}

struct Case {
    Quota quota;
    bool aligned;
};

class LimitSearch : public testing::TestWithParam<Case> {};

TEST_P(LimitSearch, FindsTheSmallestLimitsByWhichScriptsRejectSoFew) {
    std::mt19937_64 random(static_cast<uint64_t>(GetParam().quota.algorithm) + 1);
    for (int i = 0; i < 3; ++i) {
        const std::vector<Arrival> log = random_log(random);
        Quota quota = GetParam().quota;
        RuleTally tally({.window = std::chrono::milliseconds{700}});
        for (const Arrival &arrival : log) {
            tally.count(arrival.key, {.time_us = arrival.time_us,
                                      .outcome = Outcome::passed,
                                      .cost = quota.cost,
                                      .duration_us = 0});
        }
        const FoundLimits found = find_limits(quota, GetParam().aligned, tally);
        for (size_t part = 0; part < searched_parts.size(); ++part) {
            const auto allowed =
                static_cast<uint64_t>(searched_parts[part] * static_cast<double>(log.size()));
            ASSERT_TRUE(found[part]);
            quota.limit = *found[part];
            EXPECT_LE(rejected_by_scripts(log, quota, GetParam().aligned), allowed);
            --quota.limit;
            EXPECT_GT(rejected_by_scripts(log, quota, GetParam().aligned), allowed);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, LimitSearch,
                         testing::Values(Case{quota_of(Algorithm::fixed_window, 1), false},
                                         Case{quota_of(Algorithm::fixed_window, 3), true},
                                         Case{quota_of(Algorithm::sliding_log, 1), false},
                                         Case{quota_of(Algorithm::sliding_log, 4), false},
                                         Case{quota_of(Algorithm::sliding_window, 1), false},
                                         Case{quota_of(Algorithm::sliding_window, 2), false},
                                         Case{quota_of(Algorithm::token_bucket, 1), false},
                                         Case{quota_of(Algorithm::token_bucket, 2, 9), false},
                                         Case{quota_of(Algorithm::gcra, 1, 3), false},
                                         Case{quota_of(Algorithm::leaky_bucket, 1, 5), false}));

TEST(LimitSearch, GivesNoLimitWhereNoneIsEnough) {
    RuleTally tally({.window = std::chrono::seconds{1}});
    for (int i = 0; i < 10; ++i) { // at once, where gcra without a burst grants one
        tally.count("k", {.time_us = 1'700'000'000'000'000,
                          .outcome = Outcome::passed,
                          .cost = 1,
                          .duration_us = 0});
    }
    EXPECT_EQ(find_limits(quota_of(Algorithm::gcra, 1), false, tally), FoundLimits{});
}

TEST(LimitSearch, CountsRequestsInFlight) {
    RuleTally tally({.window = std::chrono::seconds{60}});
    for (int64_t i = 0; i < 10; ++i) { // three at a time
        tally.count("k", {.time_us = 1'700'000'000'000'000 + i * 100'000,
                          .outcome = Outcome::passed,
                          .cost = 1,
                          .duration_us = 250'000});
    }
    Quota quota = quota_of(Algorithm::concurrency, 1);
    EXPECT_EQ(find_limits(quota, false, tally)[2], 3u);
}

TEST(RuleTally, CountsKeysAndTheirPeaks) {
    RuleTally tally({.window = std::chrono::seconds{1}});
    const auto count = [&](const char *key, int64_t second, Outcome outcome) {
        tally.count(
            key, {.time_us = second * 1'000'000, .outcome = outcome, .cost = 1, .duration_us = 0});
    };
    for (int i = 0; i < 5; ++i) {
        count("a", 100, i < 3 ? Outcome::passed : Outcome::rejected);
    }
    count("b", 100, Outcome::passed);
    count("b", 101, Outcome::rejected);
    EXPECT_EQ(tally.requests(), 7u);
    EXPECT_EQ(tally.keys(), 2u);
    EXPECT_EQ(tally.highest_peak(), 5u);
    EXPECT_EQ(tally.peaks()[0], 1u); // b took 1
    EXPECT_EQ(tally.peaks()[3], 1u); // a took 5, which is above 4 and to 8
    const auto top = tally.top_rejected();
    ASSERT_EQ(top.size(), 2u);
    EXPECT_EQ(top[0].key, "a");
    EXPECT_EQ(top[0].rejected, 2u);
}

TEST(RuleTally, RemembersTheRejectionsOfForgottenKeys) {
    RuleTally tally({.window = std::chrono::seconds{1}});
    const auto count = [&](const std::string &key, int64_t second, Outcome outcome) {
        tally.count(
            key, {.time_us = second * 1'000'000, .outcome = outcome, .cost = 1, .duration_us = 0});
    };
    const std::string long_key(100, 'k');
    for (int i = 0; i < 3; ++i) {
        count(long_key, 100, Outcome::rejected);
    }
    for (int i = 0; i < 1 << 20; ++i) {
        count(std::to_string(i), 200, Outcome::passed);
    }
    count(long_key, 200, Outcome::rejected);
    EXPECT_TRUE(tally.keys_are_estimated());
    const auto top = tally.top_rejected();
    ASSERT_EQ(top.size(), 1u);
    EXPECT_EQ(top[0].key, long_key);
    EXPECT_EQ(top[0].rejected, 4u);
    EXPECT_EQ(top[0].numbers.size(), 2u); // it counts as two keys in the spool
}

TEST(TimeSeries, StaysShort) {
    TimeSeries series;
    for (int64_t second = 1000; second < 101'000; ++second) {
        series.count(second * 1'000'000, Outcome::passed);
    }
    EXPECT_LE(series.steps().size(), TimeSeries::most_steps);
    EXPECT_EQ(series.begin_s() % series.step_s(), 0);
    uint64_t all = 0;
    for (const auto &step : series.steps()) {
        all += step[0];
    }
    EXPECT_EQ(all, 100'000u);
}

TEST(Spool, GivesBackWhatWasAdded) {
    Spool spool;
    std::mt19937_64 random(1);
    std::vector<Spool::Request> added;
    int64_t now = 1'700'000'000'000'000;
    for (int i = 0; i < 100'000; ++i) {
        now += static_cast<int64_t>(random() % 1'000'000);
        added.push_back({.time_us = now,
                         .key = random() >> (random() % 60 + 2),
                         .is_rejected = random() % 2 == 0,
                         .duration_us = static_cast<int64_t>(random() >> 40)});
        spool.add(added.back());
    }
    ASSERT_TRUE(spool.finish());
    for (int i = 0; i < 2; ++i) {
        spool.rewind();
        for (const Spool::Request &expected : added) {
            const auto request = spool.next();
            ASSERT_TRUE(request);
            ASSERT_EQ(request->time_us, expected.time_us);
            ASSERT_EQ(request->key, expected.key);
            ASSERT_EQ(request->is_rejected, expected.is_rejected);
            ASSERT_EQ(request->duration_us, expected.duration_us);
        }
        EXPECT_FALSE(spool.next());
    }
}

TEST(KeyStore, ForgetsWhatHasExpired) {
    KeyStore keys;
    for (int64_t i = 0; i < 10'000; ++i) {
        keys.set_now(i * 1'000'000);
        const std::string key = "k" + std::to_string(i);
        keys.make(key) = std::string("value");
        keys.expire_in(key, 5000);
    }
    EXPECT_LE(keys.size(), 7u);
}

} // namespace
} // namespace replay
