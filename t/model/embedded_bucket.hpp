// A bucket's scripts in this process, which take a few microseconds each.
#pragma once

#include "model_test.hpp"
#include "redis_client/script/commands.hpp"
#include "redis_client/script/script.hpp"
#include "replay/redis/embedded_redis.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace model {

/// Which refund a host runs.
enum class Refund {
    whole,      // this version's
    on_one_key, // the same where a hash slot moves, so that nothing is known of the past
    of_1_0_0,   // that of hosts of version 1.0.0
};

/// The counter of one key, at the time that the test says.
class EmbeddedBucket {
  public:
    int64_t now_us = 1'700'000'000'000'000;

    /// Both set what Redis answered.
    void ask(Charge &charge);
    Charge ask(Quota quota, uint64_t cost);
    Charge lease(Quota quota, uint64_t cost, microseconds longest, uint64_t wanted);

    void give_back(const Charge &charge, uint64_t units, Refund by);
    /// Charges more than the rule grants.
    void owe(const Charge &charge, uint64_t units);
    /// As an operator's reset, or an eviction, does.
    void remove_counter() { redis_.keys().remove(key); }
    void remove_past() { redis_.keys().remove(key_of_past()); }

    /// How far ahead of now it lies that all units are there, and the state's first and fourth
    /// numbers.
    int64_t ahead_us();
    int64_t arrival_us() { return static_cast<int64_t>(number(0)); }
    int64_t moved_back_us() { return static_cast<int64_t>(number(3)); }
    bool has_past() { return redis_.keys().find(key_of_past()) != nullptr; }

    struct Saved {
        replay::KeyStore keys;
        int64_t now_us;
    };
    Saved save() { return {redis_.keys(), now_us}; }
    void restore(const Saved &saved) {
        redis_.keys() = saved.keys;
        now_us = saved.now_us;
    }

    static constexpr std::string_view key = "k";

  private:
    static std::string key_of_past();
    double number(size_t index);
    std::string run(const redis_client::ByteQueue &command);
    const redis_client::Script &script(const std::string &name, auto make);
    redis_client::Sending sending_of(const redis_client::Script &script);
    void settle(SettlementKind kind, const Charge &charge, uint64_t units, Refund by);

    replay::EmbeddedRedis redis_;
    std::map<std::string, redis_client::Script> scripts_;
    std::set<const redis_client::Script *> sent_;
};

} // namespace model
