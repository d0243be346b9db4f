#include "rate_limit/parse.hpp"

#include <gtest/gtest.h>

using rate_limit::parse_whole_number;

TEST(Parse, TakesWholeDecimalNumbers) {
    EXPECT_EQ(parse_whole_number("0", 10), 0u);
    EXPECT_EQ(parse_whole_number("10", 10), 10u);
    EXPECT_EQ(parse_whole_number("007", 10), 7u);
    EXPECT_EQ(parse_whole_number("18446744073709551615", UINT64_MAX), UINT64_MAX);
}

TEST(Parse, RefusesEverythingElse) {
    for (const char *text : {"", " 1", "1 ", "-1", "+1", "1.0", "0x10", "1e3", "inf", "nan", "11",
                             "18446744073709551616", "99999999999999999999999"}) {
        EXPECT_EQ(parse_whole_number(text, 10), std::nullopt) << text;
    }
    EXPECT_EQ(parse_whole_number(std::string_view("1\0", 2), 10), std::nullopt);
}
