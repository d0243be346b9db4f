// simulate: runs simulated fleets, one for each seed, and prints what is wrong. Closes with how
// often each fault hit something, and with the SHA-256 of all that happened.
//
//   simulate --seed 1 --worlds 100 --seconds 10
//   simulate --seed 244 --trace k1              prints what happened to this key; '' prints all
//   simulate --worlds 1000 --until-failure yes  ends with the first world that fails
//   simulate --seed 244 --shrink yes            looks for the smallest fleet of this seed in which
//                                               something is wrong, and prints a command:
//   simulate --seed 244 --seconds 0.8 --skip 0,2,3
//                                               without what has these numbers
#include "simulation/shrinking.hpp"
#include "simulation/simulated_fleet.hpp"

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace {

using namespace simulation;

struct Options {
    Plan plan; // of the first world
    uint64_t worlds = 1;
    bool ends_with_failure = false;
    bool shrinks = false;
    std::optional<std::string> subject;
};

uint64_t number_of(std::string_view text) {
    uint64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

std::set<uint64_t> numbers_of(std::string_view list) {
    std::set<uint64_t> numbers;
    while (!list.empty()) {
        const size_t comma = std::min(list.find(','), list.size());
        numbers.insert(number_of(list.substr(0, comma)));
        list.remove_prefix(std::min(comma + 1, list.size()));
    }
    return numbers;
}

/// Returns false if an option is unknown.
bool read(Options &options, std::string_view name, const char *value) {
    if (name == "--seed") {
        options.plan.seed = number_of(value);
    } else if (name == "--worlds") {
        options.worlds = number_of(value);
    } else if (name == "--seconds") {
        options.plan.length = Time{static_cast<int64_t>(std::stod(value) * 1e6)};
    } else if (name == "--skip") {
        options.plan.skipped = numbers_of(value);
    } else if (name == "--trace") {
        options.subject = value;
    } else if (name == "--until-failure") {
        options.ends_with_failure = std::strcmp(value, "yes") == 0;
    } else if (name == "--shrink") {
        options.shrinks = std::strcmp(value, "yes") == 0;
    } else {
        return false;
    }
    return true;
}

void print(const Happened &all) {
    for (const auto &[what, count] : happened_rows) {
        std::printf("%12llu  %s\n", static_cast<unsigned long long>(all.*count), what);
    }
}

void print(const Plan &plan) {
    std::printf("simulate --seed %llu --seconds %g", static_cast<unsigned long long>(plan.seed),
                static_cast<double>(plan.length.count()) / 1e6);
    const char *before = " --skip ";
    for (const uint64_t number : plan.skipped) {
        std::printf("%s%llu", before, static_cast<unsigned long long>(number));
        before = ",";
    }
    std::printf("\n");
}

void print_smallest(const Plan &plan) {
    print(shrink(plan, [](const Plan &tried) {
        Journal journal;
        SimulatedFleet fleet(tried, journal);
        const bool is_wrong = !fleet.run().empty();
        return Outcome{.is_wrong = is_wrong, .events = fleet.events()};
    }));
}

/// Returns how many of the worlds are wrong.
uint64_t run(const Options &options) {
    const auto began = std::chrono::steady_clock::now();
    Journal journal;
    if (options.subject) {
        journal.print_lines_about(*options.subject);
    }
    Happened all;
    uint64_t failed = 0;
    uint64_t done = 0;
    for (Plan plan = options.plan; done < options.worlds; ++done, ++plan.seed) {
        if (options.ends_with_failure && failed > 0) {
            break;
        }
        SimulatedFleet fleet(plan, journal);
        const auto complaints = fleet.run();
        for (const auto &[what, count] : happened_rows) {
            all.*count += fleet.happened().*count;
        }
        if (complaints.empty()) {
            continue;
        }
        ++failed;
        std::printf("seed %llu: %s%s\n", static_cast<unsigned long long>(plan.seed),
                    complaints.front().c_str(), complaints.size() > 1 ? ", and more" : "");
        if (options.shrinks) {
            print_smallest(plan);
        }
    }
    print(all);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    std::printf("%12.0f  requests a second\n", static_cast<double>(all.requests) / took.count());
    std::printf("SHA-256 of %llu events: %s\n", static_cast<unsigned long long>(journal.lines()),
                journal.end().c_str());
    std::printf("%llu passed, %llu failed\n", static_cast<unsigned long long>(done - failed),
                static_cast<unsigned long long>(failed));
    return failed;
}

} // namespace

int main(int count, char **words) {
    Options options;
    for (int i = 1; i < count; i += 2) {
        if (i + 1 == count || !read(options, words[i], words[i + 1])) {
            std::fprintf(stderr, "simulate: what is %s?\n", words[i]);
            return 2;
        }
    }
    return run(options) == 0 ? 0 : 1;
}
