// What a content handler of this module answers.
#pragma once

#include "../ngx.hpp"

#include <string_view>

namespace nginx_module {

/// NGX_OK for GET and HEAD, whose body is of no interest; else the status to return.
ngx_int_t accept_reader(ngx_http_request_t *r);

/// Sends all that the buffers of the chain hold, with status 200. Returns what a handler does.
ngx_int_t send_content(ngx_http_request_t *r, std::string_view type, ngx_chain_t &content);

} // namespace nginx_module
