// The module of stream as nginx knows it: its directives, its handlers, and what it does when a
// worker starts and ends.
#include "nginx_module/conf/directive_readers.hpp"
#include "nginx_module/conf/linking.hpp"
#include "nginx_module/stream/configuration.hpp"
#include "nginx_module/stream/phase_handlers.hpp"
#include "nginx_module/stream/stream_worker.hpp"
#include "nginx_module/stream/variables.hpp"
#include "nginx_module/worker/stream_link.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace nginx_module::stream {

namespace {

const ngx_command_t module_commands[] = {
    {ngx_string("redis_rate_limit_zone"), NGX_STREAM_MAIN_CONF | NGX_CONF_2MORE, set_zone,
     NGX_STREAM_MAIN_CONF_OFFSET, 0, nullptr},
    {ngx_string("redis_rate_limit_backend"), NGX_STREAM_MAIN_CONF | NGX_CONF_BLOCK | NGX_CONF_TAKE1,
     set_backend, NGX_STREAM_MAIN_CONF_OFFSET, 0, nullptr},
    {ngx_string("redis_rate_limit"), NGX_STREAM_MAIN_CONF | NGX_STREAM_SRV_CONF | NGX_CONF_1MORE,
     set_rule, NGX_STREAM_SRV_CONF_OFFSET, 0, nullptr},
};

/// All directives. What follows them is null, as nginx expects of the last one.
std::array commands = [] {
    std::array<ngx_command_t, std::size(module_commands) + server_command_count + 1> all{};
    std::ranges::copy(server_commands(), std::ranges::copy(module_commands, all.begin()).out);
    return all;
}();

bool add_handler(ngx_stream_core_main_conf_t &core, ngx_stream_phases phase,
                 ngx_stream_handler_pt handler) {
    auto *place =
        static_cast<ngx_stream_handler_pt *>(ngx_array_push(&core.phases[phase].handlers));
    if (place == nullptr) {
        return false;
    }
    *place = handler;
    return true;
}

/// Stands in for the content handlers of servers that have rules.
void wrap_content_handlers(const ngx_stream_core_main_conf_t &core) {
    for (auto *server :
         std::span(static_cast<ngx_stream_core_srv_conf_t *const *>(core.servers.elts),
                   core.servers.nelts)) {
        auto &conf = *static_cast<ServerConf *>(
            server->ctx->srv_conf[ngx_stream_redis_rate_limit_module.ctx_index]);
        if (conf.has_rules() && server->handler != nullptr) {
            conf.content = server->handler;
            server->handler = content_handler;
        }
    }
}

ngx_int_t postconfiguration(ngx_conf_t *cf) noexcept {
    if (!check_variables(cf) || !link_configuration(cf, main_conf(cf))) {
        return NGX_ERROR;
    }
    auto &core = *static_cast<ngx_stream_core_main_conf_t *>(
        ngx_stream_conf_get_module_main_conf(cf, ngx_stream_core_module));
    wrap_content_handlers(core);
    return add_handler(core, NGX_STREAM_SSL_PHASE, access_handler) &&
                   add_handler(core, NGX_STREAM_LOG_PHASE, log_handler)
               ? NGX_OK
               : NGX_ERROR;
}

const MainConf *main_conf_of(ngx_cycle_t *cycle) {
    return static_cast<const MainConf *>(
        ngx_stream_cycle_get_module_main_conf(cycle, ngx_stream_redis_rate_limit_module));
}

limiter::Worker *limiter_of_worker() {
    return worker != nullptr ? &worker->limiter() : nullptr;
}

const StreamLink link{.build = build(), .main_conf = main_conf_of, .limiter = limiter_of_worker};

ngx_int_t init_module(ngx_cycle_t *cycle) noexcept {
    set_latest(main_conf_of(cycle));
    return NGX_OK;
}

ngx_int_t init_process(ngx_cycle_t *cycle) noexcept {
    worker = start_worker(main_conf_of(cycle));
    return NGX_OK;
}

void exit_process(ngx_cycle_t * /*cycle*/) noexcept {
    if (worker != nullptr) {
        worker->stop();
    }
}

ngx_stream_module_t module_context = {
    add_variables,      // preconfiguration
    postconfiguration,  //
    create_main_conf,   //
    nullptr,            // init main configuration
    create_server_conf, //
    merge_server_conf,
};

} // namespace

} // namespace nginx_module::stream

ngx_module_t ngx_stream_redis_rate_limit_module = {
    NGX_MODULE_V1,
    &nginx_module::stream::module_context,
    nginx_module::stream::commands.data(),
    NGX_STREAM_MODULE,
    nullptr,                                                  // init master
    nginx_module::stream::init_module,                        //
    nginx_module::stream::init_process,                       //
    nullptr,                                                  // init thread
    nullptr,                                                  // exit thread
    nginx_module::stream::exit_process,                       //
    nullptr,                                                  // exit master
    reinterpret_cast<uintptr_t>(&nginx_module::stream::link), // spare_hook0, see StreamLink
    0,
    0,
    0,
    0,
    0,
    0,
    0,
};
