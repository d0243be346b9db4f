// A request of a client, from its coming to its end.
#pragma once

#include "limiter/limited_request.hpp"
#include "simulation/simulated_host.hpp"
#include "simulation/simulation.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace simulation {

class Client final : limiter::Request {
  public:
    class Callbacks {
      public:
        /// The rules of that name must have counted it. `what` is the name of an outcome or of a
        /// counter.
        virtual void on_counted(const std::string &rule, std::string_view what) = 0;
        /// Redis has decided about the client.
        virtual void on_decision(SimulatedWorker &worker, size_t rule, const std::string &key,
                                 const limiter::AppliedRule &applied) = 0;

      protected:
        ~Callbacks() = default;
    };

    Client(Simulation &simulation, SimulatedHost &host, SimulatedWorker &worker, std::string key,
           Callbacks &callbacks);

    const SimulatedWorker &worker() const { return worker_; }
    bool is_over() const { return is_over_; }
    bool has_begun() const { return limits_ != nullptr; }

    /// How many of a request's rules Redis must decide, where nothing is wrong: of the first one
    /// after an outage perhaps not all, for a breaker tries one check, and a request may have two.
    enum class Needed : uint8_t { none, one, all };

    void begin();
    void need(Needed needed) { needed_ = needed; }
    /// Its worker is to ask Redis.
    void say_right_numbers() { numbers_ = Numbers::right; }
    /// Where requests say their costs.
    void set_cost(uint64_t cost) { cost_ = std::to_string(cost); }
    /// The client goes away then.
    void leave_at(Time when);
    /// Its worker stands still: what it waits for comes late.
    void note_stop() { worker_was_stopped_ = true; }
    /// Its worker was killed: it hears nothing any more.
    void die();
    /// Frees what it held in memory of the worker.
    void end_dead() {
        if (has_begun()) {
            limits_->end();
        }
    }

  private:
    void leave();
    std::optional<std::string_view> key(const limiter::Zone &) override { return key_; }
    std::optional<std::string_view> text(const limiter::Rule &rule,
                                         limiter::RuleText which) override;
    std::string_view address() override { return {}; }
    void on_answered() override;
    void report(const limiter::InvalidNumber &) override {}
    void report_dry_run(const limiter::AppliedRule &) override {}
    void report(limiter::RequestEvent, int64_t) override {}

    void later(Time when, std::function<void()> what);
    void act(const limiter::Step &step);
    const limiter::RuleList &level() const;
    void apply(rate_limit::Phase phase);
    void pass(Time delay);
    void serve();
    void end();
    bool lacks_verdicts() const;
    void judge_errors(bool passes) const;
    void judge_choice(const limiter::Step &step) const;
    size_t number_of(const limiter::AppliedRule &applied) const {
        return worker_.configuration().number_of(*applied.rule);
    }
    bool lacks_numbers(const limiter::Rule &rule) const {
        return std::ranges::find(without_numbers_, &rule) != without_numbers_.end();
    }
    /// Whether the rule has numbers by which it could decide.
    static bool is_valid(const limiter::AppliedRule &rule) {
        return rule.result.kind() != limiter::RuleResult::Kind::invalid;
    }
    void judge_numbers(const limiter::Rule &rule, const limiter::AppliedRule *applied);
    void note_numbers(bool passes);
    void note_numbers(const AuditedRule &rule, const limiter::AppliedRule *applied, bool passes);
    void note_outcome(const AuditedRule &rule, const limiter::AppliedRule &applied, bool passes);
    Decision decision_of(const limiter::AppliedRule &rule);
    // Of the phase:
    void note_grants();
    void note_top_key();
    uint64_t cost_of(const limiter::AppliedRule &rule) const;
    static GrantedBy granted_by(const limiter::AppliedRule &rule);
    void note_grant(const limiter::AppliedRule &rule);
    void note_uncharged(const limiter::AppliedRule &rule);
    void note_unanswered();
    /// Calls `use` for each rule of which Redis was asked, and no answer was taken yet.
    template <typename Use>
    void for_each_waiting(const Use &use) const;
    bool has_longest_wait(const limiter::AppliedRule &rule) const;
    void note_denials();
    void finish_grants(bool settles);

    Simulation &simulation_;
    SimulatedHost &host_;
    SimulatedWorker &worker_;
    Callbacks &callbacks_;
    std::string key_;
    std::string cost_;
    std::string final_cost_;
    /// What it says of limits, bursts and costs, where rules ask: those that the rule is to have,
    /// nothing, or what is no number.
    enum class Numbers : uint8_t { right, none, wrong };
    static Numbers draw_numbers(const Chance &chance);
    Numbers numbers_;
    bool is_elsewhere_; // than most, where there is another location
    std::string limit_;
    std::string burst_;
    std::vector<const limiter::Rule *> without_numbers_; // rules that were not told right ones
    Time began_{0};
    uint64_t tries_again_ = 0; // how often Redis had answered TRYAGAIN then
    rate_limit::Phase phase_ = rate_limit::Phase::access;
    Time applied_{0}; // when the rules of the phase were found
    limiter::LimitedRequest *limits_ = nullptr;
    bool is_over_ = false;
    bool is_waiting_ = false;
    bool is_decided_ = false;
    bool worker_was_stopped_ = false;
    Needed needed_ = Needed::none;
    std::shared_ptr<int> alive_ = std::make_shared<int>();
    std::vector<std::pair<size_t, Grant>> grants_;
};

} // namespace simulation
