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

/// Writes those rows of a table for which `is_written` is true, each behind a comma, and those of
/// one object in it. `end_object` is called with the name of each object before it ends.
template <typename Rows, typename IsWritten, typename NumberOf, typename EndObject>
void write_rows(TextWriter &out, const Rows &rows, const IsWritten &is_written,
                const NumberOf &number_of, const EndObject &end_object) {
    std::string_view object;
    const auto end = [&] {
        if (!object.empty()) {
            end_object(object);
            out << "}";
        }
    };
    for (const auto &row : rows) {
        if (!is_written(row)) {
            continue;
        }
        if (row.object != object) {
            end();
            object = row.object;
            out << ", " << Quoted{object} << ": {";
        } else {
            out << ", ";
        }
        out << Quoted{row.name} << ": " << number_of(row);
    }
    end();
}

template <typename IsWritten>
void write_counters(TextWriter &out, const RuleCounts &counts, const IsWritten &is_written) {
    write_rows(
        out, rule_counter_table, is_written,
        [&](const RuleCounterTraits &row) { return counts.of(row.counter); },
        [](std::string_view) {});
}

void write(TextWriter &out, const RuleMetrics &rule) {
    out << Quoted{rule.name} << R"(: {"algorithm": )" << Quoted{to_string(rule.algorithm)}
        << R"(, "limit": )" << Quoted{rule.limit} << R"(, "window_seconds": )"
        << Seconds{rule.window};
    for (const auto &[outcome, name] : rule_outcome_table) {
        out << ", " << Quoted{name} << ": " << rule.counts.of(outcome);
        if (outcome == RuleOutcome::rejected) {
            write_counters(out, rule.counts,
                           [](const RuleCounterTraits &row) { return row.object.empty(); });
        }
    }
    write_counters(out, rule.counts, [](const RuleCounterTraits &row) {
        return !row.object.empty() && row.object != overrides_of_zone;
    });
    out << "}";
}

/// Writes what the object of a zone has of each of its rules.
void write_of_rules(TextWriter &out, const ZoneMetrics &zone, std::string_view object) {
    for (const RuleCounterTraits &row : rule_counter_table) {
        if (row.object == object) {
            out << ", " << Quoted{row.name} << ": {";
            write_each(out, zone.rules, [&](const RuleMetrics &rule) {
                out << Quoted{rule.name} << ": " << rule.counts.of(row.counter);
            });
            out << "}";
        }
    }
}

void write(TextWriter &out, const ZoneMetrics &zone) {
    constexpr auto first = ZoneValue::size_bytes;
    out << Quoted{zone.name} << ": {" << Quoted{zone_value_table[static_cast<size_t>(first)].name}
        << ": " << zone.of(first);
    write_rows(
        out, zone_value_table, [](const ZoneValueTraits &row) { return row.value != first; },
        [&](const ZoneValueTraits &row) { return zone.of(row.value); },
        [&](std::string_view object) { write_of_rules(out, zone, object); });
    out << R"(, "top_rejected": [)";
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
