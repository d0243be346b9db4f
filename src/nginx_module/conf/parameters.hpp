// The words of a directive, and the error messages for mistakes in it.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/util.hpp"
#include "rate_limit/text/parameters.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nginx_module {

using rate_limit::already_logged;
using rate_limit::expected_name;
using rate_limit::Is;
using rate_limit::Parameter;

// The directives that have files of their own, as messages name them.
inline constexpr const char *backend_directive = "redis_rate_limit_backend";
inline constexpr const char *rule_directive = "redis_rate_limit";
inline constexpr const char *zone_directive = "redis_rate_limit_zone";

/// Writes the error message of nginx -t, the directive and why it is refused, unless the log has it
/// already. Returns NGX_CONF_ERROR, or NGX_CONF_OK if it is not refused.
inline char *result_of(ngx_conf_t *cf, const char *directive, const rate_limit::Refusal &refusal) {
    if (!refusal) {
        return NGX_CONF_OK;
    }
    if (*refusal != rate_limit::already_told) {
        ngx_str_t text = to_ngx(*refusal);
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%s: %V", directive, &text);
    }
    return static_cast<char *>(NGX_CONF_ERROR);
}

/// Writes the error message of nginx -t: `redis_rate_limit: invalid limit "x", expected ...`.
/// Returns NGX_CONF_ERROR.
inline char *refuse(ngx_conf_t *cf, const char *directive, std::string_view what,
                    std::string_view value, std::string_view expected) {
    return result_of(cf, directive, rate_limit::refused(what, value, expected));
}

/// Returns the words of the directive that is being read; the first one is its name. nginx has
/// ended each of them with a null byte.
inline std::span<const ngx_str_t> words_of(const ngx_conf_t *cf) {
    return {static_cast<const ngx_str_t *>(cf->args->elts), cf->args->nelts};
}

/// Returns the words behind the directive's name.
inline std::vector<std::string_view> values_of(const ngx_conf_t *cf) {
    std::vector<std::string_view> values;
    for (const ngx_str_t &word : words_of(cf).subspan(1)) {
        values.push_back(view(word));
    }
    return values;
}

} // namespace nginx_module
