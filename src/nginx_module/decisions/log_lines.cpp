#include "nginx_module/decisions/log_lines.hpp"

#include "nginx_module/decisions/key_text.hpp"
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

/// The texts of a line cost a seventh of what a denial does, so they are made only where it is
/// logged.
bool is_logged(const ngx_log_t &log, ngx_uint_t level) {
    return log.log_level >= level;
}

/// Writes one line: what is done to the request, the rule, the key, and a detail.
void log_line(ngx_log_t &log, ngx_uint_t level, const char *what,
              const limiter::AppliedRule &applied, Detail detail) {
    KeyPhrase key(*applied.rule->zone, applied.key);
    ngx_str_t name = to_ngx(applied.rule->name);
    ngx_log_error(level, &log, 0, "%s, rule \"%V\"%V%V%s", what, &name, key.shown(), detail.shown(),
                  applied.dry_run ? ", dry run" : "");
}

} // namespace

void log_invalid(ngx_log_t &log, const limiter::InvalidNumber &invalid) {
    static time_t last = 0;
    if (!is_due(last, 1)) {
        return;
    }
    // The value may come from the key, so it is shown only where keys are.
    const bool is_shown = invalid.rule.zone->show_keys == rate_limit::ShowKeys::on;
    LogText<64> shown(is_shown ? invalid.value : std::string_view());
    ngx_str_t name = to_ngx(invalid.rule.name);
    ngx_log_error(NGX_LOG_ERR, &log, 0,
                  "redis_rate_limit: invalid %s%s%V%s, expected a whole number from 0 to %uL, "
                  "rule \"%V\"",
                  invalid.parameter, is_shown ? " \"" : "", shown.shown(), is_shown ? "\"" : "",
                  invalid.largest, &name);
}

void log_rejection(ngx_log_t &log, ngx_uint_t level, const limiter::AppliedRule &denying) {
    if (is_logged(log, level)) {
        log_line(log, level, "limiting requests", denying,
                 denying.ban ? Detail(", banned")
                             : Detail("retry after", denying.charge->verdict.retry_after));
    }
}

void log_delay(ngx_log_t &log, ngx_uint_t level, const limiter::AppliedRule &delaying) {
    const ngx_uint_t level_of_delays = level == NGX_LOG_INFO ? level : level + 1;
    if (is_logged(log, level_of_delays)) {
        log_line(log, level_of_delays, "delaying request", delaying,
                 Detail("by", delaying.delay()));
    }
}

void log_dry_run(ngx_log_t &log, ngx_uint_t level, const limiter::AppliedRule &rule) {
    if (rule.denies()) {
        log_rejection(log, level, rule);
    } else if (rule.delay().count() > 0) {
        log_delay(log, level, rule);
    }
}

void log_event([[maybe_unused]] ngx_log_t &log, [[maybe_unused]] ngx_uint_t debug_level,
               limiter::RequestEvent event, [[maybe_unused]] int64_t number) {
    switch (event) {
    case limiter::RequestEvent::applies_rules:
        ngx_log_debug1(debug_level, &log, 0, "redis_rate_limit applies %L rules", number);
        break;
    case limiter::RequestEvent::knows_denials:
        ngx_log_debug1(debug_level, &log, 0, "redis_rate_limit knows denials of %L rules", number);
        break;
    case limiter::RequestEvent::takes_leased:
        ngx_log_debug1(debug_level, &log, 0, "redis_rate_limit takes units of leases for %L rules",
                       number);
        break;
    case limiter::RequestEvent::asks_redis:
        ngx_log_debug1(debug_level, &log, 0, "redis_rate_limit asks Redis by %L checks", number);
        break;
    case limiter::RequestEvent::has_answers:
        ngx_log_debug1(debug_level, &log, 0, "redis_rate_limit has its answers after %L us",
                       number);
        break;
    case limiter::RequestEvent::passes:
        ngx_log_debug0(debug_level, &log, 0, "redis_rate_limit passes");
        break;
    }
}

} // namespace nginx_module
