#include "limiter_test.hpp"

namespace limiter {

namespace {

using rate_limit::LeaseBook;
using std::chrono::milliseconds;

class HeldLeasesTest : public LimiterTest {
  protected:
    HeldLeasesTest() {
        applied_.rule = &add_rule({"algorithm=fixed_window", "limit=100", "window=10", "lease=1s"});
        charge_.redis_key = "rl:{per_ip:a}:fixed_window:10000";
        applied_.charge = &charge_;
    }

    /// Adds a lease of 5 units to an account, as some worker does that may have been killed since.
    void add_lease(const LeaseBook::Account &account, milliseconds time) const {
        const auto now = world.boot_now();
        EXPECT_TRUE(account.add({.units = 5,
                                 .end = now + time,
                                 .receipt = 3,
                                 .remaining = 95,
                                 .next_unit = now + time,
                                 .reset = now + time},
                                now));
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

TEST_F(HeldLeasesTest, HoldALeavingWorkerWhereANewerConfigurationMayTakeTheirUnits) {
    EXPECT_FALSE(world.is_worker_held());
    hold();
    EXPECT_TRUE(world.is_worker_held());
    world.is_worker_leaving = true;
    world.pass(milliseconds{100});
    EXPECT_TRUE(world.is_worker_held());
    zone.memory.set_latest(); // there is no newer one: the worker gives them back at once
    world.pass(milliseconds{100});
    EXPECT_FALSE(world.is_worker_held());
}

TEST_F(HeldLeasesTest, HoldNoWorkerAfterTheirEnd) {
    hold();
    world.pass(milliseconds{1000});
    EXPECT_FALSE(world.is_worker_held());
}

TEST_F(HeldLeasesTest, GoBackToTheNodeThatHasTheirKey) {
    applied_.lease.account = rate_limit::hash_of(zone.memory.seed(), charge_.redis_key);
    charge_.hash_slot = 77;
    const auto account =
        zone.memory.lease_book().find_or_make(applied_.lease.account, world.boot_now());
    ASSERT_TRUE(account);
    add_lease(*account, milliseconds{1000});
    hold();
    world.pass(milliseconds{1000});
    EXPECT_EQ(backend->settled.size(), 1u);
    EXPECT_EQ(backend->settled_in, 77);
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

TEST_F(HeldLeasesTest, WhatAKilledWorkerHasLeftGoesBackWhenTheKeyIsAskedForAgain) {
    const auto ask = [this] {
        LimitedRequest &limits = begin(request);
        EXPECT_EQ(apply(limits).kind, Step::Kind::wait);
        backend->answer(granted());
        limits.take_answers();
        const rate_limit::Hash account = limits.rules().first()->lease.account;
        limits.end();
        return account;
    };
    add_lease(*zone.memory.lease_book().find(ask()), milliseconds{10});
    world.pass(milliseconds{20});
    EXPECT_TRUE(backend->settled.empty());
    ask();
    EXPECT_EQ(backend->settled,
              std::vector<std::string>{"refund 5 rl:{per_ip:203.0.113.7}:fixed_window:10000"});
}

} // namespace

} // namespace limiter
