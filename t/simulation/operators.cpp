#include "simulation/operators.hpp"

#include "rate_limit/text/key.hpp"
#include "redis_client/control/live_store.hpp"

#include <array>
#include <utility>

namespace simulation {

namespace {

using rate_limit::Override;

Override override_of(const Setting &what) {
    constexpr std::array actions{Override::Action::numbers, Override::Action::numbers,
                                 Override::Action::ban, Override::Action::exempt};
    return {.action = actions[static_cast<size_t>(what.action)],
            .limit = what.limit,
            .burst = what.burst};
}

std::string words_of(const OperatorWrite &write) {
    constexpr std::array words{"removes", "sets numbers of", "bans", "exempts"};
    std::string line = words[static_cast<size_t>(write.what.action)];
    line += " " + write.key + " " + write.rule;
    if (write.what.limit) {
        line += " limit " + std::to_string(*write.what.limit);
    }
    if (write.what.burst) {
        line += " burst " + std::to_string(*write.what.burst);
    }
    return line;
}

constexpr Time known_after{2'000'000}; // on all hosts

} // namespace

/// A record that is written.
class Operators::Order final : public redis_client::ControlCommand {
  public:
    Order(Operators &operators, SimulatedWorker &worker, OperatorWrite write,
          std::optional<Time> holds_for)
        : operators_(operators),
          simulation_(operators.simulation_),
          store_(*worker.configuration().settings().live_store),
          backend_(worker.limiter().backends.of(worker.configuration().settings())),
          memory_(worker.configuration().settings().memory),
          epoch_(redis_client::new_epoch(worker.limiter().world)),
          write_(std::move(write)),
          holds_for_(holds_for) {
        hash_slot = store_.hash_slot();
    }

    void send() {
        simulation_.write("an operator " + words_of(write_));
        write_.sent_us = simulation_.timeline.now().count();
        flushes_ = operators_.flushes_;
        if (holds_for_) {
            write_.expires_us = write_.sent_us + holds_for_->count();
        }
        number_ = simulation_.auditor.overrides.write(write_);
        backend_.run(*this);
        simulation_.timeline.add(simulation_.timeline.now() + given_up_after, [this] { finish(); });
    }

    bool write(redis_client::ByteQueue &out) const override {
        std::array<char, 128> buffer;
        const redis_client::LiveName name{
            .zone = "z",
            .encoded_key = write_.key.empty() ? std::string_view()
                                              : rate_limit::encode_client_key(write_.key, buffer),
            .rule = write_.rule};
        if (write_.what.action == Setting::Action::none) {
            return store_.write_delete(out, name, "operator", epoch_, memory_.known());
        }
        return store_.write_put(
            out, name,
            {.what = override_of(write_.what), .expires_in = holds_for_, .by = {}, .note = {}},
            epoch_, memory_.known());
    }
    void on_reply(redis_client::ReplyView reply) override {
        const auto written = redis_client::read_written(reply);
        if (written) {
            OperatorWrite &told = simulation_.auditor.overrides.written(number_);
            told.is_acknowledged = true;
            ++simulation_.happened.overrides;
            const bool is_there = written->is_written && flushes_ == operators_.flushes_;
            operators_.has_stored_ = operators_.has_stored_ || is_there;
        } else if (simulation_.has_one_sound_redis()) {
            simulation_.auditor.misbehave("Redis refuses what an operator orders");
        }
        finish();
    }
    void on_failure(bool /*was_sent*/, const redis_client::Fault & /*fault*/) override {
        ++simulation_.happened.lost_orders;
        finish();
    }

  private:
    static constexpr Time given_up_after{3'000'000}; // its worker may be killed

    void finish() {
        if (is_finished_) {
            return;
        }
        is_finished_ = true;
        const Time now = simulation_.timeline.now();
        OperatorWrite &told = simulation_.auditor.overrides.written(number_);
        told.done_us = now.count();
        simulation_.write(told.is_acknowledged ? "it is written" : "it may be written");
    }

    Operators &operators_;
    Simulation &simulation_;
    const redis_client::LiveStore &store_;
    redis_client::Backend &backend_;
    const redis_client::BackendMemory memory_;
    uint64_t epoch_;
    OperatorWrite write_;
    std::optional<Time> holds_for_;
    size_t number_ = 0;
    uint64_t flushes_ = 0; // of the operators, before
    bool is_finished_ = false;
};

Operators::Operators(Simulation &simulation, const Hosts &hosts)
    : simulation_(simulation),
      hosts_(hosts),
      forgets_nothing_(Chance(simulation.plan.seed ^ 0x0FE2).one_in(2)) {}

Operators::~Operators() = default;

void Operators::act_until(Time end, Theme theme, const std::vector<std::string> &keys) {
    keys_ = keys;
    const Time longest_pause{
        simulation_.chance.between(200'000, theme == Theme::operators ? 1'500'000 : 4'000'000)};
    simulation_.repeat(end, Time{10'000}, longest_pause, [this] { act(); });
}

void Operators::act() {
    Chance &chance = simulation_.chance;
    if (!forgets_nothing_ && chance.one_in(12)) {
        flush();
        return;
    }
    last_act_ = simulation_.timeline.now();
    const std::string &key = keys_[chance.below(keys_.size())];
    if (!forgets_nothing_ && chance.one_in(4)) {
        reset(key);
        return;
    }
    const std::string rule = draw_rule();
    const uint64_t about = chance.below(3);
    for (uint64_t i = chance.one_in(6) ? 2 : 1; i > 0; --i) { // two at once, of the same
        write(about < 2 ? key : "", about > 0 ? rule : "");
    }
}

void Operators::flush() {
    simulation_.write("an operator flushes all");
    simulation_.topology->flush_all();
    const Time now = simulation_.timeline.now();
    const bool is_known = now > last_act_ + known_after; // what is lost, on all hosts
    if (!simulation_.has_faults && has_stored_ && is_known) {
        judge_told_loss();
    }
    last_act_ = now;
    ++flushes_;
    has_stored_ = false;
}

/// Unless operators go on, or other workers follow what they set, each host tells of the loss.
void Operators::judge_told_loss() {
    const Time began = simulation_.timeline.now();
    for (const auto &host : hosts_) {
        const auto end = [this, &host, began, told = host->lost_stores(),
                          workers = host->begun_workers()] {
            const uint64_t now_told = host->lost_stores() - told;
            if (last_act_ == began && host->begun_workers() == workers && now_told != 1) {
                simulation_.auditor.misbehave("a host tells " + std::to_string(now_told) +
                                              " times that all was lost, not once");
            }
        };
        simulation_.timeline.add(began + known_after, end);
    }
}

/// Returns the name of a rule that a host has.
std::string Operators::draw_rule() {
    Chance &chance = simulation_.chance;
    const limiter::RuleList &rules = hosts_[chance.below(hosts_.size())]->configuration().level();
    return rules[chance.below(rules.size())]->name;
}

void Operators::reset(const std::string &key) {
    Chance &chance = simulation_.chance;
    SimulatedWorker &worker = hosts_[chance.below(hosts_.size())]->draw_serving_worker(chance);
    Reset &made = *resets_.emplace_back(std::make_unique<Reset>(simulation_, worker, key));
    worker.later(simulation_.timeline.now(), [&made] { made.begin(); });
}

/// A write, by the API of any host.
void Operators::write(const std::string &key, const std::string &rule) {
    Chance &chance = simulation_.chance;
    SimulatedHost &host = *hosts_[chance.below(hosts_.size())];
    SimulatedWorker &worker = host.draw_serving_worker(chance);
    OperatorWrite order{.key = key, .rule = rule, .what = {}};
    std::optional<Time> holds_for;
    if (!chance.one_in(4)) {
        const uint64_t action = chance.below(key.empty() ? 6 : 9);
        order.what.action = action < 6    ? Setting::Action::numbers
                            : action == 6 ? Setting::Action::exempt
                                          : Setting::Action::ban;
        if (action < 6) {
            order.what.limit = chance.below(chance.one_in(2) ? 6 : 300);
            const limiter::Rule *of = host.configuration().rule_named(rule);
            const bool is_bucket = of != nullptr &&
                                   rate_limit::is_bucket(of->rule.quota.algorithm) &&
                                   of->rule.quota.algorithm != rate_limit::Algorithm::leaky_bucket;
            if (is_bucket && chance.one_in(3)) {
                order.what.burst = chance.below(100);
            }
        }
        if (chance.one_in(2)) {
            holds_for = Time{1'000'000 * chance.between(1, 4)};
        }
    }
    orders_.push_back(std::make_unique<Order>(*this, worker, std::move(order), holds_for));
    Order &made = *orders_.back();
    worker.later(simulation_.timeline.now(), [&made] { made.send(); });
}

} // namespace simulation
