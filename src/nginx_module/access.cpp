#include "access.hpp"

#include "log_text.hpp"
#include "request.hpp"
#include "util.hpp"

#include <arpa/inet.h>

namespace nginx_module {

namespace {

using rate_limit::Decision;
using rate_limit::Verdict;
using redis_client::CheckResult;

/// `$binary_remote_addr` for people.
std::string_view address_text(std::string_view bytes, std::array<char, INET6_ADDRSTRLEN> &out) {
    const int family = bytes.size() == sizeof(in_addr) ? AF_INET : AF_INET6;
    if (family == AF_INET6 && bytes.size() != sizeof(in6_addr)) {
        return bytes; // a client on a unix socket: no address
    }
    const char *text = inet_ntop(family, bytes.data(), out.data(), out.size());
    return text != nullptr ? std::string_view(text) : bytes;
}

void log_rejection(ngx_http_request_t *r, const RequestState::Question &question,
                   const Verdict &verdict) {
    const auto &[rule, key] = question;
    const ngx_uint_t level = location_conf(r).log_level;
    if (r->connection->log->log_level < level) {
        return;
    }
    std::array<char, INET6_ADDRSTRLEN> address;
    LogText<64> shown(rule->zone->key_is_binary_address ? address_text(key, address) : key);
    ngx_str_t name = to_ngx(rule->name);
    if (verdict.decision == Decision::never) {
        ngx_log_error(level, r->connection->log, 0, "limiting requests, rule \"%V\", key \"%V\"",
                      &name, shown.shown());
        return;
    }
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(verdict.retry_after).count();
    ngx_log_error(level, r->connection->log, 0,
                  "limiting requests, rule \"%V\", key \"%V\", retry after %L.%03Ls", &name,
                  shown.shown(), static_cast<int64_t>(wait / 1000),
                  static_cast<int64_t>(wait % 1000));
}

/// Ends the request here. The status is not returned to the phase engine: under `satisfy any` it
/// would take a 401 or 403 for one module's opinion.
ngx_int_t reject(ngx_http_request_t *r, RequestState &state, ngx_uint_t status) {
    state.reject();
    ngx_http_finalize_request(r, static_cast<ngx_int_t>(status));
    return NGX_DONE;
}

/// Passes are NGX_DECLINED: NGX_OK would grant access under `satisfy any`.
ngx_int_t apply(ngx_http_request_t *r, RequestState &state, const RequestState::Question &question,
                const CheckResult &result) {
    const RuleConf &rule = *question.rule;
    const auto *verdict = std::get_if<Verdict>(&result);
    if (!state.add(rule, verdict != nullptr ? std::optional(*verdict) : std::nullopt)) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (verdict == nullptr) {
        return rule.zone->on_error == OnError::open
                   ? NGX_DECLINED
                   : reject(r, state, NGX_HTTP_SERVICE_UNAVAILABLE);
    }
    if (verdict->decision == Decision::granted) {
        return NGX_DECLINED;
    }
    log_rejection(r, question, *verdict);
    return reject(r, state, location_conf(r).status);
}

ngx_int_t ask(ngx_http_request_t *r, const RuleConf &rule, std::string_view key) {
    RequestState *state = RequestState::find_or_create(r);
    if (state == nullptr) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (const auto verdict = rate_limit::verdict_without_counter(rule.rule)) {
        return apply(r, *state, {&rule, key}, *verdict);
    }
    if (const auto failure = state->ask(rule, key)) {
        return apply(r, *state, {&rule, key}, *failure);
    }
    return NGX_AGAIN;
}

} // namespace

ngx_int_t access_handler(ngx_http_request_t *r) noexcept {
    const RuleConf *rule = location_conf(r).rule;
    if (rule == nullptr || r != r->main) {
        return NGX_DECLINED;
    }
    if (RequestState *state = RequestState::find(r)) {
        if (const auto answer = state->take_answer()) {
            return apply(r, *state, state->question(), *answer);
        }
        state->forget();
        if (state->is_rejected() || state->has_applied(*rule)) {
            return NGX_DECLINED;
        }
    }
    ngx_str_t key;
    auto *key_value = const_cast<ngx_http_complex_value_t *>(&rule->zone->key);
    if (ngx_http_complex_value(r, key_value, &key) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return key.len > 0 ? ask(r, *rule, view(key)) : NGX_DECLINED;
}

} // namespace nginx_module
