// How http compiles texts, and where its resolver is.
#include "nginx_module/conf/compiled_text.hpp"
#include "nginx_module/conf/resolver.hpp"
#include "nginx_module/http/configuration.hpp"
#include "nginx_module/util.hpp"

namespace nginx_module {

namespace {

bool is_variable(ngx_conf_t *cf, std::string_view name) {
    return has_variable<ngx_http_variable_t>(
        *static_cast<const ngx_http_core_main_conf_t *>(
            ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module)),
        name);
}

ngx_resolver_t *resolver(ngx_conf_t *cf) {
    const auto *core = static_cast<const ngx_http_core_loc_conf_t *>(
        ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module));
    return usable_resolver(core->resolver);
}

} // namespace

const Context http_context{
    .place = rate_limit::Place::http,
    .name = "http",
    .backend_prefix = "",
    .module = ngx_http_redis_rate_limit_module,
    .compile = compile_text<ngx_http_complex_value_t, ngx_http_compile_complex_value_t,
                            ngx_http_compile_complex_value>,
    .is_variable = is_variable,
    .resolver = resolver};

void *create_main_conf(ngx_conf_t *cf) noexcept {
    MainConf *conf = pool_new<HttpMainConf>(cf->pool, destroy<HttpMainConf>, http_context);
    return conf;
}

} // namespace nginx_module
