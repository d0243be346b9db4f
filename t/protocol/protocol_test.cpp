// Leases never grant more than the rule: in no run of the protocol, however long, within these
// bounds. Without any one of its parts they would.
//
// Environment: LEASES_MODEL=long explores more. It also prints how much, and a run for each flaw.

#include "explorer.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <numeric>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace protocol {
namespace {

using rate_limit::Algorithm;

// Small ones, of which all parts of the protocol are needed: with a log whose leases last for one
// tick, the time of their entries would not matter.
constexpr Numbers log{.algorithm = Algorithm::sliding_log, .capacity = 2, .window = 3, .lease = 2};
constexpr Numbers window{
    .algorithm = Algorithm::fixed_window, .capacity = 2, .window = 3, .lease = 2};
constexpr Numbers aligned_window{
    .algorithm = Algorithm::fixed_window, .capacity = 2, .window = 3, .lease = 2, .aligned = true};
constexpr Numbers sliding_window{
    .algorithm = Algorithm::sliding_window, .capacity = 2, .window = 3, .lease = 2};
constexpr Numbers bucket{.algorithm = Algorithm::gcra, .capacity = 3, .window = 1, .lease = 2};

bool is_long() {
    const char *model = std::getenv("LEASES_MODEL");
    return model != nullptr && std::string_view(model) == "long";
}

struct Case {
    std::string name;
    Setting setting;
};

std::ostream &operator<<(std::ostream &out, const Case &one) {
    return out << one.name;
}

const auto name_of_case = [](const auto &info) { return info.param.name; };

Exploration explore_and_tell(const Case &one) {
    const Exploration found = explore(one.setting);
    if (is_long()) {
        const size_t steps = std::accumulate(found.steps.begin(), found.steps.end(), size_t{0});
        std::cout << one.name << ": " << found.states << " states, " << steps << " steps\n"
                  << found.counterexample << std::flush;
    }
    return found;
}

// --- the protocol

class LeaseProtocolTest : public testing::TestWithParam<Case> {};

TEST_P(LeaseProtocolTest, NeverGrantsMoreThanTheRule) {
    const Exploration found = explore_and_tell(GetParam());
    EXPECT_EQ(found.counterexample, "");
    for (size_t kind = 0; kind < Step::kinds; ++kind) {
        const bool may_happen =
            kind != static_cast<size_t>(Step::Kind::lose_key) || GetParam().setting.key_may_be_lost;
        EXPECT_EQ(found.steps[kind] > 0, may_happen) << "steps of kind " << kind;
    }
}

const std::vector<Case> short_cases = {
    {"log", {.numbers = log}},
    {"window", {.numbers = window}},
    {"aligned_window", {.numbers = aligned_window}},
    {"sliding_window", {.numbers = sliding_window}},
    {"bucket", {.numbers = bucket}},
    {"aligned_window_of_a_lost_key",
     {.numbers = aligned_window, .fetches = 1, .returns = 1, .key_may_be_lost = true}},
};

Numbers with(Numbers numbers, int capacity, int length, int lease) {
    numbers.capacity = capacity;
    numbers.window = length;
    numbers.lease = lease;
    return numbers;
}

std::vector<Case> long_cases() {
    const auto three_hosts = [](const Numbers &numbers) {
        return Setting{.numbers = numbers, .hosts = 3, .shorter_leases = true};
    };
    const auto more_units = [](const Numbers &numbers) {
        return Setting{.numbers = numbers, .most_leased = 3, .shorter_leases = true};
    };
    const auto lost_key = [](const Numbers &numbers) {
        return Setting{.numbers = numbers, .fetches = 1, .returns = 1, .key_may_be_lost = true};
    };
    Setting more_messages = three_hosts(log);
    more_messages.fetches = more_messages.returns = 3;
    return {
        {"log_of_three_hosts", three_hosts(log)},
        {"log_with_more_messages", more_messages},
        {"log_of_more_units", more_units(with(log, 3, 3, 2))},
        {"log_of_a_lost_key", lost_key(log)},
        {"window_of_three_hosts", three_hosts(with(window, 3, 4, 2))},
        {"window_of_more_units", more_units(with(window, 4, 4, 3))},
        {"aligned_window_of_three_hosts", three_hosts(with(aligned_window, 3, 4, 2))},
        {"aligned_window_of_more_units", more_units(with(aligned_window, 3, 5, 3))},
        {"sliding_window_of_three_hosts", three_hosts(sliding_window)},
        {"sliding_window_of_more_units", more_units(with(sliding_window, 3, 3, 2))},
        {"sliding_window_of_a_lost_key", lost_key(sliding_window)},
        {"bucket_of_three_hosts", three_hosts(bucket)},
        {"bucket_of_long_intervals", more_units(with(bucket, 3, 2, 3))},
        {"bucket_of_a_lost_key", lost_key(bucket)},
    };
}

INSTANTIATE_TEST_SUITE_P(Short, LeaseProtocolTest, testing::ValuesIn(short_cases), name_of_case);
INSTANTIATE_TEST_SUITE_P(Long, LeaseProtocolTest,
                         testing::ValuesIn(is_long() ? long_cases() : std::vector<Case>()),
                         name_of_case);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LeaseProtocolTest);

// --- and what it would be without its parts

class LeaseFlawTest : public testing::TestWithParam<Case> {};

TEST_P(LeaseFlawTest, GrantsMoreThanTheRule) {
    EXPECT_NE(explore_and_tell(GetParam()).counterexample, "");
}

std::vector<Case> flawed_cases() {
    struct Refuted {
        std::string name;
        Flaw flaw;
        std::vector<Numbers> rules;
    };
    const std::vector<Numbers> windows = {window, aligned_window, sliding_window};
    const std::vector<Numbers> all = {log, window, aligned_window, sliding_window, bucket};
    const std::vector<Refuted> all_refuted = {
        {"debit_after_use", Flaw::debit_after_use, all},
        {"use_past_end", Flaw::use_past_end, all},
        {"use_past_window", Flaw::use_past_window, windows},
        {"end_from_reply", Flaw::end_from_reply, all},
        // A unit of a log or bucket may be used at the very end of a lease, and a thousandth of a
        // lease of so few ticks is no more than that.
        {"no_drift", Flaw::no_drift, windows},
        {"slow_clock", Flaw::slow_clock, all},
        // Two leases of a fixed window end with it, both.
        {"merged_leases", Flaw::merged_leases, {log, sliding_window, bucket}},
        {"give_back_to_next", Flaw::give_back_to_next, all},
        {"return_without_close", Flaw::return_without_close, all},
        {"return_twice", Flaw::return_twice, all},
        {"entries_at_now", Flaw::entries_at_now, {log}},
        {"held_back_only_once", Flaw::held_back_only_once, {bucket}},
        {"return_behind_lease", Flaw::return_behind_lease, {bucket}},
        {"return_of_what_came", Flaw::return_of_what_came, {bucket}},
        {"return_to_any_window", Flaw::return_to_any_window, windows},
    };
    std::vector<Case> cases;
    for (const Refuted &refuted : all_refuted) {
        for (const Numbers &numbers : refuted.rules) {
            cases.push_back({refuted.name + "_of_" + std::string(to_string(numbers.algorithm)) +
                                 (numbers.aligned ? "_aligned" : ""),
                             {.numbers = numbers,
                              .fetches = 1,
                              .returns = 1,
                              .flaw = refuted.flaw,
                              .tells_hosts_apart = true}});
        }
    }
    return cases;
}

INSTANTIATE_TEST_SUITE_P(Each, LeaseFlawTest, testing::ValuesIn(flawed_cases()), name_of_case);

} // namespace
} // namespace protocol
