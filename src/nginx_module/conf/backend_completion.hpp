// Checks and completes a backend once its block has been read: contradictions between its lines,
// default ports and servers, TLS, and the addresses of its servers.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/conf/configuration.hpp"

namespace nginx_module {

/// Sets default servers and ports by the backend's mode, and makes its TLS context. Returns
/// NGX_CONF_ERROR if lines contradict each other or name unusable files; the log says which.
char *complete_backend(ngx_conf_t *cf, BackendConf &backend);

/// Adds the backend `default`. Zones that name no other backend use it, if no block defines it.
BackendConf &add_default_backend(MainConf &main);

/// Looks up the names of servers, unless `resolver` does so later, for each connection. If the
/// resolver may be one that nobody configured, both happen. Returns false if the configuration is
/// refused; the log says why.
bool look_up_servers(ngx_conf_t *cf, BackendConf &backend, ngx_resolver_t *resolver);

} // namespace nginx_module
