// The numbers of a rule, as far as they are known without a request.
#pragma once

#include "nginx_module/http/ngx.hpp"

#include "nginx_module/http/configuration.hpp"
#include "nginx_module/http/json_writer.hpp"
#include "rate_limit/tables/live_limits.hpp"

#include <chrono>
#include <cstdint>
#include <optional>

namespace nginx_module {

/// A number that only a request's variables could give is missing. So is the burst of a rule that
/// takes none, or has none.
struct RuleNumbers {
    std::optional<uint64_t> limit;
    std::optional<uint64_t> burst;
    std::optional<uint64_t> capacity;
};

/// Returns the rule's numbers where an override says others, or says nothing.
RuleNumbers numbers_of(const limiter::Rule &rule,
                       const std::optional<rate_limit::Override> &override);

/// Returns the quota for a request of the rule's cost, or of 1 if a variable gives that. Returns
/// nothing if the capacity is not known.
std::optional<rate_limit::Quota> quota_of(const limiter::Rule &rule,
                                          const std::optional<rate_limit::Override> &override);

/// Returns the length of the window that this host is in.
std::chrono::milliseconds current_window_of(const limiter::Rule &rule);

/// Writes which windows the rule has, if a calendar says them.
void write_calendar(JsonWriter &json, const limiter::Rule &rule);

/// Whether the rule is a dry run wherever it stands.
bool is_dry_run_everywhere(const MainConf &conf, const limiter::Rule &rule);

} // namespace nginx_module
