// What a server of stream says, and how sessions find their configuration.
#pragma once

#include "nginx_module/stream/ngx.hpp"

#include "nginx_module/conf/configuration.hpp"

#include <span>

namespace nginx_module::stream {

struct ServerConf : LevelConf {
    ngx_stream_content_handler_pt content; // what goes on with a session that passes its rules
};

extern const Context context;

void *create_main_conf(ngx_conf_t *cf) noexcept;
void *create_server_conf(ngx_conf_t *cf) noexcept;
char *merge_server_conf(ngx_conf_t *cf, void *outer, void *inner) noexcept;
char *set_rule(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;

inline constexpr size_t server_command_count = 2;
/// The directives that set one value of a server.
std::span<const ngx_command_t, server_command_count> server_commands();

inline MainConf &main_conf(ngx_conf_t *cf) {
    return *static_cast<MainConf *>(
        ngx_stream_conf_get_module_main_conf(cf, ngx_stream_redis_rate_limit_module));
}

inline const ServerConf &server_conf(ngx_stream_session_t *s) {
    return *static_cast<const ServerConf *>(
        ngx_stream_get_module_srv_conf(s, ngx_stream_redis_rate_limit_module));
}

} // namespace nginx_module::stream
