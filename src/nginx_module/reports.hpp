// The log lines about requests: "What a client sees" in README.md.
#pragma once

#include "ngx.hpp"

#include "question.hpp"

namespace nginx_module {

/// `limiting requests, rule "per_ip/60s", key "203.0.113.7", retry after 1.250s`
void log_rejection(ngx_http_request_t *r, const Applied &denying);

/// `delaying request, rule "per_ip/60s", key "203.0.113.7", by 0.250s`, one level lower.
void log_delay(ngx_http_request_t *r, const Applied &delaying);

} // namespace nginx_module
