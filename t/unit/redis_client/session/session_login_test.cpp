// What a session says first on a connection, up to ready.

#include "session_test.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace redis_client {
namespace {

struct Account {
    std::string username;
    std::string password;
    uint64_t database;
    Commands commands; // before SCRIPT LOAD
};

const std::vector<Account> accounts = {
    {"", "", 0, {}},
    {"", "secret", 0, {{"AUTH", "secret"}}},
    {"app", "secret", 0, {{"AUTH", "app", "secret"}}},
    {"app", "", 0, {}},
    {"", "", 15, {{"SELECT", "15"}}},
    {"", "sec ret\r\n", 7, {{"AUTH", "sec ret\r\n"}, {"SELECT", "7"}}},
    {"app", "secret", 7, {{"AUTH", "app", "secret"}, {"SELECT", "7"}}},
};

SessionSettings settings_of(const Account &account) {
    SessionSettings settings = default_settings();
    settings.username = account.username;
    settings.password = account.password;
    settings.database = account.database;
    return settings;
}

TEST_F(SessionTest, LogsInStepByStep) {
    for (const Account &account : accounts) {
        start(settings_of(account));
        EXPECT_EQ(sent(), Commands{});
        session_->connected();
        Commands expected = account.commands;
        expected.push_back({"SCRIPT", "LOAD", script().source});
        expected.push_back({"SCRIPT", "LOAD", script_of_runs().source});
        EXPECT_EQ(sent(), expected);

        for (size_t i = 0; i < account.commands.size(); ++i) {
            EXPECT_EQ(receive("+OK\r\n"), Progress::more);
            EXPECT_FALSE(session_->is_ready());
        }
        EXPECT_EQ(receive(bulk_string(script().sha1)), Progress::more);
        EXPECT_EQ(receive(bulk_string(script_of_runs().sha1)), Progress::ready);
        EXPECT_TRUE(session_->is_ready());
        EXPECT_EQ(sent(), Commands{});
    }
}

TEST_F(SessionTest, LogsInOnRepliesCutAnywhere) {
    const std::string replies =
        "+OK\r\n+OK\r\n" + bulk_string(script().sha1) + bulk_string(script_of_runs().sha1);
    for (size_t cut = 0; cut < replies.size(); ++cut) {
        start(settings_of(accounts.back()));
        session_->connected();
        EXPECT_EQ(receive(replies.substr(0, cut)), Progress::more);
        EXPECT_EQ(receive(replies.substr(cut)), Progress::ready);
    }
}

TEST_F(SessionTest, StaysOnlyWithAMasterWhereItNeedsOne) {
    SessionSettings settings = default_settings();
    settings.needs_master = true;
    const std::string loaded = bulk_string(script().sha1) + bulk_string(script_of_runs().sha1);
    const auto log_in = [&](const std::string &said) {
        start(settings);
        session_->connected();
        EXPECT_EQ(sent().front(), (WireCommand{"ROLE"}));
        return receive(said + loaded);
    };
    const std::string offset_and_replicas =
        ":3129659\r\n*2\r\n*3\r\n$9\r\n127.0.0.1\r\n$4\r\n9001\r\n$7\r\n3129242\r\n"
        "*3\r\n$9\r\n127.0.0.1\r\n$4\r\n9002\r\n$7\r\n3129543\r\n";
    EXPECT_EQ(log_in("*3\r\n$6\r\nmaster\r\n" + offset_and_replicas), Progress::ready);
    EXPECT_EQ(receive("*1\r\n$6\r\nmaster\r\n"), Progress::broken) << "no other list is taken";

    EXPECT_EQ(log_in("*5\r\n$5\r\nslave\r\n$1\r\na\r\n:1\r\n$4\r\nsync\r\n:1\r\n"),
              Progress::broken);
    EXPECT_EQ(session_->problem().what, "ROLE");
    EXPECT_EQ(session_->problem().redis_said, "slave");
    for (const char *no_role : {"+master\r\n", "$6\r\nmaster\r\n", ":1\r\n", "$-1\r\n", "*0\r\n",
                                "*1\r\n:1\r\n", "*1\r\n*1\r\n$6\r\nmaster\r\n",
                                "*2\r\n:1\r\n$6\r\nmaster\r\n", "-ERR unknown command\r\n"}) {
        EXPECT_EQ(log_in(no_role), Progress::broken) << no_role;
        EXPECT_EQ(session_->problem().what, "ROLE") << no_role;
    }
    EXPECT_EQ(log_in("-NOPERM this user has no permissions\r\n"), Progress::refused);
}

TEST_F(SessionTest, LogsInAgainOnEachConnection) {
    for (int i = 0; i < 3; ++i) {
        log_in();
        session_->disconnected(Lost::in_use, now_);
        EXPECT_FALSE(session_->is_ready());
    }
}

TEST_F(SessionTest, BreaksWhereALoginCommandIsRefused) {
    const std::vector<std::string_view> names = {"AUTH", "SELECT", "SCRIPT LOAD"};
    for (size_t refused = 0; refused < names.size(); ++refused) {
        start(settings_of(accounts.back()));
        ask(a_, "a");
        session_->connected();
        sent();
        for (size_t i = 0; i < refused; ++i) {
            EXPECT_EQ(receive("+OK\r\n"), Progress::more);
        }
        EXPECT_EQ(receive("-WRONGPASS invalid pair\r\n"), Progress::refused);
        EXPECT_FALSE(session_->is_ready());
        EXPECT_EQ(session_->problem().what, names[refused]);
        // Of AUTH only the kind of error: the rest may repeat the password.
        EXPECT_EQ(session_->problem().redis_said,
                  names[refused] == "AUTH" ? "WRONGPASS" : "WRONGPASS invalid pair");
        EXPECT_EQ(sent(), Commands{});

        session_->disconnected(Lost::unreachable, now_);
        EXPECT_EQ(a_.results, Results{Failure::connect});
        a_.results.clear();
    }
}

TEST_F(SessionTest, TellsALoginThatIsRefusedForGoodFromOneThatIsNot) {
    const auto progress_of = [&](const std::string &error) {
        start(settings_of(accounts.back()));
        session_->connected();
        return receive("-" + error + "\r\n");
    };
    for (const std::string error : {"WRONGPASS invalid username-password pair",
                                    "NOAUTH Authentication required.", "NOPERM no permissions"}) {
        EXPECT_EQ(progress_of(error), Progress::refused) << error;
    }
    for (const std::string error :
         {"LOADING Redis is loading the dataset in memory", "ERR max number of clients reached",
          "ERR WRONGPASS", "NOAUTHORITY", ""}) {
        EXPECT_EQ(progress_of(error), Progress::broken) << error;
    }
}

TEST_F(SessionTest, KnowsThatThereIsNoRoomForItThoughTheErrorComesUnasked) {
    start(settings_of(accounts.back()));
    session_->connected();
    EXPECT_EQ(receive("-ERR max number of clients reached\r\n"), Progress::broken);
    EXPECT_EQ(session_->problem().what, "connecting");
    EXPECT_EQ(session_->problem().redis_said, "ERR max number of clients reached");
}

TEST_F(SessionTest, BreaksOnALoginReplyOfTheWrongShape) {
    for (const std::string_view reply : {"$-1\r\n", ":1\r\n", "*4\r\n:0\r\n:1\r\n:2\r\n:3\r\n",
                                         "*1\r\n+OK\r\n", "HTTP/1.1 400 Bad Request\r\n"}) {
        start(default_settings());
        session_->connected();
        EXPECT_EQ(receive(reply), Progress::broken) << reply;
        EXPECT_FALSE(session_->problem().what.empty());
        EXPECT_FALSE(session_->is_ready());
    }
}

TEST_F(SessionTest, ForgetsAProblemOnANewConnection) {
    session_->connected();
    receive("-ERR no\r\n");
    session_->disconnected(Lost::unreachable, now_);
    EXPECT_EQ(session_->problem().what, "SCRIPT LOAD");
    sent();
    log_in();
    EXPECT_EQ(session_->problem().what, "");
    EXPECT_EQ(session_->problem().redis_said, "");
}

TEST_F(SessionTest, SendsNothingBeforeItIsReady) {
    start(settings_of(accounts.back()));
    ask(a_, "a");
    EXPECT_EQ(sent(), Commands{});
    session_->connected();
    ask(b_, "b");
    EXPECT_EQ(sent(), (Commands{{"AUTH", "app", "secret"},
                                {"SELECT", "7"},
                                {"SCRIPT", "LOAD", script().source},
                                {"SCRIPT", "LOAD", script_of_runs().source}}));
    receive("+OK\r\n");
    ask(c_, "c");
    receive("+OK\r\n");
    EXPECT_EQ(sent(), Commands{});
    EXPECT_TRUE(session_->has_waiting());

    EXPECT_EQ(receive(loaded), Progress::ready);
    EXPECT_EQ(sent(), (Commands{evalsha("a"), evalsha("b"), evalsha("c")}));
    receive(grant(1) + grant(2) + grant(3));
    EXPECT_EQ(a_.results, Results{granted(1)});
    EXPECT_EQ(b_.results, Results{granted(2)});
    EXPECT_EQ(c_.results, Results{granted(3)});
    EXPECT_FALSE(session_->has_waiting());
}

} // namespace
} // namespace redis_client
