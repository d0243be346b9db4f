#include "redis_client/control/sentinel.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>

using namespace redis_client;

namespace {

const std::string subscribed = "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n";

std::string bulk(std::string_view text) {
    return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

std::string address(std::string_view host, std::string_view port) {
    return "*2\r\n" + bulk(host) + bulk(port);
}

std::string message(std::string_view text) {
    return "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n" + bulk(text);
}

} // namespace

class SentinelTest : public testing::Test {
  protected:
    void connect(const SentinelSettings &settings = {.master_name = "m"}) {
        sentinel_.emplace(settings);
        sentinel_->connected();
    }

    void expect_master(Sentinel::Progress progress, std::string_view host, uint16_t port) {
        EXPECT_EQ(progress, Sentinel::Progress::answered);
        EXPECT_EQ(sentinel_->master(), (Endpoint{std::string(host), port}));
    }

    void expect_broken(std::string_view bytes, std::string_view what, std::string_view said = "") {
        connect();
        EXPECT_EQ(sentinel_->received(bytes), Sentinel::Progress::broken) << bytes;
        EXPECT_EQ(sentinel_->problem().what, what) << bytes;
        EXPECT_EQ(sentinel_->problem().redis_said, said) << bytes;
    }

    std::optional<Sentinel> sentinel_;
};

TEST_F(SentinelTest, AsksAndSubscribesAtOnce) {
    connect();
    EXPECT_EQ(sentinel_->output().bytes(),
              "*3\r\n$8\r\nSENTINEL\r\n$23\r\nGET-MASTER-ADDR-BY-NAME\r\n$1\r\nm\r\n"
              "*2\r\n$9\r\nSUBSCRIBE\r\n$14\r\n+switch-master\r\n");
}

TEST_F(SentinelTest, LogsInFirst) {
    connect({.master_name = "m", .username = "u", .password = "p"});
    EXPECT_TRUE(sentinel_->output().bytes().starts_with(
        "*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$1\r\np\r\n*3\r\n$8\r\nSENTINEL\r\n"));
    EXPECT_EQ(sentinel_->received("+OK\r\n"), Sentinel::Progress::more);
    expect_master(sentinel_->received(address("10.0.0.1", "6379")), "10.0.0.1", 6379);
    connect({.master_name = "m", .username = "", .password = "p"});
    EXPECT_TRUE(sentinel_->output().bytes().starts_with("*2\r\n$4\r\nAUTH\r\n$1\r\np\r\n"));
    EXPECT_EQ(sentinel_->received("-ERR unknown command, with args beginning with: p\r\n"),
              Sentinel::Progress::broken);
    EXPECT_EQ(sentinel_->problem().what, "AUTH");
    EXPECT_EQ(sentinel_->problem().redis_said, "ERR");
}

TEST_F(SentinelTest, RefusesALongReplyInWhateverPieces) {
    const std::string reply = address(std::string(16'384, 'h'), "6379");
    expect_broken(reply, "an unexpected reply");
    connect();
    Sentinel::Progress progress = Sentinel::Progress::more;
    for (size_t at = 0; at < reply.size() && progress == Sentinel::Progress::more; at += 100) {
        progress = sentinel_->received(std::string_view(reply).substr(at, 100));
    }
    EXPECT_EQ(progress, Sentinel::Progress::broken);
}

TEST_F(SentinelTest, TellsOfTheMasterAndOfThoseThatFollow) {
    connect();
    expect_master(sentinel_->received(address("10.0.0.1", "6379")), "10.0.0.1", 6379);
    EXPECT_EQ(sentinel_->received(subscribed), Sentinel::Progress::more);
    EXPECT_EQ(sentinel_->received(message("other 10.0.0.1 6379 10.0.0.9 1")),
              Sentinel::Progress::more);
    expect_master(sentinel_->received(message("m 10.0.0.1 6379 redis-2.test 6380")), "redis-2.test",
                  6380);
}

TEST_F(SentinelTest, ReadsByteByByteAndAllAtOnce) {
    const std::string all = address("::1", "1") + subscribed + message("m ::1 1 ::2 65535");
    connect();
    expect_master(sentinel_->received(all), "::2", 65535);
    connect();
    int masters = 0;
    for (const char byte : all) {
        masters += sentinel_->received({&byte, 1}) == Sentinel::Progress::answered;
    }
    EXPECT_EQ(masters, 2);
    EXPECT_EQ(sentinel_->master(), (Endpoint{"::2", 65535}));
}

TEST_F(SentinelTest, BeginsAnewWithAConnection) {
    connect();
    sentinel_->received("*2\r\n$3\r\nhal");
    sentinel_->connected();
    expect_master(sentinel_->received(address("10.0.0.1", "6379")), "10.0.0.1", 6379);
}

TEST_F(SentinelTest, IsOfNoUseWhereItKnowsNothingOrSaysWhatItShouldNot) {
    const std::string unexpected = "an unexpected reply";
    expect_broken("*-1\r\n", "it knows no master of that name");
    expect_broken("$-1\r\n", "it knows no master of that name");
    expect_broken("-IDONTKNOW wait\r\n", "error reply", "IDONTKNOW wait");
    for (const std::string_view bytes :
         {"HTTP/1.1 400 Bad Request\r\n", ":1\r\n", "+OK\r\n", "*1\r\n$1\r\na\r\n",
          "*2\r\n:1\r\n:2\r\n", "*2\r\n*0\r\n*0\r\n", "*20001\r\n", "*2147483647\r\n",
          "*2\r\n$1\r\na\r\n$1\r\n0\r\n", "*2\r\n$1\r\na\r\n$5\r\n65536\r\n",
          "*2\r\n$0\r\n\r\n$1\r\n1\r\n", "*2\r\n$1\r\na\r\n$2\r\n-1\r\n"}) {
        expect_broken(bytes, unexpected);
    }
    expect_broken(address("a", "1") + "+OK\r\n", unexpected);
    expect_broken(address("a", "1") + subscribed + "*2\r\n$4\r\npong\r\n$0\r\n\r\n", unexpected);
    expect_broken(address("a", "1") + subscribed + message("m"), unexpected);
    expect_broken(address("a", "1") + subscribed + message("m a 1 b 0"), unexpected);
    std::string deep;
    for (int i = 0; i < 2000; ++i) {
        deep += "*1\r\n";
    }
    expect_broken(deep, unexpected);
    expect_broken("$536870912\r\n" + std::string(20'000, 'x'), unexpected);
}
