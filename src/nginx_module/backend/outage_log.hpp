// Writes to the error log when an outage of a backend begins, and when it ends.
#pragma once

#include "nginx_module/ngx.hpp"

#include "redis_client/link/outage.hpp"

#include <cstdint>
#include <string_view>

namespace nginx_module {

struct Fault {
    std::string_view what;        // static text
    std::string_view detail = {}; // what Redis or OpenSSL said of it
    ngx_err_t error = 0;
    std::string_view checked = {}; // the rules and keys at fault, as logs may show them
};

class OutageLog {
  public:
    OutageLog(std::string_view backend, ngx_log_t *log) : backend_(backend), log_(log) {}

    /// Records a fault at `place`, and how many checks got no verdict by it. Logs it if an outage
    /// begins.
    void fail(const Fault &fault, std::string_view place, uint64_t failed_checks);
    /// Records more checks without a verdict in an outage that lasts.
    void fail(uint64_t failed_checks);

    /// Records a success at `place`. Logs the end of the outage if it ends by that.
    void succeed(std::string_view place);
    /// Logs that the Redis at `place` is no longer asked, if an outage lasts.
    void leave(std::string_view place);

    bool is_lasting() const { return outage_.is_lasting(); }

  private:
    void log_end(std::string_view place, const char *what,
                 const redis_client::Outage::Summary &ended);

    std::string_view backend_;
    ngx_log_t *log_;
    redis_client::Outage outage_;
};

} // namespace nginx_module
