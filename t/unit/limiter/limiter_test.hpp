// A worker with one zone, and a backend whose answers the test gives.
#pragma once

#include "limiter/limited_request.hpp"
#include "limiter/linking.hpp"
#include "limiter/silent_log.hpp"
#include "unit/redis_client/world.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace limiter {

/// The test answers what is asked, in any order.
class TestBackend final : public redis_client::Backend {
  public:
    TestBackend(const redis_client::BackendSettings &settings, redis_client::World &world,
                redis_client::BackendLog &log)
        : Backend(settings, world, log) {}

    std::variant<redis_client::Command *, redis_client::Failure>
    ask(std::span<redis_client::Charge> charges, redis_client::CheckCallbacks &callbacks) override {
        if (refuses) {
            return *refuses;
        }
        asked.push_back({charges, &callbacks});
        return &commands.emplace_back();
    }
    void abandon(redis_client::Command &) override { ++abandoned; }
    void refund(std::span<redis_client::Charge> charges) override {
        for (redis_client::Charge &charge : charges) {
            refunded += charge.is_charged ? charge.quota.cost : 0;
            charge.is_charged = false;
        }
    }
    void settle(const redis_client::SettlementOrder &order) override {
        const std::string kind =
            order.kind == redis_client::SettlementKind::debt ? "debt " : "refund ";
        settled.push_back(kind + std::to_string(rate_limit::units_to_charge(order.charge.quota)) +
                          " " + std::string(order.charge.redis_key));
        settled_requests += order.counters != nullptr ? 1 : 0;
        settled_in = order.charge.hash_slot;
    }
    void release(redis_client::Permit &) override { ++released; }
    void run(redis_client::ControlCommand &) override {}
    void cancel(const redis_client::ControlCommand &) override {}
    void send_now() override {}

    size_t leases() const { return context_.group.leases; }

    /// Answers the check that was asked first. All its charges get the verdict.
    void answer(const rate_limit::Verdict &verdict) {
        const auto [charges, callbacks] = take();
        for (redis_client::Charge &charge : charges) {
            charge.verdict = verdict;
            charge.is_charged = verdict.decision == rate_limit::Decision::granted;
        }
        callbacks->on_answer(std::nullopt);
    }
    void fail(redis_client::Failure failure) { take().callbacks->on_answer(failure); }

    struct Asked {
        std::span<redis_client::Charge> charges;
        redis_client::CheckCallbacks *callbacks;
    };
    std::deque<Asked> asked;
    std::optional<redis_client::Failure> refuses;
    std::deque<redis_client::Command> commands;
    std::vector<std::string> settled;
    int settled_requests = 0;
    std::optional<uint16_t> settled_in; // the hash slot of the last one
    uint64_t refunded = 0;
    int released = 0;
    int abandoned = 0;

  private:
    Asked take() {
        const Asked first = asked.front();
        asked.pop_front();
        return first;
    }
};

/// A client's request, whose texts the test sets.
class TestRequest final : public Request {
  public:
    std::optional<std::string_view> key(const Zone &) override { return client_key; }
    std::optional<std::string_view> text(const Rule &, RuleText which) override {
        return texts[which];
    }
    std::string_view address() override { return client_address; }
    void on_answered() override { ++answered; }
    void report(const InvalidNumber &what) override {
        invalid.push_back(std::string(what.parameter) + "=" + std::string(what.value));
    }
    void report_dry_run(const AppliedRule &) override { ++dry_runs; }
    void report(RequestEvent, int64_t) override {}

    std::string client_key = "203.0.113.7";
    std::string client_address;
    std::map<RuleText, std::string> texts;
    int answered = 0;
    int dry_runs = 0;
    std::vector<std::string> invalid;
};

class LimiterTest : public testing::Test, public ZoneMutex {
    struct alignas(64) Line {
        std::byte bytes[64];
    };
    static constexpr size_t zone_size = size_t{1} << 20;
    std::vector<Line> backend_memory_;
    std::vector<Line> zone_memory_;
    std::deque<Rule> rules_;

  protected:
    LimiterTest() {
        backend_memory_.resize(redis_client::BackendMemory::size() / sizeof(Line) + 1);
        settings.memory.lay_out(backend_memory_.data(), world.precise_now());
        backend = static_cast<TestBackend *>(&backends_.of(settings));
        worker = std::make_unique<Worker>(world, backends_, log);
        zone.name = "per_ip";
        zone.backend = &settings;
        zone_memory_.resize(zone_size / sizeof(Line));
        zone.memory.begin(std::as_writable_bytes(std::span(zone_memory_)), *this, zone_size, {1, 2},
                          world.precise_now());
        zone.memory.rule_counters().begin_generation();
        world.pass(std::chrono::seconds{100});
    }

    /// Adds a rule of the zone, from the words of its directive.
    const Rule &add_rule(const std::vector<std::string_view> &words) {
        std::vector<std::string_view> all{"zone=per_ip"};
        all.insert(all.end(), words.begin(), words.end());
        Rule &rule = rules_.emplace_back();
        std::vector<std::string> warnings;
        EXPECT_EQ(rate_limit::read_rule(all, rule, warnings), std::nullopt);
        rule.complete(zone);
        rule.first_of_name = &rule;
        rule.counters =
            &zone.memory.rule_counters().claim(rate_limit::hash_of(zone.memory.seed(), rule.name));
        level.push_back(&rule);
        return rule;
    }

    /// Sets what the rules have to know of each other.
    void link() {
        std::vector<Rule *> all;
        for (Rule &rule : rules_) {
            all.push_back(&rule);
        }
        const Level levels[] = {{level, false}};
        link_rules(all, levels, [this](const Rule &) -> redis_client::SessionSettings & {
            return settings.session;
        });
    }

    Step apply(LimitedRequest &limits, bool is_dry_run = false) {
        return limits.apply({level, is_dry_run}, rate_limit::Phase::access);
    }
    LimitedRequest &begin(TestRequest &request) {
        return *LimitedRequest::create(*worker, request);
    }
    /// Returns how often the rule came to this.
    static uint64_t count(const Rule &rule, rate_limit::RuleOutcome outcome) {
        return rule.counters->read().outcomes[static_cast<size_t>(outcome)];
    }

    static rate_limit::Verdict granted() { return {.remaining = 9}; }
    static rate_limit::Verdict denied() {
        return {.decision = rate_limit::Decision::denied, .retry_after = std::chrono::seconds{5}};
    }

    redis_client::TestWorld world;
    SilentLog log;
    redis_client::BackendSettings settings{0, "default"};
    redis_client::Backends backends_{[this](const redis_client::BackendSettings &its_settings) {
        return std::make_unique<TestBackend>(its_settings, world, log);
    }};
    TestBackend *backend;
    std::unique_ptr<Worker> worker;
    Zone zone;
    RuleList level;
    TestRequest request;

  private:
    void lock() const override {}
    void unlock() const override {}
};

} // namespace limiter
