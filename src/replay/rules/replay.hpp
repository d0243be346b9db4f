// Decides on the requests of a log as nginx would have: finds the rules that apply, asks for all of
// a phase together, and settles what a request turned out to cost when it ends.
#pragma once

#include "redis_client/script/commands.hpp"
#include "redis_client/script/script.hpp"
#include "redis_client/session/check.hpp"
#include "redis_client/wire/byte_queue.hpp"
#include "replay/redis/redis.hpp"
#include "replay/rules/rule_tally.hpp"
#include "replay/rules/rules_file.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace replay {

class Replay {
  public:
    /// All of these outlive it.
    Replay(const RulesFile &rules, const Variables &variables, Redis &redis);

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

    const std::string &error() const { return error_; }

    /// The tallies of the rules, by Rule::counted_as.
    std::vector<std::unique_ptr<RuleTally>> &tallies() { return tallies_; }

  private:
    using Charge = redis_client::Charge;

    /// A rule that applies to a request.
    struct Applied {
        const Rule *rule = nullptr;
        bool dry_run = false;
        std::string key; // of the client
        rate_limit::RedisKeyBuffer redis_key_buffer;
        rate_limit::Quota quota; // of the rule; that of the charge may be a shard's
        redis_client::WireWords own_arguments;
        redis_client::Permit permit;
    };
    /// What is to be told to Redis when a request has ended.
    struct AtEnd {
        int64_t time_us;
        uint64_t number; // those of one time keep their order
        std::string redis_key;
        std::string permit;      // its name, which is released; or else, empty:
        rate_limit::Quota quota; // its cost is charged or given back
        bool aligned = false;
        int64_t receipt = 0;
        redis_client::SettlementKind kind = redis_client::SettlementKind::debt;

        bool operator>(const AtEnd &other) const {
            return time_us != other.time_us ? time_us > other.time_us : number > other.number;
        }
    };
    enum class Evaluated { applies, applies_not, invalid };

    bool decide_phase(const Request &request, const Level &level, rate_limit::Phase phase,
                      int64_t decided_us, int64_t ended_us, Decision &decision);
    void find(const Request &request, const Level &level, rate_limit::Phase phase);
    Evaluated evaluate(const Request &request, Applied &applied);
    Evaluated evaluate_numbers(const Request &request, Applied &applied);
    size_t decide_without_counters(size_t first, int64_t decided_us, int64_t ended_us,
                                   Decision &decision);
    void make_charge(size_t index, uint64_t chance);
    bool ask(std::span<Charge> charges, int64_t now_us);
    void count(const Applied &applied, Outcome outcome, int64_t decided_us, int64_t ended_us);
    bool end_requests(int64_t until_us);
    bool end_request(const AtEnd &end);
    void plan_ends(const Request &request, const Decision &decision, int64_t ended_us);
    void plan_settlement(const Request &request, const Applied &applied, AtEnd end);
    std::optional<uint64_t> final_cost_of(const Request &request, const Applied &applied);
    redis_client::Sending sending_of(const redis_client::Script &script);
    std::optional<std::string_view> run(int64_t now_us);

    const RulesFile &rules_;
    const Variables &variables_;
    Redis &redis_;
    redis_client::ScriptLibrary scripts_;
    std::set<const redis_client::Script *> sent_; // in full, so that they are known by name
    std::vector<std::unique_ptr<RuleTally>> tallies_;
    std::vector<Charge> charges_;                   // of the rules that are applied to a request
    std::vector<std::unique_ptr<Applied>> applied_; // these rules, and behind them unused ones
    bool is_rejected_by_error_ = false; // a rule with on_error=closed has a variable of no number
    redis_client::ByteQueue command_;
    std::priority_queue<AtEnd, std::vector<AtEnd>, std::greater<>> ends_;
    uint64_t ends_made_ = 0;
    uint64_t permits_made_ = 0;
    std::minstd_rand random_; // chooses shards, in each run the same
    std::string buffer_;
    std::string error_;
};

} // namespace replay
