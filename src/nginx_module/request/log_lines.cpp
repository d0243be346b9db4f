#include "log_lines.hpp"

#include "../conf/key_text.hpp"
#include "../util.hpp"

#include <array>

namespace nginx_module {

namespace {

/// Writes one line: what is done to the request, the rule, the key, and the time if it is not 0.
void log_line(ngx_http_request_t *r, ngx_uint_t level, const char *what, const AppliedRule &applied,
              const char *time_is, std::chrono::microseconds time) {
    if (r->connection->log->log_level < level) {
        return;
    }
    KeyPhrase key(*applied.rule->zone, applied.key);
    ngx_str_t name = to_ngx(applied.rule->name);
    std::array<u_char, 64> time_text;
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(time).count();
    u_char *end = ngx_snprintf(time_text.data(), time_text.size(), ", %s %L.%03Ls", time_is,
                               static_cast<int64_t>(ms / 1000), static_cast<int64_t>(ms % 1000));
    ngx_str_t shown_time{ms > 0 ? static_cast<size_t>(end - time_text.data()) : 0,
                         time_text.data()};
    ngx_log_error(level, r->connection->log, 0, "%s, rule \"%V\"%V%V%s", what, &name, key.shown(),
                  &shown_time, applied.dry_run ? ", dry run" : "");
}

} // namespace

std::string_view describe_rules(std::span<const AppliedRule> rules, std::span<char> out) {
    auto *const begin = reinterpret_cast<u_char *>(out.data());
    u_char *end = begin;
    for (const AppliedRule &applied : rules) {
        KeyPhrase key(*applied.rule->zone, applied.key);
        ngx_str_t name = to_ngx(applied.rule->name);
        end = ngx_slprintf(end, begin + out.size(), ", rule \"%V\"%V", &name, key.shown());
    }
    return {out.data(), static_cast<size_t>(end - begin)};
}

void log_rejection(ngx_http_request_t *r, const AppliedRule &denying) {
    log_line(r, location_conf(r).log_level, "limiting requests", denying, "retry after",
             denying.charge->verdict.retry_after);
}

void log_delay(ngx_http_request_t *r, const AppliedRule &delaying) {
    const ngx_uint_t level = location_conf(r).log_level;
    log_line(r, level == NGX_LOG_INFO ? level : level + 1, "delaying request", delaying, "by",
             delaying.delay());
}

void log_dry_run(ngx_http_request_t *r, const AppliedRule &rule) {
    if (rule.denies()) {
        log_rejection(r, rule);
    } else if (rule.delay().count() > 0) {
        log_delay(r, rule);
    }
}

} // namespace nginx_module
