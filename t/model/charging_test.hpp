// What tests share that ask Redis for charges and then do something with them.
#pragma once

#include "model_test.hpp"

#include <chrono>
#include <string_view>

namespace model {

class ChargingTest : public testing::TestWithParam<Algorithm> {
  protected:
    /// The burst is a bucket's.
    static Quota quota_of(uint64_t limit, milliseconds window, uint64_t burst) {
        Quota quota;
        quota.algorithm = GetParam();
        quota.limit = limit;
        quota.window = window;
        if (rate_limit::is_bucket(quota.algorithm)) {
            quota.burst = burst;
        }
        return quota;
    }

    Charge ask(const Quota &quota, std::string_view key) {
        Charge charge = charge_of(quota, aligned_, key);
        EXPECT_EQ(redis_.check({&charge, 1}), "");
        return charge;
    }
    Charge ask(Quota quota, uint64_t cost, std::string_view key) {
        quota.cost = cost;
        return ask(quota, key);
    }

    Redis redis_;
    Clock clock_;
    Traffic traffic_;
    bool aligned_ = false;
};

} // namespace model
