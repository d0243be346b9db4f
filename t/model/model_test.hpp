// What most tests of this folder use.
#pragma once

#include "models.hpp"
#include "redis.hpp"
#include "traffic.hpp"
#include "unit/rate_limit/algorithms.hpp"

#include <gtest/gtest.h>

namespace model {

using rate_limit::Algorithm;
using rate_limit::all_algorithms;
using rate_limit::all_but_concurrency;
using rate_limit::Decision;
using rate_limit::Quota;
using rate_limit::Verdict;
using redis_client::Charge;
using redis_client::Permit;
using redis_client::SettlementKind;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// microseconds
inline constexpr int64_t second = 1'000'000;
inline constexpr int64_t minute = 60 * second;

/// Names the instances of a test that has an algorithm as its parameter.
inline const auto algorithm_name = [](const auto &info) {
    return std::string(rate_limit::to_string(info.param));
};

} // namespace model
