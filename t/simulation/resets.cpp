#include "simulation/resets.hpp"

#include "rate_limit/text/key.hpp"
#include "redis_client/control/live_store.hpp"

#include <array>
#include <utility>

namespace simulation {

using redis_client::Registry;

/// A command, and what follows its reply. After an error or without a reply nothing does.
class Reset::Step final : public redis_client::ControlCommand {
  public:
    Step(Simulation &simulation, std::function<bool(redis_client::ByteQueue &)> write,
         std::function<void(redis_client::ReplyView)> go_on, uint16_t slot)
        : simulation_(simulation), write_(std::move(write)), go_on_(std::move(go_on)) {
        hash_slot = slot;
    }

    bool write(redis_client::ByteQueue &out) const override { return write_(out); }
    void on_reply(redis_client::ReplyView reply) override {
        if (!reply.is_error()) {
            const auto go_on = go_on_; // the next step takes the place of this one
            go_on(reply);
        } else if (simulation_.has_one_sound_redis()) {
            simulation_.auditor.misbehave("Redis refuses a reset");
        }
    }
    void on_failure(bool /*was_sent*/, const redis_client::Fault & /*fault*/) override {}

  private:
    Simulation &simulation_;
    std::function<bool(redis_client::ByteQueue &)> write_;
    std::function<void(redis_client::ReplyView)> go_on_;
};

Reset::Reset(Simulation &simulation, SimulatedWorker &worker, std::string key)
    : simulation_(simulation),
      worker_(worker),
      key_(std::move(key)),
      settings_(worker.configuration().settings()) {
    std::array<char, 128> buffer;
    encoded_key_ = rate_limit::encode_client_key(key_, buffer);
    owner_ = {.prefix = settings_.prefix, .zone = "z", .encoded_key = encoded_key_};
}

Reset::~Reset() = default;

void Reset::run(std::function<bool(redis_client::ByteQueue &)> write,
                std::function<void(redis_client::ReplyView)> go_on, uint16_t hash_slot) {
    step_ = std::make_unique<Step>(simulation_, std::move(write), std::move(go_on), hash_slot);
    worker_.limiter().backends.of(settings_).run(*step_);
}

void Reset::begin() {
    simulation_.write("an operator resets " + key_);
    sent_ = simulation_.timeline.now();
    simulation_.auditor.order_reset(key_);
    for (const limiter::Rule *rule : worker_.configuration().level()) {
        deletion_.add(rate_limit::counter_name(rule->rule), rule->rule.shards);
    }
    find(Registry::of_lengths, 0);
}

void Reset::find(Registry registry, uint64_t cursor) {
    run(
        [this, registry, cursor](redis_client::ByteQueue &out) {
            return settings_.live_store->write_counters_query(out, registry, cursor, "z");
        },
        [this, registry](redis_client::ReplyView reply) {
            const auto page = redis_client::read_counters(reply);
            if (!page) {
                return;
            }
            for (const auto &[name, shards] : page->counters) {
                deletion_.add(name, shards);
            }
            if (page->next != 0) {
                find(registry, page->next);
            } else if (registry == Registry::of_lengths) {
                find(Registry::of_calendars, 0);
            } else {
                deletion_.begin();
                delete_next();
            }
        },
        settings_.live_store->hash_slot());
}

void Reset::delete_next() {
    const auto portion = deletion_.next();
    if (!portion) {
        tell();
        return;
    }
    run(
        [this, portion = *portion](redis_client::ByteQueue &out) {
            return redis_client::write_deletion(out, portion, owner_);
        },
        [this](redis_client::ReplyView) { delete_next(); },
        redis_client::hash_slot_of(*portion, owner_));
}

/// Counters come first: a host that forgets a denial asks for it again.
void Reset::tell() {
    run(
        [this](redis_client::ByteQueue &out) {
            return settings_.live_store->write_reset(
                out, {.zone = "z", .encoded_key = encoded_key_, .rule = {}, .is_reset = true},
                "operator", redis_client::new_epoch(worker_), settings_.memory.known());
        },
        [this](redis_client::ReplyView reply) {
            if (redis_client::read_written(reply)) {
                const Time now = simulation_.timeline.now();
                simulation_.write(key_ + " is reset");
                ++simulation_.happened.resets;
                simulation_.auditor.reset(key_, sent_.count(), now.count());
            }
        },
        settings_.live_store->hash_slot());
}

} // namespace simulation
