// Decides on the requests of a log as nginx would have, by the road of limiter::LimitedRequest, and
// ends each of them when it ended.
#pragma once

#include "limiter/limited_request.hpp"
#include "limiter/silent_log.hpp"
#include "replay/redis/redis.hpp"
#include "replay/rules/replay_backend.hpp"
#include "replay/rules/replay_world.hpp"
#include "replay/rules/rule_tally.hpp"
#include "replay/rules/rules_file.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace replay {

class Replay {
  public:
    /// All of these outlive it.
    Replay(const RulesFile &rules, const Variables &variables, Redis &redis);
    ~Replay();

    /// What became of a request.
    struct Decision {
        bool is_no_request = false; // the client sent nothing that is one
        bool has_rules = false;     // a rule applied to it
        bool is_rejected = false;
        // Rules of both phases were asked: the log has one time for both, so it is an estimate.
        bool is_of_both_phases = false;
        std::chrono::microseconds delay{0};
    };
    /// Decides on a request. Times never step back. Returns nothing if Redis failed: see error().
    std::optional<Decision> decide(const Request &request, int64_t decided_us, int64_t ended_us);

    /// Ends the requests that had not ended when the last one was decided.
    void finish();

    const std::string &error() const { return backend_.error(); }

    /// The tallies of the rules, by Rule::counted_as.
    std::vector<std::unique_ptr<RuleTally>> &tallies() { return tallies_; }

  private:
    /// A line of the log as the limiter sees it, until the request's end.
    class ReplayedRequest final : public limiter::Request {
      public:
        explicit ReplayedRequest(Replay &replay) : replay_(replay) {}

        void begin(const replay::Request &line);
        /// Evaluates the final costs of the rules, because the line goes.
        void end_line(const Level &level);

        std::optional<std::string_view> key(const limiter::Zone &zone) override;
        std::optional<std::string_view> text(const limiter::Rule &rule,
                                             limiter::RuleText which) override;
        std::string_view address() override;
        void on_answered() override {}
        void report(const limiter::InvalidNumber &invalid) override;
        void report_dry_run(const limiter::AppliedRule & /*rule*/) override {}
        void report(limiter::RequestEvent /*event*/, int64_t /*number*/) override {}

        limiter::LimitedRequest *limits = nullptr;

      private:
        Replay &replay_;
        const replay::Request *line_ = nullptr; // null: it has gone
        std::array<std::string, 5> buffers_;
        std::string address_;
        std::vector<std::pair<const limiter::Rule *, std::string>> final_costs_;
    };
    /// A request that has something to give back or to settle.
    struct AtEnd {
        int64_t time_us;
        uint64_t number; // those of one time keep their order
        std::unique_ptr<ReplayedRequest> request;

        bool
        operator<(const AtEnd &other) const { // the earliest is the largest: see std::push_heap
            return time_us != other.time_us ? time_us > other.time_us : number > other.number;
        }
    };

    void apply(ReplayedRequest &request, const Level &level, int64_t decided_us, int64_t ended_us,
               Decision &decision);
    void count(const limiter::AppliedRule &applied, int64_t decided_us, int64_t ended_us);
    void end_requests(int64_t until_us);
    static void end(ReplayedRequest &request);

    const RulesFile &rules_;
    const Variables &variables_;
    ReplayWorld world_;
    limiter::SilentLog log_;
    redis_client::Backends backends_;
    ReplayBackend &backend_; // the only one of backends_
    limiter::Worker worker_;
    std::vector<std::unique_ptr<RuleTally>> tallies_;
    std::unique_ptr<ReplayedRequest> spare_; // of a request that ended at once
    std::vector<AtEnd> ends_;                // a heap
    uint64_t ends_made_ = 0;
};

} // namespace replay
