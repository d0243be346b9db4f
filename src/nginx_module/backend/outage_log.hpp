// What the error log tells of the faults of a backend: that they begin, and that they end.
#pragma once

#include "../ngx.hpp"

#include "../../redis_client/outage.hpp"

#include <cstdint>
#include <string_view>

namespace nginx_module {

struct Fault {
    std::string_view what;        // static text
    std::string_view detail = {}; // in the words of Redis, or of OpenSSL
    ngx_err_t error = 0;
    std::string_view checked = {}; // the rules and keys at fault, as they may be shown
};

class OutageLog {
  public:
    OutageLog(std::string_view backend, ngx_log_t *log) : backend_(backend), log_(log) {}

    /// At `place` so many checks got no verdict.
    void fail(const Fault &fault, std::string_view place, uint64_t failed_checks);
    /// The same, in an outage that lasts.
    void fail(uint64_t failed_checks);

    /// After a success at `place`, which may end the outage.
    void succeed(std::string_view place);
    /// Whoever failed there is no longer asked.
    void leave(std::string_view place);

    bool is_lasting() const { return outage_.is_lasting(); }

  private:
    void tell(std::string_view place, const char *what, const redis_client::Outage::Summary &ended);

    std::string_view backend_;
    ngx_log_t *log_;
    redis_client::Outage outage_;
};

} // namespace nginx_module
