#include "redis_client/control/cluster_query.hpp"

#include "cluster_slots.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace redis_client {
namespace {

using Progress = ClusterQuery::Progress;

const std::string map_reply = list({range(0, 16383, {node("10.0.0.1", 7001)})});

class ClusterQueryTest : public testing::Test {
  protected:
    void connect(const std::string &username = "", const std::string &password = "") {
        query_.emplace(username, password);
        query_->connected();
    }

    void expect_map(Progress progress) {
        EXPECT_EQ(progress, Progress::answered);
        ASSERT_EQ(query_->map().masters().size(), 1u);
        EXPECT_EQ(query_->map().masters()[0].endpoint, (Endpoint{"10.0.0.1", 7001}));
    }

    void expect_broken(std::string_view bytes, std::string_view what, std::string_view said = "") {
        EXPECT_EQ(query_->received(bytes), Progress::broken) << bytes;
        EXPECT_EQ(query_->problem().what, what) << bytes;
        EXPECT_EQ(query_->problem().redis_said, said) << bytes;
    }

    std::optional<ClusterQuery> query_;
};

TEST_F(ClusterQueryTest, AsksForTheMap) {
    connect();
    EXPECT_EQ(parse_commands(query_->output().bytes()), (Commands{{"CLUSTER", "SLOTS"}}));
    expect_map(query_->received(map_reply));
}

TEST_F(ClusterQueryTest, LogsInFirst) {
    connect("u", "p");
    EXPECT_EQ(parse_commands(query_->output().bytes()),
              (Commands{{"AUTH", "u", "p"}, {"CLUSTER", "SLOTS"}}));
    EXPECT_EQ(query_->received("+OK\r\n"), Progress::more);
    expect_map(query_->received(map_reply));

    connect("", "p");
    EXPECT_EQ(parse_commands(query_->output().bytes()),
              (Commands{{"AUTH", "p"}, {"CLUSTER", "SLOTS"}}));
    expect_map(query_->received("+OK\r\n" + map_reply));
}

TEST_F(ClusterQueryTest, ReadsByteByByte) {
    connect("u", "p");
    const std::string all = "+OK\r\n" + map_reply;
    for (size_t i = 0; i + 1 < all.size(); ++i) {
        ASSERT_EQ(query_->received({&all[i], 1}), Progress::more) << i;
    }
    expect_map(query_->received({&all.back(), 1}));
}

TEST_F(ClusterQueryTest, BeginsAnewWithAConnection) {
    connect("u", "p");
    EXPECT_EQ(query_->received("+OK\r\n*1\r\n*3\r\n:0"), Progress::more);
    query_->connected();
    EXPECT_EQ(parse_commands(query_->output().bytes()),
              (Commands{{"AUTH", "u", "p"}, {"CLUSTER", "SLOTS"}}));
    EXPECT_EQ(query_->received("+OK\r\n"), Progress::more);
    expect_map(query_->received(map_reply));
}

TEST_F(ClusterQueryTest, TellsWhyItIsNotLetIn) {
    connect("u", "secret");
    expect_broken("-WRONGPASS invalid username-password pair\r\n", "AUTH", "WRONGPASS");
    connect();
    expect_broken("-NOAUTH Authentication required.\r\n", "CLUSTER SLOTS",
                  "NOAUTH Authentication required.");
}

TEST_F(ClusterQueryTest, NeverTellsThePassword) {
    connect("u", "secret");
    expect_broken("-ERR unknown command 'AUTH', with args beginning with: 'u' 'secret'\r\n", "AUTH",
                  "ERR");
}

TEST_F(ClusterQueryTest, TellsWhyThereIsNoMap) {
    const std::string_view disabled = "ERR This instance has cluster support disabled";
    connect();
    expect_broken("-" + std::string(disabled) + "\r\n", "CLUSTER SLOTS", disabled);
    connect("", "p");
    expect_broken("+OK\r\n-" + std::string(disabled) + "\r\n", "CLUSTER SLOTS", disabled);
    connect();
    expect_broken("*0\r\n", "no node of the cluster serves any keys");
}

TEST_F(ClusterQueryTest, IsOfNoUseWhereItSaysWhatItShouldNot) {
    for (const std::string_view bytes :
         {"HTTP/1.1 400 Bad Request\r\n", "*20001\r\n", "*2147483647\r\n", ":1\r\n", "+OK\r\n",
          "$1\r\na\r\n", "*1\r\n:1\r\n", "*1\r\n*0\r\n"}) {
        connect();
        expect_broken(bytes, "an unexpected reply");
    }
}

} // namespace
} // namespace redis_client
