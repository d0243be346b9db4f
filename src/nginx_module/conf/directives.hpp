// The functions that nginx calls when it reads a directive, each named after its directive. The
// table of all directives is in module.cpp.
#pragma once

#include "nginx_module/ngx.hpp"

#include <span>

namespace nginx_module {

char *set_backend(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;
char *set_zone(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;
char *set_rule(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;
char *set_response_value(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;

/// The directives that set one value of a location, each with its function: they are the rows of
/// the table in location_directives.cpp.
std::span<const ngx_command_t> location_commands();

} // namespace nginx_module
