// What tests share that ask Redis for charges and then do something with them.
#pragma once

#include "redis.hpp"
#include "traffic.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string_view>

namespace model {

class ChargingTest : public testing::TestWithParam<rate_limit::Algorithm> {
  protected:
    /// The burst is a bucket's.
    static rate_limit::Quota quota_of(uint64_t limit, std::chrono::milliseconds window,
                                      uint64_t burst) {
        rate_limit::Quota quota;
        quota.algorithm = GetParam();
        quota.limit = limit;
        quota.window = window;
        if (rate_limit::is_bucket(quota.algorithm)) {
            quota.burst = burst;
        }
        return quota;
    }

    redis_client::Charge ask(const rate_limit::Quota &quota, std::string_view key) {
        redis_client::Charge charge = charge_of(quota, aligned_, key);
        EXPECT_EQ(redis_.check({&charge, 1}), "");
        return charge;
    }
    redis_client::Charge ask(rate_limit::Quota quota, uint64_t cost, std::string_view key) {
        quota.cost = cost;
        return ask(quota, key);
    }

    Redis redis_;
    Clock clock_;
    Traffic traffic_;
    bool aligned_ = false;
};

} // namespace model
