// The directive redis_rate_limit_backend and what stands in its block.
#pragma once

#include "ngx.hpp"

#include "conf.hpp"

#include <string_view>

namespace nginx_module {

char *set_backend(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;

/// Adds the addresses of `host`, `host:port` or `unix:/path`. False: told and refused.
bool add_server(ngx_conf_t *cf, BackendConf &backend, std::string_view server);

} // namespace nginx_module
