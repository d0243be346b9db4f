#include "rate_limit/embed.hpp"
#include "replay/report/report.hpp"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

EMBED(redis_rate_limit_replay_html, "dashboard/replay.html");
EMBED_ALL(redis_rate_limit_replay_css,
          CONTENTS("dashboard/page.css") CONTENTS("dashboard/replay.css"));
// The order matters: each script uses what the scripts before it define.
// clang-format off
EMBED_ALL(redis_rate_limit_replay_js,
    CONTENTS("dashboard/figures.js")
    CONTENTS("dashboard/elements.js")
    CONTENTS("dashboard/chart_lines.js")
    CONTENTS("dashboard/replay_figures.js")
    CONTENTS("dashboard/replay_steps.js")
    CONTENTS("dashboard/replay_times.js")
    CONTENTS("dashboard/replay_peaks.js")
    CONTENTS("dashboard/replay_keys.js")
    CONTENTS("dashboard/replay.js"));
// clang-format on

namespace replay {

namespace {

using rate_limit::embedded;
using Writer = rapidjson::Writer<rapidjson::StringBuffer>;

void write(Writer &json, const char *name, std::string_view text) {
    json.Key(name);
    json.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
}

void write(Writer &json, const char *name, uint64_t number) {
    json.Key(name);
    json.Uint64(number);
}

template <typename Numbers>
void write_numbers(Writer &json, const char *name, const Numbers &numbers) {
    json.Key(name);
    json.StartArray();
    for (const uint64_t number : numbers) {
        json.Uint64(number);
    }
    json.EndArray();
}

void write_series(Writer &json, const TimeSeries &series) {
    constexpr std::array<const char *, outcomes> names = {"passed", "delayed", "rejected"};
    json.Key("series");
    json.StartObject();
    write(json, "begin", static_cast<uint64_t>(series.begin_s()));
    write(json, "step", static_cast<uint64_t>(series.step_s()));
    for (size_t outcome = 0; outcome < outcomes; ++outcome) {
        std::vector<uint64_t> counts;
        for (const TimeSeries::Counts &step : series.steps()) {
            counts.push_back(step[outcome]);
        }
        write_numbers(json, names[outcome], counts);
    }
    json.EndObject();
}

void write_keys(Writer &json, const std::vector<ReportOfKey> &keys) {
    json.Key("top_rejected");
    json.StartArray();
    for (const ReportOfKey &key : keys) {
        json.StartObject();
        write(json, "key", key.key);
        write(json, "rejected", key.rejected);
        write_numbers(json, "requests_of_step", key.requests_of_step);
        write_numbers(json, "rejected_of_step", key.rejected_of_step);
        json.EndObject();
    }
    json.EndArray();
}

void write_limits(Writer &json, const std::optional<FoundLimits> &limits) {
    json.Key("limits");
    if (!limits) {
        json.Null();
        return;
    }
    json.StartArray(); // by searched_parts
    for (const auto &limit : *limits) {
        if (limit) {
            json.Uint64(*limit);
        } else {
            json.Null();
        }
    }
    json.EndArray();
}

void write_rule(Writer &json, const ReportOfRule &of_rule) {
    const Rule &rule = *of_rule.rule;
    const RuleTally &tally = *of_rule.tally;
    json.StartObject();
    write(json, "name", of_rule.name);
    write(json, "algorithm", to_string(rule.quota().algorithm));
    write(json, "limit", rule.shown_limit());
    json.Key("capacity"); // null: variables give it
    if (rule.limit_text.empty() && rule.burst_text.empty()) {
        json.Uint64(rule.quota().capacity());
    } else {
        json.Null();
    }
    write(json, "window_ms", static_cast<uint64_t>(rule.quota().window.count()));
    if (rule.rule.calendar != nullptr) { // then window_ms is the length of the longest
        write(json, "calendar", rule.rule.calendar->name());
    }
    write(json, "requests", tally.requests());
    write(json, "passed", tally.count_of(Outcome::passed));
    write(json, "delayed", tally.count_of(Outcome::delayed));
    write(json, "rejected", tally.count_of(Outcome::rejected));
    write(json, "invalid", tally.invalid());
    write(json, "keys", tally.keys());
    json.Key("keys_are_estimated");
    json.Bool(tally.keys_are_estimated());
    json.Key("holds_back");
    json.Bool(tally.holds_back());
    write_numbers(json, "peaks", tally.peaks()); // see RuleTally::peaks()
    write_limits(json, of_rule.limits);
    write_series(json, tally.series());
    write_keys(json, of_rule.top_rejected);
    json.EndObject();
}

void write_texts(Writer &json, const char *name, const std::vector<std::string> &texts) {
    json.Key(name);
    json.StartArray();
    for (const std::string &text : texts) {
        json.String(text.c_str(), static_cast<rapidjson::SizeType>(text.size()));
    }
    json.EndArray();
}

std::string data_of(const Report &report) {
    rapidjson::StringBuffer text;
    Writer json(text);
    json.StartObject();
    write(json, "lines", report.lines);
    write(json, "skipped", report.skipped);
    write(json, "ambiguous", report.ambiguous);
    write(json, "without_request", report.without_request);
    write(json, "undecided", report.undecided);
    write(json, "late", report.late);
    write(json, "begin", static_cast<uint64_t>(report.begin_us / 1'000'000));
    write(json, "end", static_cast<uint64_t>(report.end_us / 1'000'000));
    write_texts(json, "estimates", report.estimates);
    write_texts(json, "notes", report.notes);
    json.Key("rules");
    json.StartArray();
    for (const ReportOfRule &rule : report.rules) {
        write_rule(json, rule);
    }
    json.EndArray();
    json.EndObject();
    return {text.GetString(), text.GetSize()};
}

/// Puts a text into the place of a word of the page.
void put(std::string &page, std::string_view word, std::string_view text) {
    page.replace(page.find(word), word.size(), text);
}

/// A `<` in the data could end the element that holds it.
std::string without_markup(std::string text) {
    constexpr std::string_view escape = "\\u003c";
    for (size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at)) {
        text.replace(at, 1, escape);
    }
    return text;
}

} // namespace

std::string page_of(const Report &report) {
    std::string page(embedded(redis_rate_limit_replay_html, redis_rate_limit_replay_html_end));
    put(page, "/* styles */",
        embedded(redis_rate_limit_replay_css, redis_rate_limit_replay_css_end));
    put(page, "/* scripts */",
        embedded(redis_rate_limit_replay_js, redis_rate_limit_replay_js_end));
    put(page, "/* data */", without_markup(data_of(report)));
    return page;
}

} // namespace replay
