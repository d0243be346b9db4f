// A backend that runs each script at once, on the clock of a log.
#pragma once

#include "redis_client/link/backend.hpp"
#include "redis_client/script/commands.hpp"
#include "redis_client/wire/byte_queue.hpp"
#include "replay/redis/redis.hpp"
#include "replay/rules/replay_world.hpp"

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace replay {

/// How long a permit of `concurrency`, and its key, are asked for. nginx asks for the rule's
/// window, and renews it until the request ends. The replay gives each permit back when its request
/// ends, and need not renew what lasts longer than any request.
inline constexpr std::chrono::milliseconds lasting_permit = std::chrono::hours{24 * 3652};

class ReplayBackend final : public redis_client::Backend {
  public:
    /// All of these outlive it.
    ReplayBackend(const redis_client::BackendSettings &settings, ReplayWorld &world,
                  redis_client::BackendLog &log, Redis &redis)
        : Backend(settings, world, log), world_(world), redis_(redis) {}

    std::variant<redis_client::Command *, redis_client::Failure>
    ask(std::span<redis_client::Charge> charges, redis_client::CheckCallbacks &callbacks) override;
    /// Hands out the answer of the check that was asked last.
    void answer();
    void settle(const redis_client::SettlementOrder &order) override;
    void release(redis_client::Permit &permit) override;
    /// A request has one check, which charges all or nothing, and its answer is taken.
    void refund(std::span<redis_client::Charge> /*charges*/) override {}
    void abandon(redis_client::Command & /*check*/) override {}
    void run(redis_client::ControlCommand & /*command*/) override {}
    void cancel(const redis_client::ControlCommand & /*command*/) override {}
    void send_now() override {}

    /// Returns what Redis has failed with; empty: it has not.
    const std::string &error() const { return error_; }

  private:
    void prepare_permits(std::span<redis_client::Charge> charges);
    redis_client::Sending sending_of(const redis_client::Script &script);
    std::string_view run_command();

    ReplayWorld &world_;
    Redis &redis_;
    std::set<const redis_client::Script *> sent_; // in full, so that they are known by name
    redis_client::ByteQueue bytes_;
    redis_client::Command check_;
    redis_client::CheckCallbacks *asking_ = nullptr;
    std::vector<redis_client::WireWords> arguments_; // of the check's permits
    uint64_t permits_made_ = 0;
    std::string error_;
};

} // namespace replay
