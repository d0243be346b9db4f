#include "nginx_module/pages/shown_limits.hpp"

#include "nginx_module/http/configuration.hpp"
#include "nginx_module/http/http_worker.hpp"
#include "nginx_module/worker/stream_link.hpp"

#include <string_view>

namespace nginx_module {

namespace {

/// Returns null if nginx has no such module.
const StreamLink *find_stream(const ngx_cycle_t *cycle) {
    for (ngx_module_t *const *module = cycle->modules; *module != nullptr; ++module) {
        if (std::string_view((*module)->name) == "ngx_stream_redis_rate_limit_module") {
            // NOLINTNEXTLINE(performance-no-int-to-ptr): nginx's hooks are numbers
            return reinterpret_cast<const StreamLink *>((*module)->spare_hook0);
        }
    }
    return nullptr;
}

bool is_of_this_build(const StreamLink &stream) {
    return std::string_view(stream.build) == build();
}

} // namespace

AllLimits::AllLimits() {
    auto *cycle = const_cast<ngx_cycle_t *>(ngx_cycle); // nginx's macros take it as one of theirs
    const auto *http = static_cast<const MainConf *>(
        ngx_http_cycle_get_module_main_conf(cycle, ngx_http_redis_rate_limit_module));
    all_[size_++] = {http, &http_worker->limiter()};
    const StreamLink *stream = find_stream(cycle);
    if (stream == nullptr || !is_of_this_build(*stream)) {
        return;
    }
    if (const MainConf *conf = stream->main_conf(cycle)) {
        all_[size_++] = {conf, stream->limiter()};
    }
}

void warn_of_other_build(ngx_cycle_t *cycle) {
    const StreamLink *stream = find_stream(cycle);
    if (stream != nullptr && !is_of_this_build(*stream)) {
        ngx_log_error(
            NGX_LOG_WARN, cycle->log, 0,
            "redis_rate_limit: the module of stream is of another build (%s) than that of "
            "http (%s), pages and API show no zones of stream",
            stream->build, build());
    }
}

} // namespace nginx_module
