// The directive redis_rate_limit_backend and what stands in its block.
#pragma once

#include "ngx.hpp"

#include "conf.hpp"

namespace nginx_module {

char *set_backend(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;

} // namespace nginx_module
