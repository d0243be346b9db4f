#include "redis_client/session/problem.hpp"

#include "rate_limit/calendar/day.hpp"
#include "rate_limit/text/text_writer.hpp"
#include "redis_client/script/answer.hpp"

#include <algorithm>

namespace redis_client {

namespace {

using rate_limit::TextWriter;

void write_two_digits(TextWriter &out, std::string_view before, int64_t number) {
    out << before << (number < 10 ? "0" : "") << static_cast<uint64_t>(number);
}

/// Writes `2026-11-26T09:30:00Z`.
void write_utc(TextWriter &out, std::chrono::microseconds unix_time) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(unix_time);
    const rate_limit::Day day = rate_limit::day_at(seconds);
    const rate_limit::Date date = rate_limit::date_of(day);
    const int64_t of_day = (seconds - std::chrono::hours{24} * day).count();
    out << static_cast<uint64_t>(date.year);
    write_two_digits(out, "-", date.month);
    write_two_digits(out, "-", date.day);
    write_two_digits(out, "T", of_day / 3600);
    write_two_digits(out, ":", of_day / 60 % 60);
    write_two_digits(out, ":", of_day % 60);
    out << "Z";
}

} // namespace

void ProblemNote::note(std::string_view what, std::string_view redis_said) {
    const std::string_view kept = redis_said.substr(0, redis_said_.size());
    rate_limit::append(redis_said_.data(), kept);
    last_ = {};
    last_.what = what;
    last_.redis_said = {redis_said_.data(), kept.size()};
}

void ProblemNote::note_error(const Command &command, std::string_view what,
                             std::string_view error) {
    if (const auto redis_time = time_without_window(error)) {
        note_of_clocks(command, *redis_time);
    } else if (is_error_of_keys(error)) {
        note_of_keys(command, what, error);
    } else {
        note(what, error);
    }
}

void ProblemNote::note_of_clocks(const Command &check, std::chrono::microseconds redis_time) {
    std::array<char, 96> clocks;
    TextWriter text(clocks);
    write_utc(text, redis_time);
    text << ", that of this host says ";
    write_utc(text, clock_());
    note_of_keys(check, "its clock is in no calendar window near this host's, it says",
                 {clocks.data(), std::min(text.size(), clocks.size())});
    last_.cause = Problem::Cause::clocks;
}

void ProblemNote::note_of_keys(const Command &check, std::string_view what,
                               std::string_view redis_said) {
    note(what, redis_said);
    last_.cause = Problem::Cause::keys;
    if (check.callbacks != nullptr) {
        last_.checked = check.callbacks->describe(checked_);
    }
}

void ProblemNote::note_failed_checks(const Command &first, std::string_view error) {
    for (const Command *check = &first; check != nullptr; check = check->next_in_batch) {
        if (!check->has_failed) {
            continue;
        }
        if (error.empty()) {
            note_of_keys(*check, "impossible numbers of a key's value");
        } else {
            note_error(*check, "error reply", error);
        }
    }
}

} // namespace redis_client
