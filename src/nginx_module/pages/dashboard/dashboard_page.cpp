#include "nginx_module/pages/dashboard/dashboard_page.hpp"

#include "nginx_module/http/add_header.hpp"
#include "nginx_module/http/configuration.hpp"
#include "nginx_module/http/send_content.hpp"
#include "nginx_module/pages/metrics/metrics_page.hpp"
#include "nginx_module/pages/page_response.hpp"
#include "nginx_module/util.hpp"
#include "rate_limit/embed.hpp"

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
    CONTENTS("dashboard/chart_lines.js")
    CONTENTS("dashboard/chart.js")
    CONTENTS("dashboard/rate_charts.js")
    CONTENTS("dashboard/selection.js")
    CONTENTS("dashboard/rules.js")
    CONTENTS("dashboard/backends.js")
    CONTENTS("dashboard/zones.js")
    CONTENTS("dashboard/health.js")
    CONTENTS("dashboard/keys.js")
    CONTENTS("dashboard/api.js")
    CONTENTS("dashboard/overrides.js")
    CONTENTS("dashboard/override_form.js")
    CONTENTS("dashboard/client_rules.js")
    CONTENTS("dashboard/live_limits.js")
    CONTENTS("dashboard/client.js")
    CONTENTS("dashboard/zone_overrides.js")
    CONTENTS("dashboard/inspector.js")
    CONTENTS("dashboard/page.js"));
// clang-format on

namespace nginx_module {

namespace {

using rate_limit::embedded;

const std::string_view html = embedded(redis_rate_limit_page_html, redis_rate_limit_page_html_end);
const std::string_view style = embedded(redis_rate_limit_page_css, redis_rate_limit_page_css_end);
const std::string_view script = embedded(redis_rate_limit_page_js, redis_rate_limit_page_js_end);

/// The page in pieces: the HTML, with the style, the path of the API and the script in place of its
/// comments for them. Each location has a path of its own, or none.
using Pieces = std::array<std::string_view, 7>;
constexpr size_t api_piece = 3;

Pieces make_page() {
    struct Filled {
        std::string_view comment;
        std::string_view with;
    };
    const Filled comments[] = {{"/* style */", style}, {"/* api */", {}}, {"/* script */", script}};
    Pieces pieces;
    auto *piece = pieces.begin();
    std::string_view rest = html;
    for (const auto &[comment, with] : comments) {
        const size_t at = rest.find(comment);
        *piece++ = rest.substr(0, at);
        *piece++ = with;
        rest.remove_prefix(at + comment.size());
    }
    *piece = rest;
    return pieces;
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
    Pieces pieces = page().pieces;
    pieces[api_piece] = location_conf(r).page.dashboard_api;
    auto *buffers = pool_array<ngx_buf_t>(r->pool, pieces.size());
    if (buffers == nullptr || !add_header(r, "Content-Security-Policy", page().policy) ||
        !add_header(r, "Referrer-Policy", "no-referrer")) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    std::array<ngx_chain_t, std::tuple_size_v<Pieces>> chain;
    ngx_chain_t *next = nullptr;
    for (size_t i = pieces.size(); i-- > 0;) {
        if (pieces[i].empty()) { // nginx sends no empty buffers
            continue;
        }
        const ngx_str_t piece = to_ngx(pieces[i]);
        buffers[i] = ngx_buf_t{};
        buffers[i].pos = piece.data;
        buffers[i].last = piece.data + piece.len;
        buffers[i].memory = 1;
        chain[i] = {.buf = &buffers[i], .next = next};
        next = &chain[i];
    }
    return next != nullptr ? send_content(r, NGX_HTTP_OK, "text/html; charset=utf-8", *next)
                           : NGX_HTTP_INTERNAL_SERVER_ERROR;
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
