// What the error log tells of the faults of a backend: that they begin, and that they end.
#pragma once

#include "ngx.hpp"

#include "../rate_limit/episode.hpp"

#include <cstdint>
#include <string_view>

namespace nginx_module {

struct Fault {
    std::string_view what;        // static text
    std::string_view detail = {}; // in the words of Redis, or of OpenSSL
    ngx_err_t error = 0;
    std::string_view checked = {}; // the rules and keys at fault, as they may be shown
};

class FaultLog {
  public:
    FaultLog(std::string_view backend, ngx_log_t *log) : backend_(backend), log_(log) {}

    /// At `place` so many checks got no verdict.
    void fail(const Fault &fault, std::string_view place, uint64_t failed_checks);
    /// The same, in an episode that lasts.
    void fail(uint64_t failed_checks);

    /// After a success at `place`, which may end the episode.
    void succeed(std::string_view place);
    /// Whoever failed there is no longer asked.
    void leave(std::string_view place);

    bool is_lasting() const { return episode_.is_lasting(); }

  private:
    void tell(std::string_view place, const char *what, const rate_limit::Episode::Summary &ended);

    std::string_view backend_;
    ngx_log_t *log_;
    rate_limit::Episode episode_;
};

} // namespace nginx_module
