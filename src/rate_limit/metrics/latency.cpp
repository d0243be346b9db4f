#include "rate_limit/metrics/latency.hpp"

#include "rate_limit/memory_order.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>

namespace rate_limit {

namespace {

using std::chrono::microseconds;

// Each power of two is divided into eight buckets. Below 16 microseconds these would be narrower
// than a microsecond: there are sixteen of a microsecond each instead.
constexpr int steps_log = 3;
constexpr size_t steps = size_t{1} << steps_log;

/// A bucket has the times that are above the end of the bucket before it, up to its own end.
size_t bucket_of(uint64_t time) {
    const uint64_t below = std::max<uint64_t>(time, 1) - 1;
    const int bits = static_cast<int>(std::bit_width(below));
    const auto width_log = static_cast<uint64_t>(std::max(bits - steps_log - 1, 0));
    const uint64_t bucket = width_log * steps + (below >> width_log);
    return std::min<uint64_t>(bucket, latency_bucket_count - 1);
}

uint64_t end_of(size_t bucket) {
    const size_t width_log = std::max<size_t>(bucket / steps, 1) - 1;
    return (bucket - width_log * steps + 1) << width_log;
}

} // namespace

uint64_t Latencies::count() const {
    return std::accumulate(buckets.begin(), buckets.end(), uint64_t{0});
}

uint64_t Latencies::count_up_to(unsigned exponent) const {
    const auto end = static_cast<ptrdiff_t>(bucket_of(uint64_t{1} << exponent) + 1);
    return std::accumulate(buckets.begin(), buckets.begin() + end, uint64_t{0});
}

microseconds Latencies::quantile(uint64_t per_mille) const {
    const uint64_t wanted = (count() * per_mille + 999) / 1000;
    uint64_t counted = 0;
    for (size_t i = 0; i < buckets.size() && wanted > 0; ++i) {
        counted += buckets[i];
        if (counted >= wanted && i + 1 < buckets.size()) {
            return std::min(microseconds(static_cast<int64_t>(end_of(i))), longest);
        }
    }
    return longest;
}

void Latencies::add(const Latencies &others) {
    std::ranges::transform(buckets, others.buckets, buckets.begin(), std::plus<>());
    sum += others.sum;
    longest = std::max(longest, others.longest);
}

void LatencyHistogram::add(microseconds time) {
    const auto count = static_cast<uint64_t>(std::max(time, microseconds::zero()).count());
    uint64_t known = longest_.load(relaxed);
    while (known < count && !longest_.compare_exchange_weak(known, count, relaxed)) {
    }
    sum_.fetch_add(count, relaxed);
    buckets_[bucket_of(count)].fetch_add(1, relaxed);
}

void LatencyHistogram::reset() {
    for (auto &bucket : buckets_) {
        bucket.store(0, relaxed);
    }
    sum_.store(0, relaxed);
    longest_.store(0, relaxed);
}

Latencies LatencyHistogram::read() const {
    Latencies copy;
    for (size_t i = 0; i < buckets_.size(); ++i) {
        copy.buckets[i] = buckets_[i].load(relaxed);
    }
    copy.sum = microseconds(static_cast<int64_t>(sum_.load(relaxed)));
    copy.longest = microseconds(static_cast<int64_t>(longest_.load(relaxed)));
    return copy;
}

/// The process that begins a slice empties it. What others add at that very moment may get lost.
void RecentLatencies::add(microseconds time, microseconds now) {
    const auto number = static_cast<uint64_t>(now / slice_length);
    Slice &slice = slices_[number % slices_.size()];
    uint64_t known = slice.number.load(relaxed);
    if (known < number && slice.number.compare_exchange_strong(known, number, relaxed)) {
        slice.histogram.reset();
    }
    slice.histogram.add(time);
}

Latencies RecentLatencies::read(microseconds now) const {
    const auto number = static_cast<uint64_t>(now / slice_length);
    Latencies all;
    for (const Slice &slice : slices_) {
        if (slice.number.load(relaxed) + slices_.size() > number) {
            all.add(slice.histogram.read());
        }
    }
    return all;
}

} // namespace rate_limit
