// Values that a variable's function gives to nginx.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/util.hpp"
#include "rate_limit/text/text_writer.hpp"

#include <cstdint>
#include <string_view>

namespace nginx_module {

inline ngx_int_t set_not_found(ngx_variable_value_t &value) {
    value = ngx_variable_value_t{};
    value.not_found = 1;
    return NGX_OK;
}

/// Sets a text that is in the pool or static.
inline ngx_int_t set_static(ngx_variable_value_t &value, std::string_view text) {
    const ngx_str_t bytes = to_ngx(text);
    value = ngx_variable_value_t{};
    value.valid = 1;
    value.len = static_cast<unsigned>(bytes.len);
    value.data = bytes.data;
    return NGX_OK;
}

inline ngx_int_t set_copy(ngx_pool_t *pool, ngx_variable_value_t &value, std::string_view text) {
    ngx_str_t bytes = to_ngx(text);
    u_char *copy = ngx_pstrdup(pool, &bytes);
    return copy != nullptr ? set_static(value, view({text.size(), copy})) : NGX_ERROR;
}

inline ngx_int_t set_number(ngx_pool_t *pool, ngx_variable_value_t &value, uint64_t number) {
    rate_limit::NumberBuffer digits;
    return set_copy(pool, value, rate_limit::write_number(number, digits));
}

} // namespace nginx_module
