// The functions that nginx calls when it reads a directive, each named after its directive. The
// table of all directives is in module.cpp.
#pragma once

#include "nginx_module/ngx.hpp"

namespace nginx_module {

char *set_backend(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;
char *set_zone(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;
char *set_rule(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;

// location_directives.cpp
char *set_status(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;
char *set_log_level(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;
char *set_headers(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;

} // namespace nginx_module
