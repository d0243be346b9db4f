#include "rate_limit/embed.hpp"
#include "rate_limit/metrics/metrics.hpp"
#include "rate_limit/text/text.hpp"

EMBED(redis_rate_limit_version, "VERSION");

namespace rate_limit {

namespace {

/// Is written as a string in quotes. A byte that is not printable ASCII becomes the escape of the
/// character of that number, so that the JSON is valid whatever the text is.
struct Quoted {
    std::string_view text;
};

TextWriter &operator<<(TextWriter &out, const Quoted &quoted) {
    constexpr std::string_view digits = "0123456789abcdef";
    out << "\"";
    for (const char &c : quoted.text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out << "\\";
        }
        if (c >= ' ' && c <= '~') {
            out << std::string_view(&c, 1);
        } else {
            out << "\\u00" << digits.substr(byte >> 4, 1) << digits.substr(byte & 15, 1);
        }
    }
    return out << "\"";
}

/// Writes each item by `write`, with commas between them.
template <typename Items, typename Write>
void write_each(TextWriter &out, const Items &items, Write write) {
    std::string_view separator;
    for (const auto &item : items) {
        out << separator;
        write(item);
        separator = ", ";
    }
}

std::string_view to_string(BackendState state) {
    switch (state) {
    case BackendState::idle:
        break;
    case BackendState::down:
        return "down";
    case BackendState::up:
        return "up";
    }
    return "idle";
}

void write(TextWriter &out, const Latencies &latency) {
    out << R"("latency_seconds": {"p50": )" << Seconds{latency.quantile(500)} << R"(, "p90": )"
        << Seconds{latency.quantile(900)} << R"(, "p99": )" << Seconds{latency.quantile(990)}
        << R"(, "max": )" << Seconds{latency.longest} << "}";
}

void write(TextWriter &out, const BackendMetrics &backend) {
    const BackendCounts &counts = backend.counts;
    out << Quoted{backend.name} << R"(: {"mode": )" << Quoted{backend.mode} << R"(, "state": )"
        << Quoted{to_string(counts.state)} << R"(, "checks": )" << counts.checks
        << R"(, "errors": {)";
    write_each(out, failure_names, [&, i = size_t{0}](std::string_view name) mutable {
        out << Quoted{name} << ": " << counts.errors[i++];
    });
    out << "}";
    for (size_t i = 0; i < counts.events.size(); ++i) {
        out << ", " << Quoted{backend_event_table[i].name} << ": " << counts.events[i];
    }
    out << R"(, "pending": )" << counts.pending << R"(, "live_limits_followed": )"
        << (backend.follows_live_limits ? "true" : "false") << ", ";
    write(out, counts.recent_latency);
    out << "}";
}

void write(TextWriter &out, const RuleMetrics &rule) {
    out << Quoted{rule.name} << R"(: {"algorithm": )" << Quoted{to_string(rule.algorithm)}
        << R"(, "limit": )" << Quoted{rule.limit} << R"(, "window_seconds": )"
        << Seconds{rule.window};
    for (const auto &[outcome, name] : rule_outcome_table) {
        out << ", " << Quoted{name} << ": " << rule.counts.outcomes[static_cast<size_t>(outcome)];
        if (outcome == RuleOutcome::rejected) {
            out << R"(, "rejected_by_deny_cache": )" << rule.counts.rejected_by_deny_cache;
        }
    }
    out << R"(, "leases": {"taken": )" << rule.counts.of(LeaseCount::taken) << R"(, "units": )"
        << rule.counts.of(LeaseCount::units) << R"(, "used": )" << rule.counts.of(LeaseCount::used)
        << R"(, "returned": )" << rule.counts.of(LeaseCount::returned) << R"(, "expired": )"
        << rule.counts.of(LeaseCount::expired) << R"(, "requests": )"
        << rule.counts.of(LeaseCount::requests) << R"(}, "settlements": {)";
    write_each(out, settlement_result_names, [&, i = size_t{0}](std::string_view name) mutable {
        out << Quoted{name} << ": " << rule.counts.settlements[i++];
    });
    out << "}}";
}

void write(TextWriter &out, const ZoneMetrics &zone) {
    out << Quoted{zone.name} << R"(: {"size_bytes": )" << zone.size_bytes << R"(, "used_bytes": )"
        << zone.used_bytes << R"(, "entries": )" << zone.entries << R"(, "evictions": )"
        << zone.evictions << R"(, "overrides": {"count": )" << zone.overrides.count
        << R"(, "rejections": )" << zone.overrides.rejections << R"(, "dropped": )"
        << zone.overrides.dropped << R"(, "rejected": {)";
    write_each(out, zone.rules, [&out](const RuleMetrics &rule) {
        out << Quoted{rule.name} << ": " << rule.counts.rejected_by_override;
    });
    out << R"(}}, "top_rejected": [)";
    write_each(out, zone.top_rejected, [&out](const TopKeyMetrics &top) {
        out << R"({"key": )" << Quoted{top.key} << R"(, "rejected": )" << top.rejected << "}";
    });
    out << R"(], "rules": {)";
    write_each(out, zone.rules, [&out](const RuleMetrics &rule) { write(out, rule); });
    out << "}}";
}

} // namespace

std::string_view version() {
    const std::string_view text = embedded(redis_rate_limit_version, redis_rate_limit_version_end);
    return text.substr(0, text.find('\n'));
}

size_t write_json(const Metrics &metrics, std::span<char> out) {
    TextWriter text(out);
    text << R"({"version": )" << Quoted{version()} << R"(, "nginx_version": )"
         << Quoted{metrics.server_version} << R"(, "workers": )" << metrics.workers
         << R"(, "uptime_seconds": )" << static_cast<uint64_t>(metrics.uptime.count())
         << R"(, "backends": {)";
    write_each(text, metrics.backends,
               [&text](const BackendMetrics &backend) { write(text, backend); });
    text << R"(}, "zones": {)";
    write_each(text, metrics.zones, [&text](const ZoneMetrics &zone) { write(text, zone); });
    text << "}}\n";
    return text.size();
}

} // namespace rate_limit
