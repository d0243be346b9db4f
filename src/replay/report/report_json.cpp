#include "replay/report/report.hpp"

#include "rate_limit/text/json_writer.hpp"

#include <string>
#include <utility>

namespace replay {

namespace {

class StringText {
  public:
    void put(char c) { text_ += c; }
    std::string finish() { return std::move(text_); }

  private:
    std::string text_;
};

using Json = rate_limit::JsonWriter<StringText>;

constexpr std::array<std::string_view, searched_parts.size()> names_of_parts = {"0.01", "0.001",
                                                                                "0"};

void write_limits(Json &json, const FoundLimits &limits) {
    json.begin_object("limits");
    for (size_t i = 0; i < limits.size(); ++i) {
        json.member(names_of_parts[i], limits[i]);
    }
    json.end_object();
}

void write_counts(Json &json, const RuleTally &tally) {
    json.member("requests", uint64_t{tally.requests()});
    json.member("passed", uint64_t{tally.count_of(Outcome::passed)});
    json.member("delayed", uint64_t{tally.count_of(Outcome::delayed)});
    json.member("rejected", uint64_t{tally.count_of(Outcome::rejected)});
    json.member("keys", uint64_t{tally.keys()});
}

} // namespace

std::string json_of(const Report &report) {
    Json json(rate_limit::JsonLayout::indented);
    json.begin_object();
    json.begin_object("rules");
    for (const ReportOfRule &rule : report.rules) {
        json.begin_object(rule.name);
        write_counts(json, *rule.tally);
        json.begin_array("top_rejected");
        for (const ReportOfKey &key : rule.top_rejected) {
            json.begin_object();
            json.member("key", std::string_view(key.key));
            json.member("rejected", uint64_t{key.rejected});
            json.end_object();
        }
        json.end_array();
        if (rule.limits) {
            write_limits(json, *rule.limits);
        }
        json.end_object();
    }
    json.end_object();
    json.member("lines", uint64_t{report.lines});
    json.member("skipped", uint64_t{report.skipped});
    json.member("no_request", uint64_t{report.without_request});
    json.member("undecided", uint64_t{report.undecided});
    json.member("estimate", !report.estimates.empty());
    json.end_object();
    return json.finish();
}

} // namespace replay
