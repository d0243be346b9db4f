// The permits of requests in flight: given back, renewed, and fallen free.

#include "model_test.hpp"
#include "unit/redis_client/different_bytes.hpp"

#include <algorithm>

namespace model {
namespace {

class PermitsTest : public testing::Test {
  protected:
    PermitsTest() {
        quota_.algorithm = Algorithm::concurrency;
        quota_.limit = 2;
        quota_.window = milliseconds(10'000);
    }

    Charge ask(std::string_view key = "k") {
        Charge charge =
            charge_of(quota_, false, key, permits_.make(key, quota_.cost, quota_.window));
        EXPECT_EQ(redis_.check({&charge, 1}), "");
        return charge;
    }

    /// Its permit, or null where it was denied.
    Permit *take(std::string_view key = "k") {
        const Charge charge = ask(key);
        return charge.is_charged ? charge.permit : nullptr;
    }

    uint64_t remaining(std::string_view key = "k") {
        Quota quota = quota_;
        quota.cost = 0;
        Charge charge = charge_of(quota, false, key, permits_.make(key, 0, quota.window));
        EXPECT_EQ(redis_.check({&charge, 1}), "");
        return charge.verdict.remaining;
    }

    void release(const Permit &permit) { EXPECT_EQ(redis_.release(permit), ""); }
    void renew(std::vector<Permit *> permits) { EXPECT_EQ(redis_.renew(permits), ""); }

    Redis redis_;
    Clock clock_;
    Traffic traffic_;
    redis_client::ObjectPool<Permit> pool_;
    redis_client::Permits permits_{pool_, redis_client::different_bytes};
    Quota quota_;
    const int64_t window_ = 10'000'000;
};

TEST_F(PermitsTest, AreGivenBackOnce) {
    Permit *first = take();
    ASSERT_NE(first, nullptr);
    ASSERT_NE(take(), nullptr);
    EXPECT_EQ(take(), nullptr);
    release(*first);
    EXPECT_EQ(remaining(), 1U);
    release(*first);
    EXPECT_EQ(remaining(), 1U);
}

TEST_F(PermitsTest, LeaveNothingWhenAllAreGivenBack) {
    quota_.cost = 2;
    const Permit *permit = take();
    release(*permit);
    EXPECT_FALSE(redis_.has("k"));
    release(*permit);
    EXPECT_FALSE(redis_.has("k"));
}

TEST_F(PermitsTest, FallFreeAfterTheWindowUnlessRenewed) {
    Permit *renewed = take();
    ASSERT_NE(take(), nullptr);
    Permit *elsewhere = take("other");
    clock_.move(window_ - 1);
    EXPECT_EQ(take(), nullptr);
    renew({renewed, elsewhere});
    EXPECT_GE(redis_.time_to_live_ms("k"), 15'000);
    clock_.move(1);
    EXPECT_EQ(remaining(), 1U);
    ASSERT_NE(take(), nullptr);
    EXPECT_EQ(take(), nullptr);
    clock_.move(window_ - 2);
    EXPECT_EQ(remaining(), 0U);
    EXPECT_EQ(remaining("other"), 1U);
    clock_.move(1);
    EXPECT_EQ(remaining(), 1U);
    EXPECT_EQ(remaining("other"), 2U);
}

TEST_F(PermitsTest, ThatFellFreeAndWereTakenByOthersAreNeitherRenewedNorGivenBack) {
    Permit *late[] = {take(), take()};
    clock_.move(window_);
    Permit *others[] = {take(), take()};
    ASSERT_NE(others[1], nullptr);
    renew({late[0], late[1]});
    EXPECT_EQ(remaining(), 0U);
    release(*late[0]);
    EXPECT_EQ(remaining(), 0U);
    release(*others[0]);
    release(*others[1]);
    EXPECT_FALSE(redis_.has("k"));
}

TEST_F(PermitsTest, AreCountedOnAMachineThatDoesNotKnowTheTime) {
    for (const uint64_t limit : {2, 1'000'000'000}) { // few units, and more than microseconds
        const std::string key = std::to_string(limit);
        quota_.limit = limit;
        quota_.cost = limit / 2;
        clock_.set(3'000'000); // since 1970
        ASSERT_NE(take(key), nullptr);
        ASSERT_NE(take(key), nullptr);
        EXPECT_EQ(remaining(key), 0U);
        clock_.move(window_);
        EXPECT_EQ(remaining(key), limit) << "all have fallen free";
        ASSERT_NE(take(key), nullptr);
        clock_.set(1'700'000'000'000'000);
        EXPECT_EQ(remaining(key), limit);
    }
}

TEST_F(PermitsTest, StillCountWhereTheClockStepsBack) {
    Permit *before = take();
    clock_.move(-3'600'000'000);
    ASSERT_NE(take(), nullptr);
    EXPECT_EQ(take(), nullptr);
    renew({before}); // its request lives on
    clock_.move(window_);
    EXPECT_EQ(remaining(), 2U);
}

TEST_F(PermitsTest, OfRequestsThatComeAndGo) {
    constexpr int steps = 4'000;
    int denied = 0;
    for (int round = 0; round < 4; ++round) {
        quota_.limit = static_cast<uint64_t>(traffic_.between(1, 30));
        const std::string key = "random" + std::to_string(round);
        const auto table = concurrency_model();
        std::vector<Permit *> alive;
        for (int step = 0; step < steps / 4; ++step) {
            clock_.move(traffic_.between(0, window_ / 10));
            std::ranges::shuffle(alive, std::mt19937(static_cast<unsigned>(step)));
            const int64_t what = traffic_.between(0, 9);
            if (what < 3 && !alive.empty()) {
                release(*alive.back());
                table->release(alive.back()->name);
                alive.pop_back();
            } else if (what == 3) {
                alive.resize(alive.size() / 2); // a host dies
            } else if (what == 4 && !alive.empty()) {
                renew(alive);
                for (const Permit *permit : alive) {
                    table->renew(quota_, clock_.now(), permit->name);
                }
            } else {
                quota_.cost = static_cast<uint64_t>(traffic_.between(1, 3));
                const bool fits = table->fits(quota_, clock_.now(), quota_.cost);
                const Charge charge = ask(key);
                ASSERT_EQ(charge.is_charged, fits) << "step " << step;
                if (fits) {
                    table->take_permit(quota_, clock_.now(), charge.permit->name);
                    alive.push_back(charge.permit);
                }
                denied += fits ? 0 : 1;
            }
            ASSERT_TRUE(table->fits(quota_, clock_.now(), 0)) << "never more than the limit";
            ASSERT_EQ(table->fits(quota_, clock_.now(), 1), remaining(key) > 0);
            ASSERT_NE(redis_.time_to_live_ms(key), -1);
        }
    }
    EXPECT_GT(denied, 100);
}

} // namespace
} // namespace model
