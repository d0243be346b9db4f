// A question that is rare, to a Sentinel or a cluster node, over a connection of its own.
#pragma once

#include "redis_client/wire/byte_queue.hpp"
#include "redis_client/wire/reply_tree.hpp"

#include <string>
#include <string_view>

namespace redis_client {

class Query {
  public:
    Query(const Query &) = delete;
    Query &operator=(const Query &) = delete;

    /// The transport is connected. From here on output() has what is to be sent.
    void connected();

    enum class Progress {
        more,     // all is well
        answered, // the answer has come, or another one
        broken,   // the server is of no use, for the reason in problem()
    };

    ByteQueue &output() { return output_; }

    struct Problem {
        std::string_view what;  // static text
        std::string redis_said; // not escaped
    };
    const Problem &problem() const { return problem_; }

  protected:
    /// Without a password there is no AUTH; without a username AUTH has the password alone.
    Query(std::string username, std::string password, size_t longest_reply);
    ~Query() = default;

    /// Stops at an answer. What else the bytes hold is read by the next call.
    Progress read(std::string_view bytes);
    Progress broken(std::string_view what, std::string_view redis_said = {});

  private:
    /// Writes all commands of the question.
    virtual void ask(ByteQueue &output) = 0;
    /// Takes one of the replies to them.
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
