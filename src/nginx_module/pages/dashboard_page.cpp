#include "dashboard_page.hpp"

#include "../../rate_limit/embed.hpp"
#include "../util.hpp"
#include "metrics_page.hpp"
#include "page_response.hpp"

#include <openssl/sha.h>

#include <array>
#include <string>

EMBED(redis_rate_limit_page_html, "dashboard/page.html");
EMBED(redis_rate_limit_page_css, "dashboard/page.css");
// The order matters: each script uses what the scripts before it define.
// clang-format off
EMBED_ALL(redis_rate_limit_page_js,
    CONTENTS("dashboard/figures.js")
    CONTENTS("dashboard/samples.js")
    CONTENTS("dashboard/elements.js")
    CONTENTS("dashboard/chart.js")
    CONTENTS("dashboard/rules.js")
    CONTENTS("dashboard/backends.js")
    CONTENTS("dashboard/zones.js")
    CONTENTS("dashboard/health.js")
    CONTENTS("dashboard/page.js"));
// clang-format on

namespace nginx_module {

namespace {

using rate_limit::embedded;

const std::string_view html = embedded(redis_rate_limit_page_html, redis_rate_limit_page_html_end);
const std::string_view style = embedded(redis_rate_limit_page_css, redis_rate_limit_page_css_end);
const std::string_view script = embedded(redis_rate_limit_page_js, redis_rate_limit_page_js_end);

/// The page in pieces: the HTML, with the style and the script in place of its comments for them.
using Pieces = std::array<std::string_view, 5>;

Pieces make_page() {
    constexpr std::string_view style_mark = "/* style */";
    constexpr std::string_view script_mark = "/* script */";
    const size_t style_at = html.find(style_mark);
    const size_t script_at = html.find(script_mark);
    const size_t between = style_at + style_mark.size();
    return {html.substr(0, style_at), style, html.substr(between, script_at - between), script,
            html.substr(script_at + script_mark.size())};
}

/// Returns the hash of a text in the form of https://www.w3.org/TR/CSP3/#grammardef-hash-source.
std::string hash_source(std::string_view text) {
    std::array<u_char, SHA256_DIGEST_LENGTH> digest;
    SHA256(reinterpret_cast<const u_char *>(text.data()), text.size(), digest.data());
    std::array<u_char, ngx_base64_encoded_length(SHA256_DIGEST_LENGTH)> encoded;
    ngx_str_t from{digest.size(), digest.data()};
    ngx_str_t to{0, encoded.data()};
    ngx_encode_base64(&to, &from);
    return " 'sha256-" + std::string(view(to)) + "'";
}

/// Returns a policy that allows the page's own style and script, images in it, and requests to the
/// host that it came from, and nothing else.
std::string make_policy() {
    return "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; "
           "form-action 'none'; frame-ancestors 'none'; style-src" +
           hash_source(style) + "; script-src" + hash_source(script);
}

struct Page {
    Pieces pieces = make_page();
    std::string policy = make_policy();
};

const Page &page() {
    static const Page made;
    return made;
}

ngx_int_t send_page(ngx_http_request_t *r) {
    const ngx_int_t accepted = accept_reader(r);
    if (accepted != NGX_OK) {
        return accepted;
    }
    const auto &[pieces, policy] = page();
    auto *buffers = pool_array<ngx_buf_t>(r->pool, pieces.size());
    if (buffers == nullptr || !add_header(r, "Content-Security-Policy", policy) ||
        !add_header(r, "Referrer-Policy", "no-referrer")) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    std::array<ngx_chain_t, std::tuple_size_v<Pieces>> chain;
    for (size_t i = 0; i < chain.size(); ++i) {
        const ngx_str_t piece = to_ngx(pieces[i]);
        buffers[i] = ngx_buf_t{};
        buffers[i].pos = piece.data;
        buffers[i].last = piece.data + piece.len;
        buffers[i].memory = 1;
        chain[i] = {.buf = &buffers[i], .next = i + 1 < chain.size() ? &chain[i + 1] : nullptr};
    }
    return send_content(r, NGX_HTTP_OK, "text/html; charset=utf-8", chain.front());
}

} // namespace

void prepare_dashboard() {
    (void)page();
}

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
    if (!add_header(r, "Cache-Control", "no-store") ||
        !add_header(r, "X-Content-Type-Options", "nosniff")) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return file.empty() ? send_page(r) : json_handler(r);
}

} // namespace nginx_module
