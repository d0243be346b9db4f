// The variables `$redis_rate_limit_...`; see "Variables" in docs/responses.md.
#pragma once

#include "nginx_module/http/ngx.hpp"

namespace nginx_module {

/// Adds the variables to nginx. Returns NGX_OK or NGX_ERROR.
ngx_int_t add_variables(ngx_conf_t *cf) noexcept;

/// Refuses a `$redis_rate_limit_addr_...` with a wrong number of bits, which nginx takes for ours
/// as it takes any `$arg_...`. Called when all directives have been read. Returns false if there is
/// one; the log says so.
bool check_variables(ngx_conf_t *cf);

} // namespace nginx_module
