// A client's key for people to read: in log lines and on the dashboard.
#pragma once

#include "ngx.hpp"

#include "conf.hpp"
#include "log_text.hpp"

#include <arpa/inet.h>

#include <array>
#include <string_view>

namespace nginx_module {

/// Cut and escaped; what the zone writes as `$binary_remote_addr` as an address.
class KeyText {
  public:
    KeyText(const ZoneConf &zone, std::string_view key);

    /// For nginx's `%V`.
    ngx_str_t *shown() { return text_.shown(); }

  private:
    std::array<char, INET6_ADDRSTRLEN> address_;
    LogText<64> text_;
};

} // namespace nginx_module
