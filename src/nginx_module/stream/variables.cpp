#include "nginx_module/stream/variables.hpp"

#include "nginx_module/decisions/variables.hpp"
#include "nginx_module/stream/session_state.hpp"
#include "rate_limit/text/field_value.hpp"

namespace nginx_module::stream {

namespace {

struct Glue {
    using Subject = ngx_stream_session_t;
    using Variable = ngx_stream_variable_t;
    using CoreConf = ngx_stream_core_main_conf_t;
    static constexpr auto *add = ngx_stream_add_variable;
    static constexpr ngx_uint_t may_change = NGX_STREAM_VAR_NOCACHEABLE;
    static constexpr ngx_uint_t is_prefix = NGX_STREAM_VAR_PREFIX;

    static ngx_pool_t *pool(const Subject &s) { return s.connection->pool; }
    static std::optional<Decided> decided(Subject &s) {
        const SessionState *state = SessionState::find(&s);
        if (state == nullptr || state->limits().rules().first() == nullptr) {
            return std::nullopt;
        }
        return Decided{state->limits(), state->was_delayed()};
    }
    static const CoreConf &core(ngx_conf_t *cf) {
        return *static_cast<const CoreConf *>(
            ngx_stream_conf_get_module_main_conf(cf, ngx_stream_core_module));
    }
};

} // namespace

ngx_int_t add_variables(ngx_conf_t *cf) noexcept {
    return Variables<Glue>::define_all(cf);
}

bool check_variables(ngx_conf_t *cf) {
    const auto *of_requests = Variables<Glue>::find_used(cf, rate_limit::is_field_variable);
    if (of_requests != nullptr) { // nginx would say that it is unknown
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "redis_rate_limit: variable \"$%V\" is of requests, expected it in http",
                      &of_requests->name);
        return false;
    }
    return Variables<Glue>::check_used(cf);
}

} // namespace nginx_module::stream
