// What may be shown of a client's key, in log lines and on pages: `show_keys` of its zone.
#pragma once

#include "../ngx.hpp"

#include "../log_text.hpp"
#include "configuration.hpp"

#include <arpa/inet.h>

#include <array>
#include <string_view>

namespace nginx_module {

using KeyTextBuffer = std::array<char, INET6_ADDRSTRLEN>;

/// Returns in its part of `out` the first 12 hex digits of the SHA-256 of the whole key, however
/// long it is. Of what the zone writes as `$binary_remote_addr` it is the hash of the address as
/// text.
std::string_view hash_of_key(const ZoneConf &zone, std::string_view key, KeyTextBuffer &out);

/// A key as its zone shows it: cut and escaped, what the zone writes as `$binary_remote_addr` as an
/// address; or its hash; or nothing.
class KeyText {
  public:
    KeyText(const ZoneConf &zone, std::string_view key);

    /// For nginx's `%V`. Empty where the zone shows no keys.
    ngx_str_t *shown() { return text_.shown(); }

  private:
    KeyTextBuffer buffer_;
    LogText<64> text_;
};

/// The same for the middle of a log line: `, key "203.0.113.7"`, or nothing.
class KeyPhrase {
  public:
    KeyPhrase(const ZoneConf &zone, std::string_view key);
    KeyPhrase(const KeyPhrase &) = delete;
    KeyPhrase &operator=(const KeyPhrase &) = delete;

    /// For nginx's `%V`.
    ngx_str_t *shown() { return &shown_; }

  private:
    std::array<u_char, 512> bytes_;
    ngx_str_t shown_{};
};

} // namespace nginx_module
