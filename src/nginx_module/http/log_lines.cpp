#include "nginx_module/http/log_lines.hpp"

#include "nginx_module/conf/configuration.hpp"
#include "nginx_module/conf/key_text.hpp"
#include "nginx_module/log_text.hpp"
#include "nginx_module/util.hpp"

#include <array>

namespace nginx_module {

namespace {

/// The end of a line: what follows the key.
class Detail {
  public:
    explicit Detail(std::string_view text) : shown_(to_ngx(text)) {}
    /// The time, if it is not 0.
    Detail(const char *time_is, std::chrono::microseconds time) {
        const auto ms = std::chrono::ceil<std::chrono::milliseconds>(time).count();
        if (ms > 0) {
            const u_char *end =
                ngx_snprintf(text_.data(), text_.size(), ", %s %L.%03Ls", time_is,
                             static_cast<int64_t>(ms / 1000), static_cast<int64_t>(ms % 1000));
            shown_ = {static_cast<size_t>(end - text_.data()), text_.data()};
        }
    }
    Detail(const Detail &) = delete;
    Detail &operator=(const Detail &) = delete;

    /// Returns the text, as an argument for nginx's `%V`.
    ngx_str_t *shown() { return &shown_; }

  private:
    std::array<u_char, 64> text_;
    ngx_str_t shown_{};
};

/// Writes one line: what is done to the request, the rule, the key, and a detail.
void log_line(ngx_http_request_t *r, ngx_uint_t level, const char *what,
              const limiter::AppliedRule &applied, Detail detail) {
    if (r->connection->log->log_level < level) {
        return;
    }
    KeyPhrase key(*applied.rule->zone, applied.key);
    ngx_str_t name = to_ngx(applied.rule->name);
    ngx_log_error(level, r->connection->log, 0, "%s, rule \"%V\"%V%V%s", what, &name, key.shown(),
                  detail.shown(), applied.dry_run ? ", dry run" : "");
}

/// Whether a line may be written that was last written at `last`, which is then now.
bool is_due(time_t &last, time_t seconds) {
    if (ngx_time() - last < seconds) {
        return false;
    }
    last = ngx_time();
    return true;
}

} // namespace

void log_invalid(ngx_http_request_t *r, const limiter::InvalidNumber &invalid) {
    static time_t last = 0;
    if (!is_due(last, 1)) {
        return;
    }
    // The value may come from the key, so it is shown only where keys are.
    const bool is_shown = invalid.rule.zone->show_keys == rate_limit::ShowKeys::on;
    LogText<64> shown(is_shown ? invalid.value : std::string_view());
    ngx_str_t name = to_ngx(invalid.rule.name);
    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "redis_rate_limit: invalid %s%s%V%s, expected a whole number from 0 to %uL, "
                  "rule \"%V\"",
                  invalid.parameter, is_shown ? " \"" : "", shown.shown(), is_shown ? "\"" : "",
                  invalid.largest, &name);
}

void log_rejection(ngx_http_request_t *r, const limiter::AppliedRule &denying) {
    log_line(r, location_conf(r).log_level, "limiting requests", denying,
             denying.ban ? Detail(", banned")
                         : Detail("retry after", denying.charge->verdict.retry_after));
}

void log_delay(ngx_http_request_t *r, const limiter::AppliedRule &delaying) {
    const ngx_uint_t level = location_conf(r).log_level;
    log_line(r, level == NGX_LOG_INFO ? level : level + 1, "delaying request", delaying,
             Detail("by", delaying.delay()));
}

void log_dry_run(ngx_http_request_t *r, const limiter::AppliedRule &rule) {
    if (rule.denies()) {
        log_rejection(r, rule);
    } else if (rule.delay().count() > 0) {
        log_delay(r, rule);
    }
}

void log_ignored_value(ngx_http_request_t *r, std::string_view path) {
    static time_t last = 0;
    if (is_due(last, 1)) {
        ngx_str_t shown = to_ngx(path);
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "redis_rate_limit_response_value: the response has no whole number at %V, "
                      "which is ignored",
                      &shown);
    }
}

void log_encoded_response(ngx_http_request_t *r, std::string_view encoding) {
    constexpr time_t minute = 60;
    static time_t last = 0;
    if (is_due(last, minute)) {
        LogText<64> shown(encoding);
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "redis_rate_limit_response_value: the response has Content-Encoding \"%V\" "
                      "and is not read, expected none: proxy_set_header Accept-Encoding \"\";",
                      shown.shown());
    }
}

} // namespace nginx_module
