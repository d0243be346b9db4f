#include "nginx_module/backend/outage_log.hpp"

#include "nginx_module/log_text.hpp"
#include "nginx_module/util.hpp"
#include "redis_client/wire/endpoint.hpp"

namespace nginx_module {

namespace {

/// An address, or a name that comes from some Redis.
using Place = LogText<redis_client::longest_host>;

} // namespace

void OutageLog::fail(const Fault &fault, std::string_view place, uint64_t failed_checks) {
    if (!outage_.fail(now(), failed_checks)) {
        return;
    }
    ngx_str_t name = to_ngx(backend_);
    Place where(place);
    ngx_str_t what = to_ngx(fault.what);
    LogText<160> detail(fault.detail);
    ngx_str_t checked = to_ngx(fault.checked);
    ngx_log_error(NGX_LOG_ERR, log_, fault.error,
                  "redis_rate_limit: backend \"%V\" at %V fails: %V%s%V%V, "
                  "requests without a verdict follow on_error",
                  &name, where.shown(), &what, fault.detail.empty() ? "" : ": ", detail.shown(),
                  &checked);
}

void OutageLog::fail(uint64_t failed_checks) {
    (void)outage_.fail(now(), failed_checks);
}

void OutageLog::succeed(std::string_view place) {
    if (const auto ended = outage_.succeed(now())) {
        log_end(place, "works again", *ended);
    }
}

void OutageLog::leave(std::string_view place) {
    if (outage_.is_lasting()) {
        log_end(place, "is no longer asked", outage_.end());
    }
}

void OutageLog::log_end(std::string_view place, const char *what,
                        const redis_client::Outage::Summary &ended) {
    ngx_str_t name = to_ngx(backend_);
    Place where(place);
    ngx_log_error(NGX_LOG_ERR, log_, 0,
                  "redis_rate_limit: backend \"%V\" at %V %s, it failed for %M ms, "
                  "%uL checks got no verdict",
                  &name, where.shown(), what, static_cast<ngx_msec_t>(ended.lasted.count()),
                  ended.failed_checks);
}

} // namespace nginx_module
