#include "redis_client/session/send_queue.hpp"

#include "redis_client/script/arguments.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace redis_client {
namespace {

/// Checks of one gcra rule, which share its arguments.
class SendQueueTest : public testing::Test {
  protected:
    static constexpr size_t most = 100;

    SendQueueTest() {
        quota_.algorithm = rate_limit::Algorithm::gcra;
        quota_.limit = 100;
        quota_.window = std::chrono::seconds{60};
        arguments_ = check_arguments(quota_, false);
        for (size_t i = 0; i < most; ++i) {
            charges_[i].quota = quota_;
            charges_[i].arguments = &arguments_;
            checks_[i].charges = {&charges_[i], 1};
            checks_[i].reply_size = 32;
        }
        ScriptShape shape;
        shape.add({.algorithm = quota_.algorithm, .dry_run = false});
        scripts_.add(shape);
    }

    void add(size_t count) {
        for (size_t i = 0; i < count; ++i) {
            queue_.add(checks_[i]);
        }
    }

    /// The sizes of all batches until the queue is empty.
    std::vector<size_t> take_all() {
        std::vector<size_t> sizes;
        while (!queue_.empty()) {
            sizes.push_back(0);
            for (const Command *check = &queue_.take_batch(scripts_); check != nullptr;
                 check = check->next_in_batch) {
                EXPECT_FALSE(check->is_to_send);
                ++sizes.back();
            }
        }
        return sizes;
    }

    rate_limit::Quota quota_;
    WireWords arguments_;
    std::array<Charge, most> charges_;
    std::array<Command, most> checks_;
    ScriptLibrary scripts_;
    SendQueue queue_;
};

using Sizes = std::vector<size_t>;

TEST_F(SendQueueTest, PutsChecksOfTheSameRulesIntoOneBatch) {
    add(3);
    EXPECT_EQ(queue_.front(), &checks_[0]);
    EXPECT_EQ(take_all(), Sizes{3});
    EXPECT_TRUE(queue_.empty());
}

TEST_F(SendQueueTest, KeepsABatchShort) {
    add(most);
    const Sizes sizes = take_all();
    EXPECT_GT(sizes.size(), 1u);
    EXPECT_LE(sizes[0], 64u);
}

TEST_F(SendQueueTest, KeepsApartWhatHasArgumentsOfItsOwn) {
    WireWords own = arguments_;
    charges_[1].arguments = &own;
    add(3);
    EXPECT_EQ(take_all(), (Sizes{2, 1}));
}

TEST_F(SendQueueTest, KeepsApartTheHashSlotsOfACluster) {
    checks_[1].hash_slot = 7;
    add(4);
    EXPECT_EQ(take_all(), (Sizes{3, 1}));
}

TEST_F(SendQueueTest, SendsEachAloneWhereRedisTakesNoKeysOfSeveral) {
    queue_.set_shares_batches(false);
    add(2);
    EXPECT_EQ(take_all(), (Sizes{1, 1}));
}

TEST_F(SendQueueTest, SendsEachAloneWithoutAScriptForSeveral) {
    charges_[0].dry_run = charges_[1].dry_run = true;
    add(2);
    EXPECT_EQ(take_all(), (Sizes{1, 1}));
}

TEST_F(SendQueueTest, ForgetsWhatIsRemoved) {
    add(3);
    queue_.remove(checks_[1]);
    EXPECT_FALSE(checks_[1].is_to_send);
    EXPECT_EQ(take_all(), Sizes{2});
}

} // namespace
} // namespace redis_client
