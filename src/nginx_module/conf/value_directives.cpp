#include "nginx_module/conf/value_directives.hpp"

namespace nginx_module {

char *read_log_level(ngx_conf_t *cf, std::span<const ngx_str_t> values, ngx_uint_t &log_level) {
    constexpr NamedChoice levels[] = {{"info", NGX_LOG_INFO},
                                      {"notice", NGX_LOG_NOTICE},
                                      {"warn", NGX_LOG_WARN},
                                      {"error", NGX_LOG_ERR}};
    const auto level = choose(levels, view(values[0]));
    if (!level) {
        return refuse(cf, "redis_rate_limit_log_level", "level", view(values[0]),
                      "info, notice, warn or error");
    }
    log_level = *level;
    return NGX_CONF_OK;
}

char *set_flag(ngx_conf_t *cf, ngx_command_t *command, ngx_uint_t &flag) {
    static_assert(sizeof(ngx_flag_t) == sizeof(ngx_uint_t));
    static_assert(static_cast<ngx_uint_t>(NGX_CONF_UNSET) == NGX_CONF_UNSET_UINT);
    ngx_command_t at_once = *command;
    at_once.offset = 0;
    at_once.post = nullptr;
    return ngx_conf_set_flag_slot(cf, &at_once, &flag);
}

char *refuse_second(ngx_conf_t *cf, std::string_view directive, std::string_view value) {
    return refuse(cf, directive.data(), "second value", value, "one on a level");
}

} // namespace nginx_module
