// Asks one Sentinel over one connection who the master is, and hears of it whenever that changes.
// https://redis.io/docs/latest/develop/reference/sentinel-clients
#pragma once

#include "redis_client/control/query.hpp"
#include "redis_client/wire/endpoint.hpp"

#include <string>
#include <string_view>

namespace redis_client {

struct SentinelSettings {
    std::string master_name = {};
    std::string username = {}; // empty: AUTH with the password alone
    std::string password = {}; // empty: no AUTH
};

class Sentinel final : public Query {
  public:
    explicit Sentinel(const SentinelSettings &settings);

    /// Each answer names a master, which may be the same as before. If the same bytes hold several
    /// answers the last one counts.
    Progress received(std::string_view bytes);

    const Endpoint &master() const { return master_; }

  private:
    enum class Awaited { address, subscription, messages };

    void ask(ByteQueue &output) override;
    Progress take(ReplyView reply) override;
    Progress take_address(ReplyView reply);
    Progress take_message(ReplyView message);
    Progress take_master(std::string_view host, std::string_view port);

    const std::string master_name_;
    Awaited awaited_ = Awaited::address;
    Endpoint master_;
};

} // namespace redis_client
