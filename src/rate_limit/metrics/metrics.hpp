// What all workers of a host have counted, as JSON and as Prometheus's text format: see
// docs/metrics.md.
#pragma once

#include "rate_limit/metrics/backend_counters.hpp"
#include "rate_limit/metrics/rule_counters.hpp"
#include "rate_limit/rule/rule.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace rate_limit {

/// The version of all programs of this project, which is the only line of the file VERSION.
std::string_view version();

struct RuleMetrics {
    std::string_view name;
    Algorithm algorithm;
    std::string_view limit; // the configuration's text, which may have variables
    std::chrono::milliseconds window;
    RuleCounts counts;
};

struct TopKeyMetrics {
    std::string_view key; // in the form that is shown to people
    uint64_t rejected;
};

/// What operators have set for a zone while nginx runs.
struct OverrideMetrics {
    uint64_t count;      // that hold
    uint64_t rejections; // requests that bans have rejected
    uint64_t dropped;    // for want of room
};

struct ZoneMetrics {
    std::string_view name;
    uint64_t size_bytes;
    uint64_t used_bytes;
    uint64_t entries;
    uint64_t evictions;
    OverrideMetrics overrides;
    std::span<const TopKeyMetrics> top_rejected; // those with the most rejections come first
    std::span<const RuleMetrics> rules;
};

struct BackendMetrics {
    std::string_view name;
    std::string_view mode;
    BackendCounts counts;
    bool follows_live_limits; // what operators set there reaches this host
};

/// Names of zones, rules and backends are such that is_name() is true, or made by Rule::name().
struct Metrics {
    std::string_view server_version; // the version of nginx
    uint64_t workers;
    std::chrono::seconds uptime; // since the counters began
    std::span<const BackendMetrics> backends;
    std::span<const ZoneMetrics> zones;
};

/// Both write as much as fits into `out`, and return the size of the whole text.
size_t write_json(const Metrics &metrics, std::span<char> out);
size_t write_prometheus(const Metrics &metrics, std::span<char> out);

} // namespace rate_limit
