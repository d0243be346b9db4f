#include "api_body.hpp"

#include "../../rate_limit/text.hpp"
#include "../util.hpp"

#include <algorithm>
#include <array>

namespace nginx_module {

namespace {

constexpr ApiError too_long = {.status = NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                               .name = "too_large",
                               .description = "body, expected at most 4096 bytes"};

/// A body on its way. nginx keeps at most a buffer of it: it is taken from there as it comes, so
/// that its size is known before nginx writes it to a file.
struct Body {
    ApiRequest &request;
    ApiAction action;
    size_t size = 0;
    std::array<char, longest_api_body + 1> bytes{};
};

/// find() finds the body of a request by this handler.
void end_of_body(void * /*body*/) noexcept {}

/// Returns the body that is read. nginx's handlers are given no more than the request.
Body *find(ngx_http_request_t *r) {
    for (const auto *cleanup = r->pool->cleanup; cleanup != nullptr; cleanup = cleanup->next) {
        if (cleanup->handler == end_of_body) {
            return static_cast<Body *>(cleanup->data);
        }
    }
    return nullptr;
}

/// Whether the type is application/json, perhaps with parameters.
bool is_json(ngx_http_request_t *r) {
    constexpr std::string_view json = "application/json";
    const ngx_table_elt_t *header = r->headers_in.content_type;
    if (header == nullptr) {
        return false;
    }
    std::string_view type = view(header->value);
    type = type.substr(0, type.find(';'));
    type = type.substr(0, type.find_last_not_of(" \t") + 1);
    return std::ranges::equal(type, json,
                              [](char c, char expected) { return ngx_tolower(c) == expected; });
}

/// Takes what has come of the body. Returns false if that is too much.
bool take_bytes(Body &body) {
    ngx_http_request_body_t *come = body.request.r->request_body;
    for (ngx_chain_t *link = come->bufs; link != nullptr; link = link->next) {
        ngx_buf_t &buffer = *link->buf;
        const auto size = static_cast<size_t>(buffer.last - buffer.pos);
        if (size > longest_api_body - body.size) {
            return false;
        }
        std::copy(buffer.pos, buffer.last, body.bytes.begin() + static_cast<ptrdiff_t>(body.size));
        body.size += size;
        buffer.pos = buffer.last; // nginx may use the buffer again
    }
    come->bufs = nullptr;
    return true;
}

void finish(ngx_http_request_t *r, ngx_int_t result) {
    r->read_event_handler = ngx_http_block_reading;
    ngx_http_finalize_request(r, result);
}

void on_body(ngx_http_request_t *r) noexcept {
    Body &body = *find(r);
    while (true) {
        if (!take_bytes(body)) {
            return finish(r, send_error(r, too_long));
        }
        if (!r->reading_body) {
            body.request.body = {body.bytes.data(), body.size};
            return finish(r, body.action(body.request));
        }
        const ngx_int_t result = ngx_http_read_unbuffered_request_body(r);
        if (result >= NGX_HTTP_SPECIAL_RESPONSE) {
            return finish(r, result);
        }
        if (result == NGX_AGAIN && r->request_body->bufs == nullptr) {
            r->read_event_handler = on_body;
            return;
        }
    }
}

} // namespace

ngx_int_t read_api_body(ApiRequest &request, ApiAction action) {
    ngx_http_request_t *r = request.r;
    if (!is_json(r)) {
        return send_error(r, {.status = NGX_HTTP_UNSUPPORTED_MEDIA_TYPE,
                              .name = "unsupported_media_type",
                              .description = "Content-Type, expected application/json"});
    }
    if (r->headers_in.content_length_n > static_cast<off_t>(longest_api_body)) {
        return send_error(r, too_long);
    }
    if (pool_new<Body>(r->pool, end_of_body, request, action) == nullptr) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    r->request_body_no_buffering = 1;
    const ngx_int_t result = ngx_http_read_client_request_body(r, on_body);
    return result >= NGX_HTTP_SPECIAL_RESPONSE ? result : NGX_DONE;
}

} // namespace nginx_module
