#include "nginx_module/http/send_content.hpp"

#include "nginx_module/util.hpp"

namespace nginx_module {

ngx_int_t send_content(ngx_http_request_t *r, ngx_uint_t status, std::string_view type,
                       ngx_chain_t &content) {
    off_t size = 0;
    ngx_chain_t *last = &content;
    for (ngx_chain_t *link = &content; link != nullptr; link = link->next) {
        size += link->buf->last - link->buf->pos;
        last = link;
    }
    last->buf->last_buf = r == r->main ? 1 : 0;
    last->buf->last_in_chain = 1;
    r->headers_out.status = status;
    r->headers_out.content_type = to_ngx(type);
    r->headers_out.content_type_len = type.substr(0, type.find(';')).size();
    r->headers_out.content_length_n = size;
    const ngx_int_t sent = ngx_http_send_header(r);
    if (sent == NGX_ERROR || sent > NGX_OK || r->header_only) {
        return sent;
    }
    return ngx_http_output_filter(r, &content);
}

} // namespace nginx_module
