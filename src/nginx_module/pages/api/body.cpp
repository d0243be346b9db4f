#include "nginx_module/pages/api/body.hpp"

#include "nginx_module/util.hpp"

#include <algorithm>
#include <array>

namespace nginx_module {

namespace {

constexpr ApiError too_long = {.status = NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                               .name = "too_large",
                               .description = "body, expected at most 4096 bytes"};

/// A body on its way. nginx keeps at most a buffer of it: it is taken from there as it comes, so
/// that its size is known before nginx writes it to a file. But if another module has read it, as
/// `mirror` does, it is all there, perhaps in a file, and others need it, too.
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

enum class Taken { all, too_much, unreadable };

/// Copies what the buffers hold.
Taken copy_bytes(Body &body, const ngx_chain_t *from) {
    for (const ngx_chain_t *link = from; link != nullptr; link = link->next) {
        const ngx_buf_t *buffer = link->buf; // macros of nginx 1.18 take no expression
        const auto size = static_cast<size_t>(ngx_buf_size(buffer));
        if (size > longest_api_body - body.size) {
            return Taken::too_much;
        }
        auto *to = reinterpret_cast<u_char *>(body.bytes.data()) + body.size;
        if (size == 0) {
            continue; // the last one may be a mark of the end, and have neither memory nor a file
        }
        if (ngx_buf_in_memory(buffer)) {
            std::copy(buffer->pos, buffer->last, to);
        } else if (ngx_read_file(buffer->file, to, size, buffer->file_pos) !=
                   static_cast<ssize_t>(size)) {
            return Taken::unreadable;
        }
        body.size += size;
    }
    return Taken::all;
}

/// Takes what has come of the body, so that nginx may use its buffers again.
Taken take_bytes(Body &body) {
    ngx_chain_t *&come = body.request.r->request_body->bufs;
    const Taken taken = copy_bytes(body, come);
    for (const ngx_chain_t *link = come; link != nullptr; link = link->next) {
        link->buf->pos = link->buf->last;
    }
    come = nullptr;
    return taken;
}

void finish(ngx_http_request_t *r, ngx_int_t result) {
    r->read_event_handler = ngx_http_block_reading;
    ngx_http_finalize_request(r, result);
}

/// The body is there, or as much of it as is taken.
ngx_int_t act(Body &body, Taken taken) {
    switch (taken) {
    case Taken::all:
        body.request.body = {body.bytes.data(), body.size};
        return body.action(body.request);
    case Taken::too_much:
        return send_error(body.request.r, too_long);
    case Taken::unreadable:
        break;
    }
    return NGX_HTTP_INTERNAL_SERVER_ERROR;
}

void on_body(ngx_http_request_t *r) noexcept {
    Body &body = *find(r);
    while (true) {
        const Taken taken = take_bytes(body);
        if (taken != Taken::all || !r->reading_body) {
            return finish(r, act(body, taken));
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
    Body *body = pool_new<Body>(r->pool, end_of_body, request, action);
    if (body == nullptr) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    const bool is_read_or_discarded = r->request_body != nullptr || r->discard_body != 0;
    if (is_read_or_discarded) {
        const ngx_chain_t *shared = r->request_body != nullptr ? r->request_body->bufs : nullptr;
        return act(*body, copy_bytes(*body, shared));
    }
    r->request_body_no_buffering = 1;
    const ngx_int_t result = ngx_http_read_client_request_body(r, on_body);
    return result >= NGX_HTTP_SPECIAL_RESPONSE ? result : NGX_DONE;
}

} // namespace nginx_module
