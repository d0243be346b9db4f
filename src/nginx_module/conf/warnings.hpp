// Warnings of nginx -t: what is allowed, but probably not meant. Each says how to write what is
// probably meant, and how to write what the configuration says without a warning.
#pragma once

#include "nginx_module/conf/configuration.hpp"

#include <string_view>

namespace nginx_module {

/// Warns of backends that no zone names while a zone takes the default one, because `backend=` was
/// perhaps forgotten; and of keys that are the names of variables without their `$`.
void warn_of_zones(ngx_conf_t *cf, const MainConf &conf);

/// Whether a value looks like a variable, where none is evaluated.
bool looks_like_variable(std::string_view value);

} // namespace nginx_module
