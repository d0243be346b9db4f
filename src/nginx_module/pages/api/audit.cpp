#include "nginx_module/pages/api/audit.hpp"

#include "nginx_module/log_text.hpp"
#include "nginx_module/util.hpp"
#include "rate_limit/text/url_text.hpp"

namespace nginx_module {

namespace {

constexpr size_t longest_user = 64; // bytes

/// Returns `$remote_user`, or nothing.
std::string_view user_of(ngx_http_request_t *r) {
    return ngx_http_auth_basic_user(r) == NGX_OK ? view(r->headers_in.user).substr(0, longest_user)
                                                 : std::string_view();
}

} // namespace

std::string_view author_of(ngx_http_request_t *r) {
    const std::string_view user = user_of(r);
    return describe(r->pool, view(r->connection->addr_text), user.empty() ? "" : " ",
                    rate_limit::Readable{user, longest_user});
}

void log_write(const ApiRequest &request, std::string_view what, std::string_view outcome) {
    ngx_http_request_t *r = request.r;
    // The log's own context would show the request line, and so the key, whatever `show_keys` says.
    ngx_log_t log = *r->connection->log;
    log.handler = nullptr;
    LogText<longest_user> user(user_of(r));
    ngx_str_t zone = to_ngx(request.zone->name);
    const bool is_for_client = !request.key.encoded.empty();
    ngx_str_t key = to_ngx(is_for_client ? phrase_of_key(r->pool, *request.zone, request.key) : "");
    ngx_str_t rule = to_ngx(request.rule_name());
    LogText<512> done(what);
    LogText<512> ended(outcome);
    ngx_log_error(NGX_LOG_NOTICE, &log, 0,
                  "changing limits, by %V%s%V%s: %V, zone \"%V\"%V%s%V%s%V", //
                  &r->connection->addr_text, user.shown()->len > 0 ? ", user \"" : "", user.shown(),
                  user.shown()->len > 0 ? "\"" : "", done.shown(), &zone, &key,
                  rule.len > 0 ? ", rule \"" : "", &rule, rule.len > 0 ? "\"" : "", ended.shown());
}

} // namespace nginx_module
