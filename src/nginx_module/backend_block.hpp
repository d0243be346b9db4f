// The directive redis_rate_limit_backend and what stands in its block.
#pragma once

#include "ngx.hpp"

#include "conf.hpp"

namespace nginx_module {

char *set_backend(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;

/// The one that zones use where none is defined.
BackendConf &add_default_backend(MainConf &main);

/// Looks the names of servers up, unless `resolver` does so later, for each connection. False: told
/// and refused.
bool look_up_servers(ngx_conf_t *cf, BackendConf &backend, ngx_resolver_t *resolver);

} // namespace nginx_module
