#include "rate_limit/text/parameters.hpp"

#include <array>
#include <gtest/gtest.h>
#include <string_view>

namespace rate_limit {
namespace {

struct Draft {};

constexpr Parameter<Draft> parameters[] = {
    {"logged", [](Draft &, std::string_view) -> const char * { return already_logged; }},
    {"empty", [](Draft &, std::string_view) -> const char * { return ""; }},
};

Refusal refusal_of(std::string_view word) {
    Draft draft;
    return set_parameters<Draft>(parameters, std::array{word}, draft);
}

TEST(Parameters, WhatTheLogSaysAlreadyHasNoMessage) {
    EXPECT_EQ(refusal_of("logged=1"), already_told);
}

// The compiler may give all empty texts of a file one address, and those of two files two.
TEST(Parameters, AnotherEmptyTextIsNotTakenForThat) {
    EXPECT_EQ(refusal_of("empty=1"), "invalid empty \"1\", expected ");
}

} // namespace
} // namespace rate_limit
