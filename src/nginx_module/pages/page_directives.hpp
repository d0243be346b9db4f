// The directives that make a location one of this module's pages.
#pragma once

#include "nginx_module/http/ngx.hpp"

namespace nginx_module {

char *set_metrics(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;
char *set_api(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;
char *set_dashboard(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;

} // namespace nginx_module
