#include "cluster_query.hpp"

#include "auth.hpp"
#include "resp.hpp"

#include <utility>

namespace redis_client {

namespace {

/// A range of hash slots takes some 100 bytes a node, and each hash slot may be a range of its own.
constexpr size_t longest_reply = size_t{16} << 20;

} // namespace

ClusterQuery::ClusterQuery(std::string username, std::string password)
    : username_(std::move(username)), password_(std::move(password)), reader_(longest_reply) {}

void ClusterQuery::connected() {
    reader_.reset();
    problem_ = {};
    output_.clear();
    is_logging_in_ = write_auth(output_, username_, password_);
    write_command(output_, {"CLUSTER", "SLOTS"});
}

ClusterQuery::Progress ClusterQuery::received(std::string_view bytes) {
    reader_.feed(bytes);
    for (;;) {
        switch (reader_.next()) {
        case ReplyTreeReader::Next::incomplete:
            return Progress::more;
        case ReplyTreeReader::Next::broken:
            return broken("an unexpected reply");
        case ReplyTreeReader::Next::reply:
            break;
        }
        const Progress step = take(reader_.reply());
        if (step != Progress::more) {
            return step;
        }
    }
}

ClusterQuery::Progress ClusterQuery::take(ReplyView reply) {
    if (reply.is_error()) {
        const std::string_view said = reply.text().value_or(std::string_view());
        return is_logging_in_ ? broken("AUTH", refusal_of_auth(said))
                              : broken("CLUSTER SLOTS", said);
    }
    if (std::exchange(is_logging_in_, false)) {
        return Progress::more;
    }
    auto map = ClusterMap::read(reply);
    if (!map) {
        return reply.size() == 0 && !reply.text() && !reply.number()
                   ? broken("no node of the cluster serves any keys")
                   : broken("an unexpected reply");
    }
    map_ = std::move(*map);
    return Progress::map;
}

ClusterQuery::Progress ClusterQuery::broken(std::string_view what, std::string_view redis_said) {
    problem_ = {.what = what, .redis_said = std::string(redis_said)};
    return Progress::broken;
}

} // namespace redis_client
