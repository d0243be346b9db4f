// Includes nginx's headers of http.
#pragma once

#include "nginx_module/ngx.hpp"

extern "C" {
#include <ngx_http.h>

extern ngx_module_t ngx_http_redis_rate_limit_module;
extern ngx_module_t ngx_http_redis_rate_limit_response_module; // see module.cpp
}
