#include "nginx_module/http/variables.hpp"

#include "nginx_module/conf/variable_names.hpp"
#include "nginx_module/http/request_state.hpp"
#include "nginx_module/http/variable_value.hpp"
#include "nginx_module/util.hpp"
#include "rate_limit/text/client_network.hpp"
#include "rate_limit/text/header_values.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

namespace nginx_module {

namespace {

using Value = ngx_http_variable_value_t;

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
std::string_view status_of(const RequestState &state) {
    Results enforced;
    Results dry_run;
    for (const limiter::AppliedRule *one = state.rules().first(); one != nullptr; one = one->next) {
        (one->dry_run ? dry_run : enforced).add(*one);
    }
    if (state.limits().is_rejected()) {
        return enforced.denies ? "REJECTED" : "ERROR_CLOSED";
    }
    if (state.was_delayed()) {
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

ngx_int_t get_status(ngx_http_request_t * /*r*/, Value &value, const RequestState &state) {
    return set_static(value, status_of(state));
}

ngx_int_t get_source(ngx_http_request_t * /*r*/, Value &value, const RequestState &state) {
    const limiter::AppliedRule *tightest = state.rules().tightest();
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
ngx_int_t get_rule(ngx_http_request_t * /*r*/, Value &value, const RequestState &state) {
    const limiter::AppliedRule *tightest = state.rules().tightest();
    return set_static(value, (tightest != nullptr ? tightest : state.rules().first())->rule->name);
}

/// Returns the tightest rule, or null if none has a verdict by its numbers: a ban has none.
const limiter::AppliedRule *tightest_with_numbers(const RequestState &state) {
    const limiter::AppliedRule *tightest = state.rules().tightest();
    return tightest != nullptr && !tightest->ban ? tightest : nullptr;
}

ngx_int_t get_limit(ngx_http_request_t *r, Value &value, const RequestState &state) {
    const limiter::AppliedRule *tightest = tightest_with_numbers(state);
    return tightest != nullptr ? set_number(r, value, tightest->verdict_quota().capacity())
                               : set_not_found(value);
}

ngx_int_t get_remaining(ngx_http_request_t *r, Value &value, const RequestState &state) {
    const limiter::AppliedRule *tightest = tightest_with_numbers(state);
    return tightest != nullptr ? set_number(r, value, tightest->charge->verdict.remaining)
                               : set_not_found(value);
}

ngx_int_t get_reset(ngx_http_request_t *r, Value &value, const RequestState &state) {
    const limiter::AppliedRule *tightest = tightest_with_numbers(state);
    return tightest != nullptr
               ? set_number(r, value, rate_limit::seconds_up(tightest->charge->verdict.reset))
               : set_not_found(value);
}

ngx_int_t get_retry_after(ngx_http_request_t *r, Value &value, const RequestState &state) {
    const limiter::AppliedRule *tightest = state.rules().tightest();
    if (tightest == nullptr || tightest->charge->verdict.decision != rate_limit::Decision::denied) {
        return set_not_found(value);
    }
    return set_number(r, value, rate_limit::seconds_up(tightest->charge->verdict.retry_after));
}

/// Gives seconds with six decimals.
ngx_int_t set_seconds(ngx_http_request_t *r, Value &value, std::chrono::microseconds time) {
    constexpr int64_t second = 1'000'000;
    std::array<u_char, 32> text;
    const u_char *end = ngx_snprintf(text.data(), text.size(), "%L.%06L",
                                     int64_t{time.count()} / second, time.count() % second);
    return set_copy(
        r, value,
        {reinterpret_cast<const char *>(text.data()), static_cast<size_t>(end - text.data())});
}

ngx_int_t get_time(ngx_http_request_t *r, Value &value, const RequestState &state) {
    return set_seconds(r, value, state.limits().time_asking());
}

/// Gives the Unix time of the tightest rule's verdict: Redis's where Redis decided. Without a
/// verdict it is the time at which Redis failed to give one, or now if it was not asked.
ngx_int_t get_decided(ngx_http_request_t *r, Value &value, const RequestState &state) {
    const limiter::AppliedRule *tightest = state.rules().tightest();
    if (tightest == nullptr) {
        const auto answered = state.limits().check_times().answered;
        return set_seconds(
            r, value, unix_time_of(precise_now, answered.count() > 0 ? answered : precise_now()));
    }
    switch (tightest->result.source()) {
    case limiter::RuleResult::Source::redis:
        return set_seconds(r, value, tightest->result.decided());
    case limiter::RuleResult::Source::lease:
        return set_seconds(r, value, unix_time_of(boot_now, tightest->result.decided()));
    case limiter::RuleResult::Source::deny_cache:
    case limiter::RuleResult::Source::local:
    case limiter::RuleResult::Source::override:
    case limiter::RuleResult::Source::none:
        break;
    }
    return set_seconds(r, value, unix_time_of(precise_now, tightest->result.decided()));
}

using Getter = ngx_int_t (*)(ngx_http_request_t *r, Value &value, const RequestState &state);

constexpr struct {
    std::string_view name;
    Getter get;
} variables_of_state[] = {
    {"redis_rate_limit_status", get_status},
    {"redis_rate_limit_source", get_source},
    {"redis_rate_limit_rule", get_rule},
    {"redis_rate_limit_limit", get_limit},
    {"redis_rate_limit_remaining", get_remaining},
    {"redis_rate_limit_reset", get_reset},
    {"redis_rate_limit_retry_after", get_retry_after},
    {"redis_rate_limit_time", get_time},
    {"redis_rate_limit_decided", get_decided},
};

ngx_int_t get_of_state(ngx_http_request_t *r, Value *value, uintptr_t index) noexcept {
    const RequestState *state = RequestState::find(r->main);
    if (state == nullptr || state->rules().first() == nullptr) {
        return set_not_found(*value);
    }
    return variables_of_state[index].get(r, *value, *state);
}

ngx_int_t set_network(ngx_http_request_t *r, Value &value, unsigned bits) {
    const sockaddr *address = r->connection->sockaddr;
    if (address->sa_family != AF_INET6) {
        return set_static(value, view(r->connection->addr_text));
    }
    rate_limit::NetworkText text;
    const in6_addr &whole = reinterpret_cast<const sockaddr_in6 *>(address)->sin6_addr;
    return set_copy(r, value, rate_limit::network_of(whole, bits, text));
}

/// `name` is the variable's whole name. SSI may ask for a name that no configuration has, which has
/// no value if it is none of ours.
ngx_int_t get_network(ngx_http_request_t *r, Value *value, uintptr_t name) noexcept {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): nginx stores a pointer there
    const auto bits = rate_limit::network_bits_of(view(*reinterpret_cast<const ngx_str_t *>(name)));
    return bits ? set_network(r, *value, *bits) : set_not_found(*value);
}

ngx_int_t get_usual_network(ngx_http_request_t *r, Value *value, uintptr_t bits) noexcept {
    return set_network(r, *value, static_cast<unsigned>(bits));
}

ngx_int_t add(ngx_conf_t *cf, std::string_view name, ngx_http_get_variable_pt get, uintptr_t data,
              ngx_uint_t flags = 0) {
    ngx_str_t its_name = to_ngx(name);
    ngx_http_variable_t *variable =
        ngx_http_add_variable(cf, &its_name, flags | NGX_HTTP_VAR_NOCACHEABLE);
    if (variable == nullptr) {
        return NGX_ERROR;
    }
    variable->get_handler = get;
    variable->data = data;
    return NGX_OK;
}

} // namespace

ngx_int_t add_variables(ngx_conf_t *cf) noexcept {
    for (size_t i = 0; i < std::size(variables_of_state); ++i) {
        if (add(cf, variables_of_state[i].name, get_of_state, i) != NGX_OK) {
            return NGX_ERROR;
        }
    }
    // nginx gives a variable with a prefix its name in the place of `data`.
    if (add(cf, rate_limit::network_variable_prefix, get_network, 0, NGX_HTTP_VAR_PREFIX) !=
        NGX_OK) {
        return NGX_ERROR;
    }
    return add(cf, rate_limit::network_variable, get_usual_network,
               rate_limit::network_bits_of(rate_limit::network_variable).value_or(0));
}

bool check_variables(ngx_conf_t *cf) {
    const auto &core = *static_cast<const ngx_http_core_main_conf_t *>(
        ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module));
    const std::span used(static_cast<const ngx_http_variable_t *>(core.variables.elts),
                         core.variables.nelts);
    const auto wrong = std::ranges::find_if(used, [&](const ngx_http_variable_t &variable) {
        const std::string_view name = view(variable.name);
        return name.starts_with(rate_limit::network_variable_prefix) &&
               !rate_limit::network_bits_of(name) && !is_variable_defined(cf, name);
    });
    if (wrong == used.end()) {
        return true;
    }
    ngx_str_t name = wrong->name;
    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "redis_rate_limit: invalid variable \"$%V\", expected "
                  "$redis_rate_limit_addr_1 to $redis_rate_limit_addr_128",
                  &name);
    return false;
}

} // namespace nginx_module
