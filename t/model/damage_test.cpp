// Keys that hold what no script put there: an error, or some decision, and nothing worse.

#include "model_test.hpp"
#include "unit/redis_client/different_bytes.hpp"

namespace model {
namespace {

class DamageTest : public testing::TestWithParam<Algorithm> {
  protected:
    std::string check(const Quota &quota, const std::string &key) {
        Charge charge = charge_of(quota, false, key, permit_of(quota, key));
        return redis_.check({&charge, 1});
    }

    Permit *permit_of(const Quota &quota, const std::string &key) {
        return quota.algorithm == Algorithm::concurrency
                   ? permits_.make(key, quota.cost, quota.window)
                   : nullptr;
    }

    std::string random_bytes(int64_t size) {
        std::string bytes;
        for (int64_t i = 0; i < size; ++i) {
            bytes += static_cast<char>(
                traffic_.one_of({0, 0x7f, 0xf0, 0xff, '0', '1', ' ', traffic_.between(0, 255)}));
        }
        return bytes;
    }

    Redis redis_;
    Clock clock_;
    Traffic traffic_;
    redis_client::ObjectPool<Permit> pool_;
    redis_client::Permits permits_{pool_, redis_client::different_bytes};
};

TEST_P(DamageTest, AKeyOfAnotherTypeIsAnErrorAndChargesNoOtherRule) {
    const Quota quota = traffic_.small_quota(GetParam());
    redis_.command({"HSET", "hash", "field", "value"});
    EXPECT_NE(check(quota, "hash").find("WRONGTYPE "), std::string::npos);

    const Quota other = traffic_.small_quota(Algorithm::gcra);
    Charge charges[] = {charge_of(other, false, "first"),
                        charge_of(quota, false, "hash", permit_of(quota, "hash")),
                        charge_of(other, false, "last")};
    EXPECT_NE(redis_.check(charges).find("WRONGTYPE "), std::string::npos);
    EXPECT_FALSE(redis_.has("first"));
    EXPECT_FALSE(redis_.has("last"));
}

TEST_P(DamageTest, WhatNoScriptWroteDoesNoHarm) {
    for (int round = 0; round < 600; ++round) {
        Quota quota = traffic_.small_quota(GetParam());
        quota.cost = static_cast<uint64_t>(traffic_.between(0, 3));
        const std::string key = "k" + std::to_string(round);
        const std::string value = random_bytes(traffic_.between(0, 48));
        switch (GetParam()) {
        case Algorithm::sliding_log:
            redis_.command({"RPUSH", key, value, random_bytes(16), std::to_string(clock_.now())});
            break;
        case Algorithm::concurrency:
            redis_.command({"ZADD", key, std::to_string(traffic_.between(-5, clock_.now())), value,
                            "5", random_bytes(3)});
            break;
        default:
            redis_.command({"SET", key, value});
        }
        redis_.command({"PEXPIRE", key, "60000"});
        Charge charge = charge_of(quota, false, key, permit_of(quota, key));
        redis_.check({&charge, 1});
        charge.receipt = traffic_.between(0, clock_.now());
        if (charge.permit == nullptr) {
            redis_.refund(charge);
        }
        ASSERT_NE(redis_.time_to_live_ms(key), -1) << testing::PrintToString(value);
    }
    EXPECT_EQ(redis_.command({"PING"}).text, "PONG");
}

TEST_P(DamageTest, AStateOfAnotherVersionCountsAsNoneAndIsReplaced) {
    const Quota quota = traffic_.small_quota(GetParam());
    const std::string other(32, '\x7f'); // no algorithm's state has so many bytes
    switch (GetParam()) {
    case Algorithm::sliding_log:
        redis_.command({"RPUSH", "k", other, other});
        break;
    case Algorithm::concurrency:
        redis_.command({"ZADD", "k", "7", other, "8", other + other});
        break;
    default:
        redis_.command({"SET", "k", other});
    }
    Charge charge = charge_of(quota, false, "k", permit_of(quota, "k"));
    if (charge.permit == nullptr) {
        EXPECT_EQ(redis_.refund(charge), "");
    }
    ASSERT_EQ(redis_.check({&charge, 1}), "");
    Charge twin = charge_of(quota, false, "twin", permit_of(quota, "twin"));
    ASSERT_EQ(redis_.check({&twin, 1}), "");
    EXPECT_EQ(charge.verdict, twin.verdict);
    EXPECT_EQ(charge.is_charged, twin.is_charged);
    if (charge.is_charged) {
        EXPECT_NE(redis_.time_to_live_ms("k"), -1);
    }
}

INSTANTIATE_TEST_SUITE_P(Each, DamageTest,
                         testing::Values(Algorithm::fixed_window, Algorithm::sliding_log,
                                         Algorithm::sliding_window, Algorithm::gcra,
                                         Algorithm::concurrency),
                         algorithm_name);

} // namespace
} // namespace model
