// The variables that tell a session's verdicts, and its client's network.
#pragma once

#include "nginx_module/stream/ngx.hpp"

namespace nginx_module::stream {

ngx_int_t add_variables(ngx_conf_t *cf) noexcept;

/// Refuses variables whose names only look like ours. Returns false then; the log says why.
bool check_variables(ngx_conf_t *cf);

} // namespace nginx_module::stream
