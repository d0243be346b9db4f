// The directives' setters, named as the directives are. Their table is in module.cpp.
#pragma once

#include "ngx.hpp"

namespace nginx_module {

char *set_zone(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;
char *set_rule(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;
char *set_status(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;
char *set_log_level(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;
char *set_headers(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;
char *set_metrics(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;
char *set_dashboard(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;

} // namespace nginx_module
