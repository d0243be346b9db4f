// Who the master is, as one Sentinel says over one connection, first when asked and then whenever
// that changes. https://redis.io/docs/latest/develop/reference/sentinel-clients
#pragma once

#include "byte_queue.hpp"
#include "endpoint.hpp"
#include "reply_tree.hpp"

#include <string>
#include <string_view>

namespace redis_client {

struct SentinelSettings {
    std::string master_name = {};
    std::string username = {}; // empty: AUTH with the password alone
    std::string password = {}; // empty: no AUTH
};

class Sentinel {
  public:
    explicit Sentinel(SentinelSettings settings);

    /// The transport is connected: output() has what is to be said.
    void connected();

    enum class Progress {
        more,   // as it should be
        master, // it told of a master, which may be the same as before
        broken, // this Sentinel is of no use, for the reason in problem()
    };
    /// Of several masters told in the same bytes the last one counts.
    Progress received(std::string_view bytes);

    const Endpoint &master() const { return master_; }
    ByteQueue &output() { return output_; }

    struct Problem {
        std::string_view what;  // static text
        std::string redis_said; // unescaped
    };
    const Problem &problem() const { return problem_; }

  private:
    enum class Awaited { login, address, subscription, messages };

    Progress take(ReplyView reply);
    Progress take_address(ReplyView reply);
    Progress take_message(ReplyView message);
    Progress take_master(std::string_view host, std::string_view port);
    Progress broken(std::string_view what, std::string_view redis_said = {});

    const SentinelSettings settings_;
    Awaited awaited_ = Awaited::login;
    ByteQueue output_;
    ReplyTreeReader reader_;
    Endpoint master_;
    Problem problem_;
};

} // namespace redis_client
