// The lines of all logs in the order in which nginx decided on their requests.
//
// nginx writes a line when a request ends, and its workers write side by side, so lines are put
// into order if they are out of it by up to a minute. So much of the log is in memory.
#pragma once

#include "log_files.hpp"
#include "log_time.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace replay {

class OrderedLog {
  public:
    /// The logs may be of several hosts, whose times overlap, and stand in any order.
    OrderedLog(std::vector<std::unique_ptr<LogFile>> files, const LogFormat &format);

    struct Line {
        std::string_view text;
        std::span<const Field> fields;
        LogTime::Time time;
    };
    /// Returns the next line; it holds until the next call. Returns nothing at the end.
    std::optional<Line> next();

    uint64_t lines() const { return lines_; }
    uint64_t skipped() const {
        return skipped_;
    } // that the format has not written, or without time
    const std::string &first_skipped() const { return first_skipped_; }
    uint64_t late() const { return late_; } // by more than a minute: as if they came just in time

    /// Returns why a file could not be read to its end, or an empty text.
    std::string error() const;
    /// Returns how much of the files is read, from 0 to 1; nothing if their sizes are not known.
    std::optional<double> progress() const;

  private:
    static constexpr int64_t second = 1'000'000;
    static constexpr int64_t longest_delay_s = 60;

    /// Lines that were decided on within one second.
    struct Bucket {
        struct Entry {
            LogTime::Time time;
            size_t text_begin;
            size_t text_size;
            size_t first_field;
        };
        std::string text;
        std::vector<Field> fields;
        std::vector<Entry> entries;
    };
    /// A file, and its next line.
    struct Source {
        std::unique_ptr<LogFile> file;
        std::string text;
        std::vector<Field> fields;
        LogTime::Time time;
    };

    bool read_line(Source &source);
    void add(const Source &source);
    void advance(int64_t of_second);
    bool fill();

    const LogFormat &format_;
    LogTime time_;
    std::vector<Source> sources_; // those that have a next line
    std::vector<std::unique_ptr<LogFile>> finished_;
    std::map<int64_t, Bucket> buckets_; // by their second
    Bucket current_;                    // is being given out, in order
    size_t given_out_ = 0;
    int64_t last_given_us_ = INT64_MIN;
    std::optional<int64_t> latest_s_; // the second of the latest line
    std::optional<int64_t> ahead_s_;  // that of the last line, if it is far ahead of that
    uint64_t lines_ = 0;
    uint64_t skipped_ = 0;
    uint64_t late_ = 0;
    std::string first_skipped_;
    std::string buffer_;
};

} // namespace replay
