// Warnings of nginx -t about locations: what is allowed, but probably not meant.
#pragma once

#include "nginx_module/http/ngx.hpp"

#include "nginx_module/http/configuration.hpp"

namespace nginx_module {

/// Warns of rules beside a `return`, which answers before they are applied; of dashboards whose
/// `api=` leads to no API; and of an API by which everybody can write. Called when all directives
/// have been read.
void warn_of_locations(ngx_conf_t *cf, const HttpMainConf &conf);

} // namespace nginx_module
