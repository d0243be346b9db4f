#include "rate_limit/tables/process_claim.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <thread>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;

class Processes final : public Machine {
  public:
    explicit Processes(bool are_alive) : are_alive_(are_alive) {}

  private:
    std::chrono::microseconds boot_now() const override { return {}; }
    bool is_alive(pid_t /*process*/) const override { return are_alive_; }

    bool are_alive_;
};

const Processes always(true);
const Processes never(false);

constexpr auto begin = 1'000'000ms;
constexpr auto lasts_for = ProcessClaim::lasts_for;

TEST(ProcessClaim, OneHasItUntilItEnds) {
    ProcessClaim claim{};
    EXPECT_TRUE(claim.take(1, begin, always));
    EXPECT_FALSE(claim.take(2, begin, always));
    EXPECT_FALSE(claim.take(2, begin + lasts_for - 1ms, always));
    EXPECT_TRUE(claim.take(2, begin + lasts_for, always));
    EXPECT_FALSE(claim.take(1, begin + lasts_for, always));
}

TEST(ProcessClaim, IsKept) {
    ProcessClaim claim{};
    EXPECT_FALSE(claim.keep(1, begin)) << "nobody has it";
    EXPECT_TRUE(claim.take(1, begin, always));
    EXPECT_FALSE(claim.keep(2, begin));
    EXPECT_TRUE(claim.keep(1, begin + 500ms));
    EXPECT_TRUE(claim.take(1, begin + 1000ms, always));
    EXPECT_FALSE(claim.take(2, begin + 1000ms + lasts_for - 1ms, always));
    EXPECT_TRUE(claim.keep(1, begin + 10'000ms)) << "it has ended, but nobody has taken it";
    EXPECT_FALSE(claim.take(2, begin + 10'000ms, always));
}

TEST(ProcessClaim, AStoppedProcessLosesIt) {
    ProcessClaim claim{};
    EXPECT_TRUE(claim.take(1, begin, always));
    EXPECT_TRUE(claim.take(2, begin + lasts_for, always));
    EXPECT_FALSE(claim.keep(1, begin + lasts_for));
    claim.release(1);
    EXPECT_TRUE(claim.keep(2, begin + lasts_for));
}

TEST(ProcessClaim, ADeadProcessLosesItAtOnce) {
    ProcessClaim claim{};
    EXPECT_TRUE(claim.take(1, begin, never));
    EXPECT_TRUE(claim.take(2, begin, never));
    EXPECT_FALSE(claim.keep(1, begin));
}

TEST(ProcessClaim, IsReleased) {
    ProcessClaim claim{};
    EXPECT_TRUE(claim.take(1, begin, always));
    claim.release(1);
    EXPECT_FALSE(claim.keep(1, begin));
    EXPECT_TRUE(claim.take(2, begin, always));
}

TEST(ProcessClaim, TheClockMayWrapAround) {
    for (const auto now : {0x7fff'ffffms, 0xffff'ffffms, 0x1'0000'0000ms - lasts_for}) {
        ProcessClaim claim{};
        EXPECT_TRUE(claim.take(1, now, always));
        EXPECT_FALSE(claim.take(2, now + lasts_for - 1ms, always));
        EXPECT_TRUE(claim.take(2, now + lasts_for, always));
    }
}

TEST(ProcessClaim, NeverTwoHaveIt) {
    ProcessClaim claim{};
    std::atomic<int> holders = 0;
    std::atomic<bool> were_two = false;
    const auto work = [&](pid_t process) {
        for (int i = 0; i < 20'000; ++i) {
            if (claim.take(process, begin, always)) {
                were_two = were_two || ++holders > 1;
                --holders;
                claim.release(process);
            }
        }
    };
    std::thread others[] = {std::thread(work, 1), std::thread(work, 2)};
    for (std::thread &other : others) {
        other.join();
    }
    EXPECT_FALSE(were_two);
}

// What the holder before has written is there for the next one. ThreadSanitizer finds a race if
// not.
TEST(ProcessClaim, PassesOnWhatItsHoldersHaveWritten) {
    ProcessClaim claim{};
    int written = 0;
    const auto work = [&](pid_t process) {
        for (int i = 0; i < 1'000;) {
            if (claim.take(process, begin, always)) {
                ++written;
                ++i;
                claim.release(process);
            }
        }
    };
    std::thread others[] = {std::thread(work, 1), std::thread(work, 2)};
    for (std::thread &other : others) {
        other.join();
    }
    EXPECT_EQ(written, 2'000);
}

} // namespace
} // namespace rate_limit
