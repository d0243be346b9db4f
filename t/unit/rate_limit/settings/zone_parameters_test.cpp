#include "rate_limit/settings/zone_parameters.hpp"

#include <gtest/gtest.h>

namespace rate_limit {
namespace {

TEST(KeyText, IsAVariableOrNone) {
    EXPECT_EQ(variable_in("$remote_addr"), "remote_addr");
    EXPECT_EQ(variable_in("${Remote_Addr}"), "remote_addr");
    EXPECT_EQ(variable_in("remote_addr"), "");
    EXPECT_EQ(variable_in(""), "");
    EXPECT_NE(variable_in("$remote_addr$uri"), "remote_addr");
    EXPECT_NE(variable_in("$remote_addr "), "remote_addr");
    EXPECT_NE(variable_in("x$remote_addr"), "remote_addr");
}

TEST(KeyText, HasVariablesOfTexts) {
    for (const char *text : {"$remote_addr", "${remote_addr}", "v1:$http_x_key", "$a$b ", "$binary",
                             "$binary_remote_address", "$remote_addr binary_remote_addr"}) {
        EXPECT_TRUE(has_text_variables(text)) << text;
    }
    for (const char *text :
         {"", "all", "$binary_remote_addr", "${binary_remote_addr}", "$Binary_Remote_Addr",
          "$uri$binary_remote_addr", "$binary_remote_addr$uri", "$uri${binary_remote_addr}x"}) {
        EXPECT_FALSE(has_text_variables(text)) << text;
    }
}

TEST(KeyText, MayBeTheNameOfAVariable) {
    for (const char *text : {"remote_addr", "Remote_Addr", "a1", "_"}) {
        EXPECT_TRUE(is_variable_name(text)) << text;
    }
    for (const char *text : {"", "$a", "a b", "a-b", "a.b", "{a}"}) {
        EXPECT_FALSE(is_variable_name(text)) << text;
    }
}

} // namespace
} // namespace rate_limit
