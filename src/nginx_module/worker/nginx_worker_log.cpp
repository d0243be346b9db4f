#include "nginx_module/worker/nginx_worker_log.hpp"

#include "nginx_module/decisions/key_text.hpp"
#include "nginx_module/util.hpp"

namespace nginx_module {

void NginxWorkerLog::report(limiter::LeaseEvent event, uint64_t units, int64_t time_us) const {
    switch (event) {
    case limiter::LeaseEvent::asked:
        ngx_log_debug1(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                       "redis_rate_limit asks for a lease of %uL units", units);
        break;
    case limiter::LeaseEvent::leased:
        ngx_log_debug2(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                       "redis_rate_limit has leased %uL units for %L us", units, time_us);
        break;
    case limiter::LeaseEvent::returned:
        ngx_log_debug1(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                       "redis_rate_limit gives back %uL leased units", units);
        break;
    }
}

std::string_view NginxWorkerLog::describe(std::span<const limiter::AppliedRule> rules,
                                          std::span<char> out) const {
    auto *const begin = reinterpret_cast<u_char *>(out.data());
    u_char *end = begin;
    for (const limiter::AppliedRule &applied : rules) {
        KeyPhrase key(*applied.rule->zone, applied.key);
        ngx_str_t name = to_ngx(applied.rule->name);
        end = ngx_slprintf(end, begin + out.size(), ", rule \"%V\"%V", &name, key.shown());
    }
    return {out.data(), static_cast<size_t>(end - begin)};
}

} // namespace nginx_module
