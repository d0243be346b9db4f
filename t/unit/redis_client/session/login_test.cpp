// A login by itself; what a session makes of it is in session_login_test.cpp.

#include "redis_client/session/login.hpp"
#include "unit/redis_client/wire.hpp"

#include <gtest/gtest.h>

#include <string>

namespace redis_client {
namespace {

using Kind = Login::Step::Kind;

/// Gives replies to a login, as Redis would.
class LoginTest : public testing::Test {
  protected:
    LoginTest() {
        settings_.password = "secret";
        settings_.needs_master = true;
    }

    Kind take(Login &login, std::string_view reply) {
        reader_.take_lists(login.expects_list());
        reader_.feed(reply);
        EXPECT_EQ(reader_.next(), ReplyReader::Next::reply);
        step_ = login.take(reader_.reply().type(), reader_.reply().text());
        return step_.kind;
    }

    SessionSettings settings_;
    ScriptLibrary scripts_;
    ReplyReader reader_;
    Login::Step step_{};
};

TEST_F(LoginTest, SaysTheSameOnEachConnection) {
    Login login(settings_, scripts_);
    const std::string first(login.begin());
    EXPECT_EQ(parse_commands(first), (Commands{{"AUTH", "secret"}, {"ROLE"}}));
    EXPECT_EQ(take(login, "+OK\r\n"), Kind::more);
    EXPECT_EQ(login.begin(), first);
    EXPECT_FALSE(login.expects_list());
    EXPECT_EQ(take(login, "+OK\r\n"), Kind::more);
    EXPECT_TRUE(login.expects_list());
}

TEST_F(LoginTest, IsDoneWithItsLastReply) {
    settings_.needs_master = false;
    settings_.database = 3;
    Login login(settings_, scripts_);
    login.begin();
    EXPECT_EQ(take(login, "+OK\r\n"), Kind::more);
    EXPECT_EQ(take(login, "+OK\r\n"), Kind::done);
}

TEST_F(LoginTest, TakesNobodyButAMaster) {
    Login login(settings_, scripts_);
    login.begin();
    EXPECT_EQ(take(login, "+OK\r\n"), Kind::more);
    EXPECT_EQ(take(login, "*1\r\n$5\r\nslave\r\n"), Kind::broken);
    EXPECT_EQ(step_.what, "ROLE");
    EXPECT_EQ(step_.redis_said, "slave");
}

TEST_F(LoginTest, TellsAWrongPasswordFromAnotherError) {
    Login login(settings_, scripts_);
    login.begin();
    EXPECT_EQ(take(login, "-WRONGPASS of app secret\r\n"), Kind::refused);
    EXPECT_EQ(step_.what, "AUTH");
    EXPECT_EQ(step_.redis_said, "WRONGPASS"); // what follows may repeat the password
    login.begin();
    EXPECT_EQ(take(login, "-LOADING Redis is loading\r\n"), Kind::broken);
    EXPECT_EQ(step_.redis_said, "LOADING");
    login.begin();
    EXPECT_EQ(take(login, "-ERR max number of clients reached\r\n"), Kind::broken);
    EXPECT_EQ(step_.what, "connecting");
}

} // namespace
} // namespace redis_client
