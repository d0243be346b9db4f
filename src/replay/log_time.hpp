// The times of a log's lines, in microseconds of Unix time.
#pragma once

#include "log_format.hpp"
#include "request.hpp"

#include <cstdint>
#include <optional>
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
    bool has_request_time() const { return request_time_.has_value(); }

    struct Time {
        int64_t decided_us = 0;
        int64_t ended_us = 0;     // when the request ended, or as `decided_us` where nothing tells
        bool is_estimate = false; // nginx did not say when it decided
    };
    /// Returns nothing if the line has no valid time. A request on which nothing was decided has no
    /// $redis_rate_limit_decided: then other times are taken, if there are any.
    std::optional<Time> of(const Request &request, std::string &buffer) const;

    /// Whether the line may be without a time, because nothing was decided on its request.
    bool may_be_missing() const { return decided_ && clock_ == Clock::none; }

  private:
    std::optional<Time> read(const Request &request, std::string &buffer) const;

    enum class Clock { none, msec, iso8601, local };

    std::optional<size_t> decided_;
    std::optional<size_t> request_time_;
    Clock clock_ = Clock::none;
    size_t clock_field_ = 0;
};

} // namespace replay
