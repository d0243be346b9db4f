#include "candidates.hpp"

#include "../rate_limit/text.hpp"
#include "log_text.hpp"
#include "request.hpp"
#include "util.hpp"

#include <algorithm>
#include <new>
#include <span>
#include <string>

namespace nginx_module {

namespace {

/// What a request's variables make of a rule.
enum class Evaluated {
    applies,
    invalid,
    applies_not,
    no_memory,
};

bool evaluate_text(ngx_http_request_t *r, const ngx_http_complex_value_t &value, ngx_str_t &text) {
    return ngx_http_complex_value(r, const_cast<ngx_http_complex_value_t *>(&value), &text) ==
           NGX_OK;
}

/// At most once a second in a worker: clients may choose what stands in a variable.
void log_invalid(ngx_http_request_t *r, const RuleConf &rule, const char *parameter,
                 std::string_view value, uint64_t largest) {
    static time_t last = 0;
    if (ngx_time() == last) {
        return;
    }
    last = ngx_time();
    // The value may come from the key: where keys are not to be seen, it is not shown, either.
    const bool is_shown = rule.zone->show_keys == ShowKeys::on;
    LogText<64> shown(is_shown ? value : std::string_view());
    ngx_str_t name = to_ngx(rule.name);
    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "redis_rate_limit: invalid %s%s%V%s, expected a whole number from 0 to %uL, "
                  "rule \"%V\"",
                  parameter, is_shown ? " \"" : "", shown.shown(), is_shown ? "\"" : "", largest,
                  &name);
}

/// A number that a variable gives; a literal has no variable.
struct VariableNumber {
    const char *parameter;
    const ngx_http_complex_value_t *variable;
    uint64_t largest;
    uint64_t *number;
    ngx_str_t text{};
};

/// False: it is none, and the log tells so.
bool read_number(ngx_http_request_t *r, const RuleConf &rule, const VariableNumber &given) {
    const auto number = rate_limit::parse_whole_number(view(given.text), given.largest);
    if (!number) {
        log_invalid(r, rule, given.parameter, view(given.text), given.largest);
        return false;
    }
    *given.number = *number;
    return true;
}

/// One that is empty exempts, whatever a client wrote into another.
Evaluated evaluate_numbers(ngx_http_request_t *r, const RuleConf &rule,
                           std::span<VariableNumber> numbers) {
    for (VariableNumber &one : numbers) {
        if (one.variable != nullptr && !evaluate_text(r, *one.variable, one.text)) {
            return Evaluated::no_memory;
        }
        if (one.variable != nullptr && one.text.len == 0) {
            return Evaluated::applies_not;
        }
    }
    const bool are_read = std::ranges::all_of(numbers, [&](const VariableNumber &one) {
        return one.variable == nullptr || read_number(r, rule, one);
    });
    return are_read ? Evaluated::applies : Evaluated::invalid;
}

/// With which the bucket fills in time.
uint64_t largest_burst(const rate_limit::Quota &quota, uint64_t given) {
    __extension__ using Wide = unsigned __int128;
    const Wide units = Wide{std::chrono::microseconds(rate_limit::longest_refill).count()} *
                       quota.limit /
                       static_cast<uint64_t>(std::chrono::microseconds(quota.window).count());
    return static_cast<uint64_t>(units) - (quota.capacity() - given);
}

Evaluated evaluate_quota(ngx_http_request_t *r, const RuleConf &rule, rate_limit::Quota &quota) {
    quota = rule.rule.quota;
    uint64_t burst = 0;
    VariableNumber numbers[] = {
        {"limit", rule.limit, rate_limit::largest_limit(quota.algorithm), &quota.limit},
        {"burst", rule.burst, rate_limit::largest_number, &burst},
        {"cost", rule.cost, rate_limit::largest_cost(quota.algorithm), &quota.cost},
    };
    const Evaluated all = evaluate_numbers(r, rule, numbers);
    if (all != Evaluated::applies) {
        return all;
    }
    if (rule.burst != nullptr) {
        quota.burst = burst;
    }
    if (quota.refill() > rate_limit::longest_refill) { // nginx -t has looked at literals
        const uint64_t given = quota.burst.value_or(0);
        log_invalid(r, rule, "burst", std::to_string(given), largest_burst(quota, given));
        return Evaluated::invalid;
    }
    return Evaluated::applies;
}

Evaluated evaluate(ngx_http_request_t *r, const RuleConf &rule, Candidate &candidate) {
    ngx_str_t key;
    if (!evaluate_text(r, rule.zone->key, key)) {
        return Evaluated::no_memory;
    }
    candidate.key = view(key);
    return key.len == 0 ? Evaluated::applies_not : evaluate_quota(r, rule, candidate.quota);
}

/// Whether what was applied to the request before makes it needless to apply the rule.
bool is_settled(const Candidate &candidate, const RequestState &state) {
    return candidate.is_invalid ? state.has_left_out(*candidate.rule)
                                : state.has_covered(candidate);
}

} // namespace

ngx_int_t Candidates::collect(ngx_http_request_t *r, Phase phase, const RequestState *state) {
    const LocationConf &location = location_conf(r);
    for (const RuleConf *rule : *location.rules) {
        const bool is_dry_run = location.is_dry_run(*rule);
        if (rule->phase != phase || (state != nullptr && state->has_applied(*rule, is_dry_run))) {
            continue;
        }
        Candidate &candidate = *new (&memory_.candidates[count_]) Candidate;
        candidate.rule = rule;
        candidate.dry_run = is_dry_run;
        const Evaluated evaluated = evaluate(r, *rule, candidate);
        if (evaluated == Evaluated::no_memory) {
            return NGX_ERROR;
        }
        candidate.is_invalid = evaluated == Evaluated::invalid;
        if (evaluated != Evaluated::applies_not &&
            (state == nullptr || !is_settled(candidate, *state))) {
            take_last();
        }
    }
    return NGX_OK;
}

/// Takes the candidate after the last one, and moves it to its place: behind others that are
/// decided, or behind others that are asked with it.
void Candidates::take_last() {
    auto *const last = memory_.candidates + count_;
    auto *place = memory_.candidates + decided_;
    if (last->is_open()) {
        const auto is_beside = [&](const Candidate &one) {
            return are_asked_together(*one.rule, *last->rule);
        };
        auto *const beside = std::find_if(place, last, is_beside);
        place = std::find_if_not(beside, last, is_beside);
    } else {
        ++decided_;
    }
    ++count_;
    std::rotate(place, last, last + 1);
}

} // namespace nginx_module
