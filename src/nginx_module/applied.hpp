// Rules as they are applied to requests.
#pragma once

#include "ngx.hpp"

#include "candidates.hpp"
#include "conf.hpp"

#include <chrono>
#include <span>

namespace nginx_module {

/// A rule as it is applied to a request, in the request's pool. A rule is applied once, see
/// "Which requests are counted" in README.md.
struct Applied {
    enum class Result {
        verdict,    // in `charge`
        no_verdict, // not yet, or `on_error` decided
        invalid,    // a variable is no number: `on_error` decided whether that rejects
    };

    enum class Source {
        none,       // it takes nobody to know it
        redis,      //
        deny_cache, // the zone's memory of what Redis denied
        local,      // this host, since Redis gave no verdict
    };

    const RuleConf *rule;
    bool dry_run;
    std::string_view key;         // the client's
    rate_limit::Quota quota;      // of the rule
    redis_client::Charge *charge; // of the rule, or of the one of its shards that is asked
    uint64_t shard;               // that one
    bool is_other_shard;          // and not the one that was asked first
    Result result;
    Source source;                                  // of a verdict
    std::chrono::microseconds local_slots_since{0}; // when this host counted them; 0: it did not
    Applied *next;

    const rate_limit::Verdict *verdict() const {
        return result == Result::verdict ? &charge->verdict : nullptr;
    }
    bool is_tighter(const Applied &other) const { // both have a verdict
        return rate_limit::is_tighter(charge->quota, charge->verdict, other.charge->quota,
                                      other.charge->verdict);
    }
    bool denies() const {
        return result == Result::verdict &&
               charge->verdict.decision != rate_limit::Decision::granted;
    }
    /// Whether the request ends for it.
    bool rejects() const {
        return !dry_run &&
               (denies() || (result != Result::verdict && rule->zone->on_error == OnError::closed));
    }
    /// Whether it only counts as invalid, and is not applied.
    bool is_left_out() const { return result == Result::invalid && !rejects(); }
};

/// What candidates become when they are applied, with charges that stand one after another; null
/// without memory.
Applied *make_applied(ngx_http_request_t *r, std::span<const Candidate> candidates);

/// Gives the charge its quota and its Redis key: those of the rule, or of one of its shards, which
/// `chance` decides, a random number. False without memory.
bool choose_shard(ngx_http_request_t *r, Applied &applied, uint64_t chance);
/// And its arguments. False without memory.
bool set_arguments(ngx_http_request_t *r, const Applied &applied);

/// As choose_shard(), where a shard denies: another one. False, and nothing has changed, where
/// there is none that may help, or it is the second time.
bool choose_other_shard(ngx_http_request_t *r, Applied &applied);

/// Where the verdict is that of a shard: from here on the charge tells of the rule.
void tell_of_rule(const Applied &applied);

} // namespace nginx_module
