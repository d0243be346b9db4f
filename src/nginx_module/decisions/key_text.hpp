// The text of a client's key for log lines and pages. The `show_keys` of its zone says what may be
// shown.
#pragma once

#include "nginx_module/ngx.hpp"

#include "limiter/readable_key.hpp"
#include "nginx_module/log_text.hpp"

#include <array>
#include <string_view>

namespace nginx_module {

/// A key as its zone shows it: its text, cut and escaped, or its hash, or nothing. A key that the
/// zone writes as `$binary_remote_addr` is shown as an address.
class KeyText {
  public:
    KeyText(const limiter::Zone &zone, std::string_view key);

    /// Returns the text, as an argument for nginx's `%V`. It is empty if the zone shows no keys.
    ngx_str_t *shown() { return text_.shown(); }

  private:
    limiter::KeyTextBuffer buffer_;
    LogText<64> text_;
};

/// A key for the middle of a log line: `, key "203.0.113.7"`, or nothing if the zone shows no keys.
class KeyPhrase {
  public:
    KeyPhrase(const limiter::Zone &zone, std::string_view key);
    KeyPhrase(const KeyPhrase &) = delete;
    KeyPhrase &operator=(const KeyPhrase &) = delete;

    /// Returns the text, as an argument for nginx's `%V`.
    ngx_str_t *shown() { return &shown_; }

  private:
    std::array<u_char, 512> bytes_;
    ngx_str_t shown_{};
};

} // namespace nginx_module
