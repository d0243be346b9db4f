#include "nginx_module/http/problem_response.hpp"

#include "nginx_module/http/configuration.hpp"
#include "nginx_module/http/json_writer.hpp"
#include "nginx_module/http/send_content.hpp"

#include <algorithm>
#include <span>
#include <string_view>

namespace nginx_module {

namespace {

// The problem type of draft-ietf-httpapi-ratelimit-headers-11. Its title is the same for all
// requests, as RFC 9457 asks.
constexpr std::string_view type = "https://iana.org/assignments/http-problem-types#quota-exceeded";
constexpr std::string_view title =
    "Request cannot be satisfied as assigned quota has been exceeded";

/// Whether nginx does something else with the status than to send it: it closes the connection, or
/// sends 400 instead.
bool is_special(ngx_uint_t status) {
    return status == NGX_HTTP_REQUEST_TIME_OUT || status == NGX_HTTP_CLOSE ||
           (status >= NGX_HTTP_NGINX_CODES && status <= NGX_HTTP_CLIENT_CLOSED_REQUEST);
}

/// Whether nginx would answer with an `error_page`. The conditions are those of
/// ngx_http_special_response_handler().
bool has_error_page(ngx_http_request_t *r, ngx_uint_t status) {
    const auto &core = *static_cast<const ngx_http_core_loc_conf_t *>(
        ngx_http_get_module_loc_conf(r, ngx_http_core_module));
    if (r->error_page || core.error_pages == nullptr || r->uri_changes == 0) {
        return false;
    }
    const std::span pages(static_cast<const ngx_http_err_page_t *>(core.error_pages->elts),
                          core.error_pages->nelts);
    return std::ranges::any_of(pages, [status](const ngx_http_err_page_t &page) {
        return static_cast<ngx_uint_t>(page.status) == status;
    });
}

/// Drops what an earlier response may have left, because the request was redirected after it, and
/// what the client has not sent yet: as ngx_http_special_response_handler() does.
void prepare(ngx_http_request_t *r, ngx_uint_t status) {
    r->err_status = status;
    r->expect_tested = 1; // so that a client that waits for "100 Continue" is told not to go on
    if (ngx_http_discard_request_body(r) != NGX_OK) {
        r->keepalive = 0;
    }
    r->headers_out.content_type_lowcase = nullptr;
    ngx_http_clear_content_length(r);
    ngx_http_clear_accept_ranges(r);
    ngx_http_clear_last_modified(r);
    ngx_http_clear_etag(r);
}

} // namespace

bool is_answered_by_problem(ngx_http_request_t *r, ngx_uint_t status) {
    return location_conf(r).problem == 1 && !is_special(status) && !has_error_page(r, status);
}

ngx_int_t send_problem(ngx_http_request_t *r, ngx_uint_t status,
                       const limiter::AppliedRules &rules) {
    JsonWriter json(r->pool);
    json.begin_object();
    json.member("type", type);
    json.member("title", title);
    json.member("status", uint64_t{status});
    json.name("violated-policies");
    json.begin_array();
    for (const limiter::AppliedRule *one = rules.first(); one != nullptr; one = one->next) {
        if (one->denies() && !one->dry_run && !one->is_superseded) {
            json.value(std::string_view(one->rule->name));
        }
    }
    json.end_array();
    json.end_object();
    ngx_chain_t text = json.finish();
    if (text.buf == nullptr) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    prepare(r, status);
    return send_content(r, status, "application/problem+json", text);
}

} // namespace nginx_module
