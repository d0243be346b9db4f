// The functions that nginx calls when it reads a directive of the main level, each named after its
// directive, and what reads a rule of a level below. http and stream share them.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/conf/configuration.hpp"

namespace nginx_module {

char *set_backend(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;
char *set_zone(ngx_conf_t *cf, ngx_command_t *command, void *conf) noexcept;

/// Reads the words of `redis_rate_limit`. Returns NGX_CONF_OK, or NGX_CONF_ERROR if they are
/// refused; the log says why.
char *add_rule(ngx_conf_t *cf, MainConf &main, LevelConf &level);

} // namespace nginx_module
