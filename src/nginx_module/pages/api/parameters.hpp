// The parameters in the query of an API request, such as `?zone=per_ip&key=203.0.113.7`.
#pragma once

#include "nginx_module/http/ngx.hpp"

#include "nginx_module/pages/api/answer.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace nginx_module {

enum class ApiParameter : uint8_t { zone, key, key_sha256, rule, cursor };
inline constexpr std::array<std::string_view, 5> api_parameter_names = {"zone", "key", "key_sha256",
                                                                        "rule", "cursor"};

/// Some of the parameters.
class ApiParameterSet {
  public:
    template <std::same_as<ApiParameter>... Parameter>
    constexpr ApiParameterSet(Parameter... parameter) // NOLINT(google-explicit-constructor)
        : bits_((0U | ... | bit_of(parameter))) {}
    constexpr bool has(ApiParameter parameter) const { return (bits_ & bit_of(parameter)) != 0; }

  private:
    static constexpr unsigned bit_of(ApiParameter parameter) {
        return 1U << static_cast<unsigned>(parameter);
    }
    unsigned bits_;
};

/// The values, decoded, in the request's pool. One that was not given has no value.
class ApiParameters {
  public:
    /// Reads the query, in which `key_sha256` may stand for `key`. Returns what is wrong: a
    /// parameter that is unknown, empty, given twice, not among those that are taken, or missing
    /// among those that are needed.
    std::optional<ApiError> read(ngx_http_request_t *r, ApiParameterSet needed,
                                 ApiParameterSet optional);

    std::optional<std::string_view> operator[](ApiParameter parameter) const {
        return values_[static_cast<size_t>(parameter)];
    }

  private:
    std::optional<ApiError> add(ngx_http_request_t *r, std::string_view pair,
                                ApiParameterSet needed, ApiParameterSet optional);

    std::array<std::optional<std::string_view>, api_parameter_names.size()> values_;
};

/// Makes the error for a parameter with a wrong value.
ApiError invalid_parameter(ngx_http_request_t *r, ApiParameter parameter,
                           std::string_view expected);

} // namespace nginx_module
