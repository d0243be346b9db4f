#include "redis_client/control/cluster_query.hpp"

#include "redis_client/wire/resp.hpp"

#include <utility>

namespace redis_client {

namespace {

/// A range of hash slots takes some 100 bytes a node, and each hash slot may be a range of its own.
constexpr size_t longest_reply = size_t{16} << 20;

} // namespace

ClusterQuery::ClusterQuery(std::string username, std::string password)
    : Query(std::move(username), std::move(password), longest_reply) {}

void ClusterQuery::ask(ByteQueue &output) {
    write_command(output, {"CLUSTER", "SLOTS"});
}

ClusterQuery::Progress ClusterQuery::take(ReplyView reply) {
    if (reply.is_error()) {
        return broken("CLUSTER SLOTS", reply.text().value_or(""));
    }
    auto map = ClusterMap::read(reply);
    if (!map) {
        return broken(reply.is_empty() ? "no node of the cluster serves any keys"
                                       : "an unexpected reply");
    }
    map_ = std::move(*map);
    return Progress::answered;
}

} // namespace redis_client
