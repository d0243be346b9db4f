// What all pages do with a request before they answer it.
#pragma once

#include "../ngx.hpp"

namespace nginx_module {

/// Returns NGX_OK for GET and HEAD, and discards the request's body, which is of no interest.
/// Otherwise returns the status that the handler must return.
ngx_int_t accept_reader(ngx_http_request_t *r);

} // namespace nginx_module
