// Adds headers to responses.
#pragma once

#include "nginx_module/http/ngx.hpp"

#include "nginx_module/util.hpp"

#include <string_view>

namespace nginx_module {

/// Adds a header to the response. Both texts belong to the request's pool or are static. Returns
/// false if memory ran out.
inline bool add_header(ngx_http_request_t *r, std::string_view name, std::string_view value) {
    auto *header = static_cast<ngx_table_elt_t *>(ngx_list_push(&r->headers_out.headers));
    if (header == nullptr) {
        return false;
    }
    *header = ngx_table_elt_t{};
    header->hash = 1;
    header->key = to_ngx(name);
    header->value = to_ngx(value);
    return true;
}

} // namespace nginx_module
