// A rule that is applied to a request: its key, its numbers, and its verdict.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/conf/configuration.hpp"
#include "redis_client/session/check.hpp"

#include <chrono>
#include <optional>
#include <string_view>

namespace nginx_module {

/// A rule of the same counter that the request met later, and that was not applied because this one
/// is at least as strict. It has a final cost. Lives in the request's pool.
struct SkippedRule {
    const RuleConf *rule;
    SkippedRule *next;
};

/// Lives in the request's pool. A rule is applied once to a request, see "Which requests are
/// counted" in docs/responses.md.
struct AppliedRule {
    enum class Result {
        verdict,    // the verdict is in `charge`
        no_verdict, // nobody has decided yet, or `on_error` decided
        invalid,    // a variable is no number: `on_error` decided whether that rejects
    };

    /// Who gave the verdict.
    enum class Source {
        none,       // it follows from the numbers of the rule alone
        redis,      //
        deny_cache, // the zone's memory of what Redis denied
        local,      // this host, because Redis gave no verdict
        lease,      // this host, by units that it has leased from Redis
        override,   // an operator, by a ban
    };

    /// What the rule has to do with leases.
    struct Lease {
        std::chrono::microseconds time{0}; // for how long units may be leased; 0: they are not
        rate_limit::Hash account{};        // in the zone's lease book
        rate_limit::LeaseClaim claim{};    // if the charge wants units
        std::optional<rate_limit::LeaseBook::Taken> taken; // where the request's units are from
    };

    /// What an operator has said of the client: it is denied, whatever its numbers are.
    struct Ban {
        std::chrono::microseconds ends_in; // 0: never

        rate_limit::Verdict verdict() const {
            return {.decision = ends_in.count() > 0 ? rate_limit::Decision::denied
                                                    : rate_limit::Decision::never,
                    .retry_after = ends_in};
        }
    };

    const RuleConf *rule = nullptr;
    bool dry_run = false;
    std::string_view key;                   // the client's key
    std::optional<Ban> ban;                 // it decides alone
    rate_limit::Quota quota;                // the rule's numbers for this request
    bool has_own_numbers = false;           // they are not those of all requests of the rule
    redis_client::Charge *charge = nullptr; // the rule's, or that of the shard that is asked
    uint64_t shard = 0;                     // the number of the shard that is asked
    bool is_charged = false;                // Redis or this host has charged it
    std::chrono::microseconds asked{0};     // when Redis was asked, by precise_now()
    std::optional<uint64_t> final_cost;     // what the request turned out to cost, by this rule
    SkippedRule *skipped = nullptr;         // a list of rules that it made needless
    bool is_settled = false;                // with what the request turned out to cost
    Result result = Result::no_verdict;
    Source source = Source::none;
    /// When the verdict was made, by the clock of its source: Redis's if it is Redis, boot_now() if
    /// it is a lease, else precise_now().
    std::chrono::microseconds decided{0};
    Lease lease;
    bool is_superseded = false; // the verdict of a later rule of its counter is shown
    std::chrono::microseconds local_permits_since{0}; // when this host counted them; 0: never
    AppliedRule *next = nullptr;                      // the next one in AppliedRules

    /// Returns the client's key as it stands in the charge's Redis key, which must be set.
    std::string_view encoded_key() const {
        return rule->key_format->encoded_key_of(charge->redis_key);
    }
    /// Returns a charge of some units of the rule's counter, to give them back or to charge them
    /// later. It refers to the Redis key of the rule's charge.
    redis_client::Charge charge_of(const rate_limit::Quota &units, int64_t receipt) const {
        redis_client::Charge some;
        some.quota = units;
        some.redis_key = charge->redis_key;
        some.hash_slot = charge->hash_slot;
        some.receipt = receipt;
        some.is_charged = true;
        return some;
    }
    /// Whether Redis has to decide.
    bool is_open() const {
        return result != Result::invalid && !ban && !rate_limit::verdict_without_counter(quota);
    }
    /// Returns the verdict, or null if there is none.
    const rate_limit::Verdict *verdict() const {
        return result == Result::verdict ? &charge->verdict : nullptr;
    }
    /// Returns the quota by which the verdict was made. If this host decided alone, that may be
    /// only a part of the limit, see `local_limit`.
    const rate_limit::Quota &verdict_quota() const {
        return source == Source::local ? charge->quota : quota;
    }
    /// Returns what the request was charged, in the unit of Quota::charged.
    uint64_t charged() const { return is_charged ? charge->quota.to_charge() : 0; }

    /// Whether a client should look at this rule before the other one. Both have a verdict. A ban
    /// comes first.
    bool is_tighter(const AppliedRule &other) const {
        if (ban.has_value() != other.ban.has_value()) {
            return ban.has_value();
        }
        return rate_limit::is_tighter(verdict_quota(), charge->verdict, other.verdict_quota(),
                                      other.charge->verdict);
    }
    bool denies() const {
        return result == Result::verdict &&
               charge->verdict.decision != rate_limit::Decision::granted;
    }
    /// How long the request is to be held back, if the rule grants it.
    std::chrono::microseconds delay() const {
        return result == Result::verdict ? charge->verdict.delay : std::chrono::microseconds{0};
    }
    /// Whether the request ends because of this rule.
    bool rejects() const {
        return !dry_run &&
               (denies() || (result != Result::verdict && rule->zone->on_error == OnError::closed));
    }
    /// Whether applying the other rule would change nothing: it has the same counter, and is not
    /// stricter. A rule that looks for a block is stricter than one that does not.
    bool covers(const AppliedRule &other) const {
        return is_enforced_where(other.dry_run) && rule->rule.same_counter(other.rule->rule) &&
               is_at_least_as_strict(quota, other.quota) &&
               (rule->rule.block_of(dry_run).count() > 0 ||
                other.rule->rule.block_of(other.dry_run).count() == 0);
    }
    /// Whether both rules count the same client in one counter.
    bool shares_counter(const AppliedRule &other) const {
        return rule->rule.same_counter(other.rule->rule) && key == other.key;
    }
    /// Whether both are charged to the same key in Redis: a counter with shards has several.
    bool shares_redis_key(const AppliedRule &other) const {
        return shares_counter(other) && charge->redis_key == other.charge->redis_key;
    }
    /// Whether this rule may stand for another one: a dry run may not stand for an enforced rule.
    bool is_enforced_where(bool other_is_dry_run) const { return !dry_run || other_is_dry_run; }
    /// Whether headers and variables leave the rule out, because it is invalid and rejects nothing.
    /// Such a rule is only counted as invalid.
    bool is_left_out() const { return result == Result::invalid && !rejects(); }
};

} // namespace nginx_module
