// A request of the operator's API: what it names, and what it does.
#pragma once

#include "nginx_module/http/ngx.hpp"

#include "nginx_module/http/configuration.hpp"
#include "nginx_module/pages/api/answer.hpp"
#include "nginx_module/pages/api/key.hpp"
#include "nginx_module/pages/shown_limits.hpp"
#include "rate_limit/settings/override_json.hpp"

#include <optional>
#include <span>
#include <string_view>

namespace nginx_module {

/// Lives in the request's pool. What the resource does not take is empty.
struct ApiRequest {
    explicit ApiRequest(ngx_http_request_t *a_request) : r(a_request) {}

    ngx_http_request_t *r;
    const limiter::Zone *zone = nullptr;
    ShownLimits limits; // those that have the zone
    ClientKey key;
    const limiter::Rule *rule = nullptr; // the first one of its name
    std::optional<std::string_view> cursor;
    std::span<char> body; // one more byte follows

    const redis_client::BackendSettings &backend() const { return *zone->backend; }
    const redis_client::LiveStore &live_store() const { return *backend().live_store; }
    std::string_view rule_name() const { return rule != nullptr ? rule->name : std::string_view(); }
};

/// Answers a request, perhaps later. Returns what a content handler returns.
using ApiAction = ngx_int_t (*)(ApiRequest &request);

} // namespace nginx_module
