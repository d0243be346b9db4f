#include "replay/report/report.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

namespace replay {

namespace {

/// Escape sequences for a terminal, or nothing.
struct Colours {
    const char *bold = "";
    const char *red = "";
    const char *dim = "";
    const char *usual = "";
};

std::string time_text(int64_t time_s) {
    const time_t time = time_s;
    tm parts{};
    gmtime_r(&time, &parts);
    std::array<char, 32> text;
    return {text.data(), std::strftime(text.data(), text.size(), "%F %T", &parts)};
}

std::string padded(std::string text, size_t width) {
    text.insert(0, width - std::min(width, text.size()), ' ');
    return text;
}

/// Writes a part of a whole in percent: so that what is not nothing does not look so.
std::string percent(uint64_t part, uint64_t whole) {
    std::array<char, 32> text;
    const double of_hundred =
        whole > 0 ? 100 * static_cast<double>(part) / static_cast<double>(whole) : 0;
    const int size =
        std::snprintf(text.data(), text.size(), of_hundred < 1 ? "%.2g %%" : "%.1f %%", of_hundred);
    return {text.data(), static_cast<size_t>(size)};
}

std::string counts_of(const RuleTally &tally, const Colours &colours) {
    std::string text;
    const auto add = [&](const char *name, uint64_t count, const char *colour) {
        text += std::string("  ") + name + " " + colour +
                padded(std::to_string(count), 12 + (10 - std::string_view(name).size())) +
                colours.usual;
    };
    add("requests", tally.requests(), "");
    text += "\n";
    const auto add_part = [&](const char *name, Outcome outcome, const char *colour) {
        const uint64_t count = tally.count_of(outcome);
        add(name, count, count > 0 ? colour : "");
        text += padded(percent(count, tally.requests()), 10) + "\n";
    };
    add_part("passed", Outcome::passed, "");
    add_part("delayed", Outcome::delayed, "");
    add_part("rejected", Outcome::rejected, colours.red);
    add("keys", tally.keys(), "");
    text += tally.keys_are_estimated() ? " (about)\n" : "\n";
    if (tally.invalid() > 0) {
        add("invalid", tally.invalid(), colours.red);
        text += "  (variables that were no numbers)\n";
    }
    return text;
}

std::string limits_of(const ReportOfRule &rule, const Colours &colours) {
    if (!rule.limits) {
        return {};
    }
    constexpr std::array<const char *, searched_parts.size()> names = {
        "rejects at most 1 %", "rejects at most 0.1 %", "rejects nothing"};
    std::string text = std::string("  smallest limit that, alone,\n");
    for (size_t i = 0; i < names.size(); ++i) {
        const auto limit = (*rule.limits)[i];
        std::string name = names[i];
        name.resize(24, ' ');
        text += "    " + name + colours.bold +
                padded(limit ? std::to_string(*limit) : std::string("none does"), 12) +
                colours.usual + "\n";
    }
    return text;
}

/// Tells when most was rejected.
std::string worst_time_of(const TimeSeries &series) {
    constexpr auto rejected = static_cast<size_t>(Outcome::rejected);
    const auto worst = std::ranges::max_element(
        series.steps(), {}, [](const TimeSeries::Counts &step) { return step[rejected]; });
    if (worst == series.steps().end() || (*worst)[rejected] == 0) {
        return {};
    }
    const int64_t begin = series.begin_s() + (worst - series.steps().begin()) * series.step_s();
    return "  most were rejected from " + time_text(begin) + " to " +
           time_text(begin + series.step_s()) + " UTC: " + std::to_string((*worst)[rejected]) +
           "\n";
}

std::string keys_of(const ReportOfRule &rule) {
    std::string text;
    for (const ReportOfKey &key : rule.top_rejected) {
        text += "    " + padded(std::to_string(key.rejected), 12) + "  " + key.key + "\n";
    }
    return text.empty() ? text : "  keys rejected most\n" + text;
}

std::string settings_of(const Rule &rule) {
    std::string text(to_string(rule.quota().algorithm));
    text += " limit=" + rule.shown_limit();
    if (rule.quota().burst || !rule.burst_text.empty()) {
        text += " burst=" +
                (rule.burst_text.empty() ? std::to_string(*rule.quota().burst) : rule.burst_text);
    }
    if (rule.rule.calendar != nullptr) {
        return text + " " + rule.rule.calendar->parts().parameters();
    }
    const int64_t window = rule.quota().window.count();
    return text + " window=" +
           (window % 1000 == 0 ? std::to_string(window / 1000) + "s"
                               : std::to_string(window) + "ms");
}

} // namespace

std::string table_of(const Report &report, bool has_colours) {
    const Colours colours =
        has_colours
            ? Colours{.bold = "\x1b[1m", .red = "\x1b[31m", .dim = "\x1b[2m", .usual = "\x1b[0m"}
            : Colours{};
    std::string text = std::to_string(report.lines) + " lines";
    const auto add = [&text](uint64_t lines, const char *what) {
        text += lines > 0 ? ", " + std::to_string(lines) + what : std::string();
    };
    add(report.skipped - report.ambiguous, " of another format skipped");
    add(report.ambiguous, " skipped that can be read in several ways");
    add(report.without_request, " without a request");
    add(report.undecided, " of requests on which no rule decided");
    if (report.late > 0) {
        text += ", " + std::to_string(report.late) + " out of order by more than a minute";
    }
    if (report.end_us > 0) {
        text += ", from " + time_text(report.begin_us / 1'000'000) + " to " +
                time_text(report.end_us / 1'000'000) + " UTC";
    }
    text += "\n";
    if (report.undecided > 0) {
        text +=
            "Requests on which no rule decided are left out. --undecided=estimate replays them by "
            "$msec.\n";
    }
    for (const std::string &reason : report.estimates) {
        text += "An estimate: " + reason + "\n";
    }
    for (const ReportOfRule &rule : report.rules) {
        text += std::string("\n") + colours.bold + rule.name + colours.usual + "  " + colours.dim +
                settings_of(*rule.rule) + colours.usual + "\n";
        text += counts_of(*rule.tally, colours) + limits_of(rule, colours) +
                worst_time_of(rule.tally->series()) + keys_of(rule);
    }
    for (const std::string &note : report.notes) {
        text += "\nnote: " + note + "\n";
    }
    return text;
}

} // namespace replay
