// A host that follows a store of live limits in a real Redis, as LiveSync lets it: what it obeys is
// in its shared memory, and outlives the worker that follows.
#pragma once

#include "redis.hpp"

#include "redis_client/control/live_follower.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace model {

inline redis_client::LiveName of_key(std::string_view key) {
    return {.zone = "z", .encoded_key = key, .rule = {}};
}

class LiveHost final : public redis_client::LiveFollower::Callbacks {
  public:
    explicit LiveHost(Redis &redis) : redis_(redis) { replace_worker(); }

    /// Asks for the head, or what is to be asked next.
    void step() {
        using redis_client::LiveStep;
        redis_client::ByteQueue queue;
        switch (next.what) {
        case LiveStep::What::wait: {
            const auto names = redis_.command({"ZCARD", "rl:{live}:log"}).number;
            const auto records = redis_.command({"HLEN", "rl:{live}:data"}).number;
            ASSERT_TRUE(store_.write_head_query(queue));
            redis_.ask(queue, [&](redis_client::ReplyView reply) {
                const auto head = redis_client::read_head(reply);
                next = follower->take_head(head, names == records && (names > 0) == !!head);
            });
            break;
        }
        case LiveStep::What::read:
            ASSERT_TRUE(store_.write_changes_query(queue, next.since));
            redis_.ask(queue, [&](redis_client::ReplyView reply) {
                const auto page = redis_client::read_changes(reply);
                ASSERT_TRUE(page) << reply.text().value_or("");
                next = follower->take_page(*page);
            });
            break;
        case LiveStep::What::write_back:
            ++written_back;
            ASSERT_TRUE(store_.write_back(queue, follower->epoch(), follower->lost()));
            redis_.ask(queue, [&](redis_client::ReplyView reply) {
                ASSERT_FALSE(reply.is_error()) << *reply.text();
                next = follower->take_written_back(redis_client::read_written_back(reply));
            });
        }
        if (!is_reading()) {
            known = follower->known();
        }
    }
    void poll() {
        do {
            step();
        } while (is_reading());
    }
    bool is_reading() const { return next.what != redis_client::LiveStep::What::wait; }

    /// There is another connection.
    void begin_anew(redis_client::LiveKnown so_far) {
        next = {};
        follower->begin_anew(so_far);
    }
    void begin_anew() { begin_anew(known); }
    /// Another worker follows, and has a connection of its own.
    void replace_worker() {
        follower.emplace(*this);
        begin_anew();
    }

    void on_begin(redis_client::LiveReading reading) override {
        ++generation;
        keeps_newer_ = reading == redis_client::LiveReading::of_older_store;
    }
    void on_end() override {
        std::erase_if(overrides,
                      [&](const auto &one) { return one.second.generation != generation; });
    }
    void on_change(const redis_client::LiveChange &change) override {
        ++changes;
        const std::string key(change.name.encoded_key);
        if (change.name.is_reset) {
            resets.insert(change.version);
            return;
        }
        const auto obeyed = overrides.find(key);
        if (keeps_newer_ && obeyed != overrides.end() && obeyed->second.version > change.version) {
            return;
        }
        if (change.is_tombstone) {
            overrides.erase(key);
        } else {
            overrides[key] = {change.override.what, change.version, generation};
        }
    }
    void on_missed_resets() override { ++missed; }
    void on_lost_store() override { ++lost; }

    struct Obeyed {
        rate_limit::Override what;
        uint64_t version = 0;
        int generation = 0;
    };
    std::map<std::string, Obeyed> overrides; // by keys
    std::set<uint64_t> resets;
    int generation = 0;
    int changes = 0;
    int missed = 0;
    int lost = 0;
    int written_back = 0;

    std::optional<redis_client::LiveFollower> follower;
    redis_client::LiveStep next;
    redis_client::LiveKnown known; // in shared memory

  private:
    Redis &redis_;
    redis_client::LiveStore store_{"rl:"};
    bool keeps_newer_ = false;
};

} // namespace model
