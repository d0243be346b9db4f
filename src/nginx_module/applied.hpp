// Rules as they are applied to requests.
#pragma once

#include "ngx.hpp"

#include "candidates.hpp"
#include "conf.hpp"

#include <chrono>
#include <span>

namespace nginx_module {

/// A rule as it is applied to a request, in the request's pool. A rule is applied once, see
/// "Which requests are counted" in docs/responses.md.
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
    bool is_charged;              // by Redis or by this host
    Result result;
    Source source;      // of a verdict
    bool is_superseded; // by a later rule of its counter, whose verdict is reported for both
    std::chrono::microseconds local_slots_since{0}; // when this host counted them; 0: it did not
    Applied *next;

    /// What the request was charged, in the unit of Quota::charged. Only a rule behind an internal
    /// redirect asks for it.
    uint64_t charged() const;
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
    /// Whether a rule of the same counter, for which the request would be charged by this quota,
    /// can tell nothing that this one does not.
    bool covers(const rate_limit::Rule &rule, const rate_limit::Quota &its_quota,
                bool its_dry_run) const {
        return is_enforced_where(its_dry_run) && this->rule->rule.same_counter(rule) &&
               is_at_least_as_strict(quota, its_quota);
    }
    bool is_enforced_where(bool other_is_dry_run) const { return !dry_run || other_is_dry_run; }
    /// Whether it only counts as invalid, and is not applied.
    bool is_left_out() const { return result == Result::invalid && !rejects(); }
};

/// What candidates become when they are applied, with charges that stand one after another; null
/// without memory.
Applied *make_applied(ngx_http_request_t *r, std::span<const Candidate> candidates);

/// Gives the charge its quota and its Redis key: those of the rule, or of one of its shards. That
/// is the one that the request has charged before, by another rule of the counter, or else `chance`
/// decides, a random number. Returns false if memory ran out.
bool choose_shard(ngx_http_request_t *r, const RequestState &state, Applied &applied,
                  uint64_t chance);
/// And its arguments. False without memory.
bool set_arguments(ngx_http_request_t *r, const Applied &applied);

/// As choose_shard(), where a shard denies: another one. False, and nothing has changed, where
/// there is none that may help, or it is the second time.
bool choose_other_shard(ngx_http_request_t *r, const RequestState &state, Applied &applied);

/// Where the verdict is that of a shard: from here on the charge tells of the rule.
void tell_of_rule(const Applied &applied);

} // namespace nginx_module
