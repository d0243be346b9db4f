// nginx's headers, which know no C++: the one place that includes them, first in every file here.
#pragma once

extern "C" {
#include <ngx_config.h>

#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include <ngx_http.h>

extern ngx_module_t ngx_http_redis_rate_limit_module;
}
