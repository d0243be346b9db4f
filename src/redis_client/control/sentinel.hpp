// Asks one Sentinel over one connection who the master is, and hears of it whenever that changes.
// https://redis.io/docs/latest/develop/reference/sentinel-clients
#pragma once

#include "redis_client/wire/byte_queue.hpp"
#include "redis_client/wire/endpoint.hpp"
#include "redis_client/wire/reply_tree.hpp"

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
    Sentinel(const Sentinel &) = delete;
    Sentinel &operator=(const Sentinel &) = delete;

    /// The transport is connected. From here on output() has what is to be sent.
    void connected();

    enum class Progress {
        more,     // all is well
        answered, // the answer has come, or another one
        broken,   // the Sentinel is of no use, for the reason in problem()
    };
    /// Each answer names a master, which may be the same as before. If the same bytes hold several
    /// answers the last one counts.
    Progress received(std::string_view bytes);

    ByteQueue &output() { return output_; }
    const Endpoint &master() const { return master_; }

    struct Problem {
        std::string_view what;   // static text
        std::string redis_said;  // not escaped
        bool is_refusal = false; // as in Fault
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
    Awaited awaited_ = Awaited::address;
    ByteQueue output_;
    ReplyTreeReader reader_;
    Endpoint master_;
    Problem problem_;
};

} // namespace redis_client
