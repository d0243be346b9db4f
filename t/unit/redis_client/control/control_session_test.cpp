#include "redis_client/control/control_session.hpp"

#include "unit/redis_client/wire.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace redis_client {
namespace {

using namespace std::chrono_literals;
using Progress = ControlSession::Progress;

/// A command, and what became of it.
struct Asked final : ControlCommand {
    explicit Asked(std::string a_word) : word(std::move(a_word)) {}

    bool write(ByteQueue &out) const override { return write_command(out, {"GET", word}); }
    void on_reply(ReplyView reply) override {
        said += (reply.is_error() ? "error " : "") + std::string(reply.text().value_or("nothing"));
        if (then) {
            then();
        }
    }
    void on_failure(bool was_sent, const Fault &fault) override {
        said += (was_sent ? "sent: " : "not sent: ") + std::string(fault.what);
        said += fault.detail.empty() ? "" : ", " + std::string(fault.detail);
        if (then) {
            then();
        }
    }

    std::string word;
    std::string said;
    std::function<void()> then;
};

class ControlSessionTest : public testing::Test, protected ControlSession::Redirects {
  protected:
    bool redirect(const ControlSession & /*from*/, ControlCommand &command,
                  const Redirect &to) override {
        redirected_ = &command;
        redirect_ = to.kind;
        return takes_redirects_;
    }

    void run(Asked &command) {
        command.said.clear();
        command.begin(now_);
        session_.run(command);
    }

    Commands sent() {
        const Commands commands = parse_commands(session_.output().bytes());
        session_.output().clear();
        return commands;
    }

    SessionSettings settings_;
    Time now_ = 1000s;
    ControlSession session_{settings_, this};
    Asked a_{"a"};
    Asked b_{"b"};
    bool takes_redirects_ = true;
    ControlCommand *redirected_ = nullptr;
    Redirect::Kind redirect_ = Redirect::Kind::moved;
};

TEST_F(ControlSessionTest, CommandsWaitForAConnection) {
    run(a_);
    EXPECT_TRUE(session_.has_waiting());
    EXPECT_TRUE(session_.output().empty());
    session_.connected();
    EXPECT_TRUE(session_.is_ready()) << "there is nothing to log in with";
    run(b_);
    EXPECT_EQ(sent(), (Commands{{"GET", "a"}, {"GET", "b"}}));
    EXPECT_EQ(session_.received("+one\r\n$3\r\nt"), Progress::more);
    EXPECT_EQ(a_.said, "one");
    EXPECT_EQ(b_.said, "");
    EXPECT_EQ(session_.received("wo\r\n"), Progress::more);
    EXPECT_EQ(b_.said, "two");
    EXPECT_TRUE(session_.is_idle());
}

TEST_F(ControlSessionTest, LogsInFirst) {
    SessionSettings settings;
    settings.username = "u";
    settings.password = "p";
    settings.needs_master = true;
    settings.database = 3;
    ControlSession session(settings);
    a_.begin(now_);
    session.run(a_);
    session.connected();
    EXPECT_EQ(parse_commands(session.output().bytes()),
              (Commands{{"AUTH", "u", "p"}, {"ROLE"}, {"SELECT", "3"}}));
    session.output().clear();
    EXPECT_EQ(session.received("+OK\r\n*2\r\n$6\r\nmaster\r\n:0\r\n"), Progress::more);
    EXPECT_FALSE(session.is_ready());
    EXPECT_EQ(session.received("+OK\r\n"), Progress::ready);
    EXPECT_EQ(parse_commands(session.output().bytes()), (Commands{{"GET", "a"}}));
}

TEST_F(ControlSessionTest, IsRefused) {
    SessionSettings settings;
    settings.password = "secret";
    settings.needs_master = true;
    ControlSession session(settings);
    session.connected();
    EXPECT_EQ(session.received("-WRONGPASS of secret\r\n"), Progress::refused);
    EXPECT_EQ(session.problem().what, "AUTH");
    EXPECT_EQ(session.problem().detail, "WRONGPASS");
    session.disconnected(session.problem());
    session.connected();
    EXPECT_EQ(session.received("+OK\r\n*1\r\n$5\r\nslave\r\n"), Progress::broken);
    EXPECT_EQ(session.problem().what, "ROLE");
    session.connected();
    EXPECT_EQ(session.received("+OK\r\n*1\r\n$6\r\nmaster\r\n"), Progress::ready);
    EXPECT_EQ(session.received("+more\r\n"), Progress::broken) << "nobody has asked";
}

TEST_F(ControlSessionTest, AConnectionHasANumberOfItsOwn) {
    session_.connected();
    run(a_);
    (void)session_.received("+1\r\n");
    const uint64_t first = a_.connection();
    EXPECT_NE(first, 0u);
    run(a_);
    (void)session_.received("+2\r\n");
    EXPECT_EQ(a_.connection(), first);
    session_.disconnected({"gone"});
    session_.connected();
    run(a_);
    (void)session_.received("+3\r\n");
    EXPECT_NE(a_.connection(), first);
}

TEST_F(ControlSessionTest, TellsWhatWasSentAndWhatWasNot) {
    session_.connected();
    run(a_);
    session_.disconnected({"it broke", "by chance"});
    EXPECT_EQ(a_.said, "sent: it broke, by chance");
    run(b_);
    session_.fail_waiting({"it is gone"});
    EXPECT_EQ(b_.said, "not sent: it is gone");
    EXPECT_TRUE(session_.is_idle());
}

TEST_F(ControlSessionTest, WhatWaitsOutlivesABrokenConnection) {
    run(a_);
    session_.disconnected({"it broke"});
    EXPECT_EQ(a_.said, "");
    session_.connected();
    EXPECT_EQ(sent(), (Commands{{"GET", "a"}}));
}

TEST_F(ControlSessionTest, ADeadlineEndsTheWait) {
    run(a_);
    now_ += ControlCommand::timeout - 1ms;
    EXPECT_FALSE(session_.expire(now_));
    EXPECT_EQ(a_.said, "");
    EXPECT_EQ(session_.next_expiry(), now_ + 1ms);
    EXPECT_FALSE(session_.expire(now_ + 1ms));
    EXPECT_EQ(a_.said, "not sent: no connection in time");
    EXPECT_EQ(session_.next_expiry(), std::nullopt);
}

TEST_F(ControlSessionTest, AnOverdueAnswerGivesTheConnectionUp) {
    session_.connected();
    run(a_);
    now_ += 500ms;
    run(b_);
    EXPECT_FALSE(session_.expire(now_));
    EXPECT_TRUE(session_.expire(now_ + ControlCommand::timeout - 500ms));
    session_.cancel(a_);
    EXPECT_TRUE(session_.expire(now_ + ControlCommand::timeout - 500ms)) << "its reply is missing";
    EXPECT_EQ(a_.said + b_.said, "");
}

TEST_F(ControlSessionTest, ACancelledCommandHearsNothing) {
    run(a_);
    EXPECT_TRUE(session_.cancel(a_));
    EXPECT_FALSE(session_.cancel(a_));
    session_.connected();
    run(a_);
    run(b_);
    EXPECT_TRUE(session_.cancel(a_));
    EXPECT_EQ(session_.received("+of a\r\n+of b\r\n"), Progress::more);
    EXPECT_EQ(a_.said, "");
    EXPECT_EQ(b_.said, "of b");
}

TEST_F(ControlSessionTest, ACallMayRunOrCancelOthers) {
    session_.connected();
    run(a_);
    run(b_);
    a_.then = [&] {
        a_.then = nullptr;
        session_.cancel(b_);
        run(a_);
    };
    EXPECT_EQ(session_.received("+1\r\n+2\r\n+3\r\n"), Progress::more);
    EXPECT_EQ(a_.said, "3");
    EXPECT_EQ(b_.said, "");

    run(a_);
    run(b_);
    a_.then = [&] {
        a_.then = nullptr;
        session_.cancel(b_);
        run(a_);
    };
    session_.disconnected({"gone"});
    EXPECT_EQ(a_.said, "") << "it was run anew, and waits";
    EXPECT_EQ(b_.said, "");
    EXPECT_TRUE(session_.has_waiting());
}

TEST_F(ControlSessionTest, FollowsARedirect) {
    session_.connected();
    run(a_);
    EXPECT_EQ(session_.received("-MOVED 5 10.0.0.1:7001\r\n"), Progress::more);
    EXPECT_EQ(redirected_, &a_);
    EXPECT_EQ(a_.said, "");
    EXPECT_TRUE(session_.is_idle());
    (void)sent();

    session_.take_over(a_, Redirect::Kind::ask);
    EXPECT_EQ(sent(), (Commands{{"ASKING"}, {"GET", "a"}}));
    EXPECT_EQ(session_.received("+OK\r\n-ASK 5 10.0.0.2:7001\r\n"), Progress::more);
    EXPECT_EQ(redirect_, Redirect::Kind::ask);
    session_.take_over(a_, Redirect::Kind::moved);
    EXPECT_EQ(sent(), (Commands{{"GET", "a"}}));
    EXPECT_EQ(session_.received("+found\r\n"), Progress::more);
    EXPECT_EQ(a_.said, "found");
}

TEST_F(ControlSessionTest, FollowsFiveRedirects) {
    session_.connected();
    run(a_);
    for (int i = 0; i < 5; ++i) {
        redirected_ = nullptr;
        (void)session_.received("-MOVED 5 10.0.0.1:7001\r\n");
        EXPECT_EQ(redirected_, &a_);
        session_.take_over(a_, Redirect::Kind::moved);
    }
    (void)session_.received("-MOVED 5 10.0.0.1:7001\r\n");
    EXPECT_EQ(a_.said, "error MOVED 5 10.0.0.1:7001");
    run(a_);
    takes_redirects_ = false;
    (void)session_.received("-MOVED 5 10.0.0.1:7001\r\n");
    EXPECT_EQ(a_.said, "error MOVED 5 10.0.0.1:7001");
}

TEST_F(ControlSessionTest, AReplicaIsLeft) {
    session_.connected();
    run(a_);
    run(b_);
    EXPECT_EQ(session_.received("-READONLY You can't write\r\n"), Progress::broken);
    EXPECT_EQ(a_.said, "error READONLY You can't write");
    EXPECT_EQ(session_.problem().what, "error reply");
    session_.disconnected(session_.problem());
    EXPECT_EQ(b_.said, "sent: error reply, READONLY You can't write");
    session_.connected();
    run(a_);
    EXPECT_EQ(
        session_.received("-ERR Error running script (call to f_1): @user_script:9: -READONLY "
                          "You can't write\r\n"),
        Progress::broken);
    session_.disconnected(session_.problem());
    session_.connected();
    run(a_);
    EXPECT_EQ(session_.received("-LOADING Redis is loading\r\n"), Progress::more);
    EXPECT_EQ(a_.said, "error LOADING Redis is loading");
}

TEST_F(ControlSessionTest, HoldsAWorkerWhileSomebodyWaits) {
    EXPECT_FALSE(session_.holds_worker());
    a_.holds_worker = false;
    run(a_);
    EXPECT_FALSE(session_.holds_worker());
    run(b_);
    EXPECT_TRUE(session_.holds_worker());
    session_.connected();
    EXPECT_TRUE(session_.holds_worker());
    session_.cancel(b_);
    EXPECT_FALSE(session_.holds_worker());
}

TEST_F(ControlSessionTest, GarbageBreaksTheConnection) {
    const std::string all[] = {"HTTP/1.1 400 Bad Request\r\n", "*100000000\r\n",
                               "$2000000\r\n" + std::string(1'100'000, 'x')};
    for (const std::string &garbage : all) {
        session_.connected();
        run(a_);
        EXPECT_EQ(session_.received(garbage), Progress::broken) << garbage.substr(0, 20);
        EXPECT_EQ(session_.problem().what, "an unexpected reply");
        session_.disconnected(session_.problem());
        EXPECT_EQ(a_.said, "sent: an unexpected reply");
    }
}

} // namespace
} // namespace redis_client
