#include "limiter_test.hpp"

namespace limiter {

namespace {

class HeldLeasesTest : public LimiterTest {
  protected:
    HeldLeasesTest() {
        applied_.rule = &add_rule({"algorithm=fixed_window", "limit=100", "window=10", "lease=1s"});
        charge_.redis_key = "rl:{per_ip:a}:fixed_window:10000";
        applied_.charge = &charge_;
    }

    void hold() { worker->leases.hold(applied_, world.boot_now() + std::chrono::seconds{1}); }

    redis_client::Charge charge_;
    AppliedRule applied_;
};

TEST_F(HeldLeasesTest, AreHeldUntilTheirEnd) {
    hold();
    world.pass(std::chrono::milliseconds{999});
    EXPECT_EQ(backend->leases(), 1u);
    world.pass(std::chrono::milliseconds{1});
    EXPECT_EQ(backend->leases(), 0u);
}

TEST_F(HeldLeasesTest, AreLetGoWithoutMemory) {
    world.has_memory = false;
    hold();
    EXPECT_EQ(backend->leases(), 0u);
}

TEST_F(HeldLeasesTest, AreNotHeldAnyMoreByAWorkerThatEnds) {
    hold();
    worker->leases.return_all();
    EXPECT_EQ(backend->leases(), 0u);
    hold(); // a reply that was read at last
    EXPECT_EQ(backend->leases(), 0u);
}

} // namespace

} // namespace limiter
