// What tests of links have in common: settings, shared memory, a log, and a world around.
#pragma once

#include "rate_limit/metrics/rule_counters.hpp"
#include "redis_client/link/backend_log.hpp"
#include "redis_client/link/backend_settings.hpp"
#include "redis_client/link/backends.hpp"
#include "unit/redis_client/control/cluster_slots.hpp"
#include "unit/redis_client/session/session_test.hpp"
#include "unit/redis_client/world.hpp"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace redis_client {

/// Keeps the lines that nginx's error log would have.
class TestLog final : public BackendLog {
  public:
    void on_outage(std::string_view /*backend*/, std::string_view place, Cause /*cause*/,
                   const Fault &fault, std::string_view checked) override {
        const std::string reason = fault.reason();
        lines.push_back(std::string(place) + " fails: " + std::string(fault.what) +
                        (reason.empty() ? "" : ": " + reason) + std::string(checked));
    }
    void on_outage_end(std::string_view /*backend*/, std::string_view place, Cause cause, End how,
                       const Outage::Summary &outage) override {
        static constexpr std::string_view whose[] = {"", " for keys", " for calendars"};
        static constexpr std::string_view ends[] = {"works again", "fails no more",
                                                    "is no longer asked"};
        lines.push_back(std::string(place) + " " + std::string(ends[static_cast<size_t>(how)]) +
                        std::string(whose[static_cast<size_t>(cause)]) + ", " +
                        std::to_string(outage.lasted.count()) + " ms, " +
                        std::to_string(outage.failed_checks) + " checks");
    }
    void on_connecting(std::string_view place) override { connecting.emplace_back(place); }
    void on_ready() override { ++ready; }
    void on_lost(size_t /*pending_checks*/) override { ++lost; }

    /// Returns the lines since the last call.
    std::vector<std::string> take() { return std::exchange(lines, {}); }

    std::vector<std::string> lines;
    std::vector<std::string> connecting;
    int ready = 0;
    int lost = 0;
};

/// A control command, and what became of it.
struct TestCommand final : ControlCommand {
    explicit TestCommand(std::string a_word) : word(std::move(a_word)) {}

    bool write(ByteQueue &out) const override { return write_command(out, {"GET", word}); }
    void on_reply(ReplyView reply) override {
        said += (reply.is_error() ? "error " : "") + std::string(reply.text().value_or("nothing"));
    }
    void on_failure(bool was_sent, const Fault &fault) override {
        const std::string reason = fault.reason();
        said += (was_sent ? "sent: " : "not sent: ") + std::string(fault.what) +
                (reason.empty() ? "" : ", " + reason);
    }

    std::string word;
    std::string said;
};

using Lines = std::vector<std::string>;

class LinkTest : public testing::Test {
  protected:
    LinkTest() {
        memset(memory_.get(), 0, BackendMemory::size());
        settings_.memory.lay_out(memory_.get(), world_.precise_now());
        settings_.session = default_settings();
        settings_.session.timeout = 100ms;
    }

    void serve(Mode mode, const std::vector<std::string> &hosts) {
        settings_.mode = mode;
        for (const std::string &host : hosts) {
            settings_.servers.push_back(
                {.host = host, .port = 6379, .addresses = literal_address(host, 6379)});
        }
    }
    Backend &backend() { return backends_.of(settings_); }

    /// Asks for one unit of a key. Returns whether the check waits for its answer.
    bool ask(Listener &listener, const std::string &key, uint16_t hash_slot = 0) {
        auto &charges = listener.new_charges({asked(key)});
        charges.front().hash_slot = hash_slot;
        const auto answer = backend().ask(charges, listener);
        world_.end_turn();
        return std::holds_alternative<Command *>(answer);
    }
    /// Charges one more unit of a key.
    void settle(Backend &at, std::string_view key) {
        Charge charge;
        charge.quota = quota_of(Algorithm::sliding_log);
        charge.redis_key = key;
        at.settle({.kind = SettlementKind::debt,
                   .charge = charge,
                   .aligned = false,
                   .counters = &rule_counters_});
    }
    void settle(std::string_view key) { settle(backend(), key); }
    uint64_t charged() const {
        return rule_counters_.read().of(rate_limit::RuleCounter::settlements_charged);
    }
    /// The server lets the connection in, which is ready then.
    void log_in(TestConnection &connection) {
        connection.accept();
        std::string replies;
        for (size_t i = connection.sent().size(); i > 0; --i) {
            replies += "+OK\r\n";
        }
        connection.receive(replies);
    }
    rate_limit::BackendCounts counts() {
        return settings_.memory.read(world_, world_.precise_now());
    }

    struct Free {
        void operator()(void *memory) const { free(memory); }
    };
    std::unique_ptr<void, Free> memory_{aligned_alloc(64, BackendMemory::size())};
    TestWorld world_;
    TestLog log_;
    BackendSettings settings_{0, "default"};
    rate_limit::RuleCounters rule_counters_{};
    Listener a_, b_;
    Backends backends_{
        [this](const BackendSettings &settings) { return make_backend(settings, world_, log_); }};
};

} // namespace redis_client
