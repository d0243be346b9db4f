// How long checks took: a histogram of fixed buckets in memory that many processes share.
//
// Between a power of two of microseconds and the next one there are eight buckets of the same
// width. So a quantile that is read from the histogram is too long by an eighth at most.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace rate_limit {

inline constexpr size_t latency_bucket_count = 200;

/// A copy of the histogram.
struct Latencies {
    std::array<uint64_t, latency_bucket_count> buckets{};
    std::chrono::microseconds sum{0};
    std::chrono::microseconds longest{0};

    uint64_t count() const;
    /// How many checks took up to 2^exponent microseconds, for an exponent from 4 to 27.
    uint64_t count_up_to(unsigned exponent) const;
    void add(const Latencies &others);
    /// The time in which so many of a thousand checks were done, rounded up to the end of a bucket;
    /// 0 if there were no checks.
    std::chrono::microseconds quantile(uint64_t per_mille) const;
};

/// It lives in memory that is all zeros at first.
class LatencyHistogram {
  public:
    void add(std::chrono::microseconds time);
    Latencies read() const;
    void reset();

  private:
    std::atomic<uint64_t> sum_;     // microseconds
    std::atomic<uint64_t> longest_; // microseconds
    std::array<std::atomic<uint64_t>, latency_bucket_count> buckets_;
};

/// The latencies of the last minute, or of up to ten seconds more or less. They live in memory that
/// is all zeros at first. Times are of one clock that all processes share and that never steps
/// back.
class RecentLatencies {
  public:
    void add(std::chrono::microseconds time, std::chrono::microseconds now);
    Latencies read(std::chrono::microseconds now) const;

  private:
    static constexpr std::chrono::microseconds slice_length = std::chrono::seconds{10};
    struct Slice {
        std::atomic<uint64_t> number; // counts the ten seconds from the clock's zero
        LatencyHistogram histogram;
    };
    std::array<Slice, 7> slices_; // the one that is being filled, and a minute before it
};

} // namespace rate_limit
