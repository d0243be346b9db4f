// Sends the responses of this module's content handlers.
#pragma once

#include "../ngx.hpp"

#include <string_view>

namespace nginx_module {

/// Returns NGX_OK for GET and HEAD, and discards the request's body, which is of no interest.
/// Otherwise returns the status that the handler must return.
ngx_int_t accept_reader(ngx_http_request_t *r);

/// Sends all that the buffers of the chain hold. Returns the handler's result.
ngx_int_t send_content(ngx_http_request_t *r, ngx_uint_t status, std::string_view type,
                       ngx_chain_t &content);

} // namespace nginx_module
