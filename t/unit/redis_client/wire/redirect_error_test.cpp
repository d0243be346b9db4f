#include "redis_client/wire/redirect_error.hpp"

#include "redis_client/wire/endpoint.hpp"

#include <gtest/gtest.h>

#include <string>

namespace redis_client {
namespace {

void expect_redirect(std::string_view error, Redirect::Kind kind, uint16_t hash_slot,
                     std::string_view host, uint16_t port) {
    const auto redirect = parse_redirect(error);
    ASSERT_TRUE(redirect) << error;
    EXPECT_EQ(redirect->kind, kind) << error;
    EXPECT_EQ(redirect->hash_slot, hash_slot) << error;
    EXPECT_EQ(redirect->host, host) << error;
    EXPECT_EQ(redirect->port, port) << error;
}

TEST(Redirect, NamesWhoHasTheKey) {
    expect_redirect("MOVED 3999 127.0.0.1:6381", Redirect::Kind::moved, 3999, "127.0.0.1", 6381);
    expect_redirect("ASK 0 redis-2.test:1", Redirect::Kind::ask, 0, "redis-2.test", 1);
    expect_redirect("MOVED 16383 a:65535", Redirect::Kind::moved, 16383, "a", 65535);
}

TEST(Redirect, NamesAnIpv6AddressWithoutBrackets) {
    expect_redirect("MOVED 1 2001:db8::7:6379", Redirect::Kind::moved, 1, "2001:db8::7", 6379);
    expect_redirect("ASK 1 ::1:6379", Redirect::Kind::ask, 1, "::1", 6379);
}

TEST(Redirect, NamesNoHostWhereItIsTheSame) {
    expect_redirect("MOVED 1 :6381", Redirect::Kind::moved, 1, "", 6381);
    expect_redirect("ASK 1 ?:6381", Redirect::Kind::ask, 1, "", 6381);
}

TEST(Redirect, IsNoOtherErrorAndNoneThatIsCutOff) {
    for (const std::string_view error :
         {"",
          "MOVED",
          "MO",
          "MOVED ",
          "MOVED 3999",
          "MOVED 3999 ",
          "MOVED 3999 127.0.0.1",
          "MOVED 3999 127.0.0.1:",
          "MOVED 3999 a:0",
          "MOVED 3999 a:65536",
          "MOVED 3999 a:-1",
          "MOVED 3999 a:6379x",
          "MOVED 16384 a:1",
          "MOVED -1 a:1",
          "MOVED x a:1",
          "MOVED  1 a:1",
          "moved 1 a:1",
          "MOVEDTO 1 a:1",
          "ASKING 1 a:1",
          "ERR MOVED 1 a:1",
          "TRYAGAIN Multiple keys request during rehashing of slot"}) {
        EXPECT_FALSE(parse_redirect(error)) << error;
    }
}

TEST(Redirect, NamesNoHostLongerThanNamesAre) {
    const auto to = [](size_t size) { return "MOVED 1 " + std::string(size, 'a') + ":1"; };
    EXPECT_TRUE(parse_redirect(to(longest_host)));
    EXPECT_FALSE(parse_redirect(to(longest_host + 1)));
}

} // namespace
} // namespace redis_client
