// What the operator's API does, in a file for each.
#pragma once

#include "nginx_module/http/ngx.hpp"

#include "nginx_module/pages/api/request.hpp"

namespace nginx_module {

ngx_int_t list_zones(ApiRequest &request);      // zones.cpp
ngx_int_t show_key(ApiRequest &request);        // key_state.cpp
ngx_int_t reset_key(ApiRequest &request);       // key_reset.cpp
ngx_int_t put_override(ApiRequest &request);    // override.cpp, for a client or a rule
ngx_int_t remove_override(ApiRequest &request); // the same
ngx_int_t list_overrides(ApiRequest &request);  // overrides.cpp

} // namespace nginx_module
