// https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format: all samples of a
// metric stand together. Names need no escapes in labels.
#include "rate_limit/metrics/metrics.hpp"
#include "rate_limit/text/text.hpp"

#include <array>
#include <initializer_list>

namespace rate_limit {

namespace {

struct Label {
    std::string_view name;
    std::string_view value;
};

/// Writes the name, the type and the help text of a metric, then its samples.
class Family {
  public:
    Family(TextWriter &out, std::string_view name, std::string_view type, std::string_view help)
        : out_(out), name_(name) {
        out << "# HELP " << prefix << name << " " << help << "\n# TYPE " << prefix << name << " "
            << type << "\n";
    }

    /// Writes a sample of the metric, or of the part of a histogram that the suffix names.
    template <typename Number>
    void add(std::initializer_list<Label> labels, Number number,
             std::string_view suffix = "") const {
        out_ << prefix << name_ << suffix;
        std::string_view before = "{";
        for (const Label &label : labels) {
            out_ << before << label.name << "=\"" << label.value << "\"";
            before = ",";
        }
        out_ << "} " << number << "\n";
    }

  private:
    static constexpr std::string_view prefix = "nginx_redis_rate_limit_";

    TextWriter &out_;
    std::string_view name_;
};

template <typename NumberOf>
void write_of_backends(TextWriter &out, const Metrics &metrics, std::string_view name,
                       std::string_view type, std::string_view help, const NumberOf &number_of) {
    const Family family(out, name, type, help);
    for (const BackendMetrics &backend : metrics.backends) {
        family.add({{"backend", backend.name}}, number_of(backend.counts));
    }
}

void write_errors(TextWriter &out, const Metrics &metrics) {
    const Family family(out, "backend_errors_total", "counter",
                        "Checks that got no verdict, by what went wrong.");
    for (const BackendMetrics &backend : metrics.backends) {
        for (size_t i = 0; i < failure_names.size(); ++i) {
            family.add({{"backend", backend.name}, {"class", failure_names[i]}},
                       backend.counts.errors[i]);
        }
    }
}

void write_events(TextWriter &out, const Metrics &metrics) {
    for (const BackendEventTraits &traits : backend_event_table) {
        if (traits.help.empty()) {
            continue;
        }
        std::array<char, 64> name;
        TextWriter name_writer(name);
        name_writer << "backend_" << traits.name << "_total";
        write_of_backends(out, metrics, {name.data(), name_writer.size()}, "counter", traits.help,
                          [event = traits.event](const BackendCounts &counts) {
                              return counts.events[static_cast<size_t>(event)];
                          });
    }
}

void write_followed(TextWriter &out, const Metrics &metrics) {
    const Family family(out, "live_limits_followed", "gauge",
                        "Whether what operators set reaches this host.");
    for (const BackendMetrics &backend : metrics.backends) {
        family.add({{"backend", backend.name}}, uint64_t{backend.follows_live_limits});
    }
}

/// Writes fewer buckets than there are: one for each power of two of microseconds in which checks
/// usually end.
void write_durations(TextWriter &out, const Metrics &metrics) {
    constexpr unsigned first = 6; // 64 us
    constexpr unsigned last = 24; // 17 s
    constexpr std::string_view bucket = "_bucket";
    const Family family(out, "check_duration_seconds", "histogram",
                        "From asking a check to its verdict, or to its failure.");
    for (const BackendMetrics &backend : metrics.backends) {
        const Label name{"backend", backend.name};
        const Latencies &latency = backend.counts.latency;
        for (unsigned exponent = first; exponent <= last; ++exponent) {
            std::array<char, 32> end;
            TextWriter end_writer(end);
            end_writer << Seconds{std::chrono::microseconds(int64_t{1} << exponent)};
            family.add({name, {"le", {end.data(), end_writer.size()}}},
                       latency.count_up_to(exponent), bucket);
        }
        family.add({name, {"le", "+Inf"}}, latency.count(), bucket);
        family.add({name}, Seconds{latency.sum}, "_sum");
        family.add({name}, latency.count(), "_count");
    }
}

void write_backends(TextWriter &out, const Metrics &metrics) {
    write_of_backends(out, metrics, "backend_checks_total", "counter",
                      "Checks, whether they got a verdict or not.",
                      [](const BackendCounts &counts) { return counts.checks; });
    write_errors(out, metrics);
    write_of_backends(out, metrics, "backend_up", "gauge",
                      "Whether any worker has a connection that is ready.",
                      [](const BackendCounts &counts) {
                          return uint64_t{counts.state == BackendState::up ? 1U : 0U};
                      });
    write_of_backends(out, metrics, "backend_pending", "gauge", "Checks in flight.",
                      [](const BackendCounts &counts) { return counts.pending; });
    write_events(out, metrics);
    write_followed(out, metrics);
    write_durations(out, metrics);
}

template <typename NumberOf>
void write_of_zones(TextWriter &out, const Metrics &metrics, std::string_view name,
                    std::string_view type, std::string_view help, const NumberOf &number_of) {
    const Family family(out, name, type, help);
    for (const ZoneMetrics &zone : metrics.zones) {
        family.add({{"zone", zone.name}}, number_of(zone));
    }
}

void write_zones(TextWriter &out, const Metrics &metrics) {
    write_of_zones(out, metrics, "zone_used_bytes", "gauge", "Shared memory in use.",
                   [](const ZoneMetrics &zone) { return zone.used_bytes; });
    write_of_zones(out, metrics, "zone_size_bytes", "gauge", "Shared memory that there is.",
                   [](const ZoneMetrics &zone) { return zone.size_bytes; });
    write_of_zones(out, metrics, "zone_evictions_total", "counter",
                   "Entries that had to make room for others while they still counted.",
                   [](const ZoneMetrics &zone) { return zone.evictions; });
    write_of_zones(out, metrics, "overrides", "gauge",
                   "Overrides of operators that this host obeys.",
                   [](const ZoneMetrics &zone) { return zone.overrides.count; });
    write_of_zones(out, metrics, "override_rejections_total", "counter",
                   "Requests that were rejected by bans of operators.",
                   [](const ZoneMetrics &zone) { return zone.overrides.rejections; });
    write_of_zones(out, metrics, "overrides_dropped_total", "counter",
                   "Overrides for which this host had no room.",
                   [](const ZoneMetrics &zone) { return zone.overrides.dropped; });
}

template <typename NumberOf>
void write_of_rules(TextWriter &out, const Metrics &metrics, std::string_view name,
                    std::string_view help, const NumberOf &number_of) {
    const Family family(out, name, "counter", help);
    for (const ZoneMetrics &zone : metrics.zones) {
        for (const RuleMetrics &rule : zone.rules) {
            family.add({{"zone", zone.name}, {"rule", rule.name}}, number_of(rule.counts));
        }
    }
}

void write_leases(TextWriter &out, const Metrics &metrics) {
    write_of_rules(out, metrics, "leases_total", "Times that this host took units in advance.",
                   [](const RuleCounts &counts) { return counts.of(LeaseCount::taken); });
    const Family units(out, "lease_units_total", "counter",
                       "Units that were taken in advance, by what became of them.");
    for (const ZoneMetrics &zone : metrics.zones) {
        for (const RuleMetrics &rule : zone.rules) {
            const auto add = [&](std::string_view fate, LeaseCount count) {
                units.add({{"zone", zone.name}, {"rule", rule.name}, {"fate", fate}},
                          rule.counts.of(count));
            };
            add("used", LeaseCount::used);
            add("returned", LeaseCount::returned);
            add("expired", LeaseCount::expired);
        }
    }
    write_of_rules(out, metrics, "lease_requests_total",
                   "Requests that were granted without asking Redis.",
                   [](const RuleCounts &counts) { return counts.of(LeaseCount::requests); });
}

void write_settlements(TextWriter &out, const Metrics &metrics) {
    const Family family(out, "settlements_total", "counter",
                        "Requests that turned out to cost more or less than they were charged.");
    for (const ZoneMetrics &zone : metrics.zones) {
        for (const RuleMetrics &rule : zone.rules) {
            for (size_t i = 0; i < settlement_results; ++i) {
                family.add({{"zone", zone.name},
                            {"rule", rule.name},
                            {"result", settlement_result_names[i]}},
                           rule.counts.settlements[i]);
            }
        }
    }
}

void write_rules(TextWriter &out, const Metrics &metrics) {
    const Family requests(out, "requests_total", "counter",
                          "Requests that a rule was applied to, by what it came to.");
    for (const ZoneMetrics &zone : metrics.zones) {
        for (const RuleMetrics &rule : zone.rules) {
            for (const auto &[outcome, name] : rule_outcome_table) {
                requests.add({{"zone", zone.name}, {"rule", rule.name}, {"outcome", name}},
                             rule.counts.outcomes[static_cast<size_t>(outcome)]);
            }
        }
    }
    write_of_rules(out, metrics, "deny_cache_hits_total",
                   "Requests that were rejected without asking Redis again.",
                   [](const RuleCounts &counts) { return counts.rejected_by_deny_cache; });
    write_leases(out, metrics);
    write_settlements(out, metrics);
}

} // namespace

size_t write_prometheus(const Metrics &metrics, std::span<char> out) {
    TextWriter text(out);
    write_rules(text, metrics);
    write_backends(text, metrics);
    write_zones(text, metrics);
    return text.size();
}

} // namespace rate_limit
