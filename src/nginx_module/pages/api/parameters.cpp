#include "nginx_module/pages/api/parameters.hpp"

#include "nginx_module/util.hpp"
#include "rate_limit/text/url_text.hpp"

#include <algorithm>

namespace nginx_module {

namespace {

constexpr std::string_view name_of(ApiParameter parameter) {
    return api_parameter_names[static_cast<size_t>(parameter)];
}

std::optional<ApiParameter> parameter_named(std::string_view name) {
    const auto *const found = std::ranges::find(api_parameter_names, name);
    if (found == api_parameter_names.end()) {
        return std::nullopt;
    }
    return static_cast<ApiParameter>(found - api_parameter_names.begin());
}

ApiError bad_request(std::string_view name, std::string_view description) {
    return {.status = NGX_HTTP_BAD_REQUEST, .name = name, .description = description};
}

/// A key is given by either of two parameters.
constexpr ApiParameter other_than(ApiParameter parameter) {
    return parameter == ApiParameter::key          ? ApiParameter::key_sha256
           : parameter == ApiParameter::key_sha256 ? ApiParameter::key
                                                   : parameter;
}

} // namespace

std::optional<ApiError> ApiParameters::read(ngx_http_request_t *r, ApiParameterSet needed,
                                            ApiParameterSet optional) {
    std::string_view query = view(r->args);
    while (!query.empty()) {
        const std::string_view pair = query.substr(0, query.find('&'));
        query.remove_prefix(std::min(pair.size() + 1, query.size()));
        if (pair.empty()) {
            continue;
        }
        if (auto error = add(r, pair, needed, optional)) {
            return error;
        }
    }
    for (size_t i = 0; i < values_.size(); ++i) {
        const auto parameter = static_cast<ApiParameter>(i);
        if (needed.has(parameter) && !values_[i] && !(*this)[other_than(parameter)]) {
            return bad_request("missing_parameter",
                               describe(r->pool, "missing parameter \"", name_of(parameter), "\""));
        }
    }
    return std::nullopt;
}

std::optional<ApiError> ApiParameters::add(ngx_http_request_t *r, std::string_view pair,
                                           ApiParameterSet needed, ApiParameterSet optional) {
    auto *decoded = static_cast<char *>(ngx_pnalloc(r->pool, std::max<size_t>(pair.size(), 1)));
    if (decoded == nullptr) {
        return ApiError{NGX_HTTP_INTERNAL_SERVER_ERROR, "out_of_memory", "out of memory"};
    }
    const size_t equals = std::min(pair.find('='), pair.size());
    const auto name = rate_limit::decode_percent(pair.substr(0, equals), {decoded, equals});
    const auto parameter = name ? parameter_named(*name) : std::nullopt;
    if (!parameter || !(needed.has(*parameter) || needed.has(other_than(*parameter)) ||
                        optional.has(*parameter))) {
        const rate_limit::Readable shown{pair.substr(0, equals), 64};
        return bad_request("unknown_parameter",
                           describe(r->pool, "unknown parameter \"", shown, "\""));
    }
    auto &value = values_[static_cast<size_t>(*parameter)];
    if (value || (*this)[other_than(*parameter)]) {
        return bad_request("doubled_parameter",
                           value ? describe(r->pool, "parameter \"", name_of(*parameter),
                                            "\", expected it only once")
                                 : "key and key_sha256, expected one of them");
    }
    const std::string_view text = pair.substr(std::min(equals + 1, pair.size()));
    value = rate_limit::decode_percent(text, {decoded + equals, text.size()});
    if (!value) {
        return invalid_parameter(r, *parameter, "two hex digits behind each %");
    }
    if (value->empty()) {
        return invalid_parameter(r, *parameter, "a value");
    }
    return std::nullopt;
}

ApiError invalid_parameter(ngx_http_request_t *r, ApiParameter parameter,
                           std::string_view expected) {
    return bad_request("invalid_parameter", describe(r->pool, "parameter \"", name_of(parameter),
                                                     "\", expected ", expected));
}

} // namespace nginx_module
