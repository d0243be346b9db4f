// A rule that is applied to a request: its key, its numbers, and its result.
#pragma once

#include "limiter/configuration.hpp"
#include "redis_client/session/check.hpp"

#include <chrono>
#include <optional>
#include <string_view>

namespace limiter {

/// What an operator has said of a client: it is denied, whatever its numbers are.
struct Ban {
    std::chrono::microseconds ends_in; // 0: never

    rate_limit::Verdict verdict() const {
        return {.decision = ends_in.count() > 0 ? rate_limit::Decision::denied
                                                : rate_limit::Decision::never,
                .retry_after = ends_in};
    }
};

/// A rule that applies to a request, with the key and the numbers that the request gives it. It is
/// constant once it is found, but for the quota's units that the request has charged before.
struct ApplicableRule {
    const Rule *rule = nullptr;
    bool dry_run = false;
    std::string_view key;                    // the client's key
    std::optional<Ban> ban;                  // it decides alone
    rate_limit::Quota quota;                 // the rule's numbers for this request
    bool has_own_numbers = false;            // they are not those of all requests of the rule
    std::chrono::microseconds lease_time{0}; // for how long units may be leased; 0: they are not

    /// Whether this rule may stand for another one: a dry run may not stand for an enforced rule.
    bool is_enforced_where(bool other_is_dry_run) const { return !dry_run || other_is_dry_run; }
    /// Whether applying the other rule would change nothing: it has the same counter, and is not
    /// stricter. A rule that looks for a block is stricter than one that does not.
    bool covers(const ApplicableRule &other) const {
        return is_enforced_where(other.dry_run) && rule->rule.same_counter(other.rule->rule) &&
               is_at_least_as_strict(quota, other.quota) &&
               (rule->rule.block_of(dry_run).count() > 0 ||
                other.rule->rule.block_of(other.dry_run).count() == 0);
    }
    /// Whether both rules count the same client in one counter.
    bool shares_counter(const ApplicableRule &other) const {
        return rule->rule.same_counter(other.rule->rule) && key == other.key;
    }
};

/// What became of a rule. It is set once.
class RuleResult {
  public:
    enum class Kind : uint8_t {
        verdict,    // the verdict is in the charge
        no_verdict, // nobody has decided yet, or `on_error` decided
        invalid,    // a variable is no number: `on_error` decided whether that rejects
    };

    /// Who gave the verdict.
    enum class Source : uint8_t {
        none,       // it follows from the numbers of the rule alone
        redis,      // the script
        deny_cache, // the zone's memory of what Redis denied
        local,      // this host, because Redis gave no verdict
        lease,      // this host, by units that it has leased from Redis
        override,   // an operator, by a ban
    };

    static RuleResult invalid() { return {Kind::invalid, Source::none, {}}; }
    /// `decided` is when, by the clock of the source: Redis's if it is Redis, boot_now() if it is a
    /// lease, else precise_now().
    static RuleResult verdict_of(Source source, std::chrono::microseconds decided) {
        return {Kind::verdict, source, decided};
    }

    RuleResult() = default;
    Kind kind() const { return kind_; }
    Source source() const { return source_; }
    std::chrono::microseconds decided() const { return decided_; }

  private:
    RuleResult(Kind kind, Source source, std::chrono::microseconds decided)
        : kind_(kind), source_(source), decided_(decided) {}

    Kind kind_ = Kind::no_verdict;
    Source source_ = Source::none;
    std::chrono::microseconds decided_{0};
};

/// A rule of the same counter that the request met later, and that was not applied because another
/// one is at least as strict. It has a final cost.
struct SkippedRule {
    const Rule *rule;
    SkippedRule *next;
};

/// A rule on its way. It is applied once to a request, see "Which requests are counted" in
/// docs/responses.md. Its memory is that of the LimitedRequest.
struct AppliedRule : ApplicableRule {
    /// What the rule has to do with leases.
    struct Lease {
        rate_limit::Hash account{};                        // in the zone's lease book
        rate_limit::LeaseClaim claim{};                    // if the charge wants units
        std::optional<rate_limit::LeaseBook::Taken> taken; // where the request's units are from
    };

    redis_client::Charge *charge = nullptr; // of the rule, or of the shard that is asked
    uint64_t shard = 0;                     // the number of the shard that is asked
    std::chrono::microseconds asked{0};     // when Redis was asked, by precise_now()
    bool is_charged = false;                // Redis or this host has charged it
    Lease lease;
    std::chrono::microseconds local_permits_since{0}; // when this host counted them; 0: never
    RuleResult result;
    bool is_superseded = false; // the verdict of a later rule of its counter is shown

    // Settlement:
    std::optional<uint64_t> final_cost; // what the request turned out to cost, by this rule
    SkippedRule *skipped = nullptr;     // a list of rules that it made needless
    bool is_settled = false;            // with what the request turned out to cost

    AppliedRule *next = nullptr; // the next one in its list of AppliedRules

    /// Returns the client's key as it stands in the charge's Redis key, which must be set.
    std::string_view encoded_key() const {
        return rule->key_format->encoded_key_of(charge->redis_key);
    }
    /// Returns a charge of some units that the rule's charge took, to give them back, or of more
    /// units, to charge them later. It refers to the Redis key of the rule's charge.
    redis_client::Charge charge_of(const rate_limit::Quota &units) const {
        redis_client::Charge some = charge_of_lease(units, charge->receipt);
        some.decided = charge->decided;
        some.verdict = charge->verdict;
        return some;
    }
    /// The same of units that were leased with the rule's charge.
    redis_client::Charge charge_of_lease(const rate_limit::Quota &units, int64_t receipt) const {
        redis_client::Charge some;
        some.quota = units;
        some.redis_key = charge->redis_key;
        some.hash_slot = charge->hash_slot;
        some.receipt = receipt;
        some.is_charged = true;
        return some;
    }
    rate_limit::RuleCounters &counters() const { return *rule->first_of_name->counters; }

    bool is_decided_by(RuleResult::Source source) const { return result.source() == source; }
    /// Whether Redis has to decide.
    bool is_open() const {
        return result.kind() != RuleResult::Kind::invalid && !ban &&
               !rate_limit::verdict_without_counter(quota);
    }
    /// Returns the verdict, or null if there is none.
    const rate_limit::Verdict *verdict() const {
        return result.kind() == RuleResult::Kind::verdict ? &charge->verdict : nullptr;
    }
    /// Returns the quota by which the verdict was made. If this host decided alone, that may be
    /// only a part of the limit, see `local_limit`.
    const rate_limit::Quota &verdict_quota() const {
        return is_decided_by(RuleResult::Source::local) ? charge->quota : quota;
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
        return verdict() != nullptr && verdict()->decision != rate_limit::Decision::granted;
    }
    /// How long the request is to be held back, if the rule grants it.
    std::chrono::microseconds delay() const {
        return verdict() != nullptr ? verdict()->delay : std::chrono::microseconds{0};
    }
    /// Whether the request ends because of this rule.
    bool rejects() const {
        return !dry_run && (denies() || (verdict() == nullptr &&
                                         rule->zone->on_error == rate_limit::OnError::closed));
    }
    /// Whether both are charged to the same key in Redis: a counter with shards has several.
    bool shares_redis_key(const AppliedRule &other) const {
        return shares_counter(other) && charge->redis_key == other.charge->redis_key;
    }
    /// Whether headers and variables leave the rule out, because it is invalid and rejects nothing.
    /// Such a rule is only counted as invalid.
    bool is_left_out() const { return result.kind() == RuleResult::Kind::invalid && !rejects(); }

    /// Redis has answered, and its verdict is in the charge.
    void take_answer() {
        is_charged = charge->is_charged;
        if (quota.calendar != nullptr) {
            quota.window = charge->quota.window;
        }
        result = RuleResult::verdict_of(RuleResult::Source::redis, charge->decided);
    }
    /// Somebody else has decided.
    void decide(RuleResult::Source source, const rate_limit::Verdict &verdict,
                std::chrono::microseconds decided) {
        charge->verdict = verdict;
        result = RuleResult::verdict_of(source, decided);
    }
};

} // namespace limiter
