#include "replay/rules/limit_search.hpp"

#include "rate_limit/algorithms/local.hpp"
#include "replay/redis/key_store.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <unordered_map>
#include <vector>

namespace replay {

namespace {

using rate_limit::AlgorithmTraits;
using rate_limit::Quota;

/// The state of one key. An algorithm uses one of them.
struct State {
    std::optional<rate_limit::Record> record;
    NumberList granted;                                                           // when
    std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> in_flight; // when they end
    int64_t last_us = 0;
};

/// Whether a key whose aligned windows never hold more than so many units is never rejected. Any
/// window touches two aligned ones.
bool is_surely_granted(const Quota &quota, uint64_t peak) {
    const AlgorithmTraits &traits = traits_of(quota.algorithm);
    const bool is_of_window = traits.burst == rate_limit::Burst::none ||
                              (traits.burst == rate_limit::Burst::is_capacity && !quota.burst);
    return is_of_window && !traits.holds_permits && quota.limit >= 2 * peak;
}

class Trial {
  public:
    Trial(const Quota &quota, bool aligned) : quota_(quota), aligned_(aligned) {}

    bool grants(State &state, const Spool::Request &request) const {
        const AlgorithmTraits &traits = traits_of(quota_.algorithm);
        if (traits.holds_permits) {
            return grants_by_flight(state, request);
        }
        return traits.keeps_each_unit ? grants_by_log(state, request.time_us)
                                      : grants_by_record(state, request.time_us);
    }

  private:
    bool grants_by_log(State &state, int64_t now) const {
        const int64_t horizon = now - std::chrono::microseconds(quota_.window).count();
        NumberList &granted = state.granted;
        size_t expired = 0;
        while (expired < granted.size() && granted.at(expired) <= horizon) {
            ++expired;
        }
        granted.trim(expired, granted.size());
        if ((granted.size() + 1) * quota_.cost > quota_.limit) {
            return false;
        }
        granted.push(now);
        return true;
    }

    bool grants_by_flight(State &state, const Spool::Request &request) const {
        auto &in_flight = state.in_flight;
        while (!in_flight.empty() && in_flight.top() <= request.time_us) {
            in_flight.pop();
        }
        if ((in_flight.size() + 1) * quota_.cost > quota_.limit) {
            return false;
        }
        in_flight.push(request.time_us + request.duration_us);
        return true;
    }

    bool grants_by_record(State &state, int64_t now) const {
        if (rate_limit::verdict_without_counter(quota_)) {
            return false;
        }
        const std::chrono::microseconds time(now);
        rate_limit::LocalDecision decision = rate_limit::decide_locally(
            state.record, quota_, aligned_, {.monotonic = time, .unix_time = time});
        if (decision.verdict.decision != rate_limit::Decision::granted) {
            return false;
        }
        if (decision.after) {
            state.record = decision.after;
        }
        return true;
    }

    const Quota &quota_;
    bool aligned_;
};

/// How many requests are rejected by limits that were tried.
class Trials {
  public:
    Trials(const Quota &quota, bool aligned, RuleTally &tally)
        : quota_(quota),
          aligned_(aligned),
          tally_(tally),
          clean_from_(std::min<size_t>(tally.numbers_of_keys(), most_remembered), UINT32_MAX) {}

    uint64_t rejected_by(uint64_t limit) {
        const auto [found, is_new] = tried_.try_emplace(limit, 0);
        if (is_new) {
            Quota tried = quota_;
            tried.limit = limit;
            found->second = tried.refill() > rate_limit::longest_refill       ? tally_.requests()
                            : is_surely_granted(tried, tally_.highest_peak()) ? 0
                                                                              : run(tried);
        }
        return found->second;
    }

  private:
    /// A key of which nothing was rejected by a limit need not be looked at with a larger one.
    uint64_t run(const Quota &tried) {
        const Trial trial(tried, aligned_);
        std::unordered_map<uint64_t, State> states;
        std::vector<bool> was_seen(clean_from_.size());
        std::vector<bool> was_rejected(clean_from_.size());
        size_t next_sweep = first_sweep;
        uint64_t rejected = 0;
        Spool &spool = tally_.spool();
        spool.rewind();
        while (const auto request = spool.next()) {
            const bool is_remembered = request->key < clean_from_.size();
            if (is_remembered && clean_from_[request->key] <= tried.limit) {
                continue;
            }
            State &state = states[request->key];
            state.last_us = request->time_us;
            const bool is_rejected = !trial.grants(state, *request);
            rejected += is_rejected ? 1 : 0;
            if (is_remembered) {
                was_seen[request->key] = true;
                was_rejected[request->key] = was_rejected[request->key] || is_rejected;
            }
            if (states.size() >= next_sweep) {
                std::erase_if(states, [&](const auto &one) {
                    return one.second.last_us + state_us(tried) < request->time_us;
                });
                next_sweep = std::max(first_sweep, 2 * states.size());
            }
        }
        for (size_t key = 0; key < clean_from_.size(); ++key) {
            if (was_seen[key] && !was_rejected[key]) {
                clean_from_[key] = static_cast<uint32_t>(tried.limit);
            }
        }
        return rejected;
    }

    static constexpr size_t first_sweep = 1 << 20;
    static constexpr size_t most_remembered = 1 << 24; // keys, in 64 MB

    Quota quota_;
    bool aligned_;
    RuleTally &tally_;
    std::map<uint64_t, uint64_t> tried_;
    std::vector<uint32_t> clean_from_; // limits, by the keys' numbers
};

} // namespace

FoundLimits find_limits(const Quota &quota, bool aligned, RuleTally &tally) {
    Trials trials(quota, aligned, tally);
    const uint64_t largest = rate_limit::largest_limit(quota.algorithm);
    const auto requests = static_cast<double>(tally.requests());
    FoundLimits found;
    for (size_t i = 0; i < searched_parts.size(); ++i) {
        const auto allowed = static_cast<uint64_t>(searched_parts[i] * requests);
        uint64_t enough = std::min(largest, std::max<uint64_t>(1, 2 * tally.highest_peak()));
        while (trials.rejected_by(enough) > allowed && enough < largest) {
            enough = std::min(largest, enough * 8);
        }
        if (trials.rejected_by(enough) > allowed) {
            continue;
        }
        uint64_t too_small = 0; // it rejects all
        while (enough - too_small > 1) {
            const uint64_t middle = too_small + (enough - too_small) / 2;
            (trials.rejected_by(middle) <= allowed ? enough : too_small) = middle;
        }
        found[i] = enough;
    }
    return found;
}

} // namespace replay
