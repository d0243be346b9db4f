#include "simulation/judged_log.hpp"

#include <gtest/gtest.h>

namespace simulation {
namespace {

TEST(JudgedLogTest, KnowsWhatMayBeSaidOfAFault) {
    struct Case {
        const char *what;
        const char *detail;
        bool may_be_said;
    };
    for (const Case &one :
         {Case{"the connection was closed", "", true},
          Case{"error reply", "OOM command not allowed", true},
          Case{"error reply", "user_script:7: WRONGTYPE Operation", true},
          Case{"error reply", "RRONGTYPE Operation", false},
          Case{"error reply", "user_script:7:", false},
          Case{"error reply", "OM command not allowed", false},
          Case{"no connection in time", "logging in", true}, Case{"AUTH", "WRONGPASS", true},
          Case{"AUTH", "ERR unknown command 'AUTH', with args: 'secret'", false},
          Case{"AUTH", "", false}}) {
        EXPECT_EQ(can_be_said({.what = one.what, .detail = one.detail}), one.may_be_said)
            << one.what << ": " << one.detail;
    }
}

TEST(JudgedLogTest, KnowsWhyAHostMayNotFollowOperators) {
    using redis_client::LiveTrouble;
    struct Case {
        LiveTrouble trouble;
        const char *why;
        bool may_be_said;
    };
    for (const Case &one :
         {Case{LiveTrouble::none, "", true}, Case{LiveTrouble::damaged, "", true},
          Case{LiveTrouble::refused, "NOPERM this user has no permissions", true},
          Case{LiveTrouble::refused, "", false}, Case{LiveTrouble::refused, "PERM this", false},
          Case{LiveTrouble::late, "", true}, Case{LiveTrouble::late, "connecting failed", true},
          Case{LiveTrouble::late, "LOADING Redis is loading", true},
          Case{LiveTrouble::late, "OADING Redis is loading", false},
          Case{LiveTrouble::late, "connecting failed: ", false},
          Case{LiveTrouble::late, "AUTH: WRONGPASS", true},
          Case{LiveTrouble::late, "AUTH: ERR unknown command 'AUTH', with args: 'secret'",
               false}}) {
        EXPECT_EQ(can_be_said(one.trouble, one.why), one.may_be_said) << one.why;
    }
}

} // namespace
} // namespace simulation
