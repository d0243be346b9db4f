// What tests of the local fallback share.
#pragma once

#include "rate_limit/algorithms/local.hpp"
#include "unit/rate_limit/tables/shared_table_test.hpp"

#include "model/traffic.hpp"

#include <cstdint>
#include <cstdlib>

namespace rate_limit {

constexpr int64_t second = 1'000'000;             // all times here are microseconds
constexpr int64_t begin = 1'700'000'000 * second; // all aligned windows here begin then

inline Quota asking(Quota quota, uint64_t cost) {
    quota.cost = cost;
    return quota;
}

/// Traffic takes its seed from the environment.
inline model::Traffic make_traffic() {
    setenv("RATE_LIMIT_SEED", "1", 0);
    return {};
}

/// One key on one host, whose clock is set in microseconds of Unix time.
class Host {
  public:
    /// Unix time is `time` when the host has been up for a moment.
    explicit Host(int64_t time = 0) : booted_(time - 5) {}

    Now at(int64_t time) const {
        return {.monotonic = std::chrono::microseconds(time - booted_),
                .unix_time = std::chrono::microseconds(time)};
    }

    std::optional<Record> known(int64_t time) { return table().find(key, at(time).monotonic); }

    Verdict ask(const Quota &quota, int64_t time, bool aligned = false) {
        const auto decision = decide_locally(known(time), quota, aligned, at(time));
        keep(decision.converted);
        keep(decision.after);
        return decision.verdict;
    }

    /// Records a verdict of Redis whose check was sent so many microseconds before `time`.
    void record(const Quota &quota, const Verdict &verdict, int64_t time, uint64_t percent = 100,
                int64_t sent_before = 0) {
        const auto asked = at(time - sent_before).monotonic;
        keep(record_verdict(table().find(key, asked), quota, verdict, percent, asked));
    }

    void keep(const std::optional<Record> &record) {
        if (record) {
            table().store(key, *record);
        }
    }

  private:
    static constexpr Hash key{.low = 7, .high = 9};

    SharedTable table() { return bucket_.table(); }

    OneBucket bucket_{};
    int64_t booted_;
};

} // namespace rate_limit
