// Sends responses of this module: whole, out of memory.
#pragma once

#include "nginx_module/http/ngx.hpp"

#include <string_view>

namespace nginx_module {

/// Sends all that the buffers of the chain hold. Returns what a content handler returns.
ngx_int_t send_content(ngx_http_request_t *r, ngx_uint_t status, std::string_view type,
                       ngx_chain_t &content);

} // namespace nginx_module
