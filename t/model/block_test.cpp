// A block from its begin to its end, at one rule: what begins it, whom it denies, and what it is
// not.

#include "model_test.hpp"
#include "unit/redis_client/different_bytes.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <string>

namespace model {
namespace {

using namespace std::chrono_literals;
using redis_client::Blocks;

/// One rule that blocks for an hour, and a client that is about to be denied.
class BlockTest : public testing::TestWithParam<Algorithm> {
  protected:
    static constexpr milliseconds length = 1h;

    Charge make_charge(uint64_t cost) {
        Quota quota = quota_;
        quota.cost = cost;
        Permit *permit = quota.algorithm == Algorithm::concurrency
                             ? permits_.make(key_, quota.cost, quota.window)
                             : nullptr;
        Charge charge = charge_of(quota, false, key_, permit);
        charge.block = length;
        return charge;
    }
    Charge ask(uint64_t cost = 1, milliseconds block = length, bool dry_run = false) {
        Charge charge = make_charge(cost);
        charge.block = block;
        charge.dry_run = dry_run;
        EXPECT_EQ(redis_.check({&charge, 1}), "");
        return charge;
    }
    Decision decision(uint64_t cost = 1, milliseconds block = length, bool dry_run = false) {
        return ask(cost, block, dry_run).verdict.decision;
    }
    bool is_blocked() { return redis_.has(block_key_); }

    Redis redis_;
    Clock clock_;
    const Quota quota_{.algorithm = GetParam(),
                       .window = 10s,
                       .limit = 2,
                       .burst = GetParam() == Algorithm::token_bucket ? 2 : 1};
    const std::string key_ = "rl:{z:k}:a:10000";
    const std::string block_key_ = key_ + "#block";
    redis_client::ObjectPool<Permit> pool_;
    redis_client::Permits permits_{pool_, redis_client::different_bytes};
};

TEST_P(BlockTest, LastsFromTheFirstDenialToItsEndAndNotAMicrosecondLonger) {
    EXPECT_EQ(decision(2), Decision::granted);
    clock_.move(1000);
    EXPECT_FALSE(is_blocked());
    EXPECT_EQ(ask().blocked_for, length);
    for (const int64_t minutes : {10, 20}) { // denials do not prolong it
        clock_.move(minutes * 60'000'000);
        EXPECT_EQ(decision(), Decision::denied);
    }
    clock_.move(30 * 60'000'000 - 1);
    const Charge last = ask();
    EXPECT_EQ(last.blocked_for, 1us);
    EXPECT_EQ(last.of_counter.decision, Decision::granted);
    EXPECT_FALSE(last.is_charged);
    clock_.move(1);
    EXPECT_EQ(decision(2), Decision::granted) << "nothing was charged meanwhile";
}

TEST_P(BlockTest, HoldsForAllCosts) {
    EXPECT_EQ(decision(2), Decision::granted);
    EXPECT_EQ(decision(2), Decision::denied);
    clock_.move(60'000'000);
    EXPECT_EQ(decision(1), Decision::denied);
    EXPECT_EQ(decision(0), Decision::denied);
    EXPECT_EQ(decision(3), Decision::never);
}

TEST_P(BlockTest, IsNotBegunByACostThatIsNeverGranted) {
    EXPECT_EQ(decision(3), Decision::never);
    EXPECT_FALSE(is_blocked());
    EXPECT_EQ(decision(2), Decision::granted);
}

TEST_P(BlockTest, IsNeitherBegunNorReadByADryRunAndByRulesWithoutIt) {
    EXPECT_EQ(decision(2), Decision::granted);
    EXPECT_EQ(decision(1, 0ms, true), Decision::denied);
    EXPECT_EQ(decision(1, 0ms), Decision::denied);
    EXPECT_FALSE(is_blocked());
    EXPECT_EQ(decision(), Decision::denied);
    clock_.move(60'000'000);
    EXPECT_EQ(decision(1, 0ms), Decision::granted);
    EXPECT_EQ(decision(), Decision::denied);
}

TEST_P(BlockTest, BeginsAnewIfTheClockStepsBack) {
    EXPECT_EQ(decision(2), Decision::granted);
    EXPECT_EQ(decision(), Decision::denied);
    clock_.move(-86'400'000'000);
    EXPECT_EQ(ask().blocked_for, length) << "nobody waits for a day";
    clock_.move(length / 1us - 1);
    EXPECT_EQ(ask().blocked_for, 1us);
}

TEST_P(BlockTest, IsSeenByAPeekThatWritesNothing) {
    EXPECT_EQ(decision(2), Decision::granted);
    const auto denied = redis_.peek(quota_, false, key_, Blocks::yes);
    ASSERT_TRUE(denied);
    EXPECT_EQ(denied->decision, Decision::denied);
    EXPECT_LE(denied->retry_after, 15s); // of a sliding_window
    EXPECT_FALSE(is_blocked());
    EXPECT_EQ(decision(), Decision::denied);
    clock_.move(60'000'000);
    const State before = redis_.state(block_key_);
    const auto blocked = redis_.peek(quota_, false, key_, Blocks::yes);
    ASSERT_TRUE(blocked);
    EXPECT_EQ(blocked->decision, Decision::denied);
    EXPECT_EQ(blocked->retry_after, length - 60s);
    EXPECT_EQ(blocked->remaining, 0u);
    EXPECT_EQ(redis_.state(block_key_), before);
    EXPECT_EQ(redis_.peek(quota_, false, key_)->decision, Decision::granted);
}

std::string numbers(double begun, double ends) {
    const std::array<double, 2> both = {begun, ends};
    std::string bytes(sizeof(both), '\0');
    std::memcpy(bytes.data(), both.data(), sizeof(both));
    return bytes;
}

TEST_P(BlockTest, CountsWhatOthersWroteAsNone) {
    const auto now = static_cast<double>(clock_.now());
    for (const std::string &value :
         {std::string("garbage"), std::string("0123456789abcdef0"), numbers(NAN, NAN),
          numbers(now, 1e300), numbers(now, INFINITY), numbers(now - 2e6, now - 1e6)}) {
        redis_.command({"SET", block_key_, value});
        EXPECT_EQ(decision(), Decision::granted);
        EXPECT_TRUE(redis_.has(key_)) << "it is charged";
        redis_.command({"DEL", key_});
    }
    EXPECT_EQ(decision(2), Decision::granted);
    EXPECT_EQ(ask().blocked_for, length);
    redis_.command({"DEL", block_key_});
    redis_.command({"HSET", block_key_, "field", "value"});
    Charge charge = make_charge(1);
    EXPECT_NE(redis_.check({&charge, 1}).find("WRONGTYPE"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Each, BlockTest, testing::ValuesIn(all_algorithms), algorithm_name);

} // namespace
} // namespace model
