// The requests of one rule in a temporary file, to be read again: the search for limits replays
// them many times, and memory must not grow with their number.
#pragma once

#include "replay/report/time_series.hpp"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

namespace replay {

class Spool {
  public:
    struct Request {
        int64_t time_us; // they never step back
        uint64_t key;    // a number that stands for the client's key
        bool is_rejected;
        int64_t duration_us; // until the request ended
    };

    /// Makes the file in the directory TMPDIR, or else in /tmp. Without it nothing is kept.
    Spool();

    void add(const Request &request);

    /// Ends the writing: nothing may be added afterwards. Returns false if the file could not be
    /// made or written; then nothing can be read.
    bool finish();
    /// Ends the writing, which must have succeeded, and begins to read at the first request.
    void rewind();
    std::optional<Request> next();

  private:
    struct Close {
        void operator()(std::FILE *file) const { std::fclose(file); }
    };

    void put(uint64_t number);
    void flush();
    bool fill();

    std::unique_ptr<std::FILE, Close> file_;
    bool is_good_ = false;
    bool is_writing_ = true;
    std::vector<unsigned char> buffer_;
    size_t at_ = 0;
    size_t end_ = 0;
    int64_t last_us_ = 0;
};

} // namespace replay
