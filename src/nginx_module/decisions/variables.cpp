#include "nginx_module/decisions/variables.hpp"

#include "nginx_module/decisions/variable_value.hpp"
#include "rate_limit/text/header_values.hpp"

#include <array>

namespace nginx_module {

namespace {

using Value = ngx_variable_value_t;

/// What some rules of a request have decided: the enforced ones, or the dry runs.
struct Results {
    bool has_verdict = false;
    bool has_no_verdict = false;
    bool denies = false;
    bool delays = false;

    void add(const limiter::AppliedRule &applied) {
        if (const rate_limit::Verdict *verdict = applied.verdict()) {
            has_verdict = true;
            denies = denies || verdict->decision != rate_limit::Decision::granted;
            delays = delays || verdict->delay.count() > 0;
        } else {
            has_no_verdict = true;
        }
    }
};

/// Returns the status: what enforced rules did comes before what dry runs would have done.
std::string_view status_of(const Decided &decided) {
    Results enforced;
    Results dry_run;
    for (const limiter::AppliedRule *one = decided.limits.rules().first(); one != nullptr;
         one = one->next) {
        (one->dry_run ? dry_run : enforced).add(*one);
    }
    if (decided.limits.is_rejected()) {
        return enforced.denies ? "REJECTED" : "ERROR_CLOSED";
    }
    if (decided.was_delayed) {
        return "DELAYED";
    }
    if (enforced.has_no_verdict) {
        return "ERROR_OPEN";
    }
    if (dry_run.denies) {
        return "REJECTED_DRY_RUN";
    }
    if (dry_run.delays) {
        return "DELAYED_DRY_RUN";
    }
    return enforced.has_verdict || !dry_run.has_no_verdict ? "PASSED" : "ERROR_OPEN";
}

ngx_int_t get_status(ngx_pool_t * /*pool*/, Value &value, const Decided &decided) {
    return set_static(value, status_of(decided));
}

ngx_int_t get_source(ngx_pool_t * /*pool*/, Value &value, const Decided &decided) {
    const limiter::AppliedRule *tightest = decided.limits.rules().tightest();
    switch (tightest != nullptr ? tightest->result.source() : limiter::RuleResult::Source::none) {
    case limiter::RuleResult::Source::redis:
        return set_static(value, "redis");
    case limiter::RuleResult::Source::deny_cache:
        return set_static(value, "deny_cache");
    case limiter::RuleResult::Source::local:
        return set_static(value, "local");
    case limiter::RuleResult::Source::lease:
        return set_static(value, "lease");
    case limiter::RuleResult::Source::override:
        return set_static(value, "override");
    case limiter::RuleResult::Source::none:
        break;
    }
    return set_static(value, "none");
}

/// Gives the tightest rule, or the first one if none has a verdict.
ngx_int_t get_rule(ngx_pool_t * /*pool*/, Value &value, const Decided &decided) {
    const limiter::AppliedRule *tightest = decided.limits.rules().tightest();
    return set_static(
        value, (tightest != nullptr ? tightest : decided.limits.rules().first())->rule->name);
}

/// Returns the tightest rule, or null if none has a verdict by its numbers: a ban has none.
const limiter::AppliedRule *tightest_with_numbers(const Decided &decided) {
    const limiter::AppliedRule *tightest = decided.limits.rules().tightest();
    return tightest != nullptr && !tightest->ban ? tightest : nullptr;
}

ngx_int_t get_limit(ngx_pool_t *pool, Value &value, const Decided &decided) {
    const limiter::AppliedRule *tightest = tightest_with_numbers(decided);
    return tightest != nullptr ? set_number(pool, value, tightest->verdict_quota().capacity())
                               : set_not_found(value);
}

ngx_int_t get_remaining(ngx_pool_t *pool, Value &value, const Decided &decided) {
    const limiter::AppliedRule *tightest = tightest_with_numbers(decided);
    return tightest != nullptr ? set_number(pool, value, tightest->charge->verdict.remaining)
                               : set_not_found(value);
}

ngx_int_t get_reset(ngx_pool_t *pool, Value &value, const Decided &decided) {
    const limiter::AppliedRule *tightest = tightest_with_numbers(decided);
    return tightest != nullptr
               ? set_number(pool, value, rate_limit::seconds_up(tightest->charge->verdict.reset))
               : set_not_found(value);
}

ngx_int_t get_retry_after(ngx_pool_t *pool, Value &value, const Decided &decided) {
    const limiter::AppliedRule *tightest = decided.limits.rules().tightest();
    if (tightest == nullptr || tightest->charge->verdict.decision != rate_limit::Decision::denied) {
        return set_not_found(value);
    }
    return set_number(pool, value, rate_limit::seconds_up(tightest->charge->verdict.retry_after));
}

/// Gives how much of the tightest rule's capacity is taken, in whole per cent. A dry run that
/// denies has no room for the request, as a rule that rejects it.
ngx_int_t get_used(ngx_pool_t *pool, Value &value, const Decided &decided) {
    const limiter::AppliedRule *tightest = decided.limits.rules().tightest();
    if (tightest == nullptr) {
        return set_not_found(value);
    }
    if (decided.limits.is_rejected() || tightest->denies()) {
        return set_number(pool, value, 100);
    }
    return set_number(pool, value,
                      rate_limit::used_percent(tightest->verdict_quota().capacity(),
                                               tightest->charge->verdict.remaining));
}

/// Gives seconds with six decimals.
ngx_int_t set_seconds(ngx_pool_t *pool, Value &value, std::chrono::microseconds time) {
    constexpr int64_t second = 1'000'000;
    std::array<u_char, 32> text;
    const u_char *end = ngx_snprintf(text.data(), text.size(), "%L.%06L",
                                     int64_t{time.count()} / second, time.count() % second);
    return set_copy(
        pool, value,
        {reinterpret_cast<const char *>(text.data()), static_cast<size_t>(end - text.data())});
}

ngx_int_t get_time(ngx_pool_t *pool, Value &value, const Decided &decided) {
    return set_seconds(pool, value, decided.limits.time_asking());
}

/// Gives the Unix time of the tightest rule's verdict: Redis's where Redis decided. Without a
/// verdict it is the time at which Redis failed to give one, or now if it was not asked.
ngx_int_t get_decided(ngx_pool_t *pool, Value &value, const Decided &decided) {
    const limiter::AppliedRule *tightest = decided.limits.rules().tightest();
    if (tightest == nullptr) {
        const auto answered = decided.limits.check_times().answered;
        return set_seconds(
            pool, value,
            unix_time_of(precise_now, answered.count() > 0 ? answered : precise_now()));
    }
    switch (tightest->result.source()) {
    case limiter::RuleResult::Source::redis:
        return set_seconds(pool, value, tightest->result.decided());
    case limiter::RuleResult::Source::lease:
        return set_seconds(pool, value, unix_time_of(boot_now, tightest->result.decided()));
    case limiter::RuleResult::Source::deny_cache:
    case limiter::RuleResult::Source::local:
    case limiter::RuleResult::Source::override:
    case limiter::RuleResult::Source::none:
        break;
    }
    return set_seconds(pool, value, unix_time_of(precise_now, tightest->result.decided()));
}

constexpr DecisionVariable variables[] = {
    {"redis_rate_limit_status", get_status},
    {"redis_rate_limit_source", get_source},
    {"redis_rate_limit_rule", get_rule},
    {"redis_rate_limit_limit", get_limit},
    {"redis_rate_limit_remaining", get_remaining},
    {"redis_rate_limit_reset", get_reset},
    {"redis_rate_limit_retry_after", get_retry_after},
    {"redis_rate_limit_used", get_used},
    {"redis_rate_limit_time", get_time},
    {"redis_rate_limit_decided", get_decided},
};

} // namespace

std::span<const DecisionVariable> decision_variables() {
    return variables;
}

ngx_int_t set_network(const ngx_connection_t &client, ngx_pool_t *pool, ngx_variable_value_t &value,
                      unsigned bits) {
    const sockaddr *address = client.sockaddr;
    if (address->sa_family != AF_INET6) {
        return set_static(value, view(client.addr_text));
    }
    rate_limit::NetworkText text;
    const in6_addr &whole = reinterpret_cast<const sockaddr_in6 *>(address)->sin6_addr;
    return set_copy(pool, value, rate_limit::network_of(whole, bits, text));
}

void log_wrong_network_variable(ngx_conf_t *cf, ngx_str_t name) {
    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "redis_rate_limit: invalid variable \"$%V\", expected "
                  "$redis_rate_limit_addr_1 to $redis_rate_limit_addr_128",
                  &name);
}

} // namespace nginx_module
