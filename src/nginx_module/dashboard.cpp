#include "dashboard.hpp"

#include "../rate_limit/embed.hpp"
#include "metrics.hpp"
#include "response.hpp"
#include "util.hpp"

#include <openssl/sha.h>

#include <array>
#include <string>

EMBED(redis_rate_limit_page_html, "dashboard/page.html");
EMBED(redis_rate_limit_page_css, "dashboard/page.css");
EMBED(redis_rate_limit_page_js, "dashboard/page.js");

namespace nginx_module {

namespace {

using rate_limit::embedded;

/// The page in the pieces that it is made of: its style and its script stand in the HTML where
/// these comments do.
struct Page {
    std::array<std::string_view, 5> pieces;

    std::string_view style() const { return pieces[1]; }
    std::string_view script() const { return pieces[3]; }
};

Page make_page() {
    constexpr std::string_view style_mark = "/* page.css */";
    constexpr std::string_view script_mark = "/* page.js */";
    const auto html = embedded(redis_rate_limit_page_html, redis_rate_limit_page_html_end);
    const size_t style = html.find(style_mark);
    const size_t script = html.find(script_mark);
    const size_t after_style = style + style_mark.size();
    return {{html.substr(0, style),
             embedded(redis_rate_limit_page_css, redis_rate_limit_page_css_end),
             html.substr(after_style, script - after_style),
             embedded(redis_rate_limit_page_js, redis_rate_limit_page_js_end),
             html.substr(script + script_mark.size())}};
}

/// As https://www.w3.org/TR/CSP3/#grammardef-hash-source has it.
std::string hash_source(std::string_view text) {
    std::array<u_char, SHA256_DIGEST_LENGTH> digest;
    SHA256(reinterpret_cast<const u_char *>(text.data()), text.size(), digest.data());
    std::array<u_char, ngx_base64_encoded_length(SHA256_DIGEST_LENGTH)> encoded;
    ngx_str_t from{digest.size(), digest.data()};
    ngx_str_t to{0, encoded.data()};
    ngx_encode_base64(&to, &from);
    return "'sha256-" + std::string(view(to)) + "'";
}

/// The page's own style and script, and what it asks of the host that it came from; nothing else.
std::string make_policy(const Page &page) {
    return "default-src 'none'; style-src " + hash_source(page.style()) + "; script-src " +
           hash_source(page.script()) +
           "; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
           "frame-ancestors 'none'";
}

ngx_int_t send_page(ngx_http_request_t *r) {
    static const Page page = make_page();
    static const std::string policy = make_policy(page);
    auto *buffers = pool_array<ngx_buf_t>(r->pool, page.pieces.size());
    if (buffers == nullptr || !add_header(r, "Content-Security-Policy", policy) ||
        !add_header(r, "X-Content-Type-Options", "nosniff") ||
        !add_header(r, "Referrer-Policy", "no-referrer")) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    std::array<ngx_chain_t, std::tuple_size_v<decltype(Page::pieces)>> chain;
    for (size_t i = 0; i < chain.size(); ++i) {
        const ngx_str_t piece = to_ngx(page.pieces[i]);
        buffers[i] = ngx_buf_t{};
        buffers[i].pos = piece.data;
        buffers[i].last = piece.data + piece.len;
        buffers[i].memory = 1;
        chain[i] = {.buf = &buffers[i], .next = i + 1 < chain.size() ? &chain[i + 1] : nullptr};
    }
    return send_content(r, "text/html; charset=utf-8", chain.front());
}

} // namespace

ngx_int_t dashboard_handler(ngx_http_request_t *r) noexcept {
    const auto &core = *static_cast<const ngx_http_core_loc_conf_t *>(
        ngx_http_get_module_loc_conf(r, ngx_http_core_module));
    const std::string_view path = view(r->uri);
    const std::string_view location = view(core.name);
    const bool is_within = path.starts_with(location);
    const std::string_view file = is_within ? path.substr(location.size()) : std::string_view();
    const bool is_known = is_within && (file.empty() || file == "status.json");
    if (!is_known) {
        return NGX_HTTP_NOT_FOUND;
    }
    const ngx_int_t accepted = accept_reader(r);
    if (accepted != NGX_OK) {
        return accepted;
    }
    if (!add_header(r, "Cache-Control", "no-store")) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return file.empty() ? send_page(r) : json_handler(r);
}

} // namespace nginx_module
