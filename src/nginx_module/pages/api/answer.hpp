// The answers of the operator's API: JSON, also for what went wrong.
#pragma once

#include "nginx_module/http/ngx.hpp"

#include "nginx_module/http/json_writer.hpp"
#include "rate_limit/text/text_writer.hpp"

#include <string_view>

namespace nginx_module {

struct ApiError {
    ngx_uint_t status;
    std::string_view name;           // for programs, such as `unknown_zone`
    std::string_view description;    // for people, in valid UTF-8, in the request's pool or static
    bool is_outcome_unknown = false; // a command was sent and not answered
    std::string_view allowed_methods{}; // with status 405
};

/// Writes pieces of text one behind another into the pool, at most 1024 bytes of valid UTF-8 in
/// all. Returns a text that says so if memory ran out.
template <typename... Piece>
std::string_view describe(ngx_pool_t *pool, const Piece &...pieces) {
    constexpr size_t longest = 1024;
    auto *text = static_cast<char *>(ngx_pnalloc(pool, longest));
    if (text == nullptr) {
        return "out of memory";
    }
    rate_limit::TextWriter writer(std::span<char>(text, longest));
    (writer << ... << pieces);
    return {text, std::min(writer.size(), longest)};
}

/// These two send the whole answer, and return what a content handler returns. `text` is of
/// JsonWriter::finish(). A request's body is discarded if it has not been read.
ngx_int_t send_json(ngx_http_request_t *r, ngx_chain_t text);
ngx_int_t send_error(ngx_http_request_t *r, const ApiError &error);

} // namespace nginx_module
