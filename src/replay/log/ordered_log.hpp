// The lines of all logs in the order in which nginx decided on their requests.
//
// nginx writes a line when a request ends, and its workers write side by side, so lines are put
// into order if they are out of it by up to a minute. So much of the log is in memory.
#pragma once

#include "replay/log/line_splitter.hpp"
#include "replay/log/log_files.hpp"
#include "replay/log/log_time.hpp"
#include "replay/rules/variables.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace replay {

/// What becomes of a request on which nginx did not decide, as far as the log tells.
enum class Undecided { left_out, estimated };

class OrderedLog {
  public:
    /// The logs may be of several hosts, whose times overlap, and stand in any order. The format
    /// and the variables outlive it.
    OrderedLog(const std::vector<std::string> &paths, const LogFormat &format,
               const Variables &variables, Undecided undecided = Undecided::left_out);

    struct Line {
        std::string_view text;
        std::span<const Field> fields;
        LogTime::Time time;
    };
    /// Returns the next line; it holds until the next call. Returns nothing at the end.
    std::optional<Line> next();

    /// Lines that were skipped: they are of another format, have no time, or can be read in several
    /// ways.
    struct Skipped {
        uint64_t lines = 0;
        uint64_t ambiguous = 0; // of these
        std::string first;
    };
    uint64_t lines() const { return lines_; }
    const Skipped &skipped() const { return skipped_; }
    /// Tells why the first line was skipped.
    std::string why_skipped();
    uint64_t late() const { return late_; } // by more than a minute: as if they came just in time
    /// Lines on whose requests nothing was decided, and of them those that hold no request. They
    /// are left out.
    uint64_t undecided() const { return undecided_; }
    uint64_t undecided_without_request() const { return undecided_without_request_; }

    /// Returns why a file could not be read to its end, or an empty text.
    const std::string &error() const { return error_; }
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
    /// A file that is not opened before its first line's turn: there may be more files than a
    /// process can open.
    struct LaterFile {
        std::string path;
        int64_t begin_us;
    };
    enum class Kind { timed, undecided, without_request, ambiguous, other };

    void add_file(const std::string &path);
    std::unique_ptr<LogFile> open(const std::string &path);
    void read_source(std::unique_ptr<LogFile> file);
    int64_t begin_of(LogFile &file);
    Kind read_fields(std::string_view line, std::vector<Field> &fields, LogTime::Time &time);
    bool read_line(Source &source);
    void count(Kind kind, std::string_view line);
    void finish(const LogFile &file);
    void add(const Source &source);
    void advance(int64_t of_second);
    std::vector<Source>::iterator earliest();
    bool fill();

    const LogFormat &format_;
    LogTime time_;
    LineSplitter splitter_;
    Request::Fields request_fields_;
    Undecided undecided_are_;
    std::vector<LaterFile> later_; // the first of them last
    std::vector<Source> sources_;  // those that have a next line
    uint64_t size_ = 0;            // of all files, in bytes
    uint64_t finished_size_ = 0;   // of those that are read
    bool is_size_known_ = true;
    std::map<int64_t, Bucket> buckets_; // by their second
    Bucket current_;                    // is being given out, in order
    size_t given_out_ = 0;
    int64_t last_given_us_ = INT64_MIN;
    std::optional<int64_t> latest_s_; // the second of the latest line
    std::optional<int64_t> ahead_s_;  // that of the last line, if it is far ahead of that
    uint64_t lines_ = 0;
    Skipped skipped_;
    uint64_t undecided_ = 0;
    uint64_t undecided_without_request_ = 0;
    uint64_t late_ = 0;
    std::string error_;
    std::string buffer_;
};

} // namespace replay
