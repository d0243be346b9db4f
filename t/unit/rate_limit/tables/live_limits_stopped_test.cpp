// The process that writes live limits may be stopped at any instruction, for any time, and go on;
// or it may be killed. Another one then does its work. Requests of all processes read meanwhile.
#include "live_limits_test.hpp"
#include "unit/traced_process.hpp"

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;

constexpr uint64_t keys = 8;

class LiveLimitsStoppedTest : public LiveLimitsTest {
  protected:
    using Image = std::array<std::byte, LiveLimits::least_memory>;

    /// Another number than that of any other key and round. The burst is always the same as it.
    static Override override_of(uint64_t number, uint64_t round) {
        return {.limit = round * keys + number, .burst = round * keys + number};
    }

    /// Sets all keys, as a full synchronisation of a process that has just begun.
    static void synchronise(LiveLimitsWriter &writer, uint64_t round) {
        writer.begin_generation();
        for (uint64_t number = 0; number < keys; ++number) {
            writer.set(of_key(key(number)), override_of(number, round), start);
        }
        writer.end_generation();
    }

    static std::optional<Override> find_in(const LiveLimits &limits, uint64_t number) {
        return limits.find(key(number), "rule", [] { return start; });
    }

    static void expect_all(const LiveLimits &limits, uint64_t round) {
        EXPECT_TRUE(limits.may_override());
        EXPECT_EQ(limits.count(), keys);
        for (uint64_t number = 0; number < keys; ++number) {
            EXPECT_EQ(find_in(limits, number), override_of(number, round)) << number;
        }
    }

    /// What the next process makes of the memory that one has left which was killed.
    void expect_usable(Image image) const {
        alignas(SharedTable::Tags) Image memory = image;
        const LiveLimits limits(memory, seed_);
        LiveLimitsWriter next(limits);
        EXPECT_TRUE(next.needs_generation());
        synchronise(next, 9);
        EXPECT_FALSE(next.needs_generation());
        expect_all(limits, 9);
        EXPECT_EQ(limits.entries(), keys);
    }

    /// What a process does between two full synchronisations.
    static void do_anything(LiveLimitsWriter &writer, unsigned which) {
        switch (which % 6) {
        case 0:
            writer.set(of_key(key(3)), override_of(3, 5), start);
            return;
        case 1:
            writer.set(of_key("another"), override_of(0, 5), start);
            return;
        case 2:
            writer.remove(of_key(key(3)));
            return;
        case 3:
            writer.remove_expired(start + 1h);
            return;
        case 4:
            for (uint64_t number = 0; number < keys; ++number) {
                writer.remove(of_key(key(number)));
            }
            return;
        default:
            writer.end_generation();
        }
    }
};

TEST_F(LiveLimitsStoppedTest, IsUsableWhereverItsWriterIsKilled) {
    LiveLimitsWriter writer(limits());
    synchronise(writer, 1);
    const pid_t child = start_traced([&] { do_anything(writer, 0); });
    ASSERT_GT(child, 0);
    if (!is_stopped(child)) {
        GTEST_SKIP() << "no process may be traced here";
    }
    Image seen = memory_->bytes;
    size_t states = 1;
    while (step(child)) {
        if (memory_->bytes == seen) {
            continue;
        }
        seen = memory_->bytes;
        ++states;
        for (uint64_t number = 0; number < keys; ++number) {
            const auto found = find_in(limits(), number);
            if (number == 3) {
                EXPECT_TRUE(!found || found == override_of(3, 1) || found == override_of(3, 5));
            } else {
                EXPECT_EQ(found, override_of(number, 1)) << states;
            }
        }
        EXPECT_TRUE(limits().may_override());
        expect_usable(seen);
    }
    EXPECT_GT(states, 3U); // at least each word that differs was seen by itself
    EXPECT_EQ(find_in(limits(), 3), override_of(3, 5));
}

TEST_F(LiveLimitsStoppedTest, IsRepairedIfAStoppedWriterGoesOn) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE(seed);
    std::minstd_rand random(seed);
    LiveLimitsWriter current(limits());
    synchronise(current, 0);
    unsigned repairs = 0;
    for (unsigned round = 1; round <= 60; ++round) {
        const pid_t child = start_traced([&] { do_anything(current, round); });
        ASSERT_GT(child, 0);
        if (!is_stopped(child)) {
            GTEST_SKIP() << "no process may be traced here";
        }
        bool is_there = true;
        for (auto steps = random() % 4'000; steps > 0 && is_there; --steps) {
            is_there = step(child);
        }
        LiveLimitsWriter next(limits());
        synchronise(next, round);
        expect_all(limits(), round);
        while (is_there) {
            is_there = go_on(child);
        }
        if (next.needs_generation()) {
            ++repairs;
            synchronise(next, round);
            EXPECT_FALSE(next.needs_generation());
        }
        expect_all(limits(), round);
        current = next;
    }
    EXPECT_GT(repairs, 0U); // or nobody was stopped in the middle of a write
}

TEST_F(LiveLimitsStoppedTest, KnowsAResetWhereverItsWriterIsKilled) {
    LiveLimitsWriter writer = empty_writer();
    writer.reset("other", 1, start);
    const pid_t child = start_traced([&] { writer.reset("key", 2, start + 1s); });
    ASSERT_GT(child, 0);
    if (!is_stopped(child)) {
        GTEST_SKIP() << "no process may be traced here";
    }
    Image seen = memory_->bytes;
    while (step(child)) {
        if (memory_->bytes == seen) {
            continue;
        }
        seen = memory_->bytes;
        EXPECT_TRUE(limits().was_reset_since("other", start));
        alignas(SharedTable::Tags) Image memory = seen;
        const LiveLimits limits(memory, seed_);
        LiveLimitsWriter next(limits);
        next.begin_generation();
        next.reset("key", 2, start + 2s); // a full synchronisation lists it again
        EXPECT_TRUE(limits.was_reset_since("key", start + 1s));
        EXPECT_TRUE(limits.was_reset_since("other", start));
    }
    EXPECT_EQ(limits().reset_time("key"), start + 1s);
}

TEST_F(LiveLimitsStoppedTest, IsReadWhileItIsWritten) {
    std::atomic<bool> is_over{false};
    LiveLimitsWriter writer(limits());
    synchronise(writer, 0);
    std::atomic<uint64_t> found{0};
    std::atomic<uint64_t> faults{0};
    const auto read = [&](unsigned seed) {
        std::minstd_rand random(seed);
        while (!is_over) {
            const uint64_t number = random() % keys;
            if (const auto one = find_in(limits(), number)) {
                ++found;
                faults += one->limit != one->burst || *one->limit % keys != number ? 1 : 0;
            }
            faults += limits().may_override() ? 0 : 1;
            faults += limits().was_reset_since("nobody", start) ? 1 : 0;
            limits().count_rejection();
        }
    };
    std::vector<std::thread> readers;
    for (unsigned i = 0; i < 3; ++i) {
        readers.emplace_back(read, i + 1);
    }
    for (uint64_t round = 1; round < 2'000 || found < 1'000; ++round) {
        synchronise(writer, round);
        writer.set(of_key(key(round % keys)), override_of(round % keys, round), start);
        writer.reset(key(round % keys), round, start + microseconds(round));
        writer.remove_expired(start);
    }
    is_over = true;
    for (std::thread &reader : readers) {
        reader.join();
    }
    EXPECT_EQ(faults, 0U);
}

// The plain number stands for all that the writer has written before. ThreadSanitizer, by `make
// test-tsan`, finds a race here if seeing the generation does not mean to see that.
TEST_F(LiveLimitsStoppedTest, WhoSeesAGenerationSeesWhatWasWrittenBefore) {
    LiveLimitsWriter writer(limits());
    synchronise(writer, 0);
    uint64_t written = 0;
    std::thread reader([&] {
        while (find_in(limits(), 0)) {
        }
        EXPECT_EQ(written, 1U);
    });
    writer.begin_generation();
    written = 1;
    writer.end_generation();
    reader.join();
}

} // namespace
} // namespace rate_limit
