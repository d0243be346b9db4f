#include "nginx_module/pages/api/numbers.hpp"

#include "nginx_module/util.hpp"
#include "rate_limit/calendar/calendar_json.hpp"
#include "rate_limit/text/text_writer.hpp"

#include <algorithm>

namespace nginx_module {

namespace {

using rate_limit::Override;
using rate_limit::Quota;

Quota quota_with(const limiter::Rule &rule, const std::optional<Override> &override) {
    return override ? rate_limit::overridden(rule.rule.quota, *override, rule.rule.shards)
                    : rule.rule.quota;
}

bool is_limit_known(const limiter::Rule &rule, const std::optional<Override> &override) {
    return rule.limit_text.empty() || (override && override->limit);
}

bool is_burst_known(const limiter::Rule &rule, const std::optional<Override> &override) {
    return rule.burst_text.empty() || (override && override->burst);
}

} // namespace

RuleNumbers numbers_of(const limiter::Rule &rule, const std::optional<Override> &override) {
    const Quota quota = quota_with(rule, override);
    RuleNumbers numbers;
    if (is_limit_known(rule, override)) {
        numbers.limit = quota.limit;
    }
    if (is_burst_known(rule, override)) {
        numbers.burst = quota.burst;
    }
    if (is_limit_known(rule, override) && is_burst_known(rule, override)) {
        numbers.capacity = quota.capacity();
    }
    return numbers;
}

std::optional<Quota> quota_of(const limiter::Rule &rule, const std::optional<Override> &override) {
    if (!numbers_of(rule, override).capacity) {
        return std::nullopt;
    }
    return quota_with(rule, override);
}

std::chrono::milliseconds current_window_of(const limiter::Rule &rule) {
    return rule.rule.quota_at(unix_now()).window;
}

void write_calendar(JsonWriter &json, const limiter::Rule &rule) {
    if (rule.rule.calendar != nullptr) {
        json.member("window_seconds", rate_limit::Seconds{current_window_of(rule)});
        rate_limit::write_calendar(json, rule.rule.calendar->parts());
    }
}

bool is_dry_run_everywhere(const MainConf &conf, const limiter::Rule &rule) {
    return std::ranges::none_of(conf.levels, [&](const LevelConf *level) {
        return !level->is_dry_run(rule) &&
               std::ranges::find(*level->rules, &rule) != level->rules->end();
    });
}

} // namespace nginx_module
