// The lines of some log files, plain or compressed by gzip, one file after another or, where their
// times overlap, side by side.
#pragma once

#include "replay/syntax/config_file.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct gzFile_s;

namespace replay {

/// Reads the lines of one file. A line is cut at 64 KB.
class LogFile {
  public:
    /// `-` is the standard input. Returns null if the file cannot be opened; errno says why.
    static std::unique_ptr<LogFile> open(const std::string &path);

    /// Returns the next line, without its end; it holds until the next call. Returns nothing at the
    /// end, or if the file cannot be read further: then error() has a text.
    std::optional<std::string_view> next();

    const std::string &error() const { return error_; }
    /// Whether it can be opened again and read from its beginning.
    bool is_regular() const { return is_regular_; }
    uint64_t size() const { return size_; } // in bytes, as it is stored; 0: nobody knows
    uint64_t read_so_far() const;           // of these bytes

  private:
    struct Close {
        void operator()(gzFile_s *file) const;
    };

    bool fill();
    void find_other_compression();

    std::string path_;
    bool is_regular_ = false;
    bool is_at_begin_ = true;
    std::unique_ptr<gzFile_s, Close> file_;
    uint64_t size_ = 0;
    std::string error_;
    std::vector<char> buffer_;
    size_t begin_ = 0;
    size_t end_ = 0;
    bool is_at_end_ = false;
    bool skips_line_ = false; // what is left of a line that was cut
};

} // namespace replay
