// What a backend amounts to once its block has been read: whether its lines go together, and what
// goes without saying.
#pragma once

#include "../ngx.hpp"

#include "configuration.hpp"

namespace nginx_module {

/// Ports and addresses by the backend's mode, and its TLS; or the error of lines that contradict
/// each other.
char *complete_backend(ngx_conf_t *cf, BackendConf &backend);

/// The one that zones use where none is defined.
BackendConf &add_default_backend(MainConf &main);

/// Looks the names of servers up, unless `resolver` does so later, for each connection. Where the
/// resolver may be nobody's, both do. False: told and refused.
bool look_up_servers(ngx_conf_t *cf, BackendConf &backend, ngx_resolver_t *resolver);

} // namespace nginx_module
