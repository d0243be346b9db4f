#include "rate_limit/response/value_expression.hpp"

#include "unit/rate_limit/response/response_test.hpp"

#include <string>

namespace rate_limit {
namespace {

std::string refusal_of(const std::string &text) {
    JsonPaths paths;
    ValueExpression expression;
    const char *expected = expression.parse(text, paths);
    return expected != nullptr ? expected : "";
}

std::string joined(size_t count, const std::string &text, const std::string &between) {
    std::string all;
    for (size_t i = 0; i < count; ++i) {
        all += (i > 0 ? between : "") + text;
    }
    return all;
}

TEST(ValueExpression, TheFirstAlternativeOfWhichEveryPathWasSeenCounts) {
    EXPECT_EQ(value_of("a|b", R"({"a":1,"b":2})"), "1");
    EXPECT_EQ(value_of("a|b", R"({"b":2})"), "2");
    EXPECT_EQ(value_of("a+c|b", R"({"a":1,"b":2})"), "2");
    EXPECT_EQ(value_of("a+c|b|a", R"({"a":1})"), "1");
    EXPECT_EQ(value_of("a+c|b+c|c", R"({"a":1,"b":2})"), "");
}

TEST(ValueExpression, ASumOfWhichOnePathIsMissingIsNone) {
    EXPECT_EQ(value_of("a+b", R"({"a":25})"), "");
    EXPECT_EQ(value_of("a+b", R"({"b":25})"), "");
    EXPECT_EQ(value_of("a+b", R"({"a":25,"b":0})"), "25");
    EXPECT_EQ(value_of("a+b+c", R"({"a":1,"b":2,"c":4})"), "7");
    EXPECT_EQ(value_of("a+a", R"({"a":3})"), "6");
}

TEST(ValueExpression, ASumMayBeMoreThanANumber) {
    EXPECT_EQ(value_of("a+b", R"({"a":1000000000,"b":99999999999})"), "2000000000");
}

TEST(ValueExpression, AMaximumIsTheLargestNumberThatWasSeen) {
    EXPECT_EQ(value_of("max(a,b)", R"({"a":1,"b":2})"), "2");
    EXPECT_EQ(value_of("max(a,b)", R"({"a":2,"b":1})"), "2");
    EXPECT_EQ(value_of("max(a,b)", R"({"a":3})"), "3");
    EXPECT_EQ(value_of("max(a,b)", R"({"b":3})"), "3");
    EXPECT_EQ(value_of("max(a,b)", R"({"a":0,"b":null})"), "0");
    EXPECT_EQ(value_of("max(a,b)", R"({"c":3})"), "");
    EXPECT_EQ(value_of("max(a)", "{\"a\":25}\n{\"a\":0}\n", BodyFormat::lines), "25")
        << "of all that have stood at its path";
    EXPECT_EQ(value_of("max(a)", "{\"a\":2}\n{\"a\":25}\n", BodyFormat::lines), "25");
    EXPECT_EQ(value_of("max(a, b.c[0])", R"({"a":5,"b":{"c":[7]},"a":1})"), "7");
}

TEST(ValueExpression, AMaximumIsATermOfASum) {
    EXPECT_EQ(value_of("max(a,b)+c", R"({"a":25,"c":15})"), "40");
    EXPECT_EQ(value_of("c+max(a,b)|d", R"({"b":25,"c":15,"d":1})"), "40");
    EXPECT_EQ(value_of("max(a,b)+max(c,d)", R"({"a":1,"b":2,"c":8,"d":4})"), "10");
    EXPECT_EQ(value_of("max(a,b)+c|d", R"({"a":25,"d":1})"), "1");
}

TEST(ValueExpression, AMaximumLeavesTheLastNumberToOtherTerms) {
    const std::string body = "{\"a\":25}\n{\"a\":3}\n";
    EXPECT_EQ(value_of("a", body, BodyFormat::lines), "3");
    EXPECT_EQ(value_of("a+max(a)", body, BodyFormat::lines), "28");
    EXPECT_EQ(value_of("max(a)+a", body, BodyFormat::lines), "28");
}

TEST(ValueExpression, AMemberMayBeCalledMax) {
    EXPECT_EQ(value_of("max", R"({"max":3})"), "3");
    EXPECT_EQ(value_of("max.max+max(max)", R"({"max":{"max":3},"max":4})"), "7");
}

TEST(ValueExpression, AllowsSpacesAroundOperators) {
    EXPECT_EQ(value_of("a + b | c", R"({"a":1,"b":2})"), "3");
    EXPECT_EQ(value_of("a + b | c", R"({"c":5})"), "5");
    EXPECT_EQ(value_of("max( a , b ) + c", R"({"a":1,"b":2,"c":4})"), "6");
    EXPECT_EQ(value_of("max(a,\n\t b)\r\n + c", R"({"a":1,"b":2,"c":4})"), "6");
    EXPECT_NE(refusal_of("max (a)"), "");
    EXPECT_NE(refusal_of(" a"), "");
    EXPECT_NE(refusal_of("a "), "");
    EXPECT_NE(refusal_of("a b"), "");
    EXPECT_NE(refusal_of("a .b"), "");
}

TEST(ValueExpression, RefusesWhatIsNone) {
    for (const char *text :
         {"",         "|",           "+",       "a|",      "|a",       "a||b",       "a+",
          "+a",       "a++b",        ".",       "a.",      ".a",       "a..b",       "a.[0]",
          "a.[*]",    "[",           "[]",      "a[",      "a[]",      "a[x]",       "a[-1]",
          "a[0",      "a[0]b",       "a[*",     "a[**]",   "a]",       "a*",         "a.*b",
          "**",       "[\"a]",       "[\"a\"",  "[a]",     "[\"a\\",   "[\"",        "a-b",
          "a/b",      "(a)",         "a,b",     "$a",      "a\"b",     "max(",       "max()",
          "max(a",    "max(a,",      "max(a,)", "max(,a)", "max(a|b)", "max(a+b)",   "max(a))",
          "max(a).b", "max(max(a))", "MAX(a)",  "min(a)",  "a.max(b)", "a[\"b\"",    "a['b']",
          "a[0x1]",   "a[1e3]",      "a[1 ]",   "a|b c",   "a[\"b]",   "usage.tot@l"}) {
        EXPECT_EQ(refusal_of(text).substr(0, 11), "paths such ") << text;
    }
}

TEST(ValueExpression, RefusesAnIndexThatNoArrayHas) {
    EXPECT_EQ(refusal_of("a[1000000000]"), "");
    EXPECT_NE(refusal_of("a[1000000001]"), "");
    EXPECT_NE(refusal_of("a[4294967296]"), "");
}

TEST(ValueExpression, RefusesPathsThatLeadDeeperThanTextsAreRead) {
    EXPECT_EQ(refusal_of(joined(64, "a", ".")), "");
    EXPECT_EQ(refusal_of(joined(65, "a", ".")), "paths of at most 64 steps");
    EXPECT_EQ(refusal_of(joined(65, "[0]", "")), "paths of at most 64 steps");
}

TEST(ValueExpression, AllOfALocationHave32PathsTogether) {
    JsonPaths paths;
    ValueExpression first;
    ValueExpression second;
    ValueExpression third;
    for (int i = 0; i < 31; ++i) {
        ASSERT_EQ(ValueExpression().parse("p" + std::to_string(i), paths), nullptr);
    }
    EXPECT_EQ(first.parse("p0+p30|usage.total", paths), nullptr);
    EXPECT_EQ(second.parse("p0|[\"usage\"][\"total\"]", paths), nullptr) << "paths that are known";
    EXPECT_EQ(paths.size(), 32u);
    EXPECT_STREQ(third.parse("one.more", paths), "at most 32 paths on a level");
}

TEST(ValueExpression, APathOfAMaximumIsAnotherOne) {
    JsonPaths paths;
    EXPECT_EQ(ValueExpression().parse("a+max(a)", paths), nullptr);
    EXPECT_EQ(ValueExpression().parse("max(b,a)", paths), nullptr);
    EXPECT_EQ(paths.size(), 3u) << "a, its largest number, and that of b";
}

TEST(ValueExpression, EachOf32PathsIsTold) {
    std::string body;
    std::string sum;
    for (int i = 0; i < 32; ++i) {
        body += (i > 0 ? ",\"p" : "{\"p") + std::to_string(i) + "\":" + std::to_string(1 << i % 20);
        sum += (i > 0 ? "+p" : "p") + std::to_string(i);
    }
    EXPECT_EQ(value_of(sum, body + "}"), std::to_string((1 << 20) - 1 + (1 << 12) - 1));
    EXPECT_EQ(value_of("p31|" + sum, body + "}"), std::to_string(1 << 11));
}

TEST(ValueExpression, PathsKeepTheirTextForMessages) {
    const ResponseVariable variable("usage.total_tokens + a[\"b.c\"][*] | [0].*.x");
    EXPECT_EQ(variable.paths[0].text, "usage.total_tokens");
    EXPECT_EQ(variable.paths[1].text, "a[\"b.c\"][*]");
    EXPECT_EQ(variable.paths[2].text, "[0].*.x");
}

} // namespace
} // namespace rate_limit
