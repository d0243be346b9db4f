#include "nginx_module/pages/page_response.hpp"

namespace nginx_module {

bool skips_access(const ngx_http_request_t *r) {
    return r != r->main;
}

ngx_int_t accept_reader(ngx_http_request_t *r) {
    if ((r->method & (NGX_HTTP_GET | NGX_HTTP_HEAD)) == 0) {
        return NGX_HTTP_NOT_ALLOWED;
    }
    return ngx_http_discard_request_body(r);
}

} // namespace nginx_module
