#include "redis_client/control/cluster_map.hpp"

#include "cluster_slots.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace redis_client {
namespace {

std::optional<ClusterMap> map_of(const std::string &bytes) {
    ReplyTreeReader reader(size_t{16} << 20);
    reader.feed(bytes);
    EXPECT_EQ(reader.next(), ReplyTreeReader::Next::reply);
    return ClusterMap::read(reader.reply());
}

void expect_none(const std::string &bytes) {
    EXPECT_FALSE(map_of(bytes)) << bytes.substr(0, 200);
}

TEST(ClusterMap, TellsWhoServesWhat) {
    const auto map = map_of(list({range(0, 5460, {node("10.0.0.1", 7001), node("10.0.0.4", 7004)}),
                                  range(5461, 16383, {node("10.0.0.2", 7002)})}));
    ASSERT_TRUE(map);
    ASSERT_EQ(map->masters().size(), 2u);
    const auto &[first, second] = std::tie(map->masters()[0], map->masters()[1]);
    EXPECT_EQ(first.endpoint, (Endpoint{"10.0.0.1", 7001}));
    EXPECT_EQ(second.endpoint, (Endpoint{"10.0.0.2", 7002}));
    EXPECT_EQ(first.serves.count(), 5461u);
    EXPECT_EQ(second.serves.count(), 16384u - 5461);
    EXPECT_TRUE(first.serves[0] && first.serves[5460] && second.serves[5461]);
    EXPECT_TRUE(second.serves[16383]);
}

TEST(ClusterMap, JoinsTheRangesOfAMaster) {
    const auto map = map_of(list({range(0, 0, {node("a", 1)}), range(1, 1, {node("b", 1)}),
                                  range(2, 9, {node("a", 1)}), range(10, 10, {node("a", 2)})}));
    ASSERT_TRUE(map);
    ASSERT_EQ(map->masters().size(), 3u); // another port is another node
    EXPECT_EQ(map->masters()[0].serves.count(), 9u);
    EXPECT_FALSE(map->masters()[0].serves[1]);
    EXPECT_EQ(map->masters()[2].endpoint, (Endpoint{"a", 2}));
}

TEST(ClusterMap, HasNoHostWhereTheNodeDoesNotKnowIt) {
    for (const std::string &unknown : {std::string("$-1\r\n"), bulk_string(""), bulk_string("?")}) {
        const auto map =
            map_of(list({list({number(0), number(9), list({unknown, number(7001)})})}));
        ASSERT_TRUE(map) << unknown;
        EXPECT_EQ(map->masters()[0].endpoint, (Endpoint{"", 7001}));
    }
}

TEST(ClusterMap, KnowsTheAddressOfANameWhereTheNodeTellsIt) {
    const auto address_of = [](const std::string &metadata) {
        const auto map = map_of(list({list(
            {number(0), number(9),
             list({bulk_string("redis.test"), number(7001), bulk_string("id"), metadata})})}));
        return map ? map->masters()[0].address : "no map";
    };
    EXPECT_EQ(address_of(list({bulk_string("ip"), bulk_string("10.0.0.1")})), "10.0.0.1");
    EXPECT_EQ(address_of(list({bulk_string("shard"), bulk_string("ip"), bulk_string("ip"),
                               bulk_string("::1")})),
              "::1"); // a name, not a value
    EXPECT_EQ(address_of(list({bulk_string("hostname"), bulk_string("x")})), "");
    EXPECT_EQ(address_of(list({bulk_string("ip")})), "");
    EXPECT_EQ(address_of(list({bulk_string("ip"), number(1)})), "");
    EXPECT_EQ(address_of(list({})), "");
    EXPECT_EQ(address_of(bulk_string("ip")), "");
    EXPECT_EQ(address_of(list({bulk_string("ip"), bulk_string(std::string(256, '1'))})), "no map");
}

TEST(ClusterMap, TakesWhatASlotOfItsOwnEachTakes) {
    std::vector<std::string> ranges;
    for (int slot = 0; slot < 16384; ++slot) {
        ranges.push_back(range(slot, slot, {node(slot % 2 == 0 ? "a" : "b", 1)}));
    }
    const auto map = map_of(list(ranges));
    ASSERT_TRUE(map);
    ASSERT_EQ(map->masters().size(), 2u);
    EXPECT_EQ(map->masters()[0].serves.count(), 8192u);
}

TEST(ClusterMap, IsNoneOfAnEmptyCluster) {
    expect_none("*0\r\n");
    expect_none("*-1\r\n");
}

TEST(ClusterMap, IsNoneOfWrongRanges) {
    for (const auto &[first, last] :
         {std::pair(-1, 5), {0, 16384}, {16384, 16384}, {6, 5}, {0, 99999}}) {
        expect_none(list({range(first, last, {node("a", 1)})}));
    }
    expect_none(list({range(0, 5, {})})); // nobody serves it
    expect_none(list({list({bulk_string("0"), number(5), node("a", 1)})}));
    expect_none(list({list({number(0), bulk_string("5"), node("a", 1)})}));
}

TEST(ClusterMap, IsNoneOfWrongNodes) {
    for (const std::string &wrong :
         {node("a", 0), node("a", -1), node("a", 65536), node(std::string(256, 'a'), 1), list({}),
          list({bulk_string("a")}), list({bulk_string("a"), bulk_string("1")}), bulk_string("a"),
          number(1), std::string("*-1\r\n"), std::string("$-1\r\n")}) {
        expect_none(list({range(0, 5, {wrong})}));
        expect_none(list({range(0, 4, {node("a", 1)}), range(5, 5, {wrong})}));
    }
    EXPECT_TRUE(map_of(list({range(0, 5, {node(std::string(255, 'a'), 1)})})));
    // replicas are nobody to be asked
    EXPECT_TRUE(map_of(list({range(0, 5, {node("a", 1), node("", 0), number(1)})})));
}

TEST(ClusterMap, IsNoneOfOtherReplies) {
    for (const std::string_view bytes :
         {"+OK\r\n", ":1\r\n", "$1\r\na\r\n", "$-1\r\n", "-ERR no\r\n", "*1\r\n:1\r\n",
          "*1\r\n*0\r\n", "*1\r\n$1\r\na\r\n", "*1\r\n*3\r\n*0\r\n*0\r\n*0\r\n"}) {
        expect_none(std::string(bytes));
    }
}

/// A cluster is made for 1000 nodes.
TEST(ClusterMap, IsNoneOfMoreMastersThanAClusterHas) {
    std::vector<std::string> ranges;
    for (int slot = 0; slot < 1000; ++slot) {
        ranges.push_back(range(slot, slot, {node("a", slot + 1)}));
    }
    EXPECT_TRUE(map_of(list(ranges)));
    ranges.push_back(range(1000, 1000, {node("a", 2000)}));
    expect_none(list(ranges));
}

} // namespace
} // namespace redis_client
