#include "nginx_module/http/variables.hpp"

#include "nginx_module/decisions/variables.hpp"
#include "nginx_module/http/request_fields.hpp"
#include "nginx_module/http/request_state.hpp"

namespace nginx_module {

namespace {

struct Glue {
    using Subject = ngx_http_request_t;
    using Variable = ngx_http_variable_t;
    using CoreConf = ngx_http_core_main_conf_t;
    static constexpr auto *add = ngx_http_add_variable;
    static constexpr ngx_uint_t may_change = NGX_HTTP_VAR_NOCACHEABLE;
    static constexpr ngx_uint_t is_prefix = NGX_HTTP_VAR_PREFIX;

    static ngx_pool_t *pool(const Subject &r) { return r.pool; }
    static std::optional<Decided> decided(const Subject &r) {
        const RequestState *state = RequestState::find(r.main);
        if (state == nullptr || state->rules().first() == nullptr) {
            return std::nullopt;
        }
        return Decided{state->limits(), state->was_delayed()};
    }
    static const CoreConf &core(ngx_conf_t *cf) {
        return *static_cast<const CoreConf *>(
            ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module));
    }
};

} // namespace

ngx_int_t add_variables(ngx_conf_t *cf) noexcept {
    return add_field_variables(cf) ? Variables<Glue>::define_all(cf) : NGX_ERROR;
}

bool check_variables(ngx_conf_t *cf) {
    return Variables<Glue>::check_used(cf) && check_field_variables(cf);
}

} // namespace nginx_module
