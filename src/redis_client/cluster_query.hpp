// One node of a cluster is asked for the map, over a connection of its own.
#pragma once

#include "byte_queue.hpp"
#include "cluster_map.hpp"
#include "reply_tree.hpp"

#include <string>
#include <string_view>

namespace redis_client {

class ClusterQuery {
  public:
    /// An empty password: no AUTH; an empty username: AUTH with the password alone.
    ClusterQuery(std::string username, std::string password);

    /// The transport is connected: output() has what is to be said.
    void connected();

    enum class Progress {
        more,   // as it should be
        map,    // map() has it, and the connection has served
        broken, // this node is of no use, for the reason in problem()
    };
    Progress received(std::string_view bytes);

    const ClusterMap &map() const { return map_; }
    ByteQueue &output() { return output_; }

    struct Problem {
        std::string_view what;  // static text
        std::string redis_said; // unescaped
    };
    const Problem &problem() const { return problem_; }

  private:
    Progress take(ReplyView reply);
    Progress broken(std::string_view what, std::string_view redis_said = {});

    const std::string username_;
    const std::string password_;
    bool is_logging_in_ = false;
    ByteQueue output_;
    ReplyTreeReader reader_;
    ClusterMap map_;
    Problem problem_;
};

} // namespace redis_client
