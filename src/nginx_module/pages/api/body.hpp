// Reads the body of an API request.
#pragma once

#include "nginx_module/http/ngx.hpp"

#include "nginx_module/pages/api/request.hpp"

namespace nginx_module {

inline constexpr size_t longest_api_body = 4096;

/// Reads the body, and then calls the action. Answers at once if the body is not JSON by its type,
/// or too long. Returns what a content handler returns.
ngx_int_t read_api_body(ApiRequest &request, ApiAction action);

} // namespace nginx_module
