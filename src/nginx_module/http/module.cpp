// The module as nginx knows it: its directives, its phase handlers and filters, and what it does
// when a worker starts and ends. To nginx it is two: the second one has the filters that read
// responses, and another place in the chain of filters (see ngx_module_order in `config`).
#include "nginx_module/http/ngx.hpp"

#include "nginx_module/conf/directive_readers.hpp"
#include "nginx_module/conf/linking.hpp"
#include "nginx_module/http/configuration.hpp"
#include "nginx_module/http/headers_filter.hpp"
#include "nginx_module/http/http_worker.hpp"
#include "nginx_module/http/location_warnings.hpp"
#include "nginx_module/http/phase_handlers.hpp"
#include "nginx_module/http/request_fields.hpp"
#include "nginx_module/http/response_filter.hpp"
#include "nginx_module/http/variables.hpp"
#include "nginx_module/pages/page_directives.hpp"
#include "nginx_module/pages/shown_limits.hpp"

#include <algorithm>
#include <array>

namespace nginx_module {

namespace {

constexpr ngx_uint_t everywhere = NGX_HTTP_MAIN_CONF | NGX_HTTP_SRV_CONF | NGX_HTTP_LOC_CONF;

const ngx_command_t module_commands[] = {
    {ngx_string("redis_rate_limit_zone"), NGX_HTTP_MAIN_CONF | NGX_CONF_2MORE, set_zone,
     NGX_HTTP_MAIN_CONF_OFFSET, 0, nullptr},
    {ngx_string("redis_rate_limit_backend"), NGX_HTTP_MAIN_CONF | NGX_CONF_BLOCK | NGX_CONF_TAKE1,
     set_backend, NGX_HTTP_MAIN_CONF_OFFSET, 0, nullptr},
    {ngx_string("redis_rate_limit"), everywhere | NGX_HTTP_LIF_CONF | NGX_CONF_1MORE, set_rule,
     NGX_HTTP_LOC_CONF_OFFSET, 0, nullptr},
    {ngx_string("redis_rate_limit_response_value"), everywhere | NGX_CONF_TAKE2, set_response_value,
     NGX_HTTP_LOC_CONF_OFFSET, 0, nullptr},
    {ngx_string("redis_rate_limit_metrics"), NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS | NGX_CONF_TAKE1,
     set_metrics, NGX_HTTP_LOC_CONF_OFFSET, 0, nullptr},
    {ngx_string("redis_rate_limit_dashboard"), NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS | NGX_CONF_TAKE1,
     set_dashboard, NGX_HTTP_LOC_CONF_OFFSET, 0, nullptr},
    {ngx_string("redis_rate_limit_api"), NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS | NGX_CONF_TAKE1,
     set_api, NGX_HTTP_LOC_CONF_OFFSET, 0, nullptr},
};

/// All directives. What follows them is null, as nginx expects of the last one.
std::array commands = [] {
    std::array<ngx_command_t, std::size(module_commands) + location_command_count + 1> all{};
    std::ranges::copy(location_commands(), std::ranges::copy(module_commands, all.begin()).out);
    return all;
}();

bool add_handler(ngx_conf_t *cf, ngx_http_phases phase, ngx_http_handler_pt handler) {
    auto *core = static_cast<ngx_http_core_main_conf_t *>(
        ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module));
    auto *place = static_cast<ngx_http_handler_pt *>(ngx_array_push(&core->phases[phase].handlers));
    if (place == nullptr) {
        return false;
    }
    *place = handler;
    return true;
}

ngx_int_t postconfiguration(ngx_conf_t *cf) noexcept {
    if (!check_variables(cf) || !link_configuration(cf, main_conf(cf))) {
        return NGX_ERROR;
    }
    if (!add_handler(cf, NGX_HTTP_ACCESS_PHASE, access_handler) ||
        !add_handler(cf, NGX_HTTP_PRECONTENT_PHASE, precontent_handler)) {
        return NGX_ERROR;
    }
    warn_of_locations(cf, main_conf(cf));
    if (!main_conf(cf).field_variables.empty() &&
        !add_handler(cf, NGX_HTTP_POST_READ_PHASE, post_read_handler)) {
        return NGX_ERROR;
    }
    const auto settles = [](const auto &rule) { return rule->has_final_cost(); };
    if (std::ranges::any_of(main_conf(cf).rules, settles) &&
        !add_handler(cf, NGX_HTTP_LOG_PHASE, log_handler)) {
        return NGX_ERROR;
    }
    set_response_variables(main_conf(cf));
    next_headers_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = headers_filter;
    return NGX_OK;
}

ngx_int_t response_postconfiguration(ngx_conf_t *cf) noexcept {
    if (!main_conf(cf).response_values.empty()) {
        add_response_filters();
    }
    return NGX_OK;
}

const MainConf *main_conf_of(ngx_cycle_t *cycle) {
    return static_cast<const MainConf *>(
        ngx_http_cycle_get_module_main_conf(cycle, ngx_http_redis_rate_limit_module));
}

ngx_int_t init_module(ngx_cycle_t *cycle) noexcept {
    set_latest(main_conf_of(cycle));
    warn_of_other_build(cycle);
    return NGX_OK;
}

ngx_int_t init_process(ngx_cycle_t *cycle) noexcept {
    http_worker = start_worker(main_conf_of(cycle));
    return NGX_OK;
}

void exit_process(ngx_cycle_t * /*cycle*/) noexcept {
    if (http_worker != nullptr) {
        http_worker->stop();
    }
}

ngx_http_module_t module_context = {
    add_variables,        // preconfiguration
    postconfiguration,    //
    create_main_conf,     //
    nullptr,              // init main configuration
    nullptr,              // create server configuration
    nullptr,              // merge server configuration
    create_location_conf, //
    merge_location_conf,
};

ngx_http_module_t response_module_context = {
    nullptr,                    // preconfiguration
    response_postconfiguration, //
    nullptr,                    // create main configuration
    nullptr,                    // init main configuration
    nullptr,                    // create server configuration
    nullptr,                    // merge server configuration
    nullptr,                    // create location configuration
    nullptr,                    // merge location configuration
};

} // namespace

} // namespace nginx_module

ngx_module_t ngx_http_redis_rate_limit_module = {
    NGX_MODULE_V1,
    &nginx_module::module_context,
    nginx_module::commands.data(),
    NGX_HTTP_MODULE,
    nullptr,                    // init master
    nginx_module::init_module,  //
    nginx_module::init_process, //
    nullptr,                    // init thread
    nullptr,                    // exit thread
    nginx_module::exit_process, //
    nullptr,                    // exit master
    NGX_MODULE_V1_PADDING,
};

ngx_module_t ngx_http_redis_rate_limit_response_module = {
    NGX_MODULE_V1,
    &nginx_module::response_module_context,
    nullptr, // its directive is the other module's
    NGX_HTTP_MODULE,
    nullptr, // init master
    nullptr, // init module
    nullptr, // init process
    nullptr, // init thread
    nullptr, // exit thread
    nullptr, // exit process
    nullptr, // exit master
    NGX_MODULE_V1_PADDING,
};
