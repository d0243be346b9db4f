// A log for connections. nginx's socket functions log each error that they meet, and so they would
// log each attempt to reconnect. This log keeps the last message instead, for the one line that
// reports an outage.
#pragma once

#include "nginx_module/ngx.hpp"

#include <array>
#include <string_view>

namespace nginx_module {

class QuietLog {
  public:
    explicit QuietLog(const ngx_log_t &log);
    QuietLog(const QuietLog &) = delete;
    QuietLog &operator=(const QuietLog &) = delete;

    /// Returns the log for a connection. It passes alerts on to the real log, and debug lines if
    /// that one writes them.
    ngx_log_t *log() { return &remembering_; }

    /// Returns the last message since clear(), without time and process; empty if there was none.
    std::string_view last() const { return {text_.data(), size_}; }
    void clear() { size_ = 0; }

  private:
    void remember(std::string_view line);

    ngx_log_t passing_;
    ngx_log_t remembering_;
    std::array<char, 256> text_;
    size_t size_ = 0;
};

} // namespace nginx_module
