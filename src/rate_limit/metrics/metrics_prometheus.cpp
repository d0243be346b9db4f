// https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format: all samples of a
// metric stand together. Names need no escapes in labels.
#include "rate_limit/metrics/metrics.hpp"
#include "rate_limit/text/text_writer.hpp"

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
    Family(TextWriter &out, const MetricFamily &family) : out_(out), name_(family.name) {
        out << "# HELP " << prefix << family.name << " " << family.help << "\n# TYPE " << prefix
            << family.name << " " << family.type << "\n";
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
void write_of_backends(TextWriter &out, const Metrics &metrics, const MetricFamily &traits,
                       const NumberOf &number_of) {
    const Family family(out, traits);
    for (const BackendMetrics &backend : metrics.backends) {
        family.add({{"backend", backend.name}}, number_of(backend.counts));
    }
}

void write_errors(TextWriter &out, const Metrics &metrics) {
    const Family family(out, {.name = "backend_errors_total",
                              .help = "Checks that got no verdict, by what went wrong."});
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
        write_of_backends(out, metrics,
                          {.name = {name.data(), name_writer.size()}, .help = traits.help},
                          [event = traits.event](const BackendCounts &counts) {
                              return counts.events[static_cast<size_t>(event)];
                          });
    }
}

void write_followed(TextWriter &out, const Metrics &metrics) {
    const Family family(out, {.name = "live_limits_followed",
                              .help = "Whether what operators set reaches this host.",
                              .type = "gauge"});
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
    const Family family(out, {.name = "check_duration_seconds",
                              .help = "From asking a check to its verdict, or to its failure.",
                              .type = "histogram"});
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
    write_of_backends(
        out, metrics,
        {.name = "backend_checks_total", .help = "Checks, whether they got a verdict or not."},
        [](const BackendCounts &counts) { return counts.checks; });
    write_errors(out, metrics);
    write_of_backends(out, metrics,
                      {.name = "backend_up",
                       .help = "Whether any worker has a connection that is ready.",
                       .type = "gauge"},
                      [](const BackendCounts &counts) {
                          return uint64_t{counts.state == BackendState::up ? 1U : 0U};
                      });
    write_of_backends(out, metrics,
                      {.name = "backend_pending", .help = "Checks in flight.", .type = "gauge"},
                      [](const BackendCounts &counts) { return counts.pending; });
    write_events(out, metrics);
    write_followed(out, metrics);
    write_durations(out, metrics);
}

void write_zones(TextWriter &out, const Metrics &metrics) {
    for (const ZoneValueTraits &row : zone_value_table) {
        if (row.family.name.empty()) {
            continue;
        }
        const Family family(out, row.family);
        for (const ZoneMetrics &zone : metrics.zones) {
            family.add({{"zone", zone.name}}, zone.of(row.value));
        }
    }
}

/// Writes what `add_all` adds of each rule, by the value of the family's label.
template <typename AddAll>
void write_of_rules(TextWriter &out, const Metrics &metrics, const MetricFamily &traits,
                    const AddAll &add_all) {
    const Family family(out, traits);
    for (const ZoneMetrics &zone : metrics.zones) {
        for (const RuleMetrics &rule : zone.rules) {
            const Label of_zone{"zone", zone.name};
            const Label of_rule{"rule", rule.name};
            add_all(rule.counts, [&](std::string_view value, uint64_t number) {
                if (traits.label.empty()) {
                    family.add({of_zone, of_rule}, number);
                } else {
                    family.add({of_zone, of_rule, {traits.label, value}}, number);
                }
            });
        }
    }
}

void write_rules(TextWriter &out, const Metrics &metrics) {
    write_of_rules(out, metrics, requests_family, [](const RuleCounts &counts, const auto &add) {
        for (const auto &[outcome, name] : rule_outcome_table) {
            add(name, counts.of(outcome));
        }
    });
    const MetricFamily *last = nullptr;
    for (const RuleCounterTraits &row : rule_counter_table) {
        if (row.family == nullptr || row.family == last) {
            continue;
        }
        last = row.family;
        write_of_rules(out, metrics, *last, [&](const RuleCounts &counts, const auto &add) {
            for (const RuleCounterTraits &of_family : rule_counter_table) {
                if (of_family.family == last) {
                    add(of_family.name, counts.of(of_family.counter));
                }
            }
        });
    }
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
