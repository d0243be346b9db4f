// Reads the JSON of responses while it passes, for the variables of
// redis_rate_limit_response_value.
#pragma once

#include "nginx_module/http/ngx.hpp"

#include "nginx_module/http/configuration.hpp"

namespace nginx_module {

/// Gives the variables that the configuration has defined their values.
void set_response_variables(const HttpMainConf &conf);

/// Puts itself before nginx's filters so far.
void add_response_filters();

} // namespace nginx_module
