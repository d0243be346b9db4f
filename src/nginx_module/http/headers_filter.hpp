// Adds the rate limit headers to responses, whatever made them and whatever their status is.
#pragma once

#include "nginx_module/http/ngx.hpp"

namespace nginx_module {

ngx_int_t headers_filter(ngx_http_request_t *r) noexcept;

/// The next header filter in nginx's chain. It is set when the configuration is read.
extern ngx_http_output_header_filter_pt next_headers_filter;

} // namespace nginx_module
