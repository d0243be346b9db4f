#include "rate_limit/metrics/latency.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;

Latencies of(const std::vector<microseconds> &times) {
    LatencyHistogram histogram{};
    for (const microseconds time : times) {
        histogram.add(time);
    }
    return histogram.read();
}

TEST(LatencyTest, NothingAtFirst) {
    const Latencies none = of({});
    EXPECT_EQ(none.count(), 0);
    EXPECT_EQ(none.sum, 0us);
    EXPECT_EQ(none.longest, 0us);
    for (const uint64_t per_mille : {0, 500, 990, 1000}) {
        EXPECT_EQ(none.quantile(per_mille), 0us);
    }
}

TEST(LatencyTest, AQuantileIsAnEighthTooLongAtMost) {
    for (int64_t time = 1; time < 100'000'000; time += 1 + time / 100) {
        const Latencies one = of({microseconds(time), 100s}); // the longest time does not cut it
        EXPECT_GE(one.quantile(500).count(), time);
        EXPECT_LE(one.quantile(500).count(), time + time / 8) << time;
        EXPECT_EQ(of({microseconds(time)}).quantile(500).count(), time) << "cut by the longest";
    }
}

TEST(LatencyTest, QuantilesOfManyTimes) {
    std::minstd_rand random(1);
    std::vector<microseconds> times;
    for (int i = 0; i < 10'000; ++i) {
        times.emplace_back(static_cast<int64_t>(std::lognormal_distribution(6.0, 1.5)(random)));
    }
    const Latencies all = of(times);
    std::ranges::sort(times);
    EXPECT_EQ(all.count(), times.size());
    EXPECT_EQ(all.longest, times.back());
    for (const uint64_t per_mille : {1, 500, 900, 990, 999, 1000}) {
        const auto exact = times[times.size() * per_mille / 1000 - 1];
        EXPECT_GE(all.quantile(per_mille), exact);
        EXPECT_LE(all.quantile(per_mille), exact + exact / 8 + 1us);
    }
}

TEST(LatencyTest, CountsUpToAPowerOfTwo) {
    for (unsigned exponent = 4; exponent <= 26; ++exponent) {
        const microseconds end(int64_t{1} << exponent);
        const Latencies three = of({end - 1us, end, end + 1us});
        EXPECT_EQ(three.count_up_to(exponent), 2) << exponent;
        EXPECT_EQ(three.count_up_to(exponent + 1), 3);
    }
}

TEST(LatencyTest, TimesBeyondTheBucketsCountInTheLast) {
    const Latencies two = of({1h, -1us});
    EXPECT_EQ(two.count(), 2);
    EXPECT_EQ(two.count_up_to(26), 1);
    EXPECT_EQ(two.sum, 1h);
    EXPECT_EQ(two.quantile(1000), 1h);
    EXPECT_EQ(two.quantile(500), 1us);
}

TEST(RecentLatenciesTest, AreOfTheLastMinute) {
    for (const microseconds start : {microseconds{0}, microseconds{3s}, microseconds{1000s}}) {
        RecentLatencies recent{};
        EXPECT_EQ(recent.read(start).count(), 0);
        recent.add(100us, start);
        recent.add(300us, start + 30s);
        EXPECT_EQ(recent.read(start + 30s).count(), 2);
        EXPECT_EQ(recent.read(start + 30s).sum, 400us);
        EXPECT_EQ(recent.read(start + 60s).count(), 2);
        EXPECT_EQ(recent.read(start + 70s).count(), 1) << "read, though nobody added any";
        EXPECT_EQ(recent.read(start + 70s).longest, 300us);
        recent.add(200us, start + 70s); // this takes the place of the first
        EXPECT_EQ(recent.read(start + 70s).sum, 500us);
        EXPECT_EQ(recent.read(start + 100s).sum, 200us);
        EXPECT_EQ(recent.read(start + 24h).count(), 0);
    }
}

TEST(RecentLatenciesTest, OfAProcessThatIsLateCountInTheNewerSlice) {
    RecentLatencies recent{};
    recent.add(100us, 1070s);
    recent.add(100us, 1000s); // this would take the same place
    EXPECT_EQ(recent.read(1070s).count(), 2);
}

} // namespace
} // namespace rate_limit
