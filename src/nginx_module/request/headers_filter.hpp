// Rate-limit headers on responses, whatever made them and whatever their status.
#pragma once

#include "../ngx.hpp"

namespace nginx_module {

ngx_int_t headers_filter(ngx_http_request_t *r) noexcept;

/// The next filter, as nginx chains them; set at configuration.
extern ngx_http_output_header_filter_pt next_headers_filter;

} // namespace nginx_module
