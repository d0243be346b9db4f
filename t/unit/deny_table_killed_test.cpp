// A process that is killed at any instruction of DenyTable::add(): it is stepped through by
// ptrace(2), and what it has stored so far is looked at as another process would find it.

#include "deny_table_test.hpp"

#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <memory>

#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;

Verdict denied(uint64_t number) {
    const microseconds wait = 100s + microseconds(number);
    return {.decision = Decision::denied,
            .remaining = number,
            .retry_after = wait,
            .next_unit = wait,
            .reset = wait};
}

using Words = std::array<uint64_t, std::tuple_size_v<decltype(DenyTable::Entry::words)>>;

struct Unmap {
    void operator()(OneBucket *bucket) const { munmap(bucket, sizeof(*bucket)); }
};
using SharedBucket = std::unique_ptr<OneBucket, Unmap>;

SharedBucket share_bucket() {
    void *memory =
        mmap(nullptr, sizeof(OneBucket), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return SharedBucket(memory == MAP_FAILED ? nullptr : new (memory) OneBucket{});
}

using Image = std::array<Words, DenyTable::entries_of_bucket>;

Image image_of(const OneBucket &bucket) {
    Image image{};
    for (size_t entry = 0; entry < image.size(); ++entry) {
        for (size_t word = 0; word < image[entry].size(); ++word) {
            image[entry][word] = bucket.entries[entry].words[word];
        }
    }
    return image;
}

/// Whether a table that looks like this takes and gives denials.
bool is_usable(const Image &image) {
    OneBucket bucket{};
    for (size_t entry = 0; entry < image.size(); ++entry) {
        for (size_t word = 0; word < image[entry].size(); ++word) {
            bucket.entries[entry].words[word] = image[entry][word];
        }
    }
    DenyTable table = bucket.table();
    table.add(hash(1000), denied(1000), at(start + 1s));
    return table.find(hash(1000), start + 1s, an_hour) == denied(1000);
}

/// A child that stops before it does the work.
template <typename Work>
pid_t start_traced(const Work &work) {
    const pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) {
            _exit(1);
        }
        raise(SIGSTOP);
        work();
        _exit(0);
    }
    return child;
}

/// Whether the child stands still, ready for a step.
bool is_stopped(pid_t child) {
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFSTOPPED(status);
}

TEST(DenyTableKilledTest, LeavesTheTableUsable) {
    const SharedBucket bucket = share_bucket();
    ASSERT_NE(bucket, nullptr);
    DenyTable table = bucket->table();
    constexpr uint64_t oldest = 0;
    constexpr uint64_t added = DenyTable::entries_of_bucket;
    for (uint64_t i = oldest; i < added; ++i) {
        table.add(hash(i), denied(i), at(start + microseconds(i)));
    }
    const microseconds now = start + 1ms;
    const pid_t child = start_traced([&] { table.add(hash(added), denied(added), at(now)); });
    ASSERT_GT(child, 0);
    if (!is_stopped(child)) {
        GTEST_SKIP() << "no process may be traced here";
    }

    Image seen = image_of(*bucket);
    size_t states = 1;
    while (ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) == 0 && is_stopped(child)) {
        const Image image = image_of(*bucket);
        if (image == seen) {
            continue;
        }
        seen = image;
        ++states;
        for (uint64_t i = oldest + 1; i < added; ++i) {
            EXPECT_EQ(table.find(hash(i), start + microseconds(i), an_hour), denied(i)) << states;
        }
        const auto replaced = table.find(hash(oldest), start, an_hour);
        EXPECT_TRUE(!replaced || replaced == denied(oldest)) << states;
        const auto half = table.find(hash(added), now, an_hour);
        EXPECT_TRUE(!half || half == denied(added)) << states;
        EXPECT_TRUE(is_usable(image)) << states;
    }
    EXPECT_GT(states, 7u); // a store for each word that differs
    EXPECT_EQ(table.find(hash(added), now, an_hour), denied(added));
}

} // namespace
} // namespace rate_limit
