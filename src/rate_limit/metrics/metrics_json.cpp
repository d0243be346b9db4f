#include "rate_limit/calendar/calendar_json.hpp"
#include "rate_limit/embed.hpp"
#include "rate_limit/metrics/metrics.hpp"
#include "rate_limit/text/json_writer.hpp"
#include "rate_limit/text/text_writer.hpp"

EMBED(redis_rate_limit_version, "VERSION");

namespace rate_limit {

namespace {

/// As much of the text as fits. Its result is the size of the whole.
class FittingText {
  public:
    explicit FittingText(std::span<char> out) : text_(out) {}
    void put(char c) { text_ << std::string_view(&c, 1); }
    size_t finish() const { return text_.size(); }

  private:
    TextWriter text_;
};

using Json = JsonWriter<FittingText>;

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

void write(Json &json, const Latencies &latency) {
    json.begin_object("latency_seconds");
    json.member("p50", Seconds{latency.quantile(500)});
    json.member("p90", Seconds{latency.quantile(900)});
    json.member("p99", Seconds{latency.quantile(990)});
    json.member("max", Seconds{latency.longest});
    json.end_object();
}

void write(Json &json, const BackendMetrics &backend) {
    const BackendCounts &counts = backend.counts;
    json.begin_object(backend.name);
    json.member("mode", backend.mode);
    json.begin_array("servers");
    for (const std::string &server : backend.servers) {
        json.value(AnyText{server});
    }
    json.end_array();
    json.member("state", to_string(counts.state));
    json.member("checks", counts.checks);
    json.begin_object("errors");
    for (size_t i = 0; i < counts.errors.size(); ++i) {
        json.member(failure_names[i], counts.errors[i]);
    }
    json.end_object();
    for (size_t i = 0; i < counts.events.size(); ++i) {
        json.member(backend_event_table[i].name, counts.events[i]);
    }
    json.member("pending", counts.pending);
    json.member("live_limits_followed", backend.follows_live_limits);
    write(json, counts.recent_latency);
    json.end_object();
}

/// Writes those rows of a table for which `is_written` is true, those of one object in it.
/// `end_object` is called with the name of each object before it ends.
template <typename Rows, typename IsWritten, typename NumberOf, typename EndObject>
void write_rows(Json &json, const Rows &rows, const IsWritten &is_written,
                const NumberOf &number_of, const EndObject &end_object) {
    std::string_view object;
    const auto enter = [&](std::string_view other) {
        if (other == object) {
            return;
        }
        if (!object.empty()) {
            end_object(object);
            json.end_object();
        }
        object = other;
        if (!object.empty()) {
            json.begin_object(object);
        }
    };
    for (const auto &row : rows) {
        if (is_written(row)) {
            enter(row.object);
            json.member(row.name, number_of(row));
        }
    }
    enter({});
}

template <typename IsWritten>
void write_counters(Json &json, const RuleCounts &counts, const IsWritten &is_written) {
    write_rows(
        json, rule_counter_table, is_written,
        [&](const RuleCounterTraits &row) { return counts.of(row.counter); },
        [](std::string_view) {});
}

void write(Json &json, const RuleMetrics &rule) {
    json.begin_object(rule.name);
    json.member("algorithm", to_string(rule.algorithm));
    json.member("limit", AnyText{rule.limit});
    json.member("window_seconds", Seconds{rule.window});
    if (rule.calendar != nullptr) {
        write_calendar(json, *rule.calendar);
    }
    for (const auto &[outcome, name] : rule_outcome_table) {
        json.member(name, rule.counts.of(outcome));
        if (outcome == RuleOutcome::rejected) {
            write_counters(json, rule.counts,
                           [](const RuleCounterTraits &row) { return row.object.empty(); });
        }
    }
    write_counters(json, rule.counts, [](const RuleCounterTraits &row) {
        return !row.object.empty() && row.object != overrides_of_zone;
    });
    json.end_object();
}

/// Writes what the object of a zone has of each of its rules.
void write_of_rules(Json &json, const ZoneMetrics &zone, std::string_view object) {
    for (const RuleCounterTraits &row : rule_counter_table) {
        if (row.object == object) {
            json.begin_object(row.name);
            for (const RuleMetrics &rule : zone.rules) {
                json.member(rule.name, rule.counts.of(row.counter));
            }
            json.end_object();
        }
    }
}

void write(Json &json, const ZoneMetrics &zone) {
    constexpr auto first = ZoneValue::size_bytes;
    json.begin_object(zone.name);
    json.member("context", zone.context);
    json.member(zone_value_table[static_cast<size_t>(first)].name, zone.of(first));
    write_rows(
        json, zone_value_table, [](const ZoneValueTraits &row) { return row.value != first; },
        [&](const ZoneValueTraits &row) { return zone.of(row.value); },
        [&](std::string_view object) { write_of_rules(json, zone, object); });
    json.begin_array("top_rejected");
    for (const TopKeyMetrics &top : zone.top_rejected) {
        json.begin_object();
        json.member("key", AnyText{top.key});
        if (top.is_cut) {
            json.member("is_cut", true);
        }
        json.member("rejected", top.rejected);
        json.end_object();
    }
    json.end_array();
    json.begin_object("rules");
    for (const RuleMetrics &rule : zone.rules) {
        write(json, rule);
    }
    json.end_object();
    json.end_object();
}

} // namespace

std::string_view version() {
    const std::string_view text = embedded(redis_rate_limit_version, redis_rate_limit_version_end);
    return text.substr(0, text.find('\n'));
}

size_t write_json(const Metrics &metrics, std::span<char> out) {
    Json json(JsonLayout::one_line, out);
    json.begin_object();
    json.member("version", AnyText{version()});
    json.member("nginx_version", AnyText{metrics.server_version});
    json.member("workers", metrics.workers);
    json.member("uptime_seconds", static_cast<uint64_t>(metrics.uptime.count()));
    json.begin_object("backends");
    for (const BackendMetrics &backend : metrics.backends) {
        write(json, backend);
    }
    json.end_object();
    json.begin_object("zones");
    for (const ZoneMetrics &zone : metrics.zones) {
        write(json, zone);
    }
    json.end_object();
    json.end_object();
    return json.finish();
}

} // namespace rate_limit
