// The variables `$redis_rate_limit_...`; see "Variables" in docs/responses.md.
#pragma once

#include "../ngx.hpp"

namespace nginx_module {

/// Adds the variables to nginx. Returns NGX_OK or NGX_ERROR.
ngx_int_t add_variables(ngx_conf_t *cf) noexcept;

} // namespace nginx_module
