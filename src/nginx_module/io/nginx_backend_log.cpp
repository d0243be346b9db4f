#include "nginx_module/io/nginx_backend_log.hpp"

#include "nginx_module/log_text.hpp"
#include "nginx_module/util.hpp"
#include "redis_client/wire/endpoint.hpp"

namespace nginx_module {

namespace {

using Place = LogText<redis_client::longest_host>;
using Cause = redis_client::BackendLog::Cause;
using End = redis_client::BackendLog::End;

const char *words_of(Cause cause, End how) {
    switch (how) {
    case End::works_again:
        break;
    case End::fails_no_more:
        return "has failed no more for 10 minutes";
    case End::no_longer_asked:
        return "is no longer asked by this worker";
    }
    switch (cause) {
    case Cause::redis:
        break;
    case Cause::keys:
        return "works again for the keys that failed";
    case Cause::clocks:
        return "works again for the calendars that failed";
    }
    return "works again";
}

static_assert(redis_client::Outage::stale == std::chrono::minutes{10});

} // namespace

void NginxBackendLog::on_outage(std::string_view backend, std::string_view place, Cause /*cause*/,
                                const redis_client::Fault &fault, std::string_view checked) {
    ngx_str_t name = to_ngx(backend);
    Place where(place);
    ngx_str_t what = to_ngx(fault.what);
    LogText<160> detail(fault.detail);
    ngx_str_t which = to_ngx(checked);
    ngx_log_error(NGX_LOG_ERR, log_, fault.error,
                  "redis_rate_limit: backend \"%V\" at %V fails: %V%s%V%V, "
                  "requests without a verdict follow on_error",
                  &name, where.shown(), &what, fault.detail.empty() ? "" : ": ", detail.shown(),
                  &which);
}

void NginxBackendLog::on_outage_end(std::string_view backend, std::string_view place, Cause cause,
                                    End how, const redis_client::Outage::Summary &outage) {
    ngx_str_t name = to_ngx(backend);
    Place where(place);
    ngx_log_error(NGX_LOG_ERR, log_, 0,
                  "redis_rate_limit: backend \"%V\" at %V %s, it failed for %M ms, "
                  "%uL checks got no verdict",
                  &name, where.shown(), words_of(cause, how),
                  static_cast<ngx_msec_t>(outage.lasted.count()), outage.failed_checks);
}

void NginxBackendLog::on_connecting([[maybe_unused]] std::string_view place) {
#if (NGX_DEBUG)
    ngx_str_t where = to_ngx(place);
    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, log_, 0, "redis_rate_limit connects to %V", &where);
#endif
}

void NginxBackendLog::on_ready() {
    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, log_, 0, "redis_rate_limit is connected and logged in");
}

void NginxBackendLog::on_lost([[maybe_unused]] size_t pending_checks) {
    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, log_, 0,
                   "redis_rate_limit has lost a connection with %uz checks", pending_checks);
}

} // namespace nginx_module
