// What each algorithm promises, counted over what it granted; and the edges at which an
// implementation errs.

#include "model_test.hpp"
#include "unit/redis_client/different_bytes.hpp"

#include <algorithm>
#include <map>

namespace model {
namespace {

struct Grant {
    Wide time;
    Wide units;
};

class BoundsTest : public testing::Test {
  protected:
    Verdict ask(const Quota &quota, const std::string &key, bool aligned = false) {
        Charge charge = charge_of(quota, aligned, key);
        EXPECT_EQ(redis_.check({&charge, 1}), "");
        return charge.verdict;
    }

    struct Run {
        Quota quota;
        std::vector<Grant> grants;
        std::map<Wide, Wide> of_window; // units by the window's end, as told
    };

    /// Traffic that takes all it can get, mostly at the moments that the verdicts name.
    Run greedy_run(Algorithm algorithm, int round) {
        Run run{.quota = traffic_.small_quota(algorithm), .grants = {}, .of_window = {}};
        const std::string key = std::string(to_string(algorithm)) + std::to_string(round);
        const bool aligned = traffic_.one_in(2);
        Verdict last{.remaining = run.quota.capacity()};
        for (int step = 0; step < 400; ++step) {
            clock_.move(std::max<int64_t>(traffic_.step(run.quota, last), 0));
            Quota asked = run.quota;
            asked.cost = traffic_.cost(run.quota, last);
            last = ask(asked, key, aligned);
            if (last.decision == Decision::granted && asked.cost > 0) {
                run.grants.push_back({clock_.now(), asked.cost});
                run.of_window[clock_.now() + last.reset.count()] += asked.cost;
            }
        }
        return run;
    }

    /// The most units in any window of that length, half-open.
    static Wide most_within(const std::vector<Grant> &grants, Wide length) {
        Wide most = 0;
        Wide sum = 0;
        size_t first = 0;
        for (const Grant &grant : grants) {
            sum += grant.units;
            for (; grants[first].time <= grant.time - length; ++first) {
                sum -= grants[first].units;
            }
            most = std::max(most, sum);
        }
        return most;
    }

    static Wide window_of(const Quota &quota) { return microseconds(quota.window).count(); }

    Redis redis_;
    Clock clock_;
    Traffic traffic_;
};

TEST_F(BoundsTest, AFixedWindowGrantsItsLimitAtMost) {
    for (int round = 0; round < 15; ++round) {
        const Run run = greedy_run(Algorithm::fixed_window, round);
        Wide last_end = 0;
        for (const auto &[end, units] : run.of_window) {
            ASSERT_LE(units, run.quota.limit) << described(run.quota);
            ASSERT_GE(end, last_end + window_of(run.quota)) << described(run.quota);
            last_end = end;
        }
    }
}

TEST_F(BoundsTest, ASlidingLogGrantsItsLimitAtMostInAnyWindow) {
    for (int round = 0; round < 15; ++round) {
        const Run run = greedy_run(Algorithm::sliding_log, round);
        ASSERT_EQ(most_within(run.grants, window_of(run.quota)), run.quota.limit);
    }
}

TEST_F(BoundsTest, ASlidingWindowGrantsLessThanTwiceItsLimitInAnyWindow) {
    for (int round = 0; round < 15; ++round) {
        const Run run = greedy_run(Algorithm::sliding_window, round);
        ASSERT_LE(most_within(run.grants, window_of(run.quota)), 2 * run.quota.limit - 1);
    }
}

TEST_F(BoundsTest, ABucketGrantsItsCapacityAndWhatComesBackAtMost) {
    for (const Algorithm algorithm :
         {Algorithm::token_bucket, Algorithm::gcra, Algorithm::leaky_bucket}) {
        for (int round = 0; round < 8; ++round) {
            const Run run = greedy_run(algorithm, round);
            const Wide window = window_of(run.quota);
            const Wide limit = run.quota.limit;
            // units in [s, t] <= capacity + (t - s) * N / T for all s and t, so for the s at which
            // what was granted before lies lowest under the line
            Wide before = 0;
            Wide lowest = 0;
            for (const Grant &grant : run.grants) {
                lowest = &grant == run.grants.data()
                             ? -grant.time * limit
                             : std::min(lowest, before * window - grant.time * limit);
                before += grant.units;
                ASSERT_LE(before * window - grant.time * limit - lowest,
                          run.quota.capacity() * window)
                    << described(run.quota);
            }
        }
    }
}

TEST_F(BoundsTest, ATokenBucketAndGcraOfOneCapacityDecideAlike) {
    for (int round = 0; round < 20; ++round) {
        Quota tokens = traffic_.quota(Algorithm::token_bucket);
        tokens.burst = std::min<uint64_t>(tokens.burst.value_or(1), 1'000);
        Quota gcra = tokens;
        gcra.algorithm = Algorithm::gcra;
        gcra.burst = *tokens.burst - 1;
        Verdict last{.remaining = tokens.capacity()};
        for (int step = 0; step < 200 && clock_.now() < 8'000'000'000'000'000; ++step) {
            clock_.move(traffic_.step(tokens, last));
            tokens.cost = gcra.cost = traffic_.cost(tokens, last);
            last = ask(tokens, "tokens" + std::to_string(round));
            ASSERT_EQ(ask(gcra, "gcra" + std::to_string(round)), last) << described(tokens);
        }
        clock_.set(1'700'000'000'000'000);
        redis_.command({"FLUSHALL"});
    }
}

// Another limit with other parts of a microsecond: what is kept is rounded up, at each change.
TEST_F(BoundsTest, ABucketWhoseLimitChangesKeepsItsStateToTheMicrosecond) {
    int compared = 0;
    for (int round = 0; round < 40; ++round) {
        Quota quota = traffic_.quota(Algorithm::token_bucket);
        quota.window = milliseconds(traffic_.one_of({10, 1'000, 60'000}));
        const auto bucket = model_of(quota.algorithm, false);
        const std::string key = "changing" + std::to_string(round);
        int64_t drift = 0;
        Verdict last{.remaining = quota.capacity()};
        for (int step = 0; step < 200; ++step) {
            const int64_t now = clock_.now() + std::max<int64_t>(traffic_.step(quota, last), 0);
            clock_.set(now);
            if (traffic_.one_in(5)) {
                quota.limit = static_cast<uint64_t>(traffic_.between(1, 1'000'000));
                ++drift;
            }
            quota.burst = static_cast<uint64_t>(traffic_.between(1, 30));
            quota.cost = static_cast<uint64_t>(traffic_.between(0, 3));
            SCOPED_TRACE(described(quota));
            bool granted = bucket->fits(quota, now);
            const Verdict before = bucket->verdict(quota, now, granted, false);
            last = ask(quota, key);
            if (granted != (last.decision == Decision::granted)) { // at the edge
                ASSERT_LE(granted ? last.retry_after.count() : before.retry_after.count(),
                          granted ? drift : 1);
                granted = !granted;
            }
            if (granted) {
                bucket->take(quota, now);
            }
            const Verdict expected = bucket->verdict(quota, now, granted, granted);
            ASSERT_GE(last.reset.count(), expected.reset.count() - 1);
            ASSERT_LE(last.reset.count(), expected.reset.count() + drift);
            if (!granted && last.decision == Decision::denied) {
                ASSERT_GE(last.retry_after.count(), expected.retry_after.count() - 1);
                ASSERT_LE(last.retry_after.count(), expected.retry_after.count() + drift);
                ++compared;
            }
            if (last.reset.count() == 0) {
                drift = 0;
            }
        }
    }
    EXPECT_GT(compared, 500);
}

// What Lua's numbers round: previous * overlap beside free * window, both far above 2^53.
TEST_F(BoundsTest, ASlidingWindowIsExactToTheMicrosecondWithTheLargestNumbers) {
    Quota quota;
    quota.algorithm = Algorithm::sliding_window;
    quota.window = rate_limit::longest_window;
    const int64_t window = microseconds(quota.window).count();
    const int64_t start = 60 * window;
    int decided[2] = {0, 0};
    for (int i = 0; i < 1500; ++i) {
        const std::string key = "k" + std::to_string(i);
        const int64_t limit = traffic_.between(900'000'000, 1'000'000'000);
        const int64_t previous = traffic_.between(500'000'000, limit);
        const int64_t current = traffic_.between(0, limit - previous);
        const int64_t cost = traffic_.between(1, limit - current);
        const Wide room = static_cast<Wide>(limit - current - cost) * window;
        const auto edge = static_cast<int64_t>(room / previous); // the longest overlap that fits
        const int64_t overlap = std::clamp<int64_t>(edge + traffic_.between(-1, 1), 1, window);

        clock_.set(start - window);
        quota.limit = static_cast<uint64_t>(limit);
        quota.cost = static_cast<uint64_t>(previous);
        ASSERT_EQ(ask(quota, key).decision, Decision::granted);
        clock_.set(start);
        quota.cost = static_cast<uint64_t>(current);
        ASSERT_EQ(ask(quota, key).decision, Decision::granted);
        clock_.set(start + window - overlap);
        quota.cost = static_cast<uint64_t>(cost);
        const bool granted = ask(quota, key).decision == Decision::granted;
        ASSERT_EQ(granted, static_cast<Wide>(previous) * overlap <= room) << "round " << i;
        ++decided[granted ? 1 : 0];
    }
    EXPECT_GT(decided[0], 300);
    EXPECT_GT(decided[1], 300);
}

// A list becomes one of several nodes, a sorted set a skip list.
TEST_F(BoundsTest, EncodingsChangeNoDecision) {
    for (const uint64_t limit : {127, 128, 129, 511, 512, 513, 8192}) {
        for (const uint64_t cost : {1, 10, 1000}) {
            if (limit == 8192 && cost == 1) {
                continue;
            }
            Quota quota;
            quota.limit = limit;
            quota.window = milliseconds(10'000);
            quota.cost = std::min(cost, limit);
            const std::string key = "log" + std::to_string(limit) + "/" + std::to_string(cost);
            SCOPED_TRACE(described(quota));
            const auto log = model_of(quota.algorithm, false);
            for (uint64_t asked = 0; asked < 3 * limit; asked += quota.cost) {
                const bool fits = log->fits(quota, clock_.now());
                if (fits) {
                    log->take(quota, clock_.now());
                }
                const Verdict verdict = ask(quota, key);
                ASSERT_EQ(verdict, log->verdict(quota, clock_.now(), fits, fits));
                // the second time a third of them expires at once, wherever that cuts a node
                clock_.move(fits ? 10 : verdict.retry_after.count() + 10 * limit / cost / 3);
            }
            clock_.move(60'000'000);
        }
    }

    redis_client::ObjectPool<Permit> pool;
    redis_client::Permits permits(pool, redis_client::different_bytes);
    const std::string key = "permits";
    for (const uint64_t limit : {127, 128, 129, 511, 512, 513}) {
        Quota quota;
        quota.algorithm = Algorithm::concurrency;
        quota.limit = limit;
        quota.window = milliseconds(10'000);
        for (uint64_t taken = 0; taken <= limit; ++taken) {
            Charge charge =
                charge_of(quota, false, key, permits.make(key, quota.cost, quota.window));
            ASSERT_EQ(redis_.check({&charge, 1}), "");
            ASSERT_EQ(charge.is_charged, taken < limit);
            clock_.move(10);
        }
        clock_.move(10'000'000); // all fall free, and Redis keeps their key
    }
}

} // namespace
} // namespace model
