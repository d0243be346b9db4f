#include "nginx_module/pages/api/answer.hpp"

#include "nginx_module/http/add_header.hpp"
#include "nginx_module/http/send_content.hpp"
#include "nginx_module/util.hpp"

namespace nginx_module {

namespace {

ngx_int_t send(ngx_http_request_t *r, ngx_uint_t status, ngx_chain_t text) {
    const ngx_int_t discarded = ngx_http_discard_request_body(r);
    if (discarded != NGX_OK) {
        return discarded;
    }
    if (text.buf == nullptr || !add_header(r, "Cache-Control", "no-store") ||
        !add_header(r, "Cross-Origin-Resource-Policy", "same-origin") ||
        !add_header(r, "X-Content-Type-Options", "nosniff")) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return send_content(r, status, "application/json", text);
}

} // namespace

ngx_int_t send_json(ngx_http_request_t *r, ngx_chain_t text) {
    return send(r, NGX_HTTP_OK, text);
}

ngx_int_t send_error(ngx_http_request_t *r, const ApiError &error) {
    if (error.status == NGX_HTTP_NOT_ALLOWED && !add_header(r, "Allow", error.allowed_methods)) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    JsonWriter json(r->pool);
    json.begin_object();
    json.member("error", error.name);
    json.member("description", error.description);
    if (error.is_outcome_unknown) {
        json.member("outcome", std::string_view("unknown"));
    }
    json.end_object();
    return send(r, error.status, json.finish());
}

} // namespace nginx_module
