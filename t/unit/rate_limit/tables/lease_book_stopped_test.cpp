// A process may be stopped at any instruction of the lease book, for any time, and go on; or it may
// be killed. Whatever others do meanwhile, no unit is taken twice, nor by another key than the one
// that leased it.
#include "lease_book_test.hpp"
#include "unit/traced_process.hpp"

#include <array>
#include <csignal>
#include <random>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;

constexpr size_t most_leases = 1 << 17;
constexpr uint64_t rivals = 3; // keys for which the bucket has one entry

/// What became of each lease. Its number is its receipt.
struct Ledger {
    struct Line {
        std::atomic<uint64_t> key;
        std::atomic<int64_t> leased;
        std::atomic<int64_t> taken;
    };
    std::array<Line, most_leases> lines;
    std::atomic<int64_t> last_receipt;
    std::atomic<uint64_t> takes;
    std::atomic<uint64_t> faults;

    void take(uint64_t key, const LeaseBook::Taken &taken) {
        Line &line = lines[static_cast<size_t>(taken.receipt)];
        const auto units = static_cast<int64_t>(taken.units);
        ++takes;
        if (line.key != key || (line.taken += units) > line.leased) {
            ++faults;
        }
    }
    void give_back(const LeaseBook::Taken &taken) {
        lines[static_cast<size_t>(taken.receipt)].taken -= static_cast<int64_t>(taken.units);
    }
};

class LeaseBookStoppedTest : public LeaseBookTest {
  protected:
    LeaseBookStoppedTest() {
        for (uint64_t i = rivals; i < rivals + 3; ++i) { // they leave one entry to all others
            EXPECT_TRUE(account(i).add(lease_of(1, start + 24h, 0), now()));
        }
    }

    using Random = std::minstd_rand;

    void add(uint64_t key, const LeaseBook::Account &account, Random &random) {
        const int64_t receipt = ++ledger_->last_receipt;
        ASSERT_LT(static_cast<size_t>(receipt), most_leases);
        const uint64_t units = 1 + random() % 3;
        Ledger::Line &line = ledger_->lines[static_cast<size_t>(receipt)];
        line.key = key;
        line.leased = static_cast<int64_t>(units);
        account.add(lease_of(units, now() + microseconds(random() % 3'000), receipt), now());
    }

    void take(uint64_t key, const LeaseBook::Account &account, Random &random) {
        if (const auto taken = account.take(1, now(), *this)) {
            ledger_->take(key, *taken);
            if (random() % 2 == 0) {
                ledger_->give_back(*taken);
                if (!account.give_back(*taken, now())) {
                    ledger_->take(key, *taken);
                }
            }
        }
    }

    /// Does something for a key, by an account that was found some time ago.
    void act(uint64_t key, const LeaseBook::Account &account, Random &random) {
        switch (random() % 5) {
        case 0:
        case 1:
            add(key, account, random);
            return;
        case 2:
        case 3:
            take(key, account, random);
            return;
        default:
            if (const auto rest = account.take_ended(now())) {
                ledger_->take(key, *rest);
            }
        }
    }

    void act(Random &random) {
        const uint64_t key = random() % rivals;
        if (const auto account = book_.find_or_make(identity(key), now())) {
            const auto times = 1 + random() % 4;
            for (size_t i = 0; i < times; ++i) {
                act(key, *account, random);
            }
        }
    }

    /// Does many things, as other processes do at the same time.
    void work(unsigned seed, int turns) {
        Random random(seed);
        for (int turn = 0; turn < turns; ++turn) {
            act(random);
            pass(microseconds(random() % 300));
        }
    }

    void expect_no_fault() {
        for (uint64_t key = 0; key < rivals; ++key) {
            if (const auto account = book_.find(identity(key))) {
                while (const auto rest = account->take_all()) {
                    ledger_->take(key, *rest);
                }
            }
        }
        EXPECT_EQ(ledger_->faults, 0U);
        EXPECT_GT(ledger_->takes, 20U); // or the test has seen nothing
    }

    SharedMemory<Ledger> ledger_;
};

TEST_F(LeaseBookStoppedTest, GoesOnAfterOthersHaveDoneAnything) {
    constexpr unsigned rounds = 60;
    const unsigned seed = std::random_device()();
    SCOPED_TRACE(seed);
    Random random(seed);
    for (unsigned round = 0; round < rounds; ++round) {
        const pid_t child = start_traced([this, seed, round] {
            Random own(seed + round);
            act(own);
        });
        ASSERT_GT(child, 0);
        if (!is_stopped(child)) {
            GTEST_SKIP() << "no process may be traced here";
        }
        bool is_there = true;
        for (auto steps = random() % 6'000; steps > 0 && is_there; --steps) {
            is_there = step(child);
        }
        for (auto acts = 1 + random() % 6; acts > 0; --acts) {
            pass(microseconds(random() % 2'000));
            act(random);
        }
        while (is_there) {
            is_there = go_on(child);
        }
        pass(microseconds(random() % 4'000));
    }
    expect_no_fault();
}

TEST_F(LeaseBookStoppedTest, IsSharedByThreads) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; ++i) {
        threads.emplace_back([this, i] { work(i + 1, 20'000); });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    expect_no_fault();
}

TEST_F(LeaseBookStoppedTest, IsSharedByProcessesThatAreKilled) {
    const auto start_worker = [this](unsigned seed) {
        const pid_t child = fork();
        if (child == 0) {
            work(seed + 1, 1'000);
            _exit(0);
        }
        return child;
    };
    Random random(7);
    for (unsigned round = 0; round < 20; ++round) {
        std::array<pid_t, 2> children{};
        for (size_t i = 0; i < children.size(); ++i) {
            children[i] = start_worker(2 * round + static_cast<unsigned>(i));
            ASSERT_GT(children[i], 0);
        }
        const int64_t killed_at = ledger_->last_receipt + static_cast<int64_t>(random() % 300);
        int status = 0;
        while (ledger_->last_receipt < killed_at && waitpid(children[0], &status, WNOHANG) == 0) {
        }
        kill(children[0], SIGKILL);
        for (const pid_t child : children) {
            waitpid(child, &status, 0);
        }
    }
    expect_no_fault();
}

} // namespace
} // namespace rate_limit
