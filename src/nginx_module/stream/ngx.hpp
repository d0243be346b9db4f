// Includes nginx's headers of stream.
#pragma once

#include "nginx_module/ngx.hpp"

extern "C" {
#include <ngx_stream.h>

extern ngx_module_t ngx_stream_redis_rate_limit_module;
}
