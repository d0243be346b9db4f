// What all workers of a host have counted, as JSON and as Prometheus's text format: see
// docs/metrics.md.
#pragma once

#include "rate_limit/metrics/backend_counters.hpp"
#include "rate_limit/metrics/rule_counters.hpp"
#include "rate_limit/rule/rule.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace rate_limit {

/// The version of all programs of this project, which is the only line of the file VERSION.
std::string_view version();

struct RuleMetrics {
    std::string_view name;
    Algorithm algorithm;
    std::string_view limit;           // the configuration's text, which may have variables
    std::chrono::milliseconds window; // the current one
    const CalendarName *calendar;     // if a calendar says the windows, or null
    RuleCounts counts;
};

struct TopKeyMetrics {
    std::string_view key; // in the form that is shown to people
    bool is_cut;          // it is the beginning of a longer one
    uint64_t rejected;
};

/// What is told of a zone. A new one is a value here, and a row of the table.
enum class ZoneValue : uint8_t {
    used_bytes,
    size_bytes,
    entries,
    evictions,
    overrides,           // of operators, that hold
    override_rejections, // requests that bans have rejected
    overrides_dropped,   // for want of room
};

struct ZoneValueTraits {
    ZoneValue value;
    MetricFamily family;
    std::string_view name;     // in JSON
    std::string_view object{}; // of the zone, which has it in JSON
};

/// In the order of Prometheus's families. JSON has the size before the others.
inline constexpr std::array zone_value_table = {
    ZoneValueTraits{ZoneValue::used_bytes,
                    {.name = "zone_used_bytes", .help = "Shared memory in use.", .type = "gauge"},
                    "used_bytes"},
    ZoneValueTraits{
        ZoneValue::size_bytes,
        {.name = "zone_size_bytes", .help = "Shared memory that there is.", .type = "gauge"},
        "size_bytes"},
    ZoneValueTraits{ZoneValue::entries, {}, "entries"},
    ZoneValueTraits{ZoneValue::evictions,
                    {.name = "zone_evictions_total",
                     .help = "Entries that had to make room for others while they still counted."},
                    "evictions"},
    ZoneValueTraits{ZoneValue::overrides,
                    {.name = "overrides",
                     .help = "Overrides of operators that this host obeys.",
                     .type = "gauge"},
                    "count",
                    overrides_of_zone},
    ZoneValueTraits{ZoneValue::override_rejections,
                    {.name = "override_rejections_total",
                     .help = "Requests that were rejected by bans of operators."},
                    "rejections",
                    overrides_of_zone},
    ZoneValueTraits{
        ZoneValue::overrides_dropped,
        {.name = "overrides_dropped_total", .help = "Overrides for which this host had no room."},
        "dropped",
        overrides_of_zone},
};
static_assert(is_in_order(zone_value_table, &ZoneValueTraits::value));
static_assert(stand_together(zone_value_table, &ZoneValueTraits::object));

struct ZoneMetrics {
    std::string_view name;
    std::string_view context; // "http" or "stream"
    std::array<uint64_t, zone_value_table.size()> values{};
    std::span<const TopKeyMetrics> top_rejected; // those with the most rejections come first
    std::span<const RuleMetrics> rules;

    uint64_t &of(ZoneValue value) { return values[static_cast<size_t>(value)]; }
    uint64_t of(ZoneValue value) const { return values[static_cast<size_t>(value)]; }
};

struct BackendMetrics {
    std::string_view name;
    std::string_view mode;
    std::span<const std::string> servers; // as the configuration names them, with their ports
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
