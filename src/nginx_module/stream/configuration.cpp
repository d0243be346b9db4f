#include "nginx_module/stream/configuration.hpp"

#include "nginx_module/conf/compiled_text.hpp"
#include "nginx_module/conf/directive_readers.hpp"
#include "nginx_module/conf/resolver.hpp"
#include "nginx_module/conf/value_directives.hpp"
#include "nginx_module/util.hpp"

namespace nginx_module::stream {

namespace {

bool is_variable(ngx_conf_t *cf, std::string_view name) {
    return has_variable<ngx_stream_variable_t>(
        *static_cast<const ngx_stream_core_main_conf_t *>(
            ngx_stream_conf_get_module_main_conf(cf, ngx_stream_core_module)),
        name);
}

ngx_resolver_t *resolver(ngx_conf_t *cf) {
    const auto *core = static_cast<const ngx_stream_core_srv_conf_t *>(
        ngx_stream_conf_get_module_srv_conf(cf, ngx_stream_core_module));
    return usable_resolver(core->resolver);
}

constexpr ValueDirective<ServerConf> directives[] = {
    {"redis_rate_limit_dry_run", &ServerConf::dry_run, 0, NGX_CONF_FLAG, nullptr},
    {"redis_rate_limit_log_level", &ServerConf::log_level, NGX_LOG_ERR, NGX_CONF_TAKE1,
     read_log_level},
};

} // namespace

const Context context{
    .place = rate_limit::Place::stream,
    .name = "stream",
    .backend_prefix = "stream:",
    .module = ngx_stream_redis_rate_limit_module,
    .compile = compile_text<ngx_stream_complex_value_t, ngx_stream_compile_complex_value_t,
                            ngx_stream_compile_complex_value>,
    .is_variable = is_variable,
    .resolver = resolver};

std::span<const ngx_command_t, server_command_count> server_commands() {
    static const auto commands = commands_of(directives, NGX_STREAM_MAIN_CONF | NGX_STREAM_SRV_CONF,
                                             NGX_STREAM_SRV_CONF_OFFSET);
    return commands;
}

void *create_main_conf(ngx_conf_t *cf) noexcept {
    return pool_new<MainConf>(cf->pool, destroy<MainConf>, context);
}

void *create_server_conf(ngx_conf_t *cf) noexcept {
    return make_level<ServerConf>(cf->pool, directives);
}

char *merge_server_conf(ngx_conf_t *cf, void *outer, void *inner) noexcept {
    auto &to = *static_cast<ServerConf *>(inner);
    merge_level<ServerConf>(*static_cast<const ServerConf *>(outer), to, directives);
    if (to.rules != nullptr) {
        main_conf(cf).levels.push_back(&to);
    }
    return NGX_CONF_OK;
}

char *set_rule(ngx_conf_t *cf, ngx_command_t * /*command*/, void *conf) noexcept {
    return add_rule(cf, main_conf(cf), *static_cast<ServerConf *>(conf));
}

} // namespace nginx_module::stream
