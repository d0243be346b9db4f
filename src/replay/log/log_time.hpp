// The times of a log's lines, in microseconds of Unix time.
#pragma once

#include "replay/log/log_format.hpp"
#include "replay/log/request.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace replay {

/// Each reads the text that nginx writes for one variable. Returns nothing for any other text.
std::optional<int64_t> read_seconds(std::string_view text);    // 1700000000.123456, to six decimals
std::optional<int64_t> read_time_local(std::string_view text); // 25/Nov/2026:10:00:00 +0100
std::optional<int64_t> read_time_iso8601(std::string_view text); // 2026-11-25T10:00:00+01:00

/// Finds when nginx decided on a request, by the best of what a format has.
class LogTime {
  public:
    explicit LogTime(const LogFormat &format);

    /// Whether the format has any time.
    bool is_known() const { return decided_ || clock_ != Clock::none; }
    bool has_decided() const { return decided_.has_value(); }
    bool has_request_time() const { return request_time_.has_value(); }

    struct Time {
        int64_t decided_us = 0;
        int64_t ended_us = 0;     // when the request ended, or as `decided_us` where nothing tells
        bool is_estimate = false; // nginx did not say when it decided
    };
    /// Returns nothing if the line has no valid time. Where nothing was decided on the request, it
    /// is the time of which the rest of the line tells.
    std::optional<Time> of(const Request &request, std::string &buffer);

    /// Whether the log tells when nginx decided, and on this request nothing was decided.
    bool is_undecided(const Request &request, std::string &buffer) const;
    /// Whether the format tells when nginx decided, and another time.
    bool can_estimate_undecided() const { return decided_ && clock_ != Clock::none; }

    /// Whether a time is taken from this field.
    bool uses(size_t field) const {
        return decided_ == field || request_time_ == field ||
               (clock_ != Clock::none && clock_field_ == field);
    }

  private:
    std::optional<Time> read(const Request &request, std::string &buffer);
    std::optional<int64_t> read_clock(const Request &request, std::string &buffer);
    std::optional<int64_t> read_calendar(std::string_view text);

    enum class Clock { none, msec, iso8601, local };

    std::optional<size_t> decided_;
    std::optional<size_t> request_time_;
    Clock clock_ = Clock::none;
    size_t clock_field_ = 0;
    std::string last_text_; // of a calendar, and its time: a busy log has many lines of one second
    std::optional<int64_t> last_time_;
};

} // namespace replay
