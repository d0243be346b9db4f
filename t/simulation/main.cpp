// simulate: runs simulated fleets, one for each seed, and prints what is wrong. Closes with how
// often each fault hit something, and with the SHA-256 of all that happened.
//
//   simulate --seed 1 --worlds 100 --seconds 10
//   simulate --seed 244 --trace k1                 prints what happened to this key; '' prints all
#include "simulation/simulated_fleet.hpp"

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace {

using namespace simulation;

uint64_t number_of(std::string_view text) {
    uint64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

void print(const Happened &all) {
    for (const auto &[what, count] : happened_rows) {
        std::printf("%12llu  %s\n", static_cast<unsigned long long>(all.*count), what);
    }
}

} // namespace

int main(int count, char **words) {
    uint64_t seed = 1;
    uint64_t worlds = 1;
    uint64_t seconds = 10; // of each world
    const char *subject = nullptr;
    for (int i = 1; i + 1 < count; i += 2) {
        const std::string_view name = words[i];
        if (name == "--trace") {
            subject = words[i + 1];
        } else {
            (name == "--seed"     ? seed
             : name == "--worlds" ? worlds
                                  : seconds) = number_of(words[i + 1]);
        }
    }
    const auto began = std::chrono::steady_clock::now();
    Journal journal;
    if (subject != nullptr) {
        journal.print_lines_about(subject);
    }
    Happened all;
    uint64_t failed = 0;
    for (uint64_t i = 0; i < worlds; ++i) {
        SimulatedFleet fleet(seed + i, journal);
        const auto complaints = fleet.run(Time{static_cast<int64_t>(seconds * 1'000'000)});
        for (const auto &[what, count] : happened_rows) {
            all.*count += fleet.happened().*count;
        }
        if (!complaints.empty()) {
            ++failed;
            std::printf("seed %llu: %s%s\n", static_cast<unsigned long long>(seed + i),
                        complaints.front().c_str(), complaints.size() > 1 ? ", and more" : "");
        }
    }
    print(all);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    std::printf("%12.0f  requests a second\n", static_cast<double>(all.requests) / took.count());
    std::printf("SHA-256 of %llu events: %s\n", static_cast<unsigned long long>(journal.lines()),
                journal.end().c_str());
    std::printf("%llu passed, %llu failed\n", static_cast<unsigned long long>(worlds - failed),
                static_cast<unsigned long long>(failed));
    return failed == 0 ? 0 : 1;
}
