// What the configuration says of zones and rules, as plain data. What drives the limiter derives
// from these what it needs to evaluate their texts, and is asked for them by Request.
#pragma once

#include "limiter/zone_memory.hpp"
#include "rate_limit/settings/rule_parameters.hpp"
#include "rate_limit/settings/zone_parameters.hpp"
#include "rate_limit/text/key.hpp"
#include "redis_client/link/backend_settings.hpp"
#include "redis_client/wire/resp.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace limiter {

struct Rule;

/// What the key of a zone is, if it is one variable of the client's address and nothing else.
enum class KeyForm : uint8_t {
    text,          // none of these
    address,       // $remote_addr
    address_bytes, // $binary_remote_addr; logs show it as text
    network,       // $redis_rate_limit_addr or $redis_rate_limit_addr_BITS
};

struct Zone : rate_limit::ZoneParameters {
    KeyForm key_form = KeyForm::text;
    unsigned key_network_bits = 0; // to how many bits a network is cut
    bool cuts_key = false;         // blanks and tabs at its ends are no part of it
    const redis_client::BackendSettings *backend = nullptr;
    std::vector<Rule *> named_rules; // the first of each name
    ZoneMemory memory;

    /// Sets what follows from the text of the key, with its variables.
    void set_key(std::string_view text);

    /// Returns what the shared memory stores of the keys that are rejected most. It is not more
    /// than may be shown.
    rate_limit::TopKeys::Kept kept_top_keys() const;
};

/// The texts of a rule that may have variables.
enum class RuleText : uint8_t { limit, burst, cost, final_cost };

struct Rule : rate_limit::RuleParameters {
    const Zone *zone = nullptr;
    std::optional<rate_limit::KeyFormat> key_format;
    // Unused with variables, which requests give:
    std::vector<redis_client::WireWords> arguments;           // one for each shard
    std::chrono::microseconds lease_time{0};                  // 0: nothing is leased
    std::optional<redis_client::WireWords> leasing_arguments; // of a check that may lease units
    std::optional<redis_client::WireWords> fetch_arguments;   // of one that does nothing else

    std::string name;
    std::string limit_label;                      // shown_limit(), for metrics
    Rule *first_of_name = nullptr;                // the zone's first rule of this name
    rate_limit::RuleCounters *counters = nullptr; // only first_of_name has them
    bool may_be_refunded = false; // a charge of its counter may be given back a moment later
    bool may_settle = false;      // a rule of its counter has a final cost
    // The shortest of the leases that rules of its counter take; 0: none takes any.
    std::chrono::microseconds shortest_lease{0};
    // What a request of its counter is charged at least, if any. Nothing: another rule or another
    // request of it may have a limit that grants what this one denies.
    std::optional<uint64_t> least_charge = 1;
    // How long a client that the rule blocks may have to wait for what other rules of the counter
    // charge meanwhile, which do not block.
    std::chrono::microseconds wait_beside_block{0};

    bool has_final_cost() const { return !final_cost_text.empty(); }
    /// Whether a check of the rule may lease units, if the request's variables allow it.
    bool may_lease() const { return rule.lease.kind != rate_limit::LeaseSetting::Kind::off; }

    /// Returns for how long units may be leased, if the requests' variables or an operator's
    /// numbers allow it, or 0.
    std::chrono::microseconds longest_lease() const {
        return lease_time.count() > 0 && !has_variables()
                   ? lease_time
                   : rate_limit::longest_lease_time(rule.lease);
    }

    /// Sets what follows from the rule and its zone, which are complete: its name, its keys and the
    /// arguments of its checks.
    void complete(const Zone &its_zone);
};

/// The rules of one level of the configuration, which apply together.
using RuleList = std::vector<const Rule *>;

/// The rules that stand where a request is.
struct Level {
    const RuleList &rules;
    bool is_dry_run; // all of them are
};

/// Whether one check asks for both rules, if both apply to a request. In a cluster their keys must
/// be in one hash slot for that, as the keys of one zone are if the rules have no shards.
bool are_asked_together(const Rule &rule, const Rule &other);

} // namespace limiter
