// nginx's socket functions log each error that they meet, so each attempt to reconnect. Here the
// last of them is remembered instead, for the one line that tells of an outage.
#pragma once

#include "../ngx.hpp"

#include <array>
#include <string_view>

namespace nginx_module {

class QuietLog {
  public:
    explicit QuietLog(const ngx_log_t &log);
    QuietLog(const QuietLog &) = delete;
    QuietLog &operator=(const QuietLog &) = delete;

    /// For a connection. Alerts go on to the real log, and debug lines where it has them.
    ngx_log_t *log() { return &remembering_; }

    /// The last message since forget(), without time and process; empty if there was none.
    std::string_view last() const { return {text_.data(), size_}; }
    void forget() { size_ = 0; }

  private:
    void remember(std::string_view line);

    ngx_log_t passing_;
    ngx_log_t remembering_;
    std::array<char, 256> text_;
    size_t size_ = 0;
};

} // namespace nginx_module
