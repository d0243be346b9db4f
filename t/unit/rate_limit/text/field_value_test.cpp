#include "rate_limit/text/field_value.hpp"

#include <gtest/gtest.h>

#include <string>

namespace rate_limit {
namespace {

TEST(FieldValue, LosesBlanksAndTabsAtItsEndsAlone) {
    EXPECT_EQ(without_outer_blanks(""), "");
    EXPECT_EQ(without_outer_blanks("k"), "k");
    EXPECT_EQ(without_outer_blanks("\t k"), "k");
    EXPECT_EQ(without_outer_blanks("k \t "), "k");
    EXPECT_EQ(without_outer_blanks(" \ta b\tc\t"), "a b\tc");
    EXPECT_EQ(without_outer_blanks(" \t \t"), "");
    EXPECT_EQ(without_outer_blanks(" "), "");
    EXPECT_EQ(without_outer_blanks("\n k\r\n"), "\n k\r\n");
    EXPECT_EQ(without_outer_blanks("\v\f\xc2\xa0 "), "\v\f\xc2\xa0");
}

TEST(FieldValue, TellsWhetherThereAreSuch) {
    for (const char *text : {" ", "\t", " k", "k ", "\tk", "k\t", " k "}) {
        EXPECT_TRUE(has_outer_blanks(text)) << text;
    }
    for (const char *text : {"", "k", "a b", "a\tb", "\nk", "k\r"}) {
        EXPECT_FALSE(has_outer_blanks(text)) << text;
    }
}

TEST(FieldValue, KeepsTheBytesOfAnAddress) {
    const std::string ipv4("\x09\x20\x00\x20", 4); // 9.32.0.32
    const std::string ipv6("\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x09", 16);
    for (const std::string &address : {ipv4, ipv6, std::string("    ")}) {
        EXPECT_EQ(without_outer_blanks(address, address), address);
        EXPECT_EQ(without_outer_blanks(address + " /path\t ", address), address + " /path");
        EXPECT_EQ(without_outer_blanks("\t path " + address, address), "path " + address);
        EXPECT_EQ(without_outer_blanks(address + "  " + address, address),
                  address + "  " + address);
        EXPECT_EQ(without_outer_blanks(address + " \t", address), address);
        EXPECT_EQ(without_outer_blanks(" \t" + address + "\t", "10.9"),
                  without_outer_blanks(" \t" + address + "\t"));
        EXPECT_EQ(without_outer_blanks(" k\t", address), "k");
        EXPECT_EQ(without_outer_blanks(" \t", address), "");
        EXPECT_EQ(without_outer_blanks("", address), "");
    }
}

TEST(Bearer, IsOneTokenBehindItsScheme) {
    EXPECT_EQ(bearer_token("Bearer t"), "t");
    EXPECT_EQ(bearer_token("bEARER t"), "t");
    EXPECT_EQ(bearer_token("Bearer \t  t"), "t");
    EXPECT_EQ(bearer_token("Bearer\tt"), "t");
    EXPECT_EQ(bearer_token("\t Bearer t \t"), "t");
    EXPECT_EQ(bearer_token("Bearer azAZ09-._~+/=="), "azAZ09-._~+/==");
    EXPECT_EQ(bearer_token("Bearer Bearer"), "Bearer");
}

TEST(Bearer, IsNothingElse) {
    const std::string with_nul("Bearer a\0b", 10);
    for (const std::string &value : {
             std::string(""),
             std::string("Bearer"),
             std::string("Bearer "),
             std::string("t"),
             std::string("Bearert"),
             std::string("Bearer: t"),
             std::string("Bearer\nt"),
             std::string("Basic dDp0"),
             std::string("Bearers t"),
             std::string("Beare t"),
             std::string("Bearer a b"),
             std::string("Bearer a, Bearer b"),
             std::string("Bearer a,b"),
             std::string("Bearer =a"),
             std::string("Bearer =="),
             std::string("Bearer a=b"),
             std::string("Bearer a=b="),
             std::string("Bearer \"a\""),
             std::string("Bearer a\x80"),
             std::string("Bearer a\r"),
             std::string("Bearer a@b"),
             std::string("Bearer a[b"),
             std::string("Bearer a`b"),
             std::string("Bearer a:b"),
             with_nul,
         }) {
        EXPECT_EQ(bearer_token(value), std::nullopt) << value;
    }
}

TEST(FieldName, IsWrittenAsNginxWritesIt) {
    EXPECT_TRUE(is_field_named("X-Api-Key", "x_api_key"));
    EXPECT_TRUE(is_field_named("x-api-key", "x_api_key"));
    EXPECT_TRUE(is_field_named("X_API-KEY", "x_api_key"));
    EXPECT_FALSE(is_field_named("X-Api-Keys", "x_api_key"));
    EXPECT_FALSE(is_field_named("X-Api-Ke", "x_api_key"));
    EXPECT_FALSE(is_field_named("", "x_api_key"));
    EXPECT_FALSE(is_field_named("X-Api-Key", "x-api-key"));
}

TEST(FieldVariable, IsKnownByItsName) {
    EXPECT_TRUE(is_field_variable("redis_rate_limit_bearer"));
    EXPECT_TRUE(is_field_variable("redis_rate_limit_field_x"));
    EXPECT_FALSE(is_field_variable("redis_rate_limit_bearer_"));
    EXPECT_FALSE(is_field_variable("redis_rate_limit_fields"));
    EXPECT_FALSE(is_field_variable("http_authorization"));
}

} // namespace
} // namespace rate_limit
