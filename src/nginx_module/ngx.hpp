// Includes nginx's headers, which are not made for C++. No other file includes them, and every
// header here includes this one first.
#pragma once

extern "C" {
#include <ngx_config.h>

#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include <ngx_http.h>

extern ngx_module_t ngx_http_redis_rate_limit_module;
extern ngx_module_t ngx_http_redis_rate_limit_response_module; // see module.cpp
}
