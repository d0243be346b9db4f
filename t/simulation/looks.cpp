#include "simulation/looks.hpp"

#include "redis_client/control/peek.hpp"

#include <optional>
#include <utility>

namespace simulation {

Told told_of(const rate_limit::Verdict &verdict) {
    return {.remaining = verdict.remaining,
            .retry_after_us = verdict.retry_after.count(),
            .reset_us = verdict.reset.count(),
            .next_unit_us = verdict.next_unit.count()};
}

class Looks::Look final : public redis_client::ControlCommand {
  public:
    Look(Simulation &simulation, SimulatedWorker &worker, size_t rule, std::string key,
         const limiter::AppliedRule &applied)
        : simulation_(simulation),
          worker_(worker),
          rule_(rule),
          key_(std::move(key)),
          redis_key_(applied.charge->redis_key),
          quota_(applied.charge->quota),
          is_aligned_(applied.rule->rule.aligned),
          blocks_(applied.rule->rule.block_of(applied.dry_run).count() > 0
                      ? redis_client::Blocks::yes
                      : redis_client::Blocks::no) {
        hash_slot = applied.charge->hash_slot;
    }

    void send() {
        sent_ = simulation_.timeline.now();
        worker_.limiter().backends.of(worker_.configuration().settings()).run(*this);
    }

    bool write(redis_client::ByteQueue &out) const override {
        return redis_client::write_peek(out, quota_, is_aligned_, redis_key_, blocks_,
                                        worker_.unix_now());
    }
    void on_reply(redis_client::ReplyView reply) override {
        ++simulation_.happened.looks;
        const SimulatedRedis *redis = simulation_.topology->only_redis();
        if (redis == nullptr) {
            return; // keys that move are not always there
        }
        const auto verdict =
            reply.is_error() ? std::nullopt : redis_client::read_peek(reply, quota_, blocks_);
        if (!verdict) {
            simulation_.auditor.misbehave("a look at a client shows nothing");
            return;
        }
        const auto ran = redis->only_run_of(redis_key_, sent_);
        if (ran && blocks_ == redis_client::Blocks::no) { // a block has numbers of its own
            simulation_.auditor.look(rule_, key_,
                                     {.time_us = ran->count(),
                                      .cost = quota_.cost,
                                      .limit = quota_.limit,
                                      .capacity = quota_.capacity(),
                                      .told = told_of(*verdict)});
        }
    }
    void on_failure(bool /*was_sent*/, const redis_client::Fault & /*fault*/) override {
        if (simulation_.topology->only_redis() != nullptr) {
            simulation_.auditor.misbehave("a look at a client fails though nothing is wrong");
        }
    }

  private:
    Simulation &simulation_;
    SimulatedWorker &worker_;
    size_t rule_;
    std::string key_;
    std::string redis_key_;
    rate_limit::Quota quota_;
    bool is_aligned_;
    redis_client::Blocks blocks_;
    Time sent_{0};
};

Looks::Looks(Simulation &simulation)
    : simulation_(simulation), chance_(simulation.plan.seed ^ 0x100C) {}

Looks::~Looks() = default;

void Looks::on_decision(SimulatedWorker &worker, size_t rule, const std::string &key,
                        const limiter::AppliedRule &applied) {
    if (simulation_.has_faults || !chance_.one_in(50) || !worker.is_serving()) {
        return;
    }
    looks_.push_back(std::make_unique<Look>(simulation_, worker, rule, key, applied));
    Look &made = *looks_.back();
    // Most come soon, while something is known of the client.
    const int64_t at_most_us = chance_.one_in(4) ? 2'000'000 : 20'000;
    worker.later(simulation_.timeline.now() + Time{chance_.between(0, at_most_us)},
                 [&made] { made.send(); });
}

} // namespace simulation
