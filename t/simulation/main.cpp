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
    const std::pair<const char *, uint64_t> rows[] = {
        {"requests", all.requests},
        {"granted by Redis", all.granted},
        {"granted by a lease", all.leased},
        {"rejected", all.denied},
        {"settled for less", all.returns},
        {"settled for as much or more", all.debts},
        {"without a verdict", all.without_verdict},
        {"clients that left before", all.left},
        {"connections broken while sending", all.network.broken_while_sending},
        {"connections broken while answering", all.network.broken_while_answering},
        {"connections refused", all.network.refused_connections},
        {"connections without an answer", all.network.silent_connections},
        {"commands that a stall held up", all.network.stalls},
        {"commands in pieces", all.network.split_commands},
        {"replies in pieces", all.network.split_replies},
        {"outages", all.outages},
        {"outages with loss of data", all.lost_data},
        {"SCRIPT FLUSH", all.forgotten_scripts},
        {"workers killed", all.killed_workers},
        {"workers stopped", all.stopped_workers},
        {"workers that left", all.reloads},
    };
    for (const auto &[what, count] : rows) {
        std::printf("%12llu  %s\n", static_cast<unsigned long long>(count), what);
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
        all.add(fleet.happened());
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
