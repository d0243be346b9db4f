#include "rate_limit/metrics/backend_counters.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::microseconds now = 1000s;

class BackendCountersTest : public testing::Test, Machine {
  protected:
    WorkerGauges *start_worker(pid_t process) {
        living_.insert(process);
        return counters_->claim_gauges(process, *this);
    }
    BackendCounts read() const { return counters_->read(*this, now); }

    std::chrono::microseconds boot_now() const override { return now; }
    bool is_alive(pid_t process) const override { return living_.contains(process); }

    std::set<pid_t> living_;
    std::unique_ptr<BackendCounters> counters_ = std::make_unique<BackendCounters>();
};

TEST_F(BackendCountersTest, ChecksByWhatBecameOfThem) {
    counters_->count_check(std::nullopt, 1ms, now);
    counters_->count_check(Failure::timeout, 100ms, now);
    counters_->count_check(Failure::timeout, 100ms, now);
    counters_->count_check(Failure::reply, 1ms, now);
    counters_->count_refusal(Failure::breaker);
    counters_->count_refusal(Failure::overload);
    counters_->count_refusal(Failure::connect);
    counters_->count(BackendEvent::reconnect);
    counters_->count(BackendEvent::script_reload, 3);
    const BackendCounts counts = read();
    EXPECT_EQ(counts.checks, 7);
    EXPECT_EQ(counts.errors, (decltype(counts.errors){2, 1, 1, 1, 1}));
    EXPECT_EQ(counts.latency.count(), 4) << "those that were asked";
    EXPECT_EQ(counts.latency.sum, 202ms);
    EXPECT_EQ(counts.recent_latency.count(), 4);
    EXPECT_EQ(counts.events, (decltype(counts.events){1, 3}));
}

TEST_F(BackendCountersTest, TheBestStateOfAnyWorkerHolds) {
    EXPECT_EQ(read().state, BackendState::idle);
    WorkerGauges *first = start_worker(1);
    WorkerGauges *second = start_worker(2);
    EXPECT_EQ(read().state, BackendState::idle);
    first->connection_failed();
    EXPECT_EQ(read().state, BackendState::down);
    second->connection_ready();
    second->connection_ready(); // this one is of another node
    second->connection_lost();
    EXPECT_EQ(read().state, BackendState::up);
    second->connection_lost();
    EXPECT_EQ(read().state, BackendState::down);
}

TEST_F(BackendCountersTest, GaugesAreThoseOfAllWorkersThatLive) {
    WorkerGauges *first = start_worker(1);
    WorkerGauges *second = start_worker(2);
    first->check_asked();
    first->check_asked();
    second->check_asked();
    second->connection_ready();
    first->check_ended();
    EXPECT_EQ(read().pending, 2);

    living_.erase(2); // this process was killed
    EXPECT_EQ(read().pending, 1);
    EXPECT_EQ(read().state, BackendState::idle);
    EXPECT_EQ(start_worker(3), second) << "a new one takes its place";
    EXPECT_EQ(read().pending, 1) << "and begins with nothing";

    BackendCounters::release_gauges(*first);
    EXPECT_EQ(read().pending, 0);
}

TEST_F(BackendCountersTest, AProcessOfTheSameNumberBeginsAnew) {
    start_worker(1)->check_asked();
    EXPECT_NE(start_worker(1), nullptr);
    EXPECT_EQ(read().pending, 0);
}

TEST_F(BackendCountersTest, WithoutRoomAWorkerHasNoGauges) {
    for (size_t i = 1; i <= BackendCounters::most_workers; ++i) {
        EXPECT_NE(start_worker(static_cast<pid_t>(i)), nullptr);
    }
    EXPECT_EQ(start_worker(100'000), nullptr);
    living_.erase(7);
    EXPECT_NE(start_worker(100'000), nullptr);
}

} // namespace
} // namespace rate_limit
