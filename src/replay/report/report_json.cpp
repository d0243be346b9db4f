#include "replay/report/report.hpp"

#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

namespace replay {

namespace {

using Writer = rapidjson::PrettyWriter<rapidjson::StringBuffer>;

constexpr std::array<const char *, searched_parts.size()> names_of_parts = {"0.01", "0.001", "0"};

void write(Writer &json, std::string_view text) {
    json.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
}

void write_number(Writer &json, const char *name, uint64_t number) {
    json.Key(name);
    json.Uint64(number);
}

void write_limits(Writer &json, const FoundLimits &limits) {
    json.Key("limits");
    json.StartObject();
    for (size_t i = 0; i < limits.size(); ++i) {
        json.Key(names_of_parts[i]);
        if (limits[i]) {
            json.Uint64(*limits[i]);
        } else {
            json.Null();
        }
    }
    json.EndObject();
}

void write_counts(Writer &json, const RuleTally &tally) {
    write_number(json, "requests", tally.requests());
    write_number(json, "passed", tally.count_of(Outcome::passed));
    write_number(json, "delayed", tally.count_of(Outcome::delayed));
    write_number(json, "rejected", tally.count_of(Outcome::rejected));
    write_number(json, "keys", tally.keys());
}

} // namespace

std::string json_of(const Report &report) {
    rapidjson::StringBuffer text;
    Writer json(text);
    json.SetIndent(' ', 2);
    json.StartObject();
    json.Key("rules");
    json.StartObject();
    for (const ReportOfRule &rule : report.rules) {
        write(json, rule.name);
        json.StartObject();
        write_counts(json, *rule.tally);
        json.Key("top_rejected");
        json.StartArray();
        for (const ReportOfKey &key : rule.top_rejected) {
            json.StartObject();
            json.Key("key");
            write(json, key.key);
            write_number(json, "rejected", key.rejected);
            json.EndObject();
        }
        json.EndArray();
        if (rule.limits) {
            write_limits(json, *rule.limits);
        }
        json.EndObject();
    }
    json.EndObject();
    write_number(json, "lines", report.lines);
    write_number(json, "skipped", report.skipped);
    write_number(json, "no_request", report.without_request);
    write_number(json, "undecided", report.undecided);
    json.Key("estimate");
    json.Bool(!report.estimates.empty());
    json.EndObject();
    return std::string(text.GetString(), text.GetSize()) + "\n";
}

} // namespace replay
