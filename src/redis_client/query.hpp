// What is asked rarely, of a Sentinel or a cluster's node, over a connection of its own.
#pragma once

#include "byte_queue.hpp"
#include "reply_tree.hpp"

#include <string>
#include <string_view>

namespace redis_client {

class Query {
  public:
    Query(const Query &) = delete;
    Query &operator=(const Query &) = delete;

    /// The transport is connected: output() has what is to be said.
    void connected();

    enum class Progress {
        more,     // as it should be
        answered, // what was asked for has come, or has come anew
        broken,   // who was asked is of no use, for the reason in problem()
    };

    ByteQueue &output() { return output_; }

    struct Problem {
        std::string_view what;  // static text
        std::string redis_said; // unescaped
    };
    const Problem &problem() const { return problem_; }

  protected:
    /// An empty password: no AUTH; an empty username: AUTH with the password alone.
    Query(std::string username, std::string password, size_t longest_reply);
    ~Query() = default;

    /// Stops at an answer: what else the bytes hold comes with the next call.
    Progress read(std::string_view bytes);
    Progress broken(std::string_view what, std::string_view redis_said = {});

  private:
    /// Writes all that is to be asked.
    virtual void ask(ByteQueue &output) = 0;
    /// One of the replies to that.
    virtual Progress take(ReplyView reply) = 0;

    Progress take_login_reply(ReplyView reply);

    const std::string username_;
    const std::string password_;
    bool is_logging_in_ = false;
    ByteQueue output_;
    ReplyTreeReader reader_;
    Problem problem_;
};

} // namespace redis_client
