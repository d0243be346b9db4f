// The variables `$redis_rate_limit_bearer` and `$redis_rate_limit_field_NAME`, which take clients'
// credentials from the fields of their requests; see "Variables" in docs/responses.md.
#pragma once

#include "nginx_module/http/ngx.hpp"

namespace nginx_module {

/// Adds the variables to nginx. Returns false if memory ran out.
bool add_field_variables(ngx_conf_t *cf);

/// Refuses a `$redis_rate_limit_field_` without a name, and keeps which of the variables the
/// configuration uses. Called when all directives have been read. Returns false if one is refused;
/// the log says so.
bool check_field_variables(ngx_conf_t *cf);

/// Evaluates the variables that the configuration uses when the request has come, before other
/// modules change its fields. nginx keeps their values. It is registered only if some are used.
ngx_int_t post_read_handler(ngx_http_request_t *r) noexcept;

} // namespace nginx_module
