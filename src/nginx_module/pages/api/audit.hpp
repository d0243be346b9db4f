// Who has changed what: a line in error.log for each write, and a note in Redis.
#pragma once

#include "nginx_module/http/ngx.hpp"

#include "nginx_module/pages/api/request.hpp"

#include <string_view>

namespace nginx_module {

/// Returns the client's address and, behind a space, `$remote_user`, in the pool.
std::string_view author_of(ngx_http_request_t *r);

/// Logs a write at the level `notice`. `what` is what was to be done, and `outcome` stands behind
/// it. Both may have any bytes, and are cut at 512.
void log_write(const ApiRequest &request, std::string_view what, std::string_view outcome);

} // namespace nginx_module
