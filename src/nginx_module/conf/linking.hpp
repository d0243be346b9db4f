// Joins what the directives name, once all of them have been read.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/conf/configuration.hpp"

namespace nginx_module {

/// Joins rules with their zones, zones with their backends, and backends with the scripts of their
/// rules. Returns false if the configuration is refused; the log says why.
bool link_configuration(ngx_conf_t *cf, MainConf &conf);

} // namespace nginx_module
