// Text from clients and servers for log lines. It is cut and escaped, so that nobody outside can
// forge a log line.
#pragma once

#include "nginx_module/ngx.hpp"

#include <array>
#include <string_view>

namespace nginx_module {

/// The first `most` bytes of a text in printable ASCII. All other bytes, and quotes and
/// backslashes, are written in the form `\x22`.
template <size_t most>
class LogText {
  public:
    explicit LogText(std::string_view text) {
        constexpr std::string_view digits = "0123456789abcdef";
        u_char *at = bytes_.data();
        for (const char c : text.substr(0, most)) {
            if (c >= ' ' && c <= '~' && c != '"' && c != '\\') {
                *at++ = static_cast<u_char>(c);
                continue;
            }
            const auto byte = static_cast<u_char>(c);
            *at++ = '\\';
            *at++ = 'x';
            *at++ = static_cast<u_char>(digits[byte >> 4]);
            *at++ = static_cast<u_char>(digits[byte & 15]);
        }
        shown_ = {static_cast<size_t>(at - bytes_.data()), bytes_.data()};
    }
    LogText(const LogText &) = delete;
    LogText &operator=(const LogText &) = delete;

    /// Returns the escaped text, as an argument for nginx's `%V`.
    ngx_str_t *shown() { return &shown_; }

  private:
    std::array<u_char, 4 * most> bytes_;
    ngx_str_t shown_;
};

} // namespace nginx_module
